"""Forms of requests and answers, made of the signatures of what is called: each argument is a field.

An argument that the facade gains is a field of the request, of the OpenAPI document and of the client the same day.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from inspect import Parameter, getdoc, signature
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError, WithJsonSchema, create_model
from pydantic_core import to_json

from reme_core import ports
from reme_core.errors import InvalidInputError
from reme_core.schema.checks import describe
from reme_core.text import Language
from reme_core.working.messages_to_keep import ContextCheck, ContextLimits

Handler: TypeAlias = Callable[..., Any]
"""A method of `ReMe`, or a function whose first argument is one; either takes `user_id`."""

MAX_ITEMS = 500
"""Of a page, and of a list of ids: as many as the store reads at once for an export."""
MAX_MESSAGES = 10_000
"""Of any list: each message takes some 5 KB of memory while it is worked on."""
MAX_TOKENS = 1_000_000
_BOUNDS: Mapping[str, Any] = {
    **dict.fromkeys(("limit", "top_k"), Field(ge=1, le=MAX_ITEMS)),
    **dict.fromkeys(("token_budget", "limit_chars"), Field(ge=1, le=MAX_TOKENS)),
    **dict.fromkeys(("memory_ids", "message_ids", "memories", "tool_names"), Field(max_length=MAX_ITEMS)),
}
_TYPES_OF_OTHERS: Mapping[str, object] = {
    **vars(ports),
    "Language": Language,
    "ContextCheck": ContextCheck,
    "ContextLimits": ContextLimits,
}
_WHOSE = frozenset({"user_id", "shared"})
# In the section `Args` of a docstring: a name at its first indent, and lines that go on at a deeper one.
_ARGUMENT = re.compile(r"^ {4}(\w+): (.+(?:\n {6,}.+)*)", re.MULTILINE)


@cache
def form_of(handler: Handler) -> type[BaseModel]:
    """Return the model of a request: the arguments of what is called, without the memory and whose it is."""
    types = _hints(handler)
    told = _told_arguments(handler)
    fields: dict[str, Any] = {
        name: (_bounded(name, wire_type(types[name])), Field(_default(parameter), description=told.get(name)))
        for name, parameter in list(signature(handler).parameters.items())[1:]
        if name not in _WHOSE and not _is_callback(types[name])
    }
    name = "".join(part.capitalize() for part in handler.__name__.split("_")) + "Request"
    return create_model(name, __config__=ConfigDict(extra="forbid", strict=True), **fields)


@cache
def answer_of(handler: Handler) -> TypeAdapter[Any]:
    """Return what writes and reads the answer of a call."""
    return TypeAdapter(_hints(handler)["return"])


@cache
def _hints(handler: Handler) -> dict[str, Any]:
    return get_type_hints(handler, localns=dict(_TYPES_OF_OTHERS))


def read_body(form: type[BaseModel], body: bytes, path: Mapping[str, str]) -> dict[str, Any]:
    """Read the arguments of a call from a body of JSON and from its path (InvalidInputError).

    Returns:
        Those that were given.
    """
    try:
        if path:
            given = TypeAdapter(dict[str, JsonValue]).validate_json(body or b"{}")
            if twice := sorted(path.keys() & given.keys()):
                msg = f"body.{twice[0]}: stands in the path already, remove it"
                raise InvalidInputError(msg)
            body = to_json({**given, **path})
        return _given(form.model_validate_json(body or b"{}"))
    except ValidationError as exc:
        raise InvalidInputError(describe(exc, "body", with_values=_says_why(exc), form=form)) from exc


def read_query(form: type[BaseModel], query: Sequence[tuple[str, str]], path: Mapping[str, str]) -> dict[str, Any]:
    """Read the arguments of a call from the pairs behind `?` and from its path (InvalidInputError).

    A list is given by repeating its name, an object as JSON.
    """
    given: dict[str, Any] = {}
    for name, value in query:
        given.setdefault(name, []).append(value)
    for name, values in given.items():
        if name in path:
            msg = f"query.{name}: stands in the path already, remove it"
            raise InvalidInputError(msg)
        field = form.model_fields.get(name)
        kind = "" if field is None else str(TypeAdapter[Any](field.rebuild_annotation()).json_schema())
        given[name] = _from_query(f"query.{name}", values, kind)
    try:
        return _given(form.model_validate({**given, **path}, strict=False))
    except ValidationError as exc:
        raise InvalidInputError(describe(exc, "query", form=form)) from exc


def _given(read: BaseModel) -> dict[str, Any]:
    given = {name: getattr(read, name) for name in read.model_fields_set}
    for name, value in given.items():
        if isinstance(value, list) and len(value) > MAX_MESSAGES:
            msg = f"{name}: has {len(value)} items, at most {MAX_MESSAGES} are taken at once: send it in parts"
            raise InvalidInputError(msg)
    return given


def _says_why(error: ValidationError) -> bool:
    """Tell whether what was found says more than the reason: of a body that is no JSON, it is all of it."""
    return all(item["loc"] for item in error.errors())


def _from_query(name: str, values: list[str], kind: str) -> object:
    if "'object'" in kind:
        try:
            return TypeAdapter(dict[str, JsonValue]).validate_json(values[-1])
        except ValidationError as exc:
            msg = f"{name}: wanted a JSON object, found something else"
            raise InvalidInputError(msg) from exc
    if len(values) > 1 and "'array'" not in kind:
        msg = f"{name}: is given {len(values)} times, and is no list"
        raise InvalidInputError(msg)
    return values if len(values) > 1 else values[0]


def wire_type(annotation: Any) -> Any:  # noqa: ANN401  # an annotation is of any type
    """Return an annotation's type in JSON: times are texts, sequences lists, and what is anything is a JSON value.

    What may be one of several things is checked by what is called, whose words say it better.
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is object:
        return JsonValue
    if origin in (Union, UnionType):
        kinds = [wire_type(kind) for kind in inner if kind not in (datetime, NoneType)]
        kind = kinds[0] if len(kinds) == 1 else _either(kinds)
        return kind | None if NoneType in inner else kind
    if origin is Sequence:
        return list[wire_type(inner[0])]  # type: ignore[misc]  # made when it runs
    if origin is Mapping:
        return dict[str, wire_type(inner[1])]  # type: ignore[misc]  # as above
    return annotation


def _either(kinds: Sequence[Any]) -> Any:  # noqa: ANN401  # as above
    schemas = [TypeAdapter(kind).json_schema() for kind in kinds]
    return Annotated[JsonValue, WithJsonSchema({"anyOf": schemas})]


def _bounded(name: str, kind: Any) -> Any:  # noqa: ANN401  # as above
    if name not in _BOUNDS or kind is JsonValue or get_origin(kind) is Annotated:
        return kind
    inner = get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        return Annotated[inner[0], _BOUNDS[name]] | None
    return Annotated[kind, _BOUNDS[name]]


def _default(parameter: Parameter) -> Any:  # noqa: ANN401  # as above
    return ... if parameter.default is Parameter.empty else parameter.default


def _is_callback(annotation: Any) -> bool:  # noqa: ANN401  # as above
    return any(get_origin(kind) is get_origin(Callable[[], None]) for kind in (annotation, *get_args(annotation)))


def _told_arguments(handler: Handler) -> dict[str, str]:
    _, _, section = (getdoc(handler) or "").partition("\nArgs:\n")
    section, _, _ = section.partition("\n\n")
    return {name: " ".join(text.split()) for name, text in _ARGUMENT.findall(section)}
