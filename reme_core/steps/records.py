"""Schemas of an application's own, and records: their instances as memories of type `record`.

The metadata of a record are its fields as JSON, its content tells them in words, so that it is found by them. The one
instance of a schema that is not `many` has an id that its name gives, so that no store holds two of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Generic, TypeAlias, TypeVar

from pydantic import BaseModel, JsonValue, PydanticUserError, RootModel, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation

from reme_core.errors import ConfigurationError, InvalidInputError, RecordMismatchError
from reme_core.schema import Memory, MemoryType, Scope, Source, describe, new_id, shown
from reme_core.schema.checks import check_json, check_metadata, check_numbers, reason_of
from reme_core.steps.user_input import read_bounded_text, read_flag, read_list
from reme_core.text import json_line, shortened

T = TypeVar("T", bound=BaseModel)

MAX_SCHEMAS, MAX_SCHEMA_CHARS, MAX_INSTRUCTIONS_CHARS, MAX_NAME_CHARS = 20, 6000, 1000, 80
"""All schemas are sent with every extraction; 6,000 characters are some 1,500 tokens, and a class of 60 fields."""

SINGLE_ID = "record:"
"""Begins the id of the one instance of a schema."""

_MAX_CONTENT_CHARS = 1 << 16
MAX_SOURCES = 100
"""Of a record that each talk changes, there would be no end of them."""


@dataclass(frozen=True)
class MemorySchema:
    """A pydantic class as a type of memory.

    Its docstring and the descriptions of its fields tell a model what they are for.

    Attributes:
        model: The class. Its name is the target of its records.
        many: Whether a user has many instances of it, such as purchases; False: one, such as a profile.
        instructions: When to fill it and with what, in words (at most 1,000 characters).
    """

    model: type[BaseModel]
    _: KW_ONLY
    many: bool = False
    instructions: str = ""

    def __post_init__(self) -> None:
        """Check the class (ConfigurationError), and what is said of it (InvalidInputError)."""
        name = str(getattr(self.model, "__name__", shown(self.model)))[:100]
        if not _has_fields(self.model):
            msg = f"schemas: wanted pydantic classes with fields, or a MemorySchema of each, found {name}"
            raise ConfigurationError(msg)
        if not name.isidentifier() or len(name) > MAX_NAME_CHARS:
            msg = f"schemas: {name!r} can't be the target of memories: subclass it under a plain, shorter name"
            raise ConfigurationError(msg)
        read_flag(self.many, f"{name}: many")
        read_bounded_text(self.instructions, f"{name}: instructions", MAX_INSTRUCTIONS_CHARS)
        if len(json_line(self.shown)) > MAX_SCHEMA_CHARS:
            msg = f"schemas: {name} is too large: {MAX_SCHEMA_CHARS} characters of JSON schema at most; split the class"
            raise ConfigurationError(msg)

    @property
    def name(self) -> str:
        """The target of its records."""
        return self.model.__name__

    @property
    def single_id(self) -> str | None:
        """The id of its one instance; None where there may be many."""
        return None if self.many else f"{SINGLE_ID}{self.name}"

    @cached_property
    def _json_schema(self) -> dict[str, JsonValue]:
        try:
            return self.model.model_json_schema()
        except (PydanticUserError, PydanticUndefinedAnnotation) as exc:
            msg = f"schemas: {self.name} has no JSON schema, so that no model could fill it: {exc}"
            raise ConfigurationError(msg) from exc

    @property
    def shown(self) -> dict[str, JsonValue]:
        """The schema as a prompt shows it."""
        about = " ".join(str(self._json_schema.get("description", "")).split())
        told = [text for text in (about, self.instructions.strip()) if text]
        line: dict[str, JsonValue] = {"schema": self.name, **({"many": True} if self.many else {})}
        if told:
            line["about"] = " ".join(told)
        trimmed = _trimmed({key: part for key, part in self._json_schema.items() if key not in {"description", "type"}})
        return {**line, **trimmed}

    @property
    def fields(self) -> frozenset[str]:
        """The names of its fields, as JSON has them."""
        return frozenset(_names(self._json_schema.get("properties")))

    @property
    def required(self) -> frozenset[str]:
        """Those that each instance has to have."""
        return frozenset(_names(self._json_schema.get("required")))


def _names(value: JsonValue) -> Iterable[str]:
    return map(str, value) if isinstance(value, (dict, list)) else ()


def _has_fields(model: object) -> bool:
    if not isinstance(model, type) or not issubclass(model, BaseModel) or issubclass(model, RootModel):
        return False
    return bool(model.model_fields)


def _trimmed(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a JSON schema without titles and defaults, and without `null` where a value need not be there."""
    kept: dict[str, JsonValue] = {}
    for key, part in schema.items():
        if key in {"title", "default"}:
            continue
        if key in {"properties", "$defs"} and isinstance(part, dict):
            kept[key] = {name: _trimmed(item) if isinstance(item, dict) else item for name, item in part.items()}
        elif isinstance(part, dict):
            kept[key] = _trimmed(part)
        elif isinstance(part, list):
            kept[key] = [_trimmed(item) if isinstance(item, dict) else item for item in part]
        else:
            kept[key] = part
    choices = kept.get("anyOf")
    if isinstance(choices, list) and len(choices) == 2 and {"type": "null"} in choices:
        [other] = [item for item in choices if item != {"type": "null"}]
        kept = {**(other if isinstance(other, dict) else {}), **{key: kept[key] for key in kept if key != "anyOf"}}
    return kept


Schemas: TypeAlias = Sequence[type[BaseModel] | MemorySchema]
"""A class alone stands for one instance a user."""


def read_schemas(value: object) -> tuple[MemorySchema, ...]:
    """Read schemas, each a pydantic class or a `MemorySchema` (ConfigurationError, InvalidInputError)."""
    schemas = [
        item if isinstance(item, MemorySchema) else MemorySchema(item)  # type: ignore[arg-type]  # it checks that
        for item in read_list(value, "schemas")
    ]
    names = [schema.name for schema in schemas]
    if len(set(names)) < len(names) or len(names) > MAX_SCHEMAS:
        msg = f"schemas: wanted at most {MAX_SCHEMAS}, each of another name, found {', '.join(names)[:200]}"
        raise ConfigurationError(msg)
    return tuple(schemas)


def find_schema(schemas: Sequence[MemorySchema], model: type[BaseModel]) -> MemorySchema:
    """Return the schema of a class (InvalidInputError: there is none)."""
    for schema in schemas:
        if schema.model is model:
            return schema
    found = str(getattr(model, "__name__", shown(model))).replace("NoneType", "None")
    msg = f"{found} is no schema of this memory: name its class when you make it, as by ReMe(schemas=[...])"
    raise InvalidInputError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Generic[T]):
    """An instance of a schema that is kept.

    Attributes:
        value: The instance.
        memory: The memory that keeps it.
    """

    value: T
    memory: Memory

    @property
    def memory_id(self) -> str:
        """Its id, for `get_memory`, `history` and `delete_memory`."""
        return self.memory.memory_id

    @property
    def revision(self) -> int:
        """What `expected_revision` is compared with."""
        return self.memory.revision

    @property
    def sources(self) -> tuple[Source, ...]:
        """The messages that it rests on."""
        return self.memory.sources


def read_record(model: type[T], memory: Memory) -> Record[T]:
    """Return a stored instance.

    Raises:
        RecordMismatchError: It does not fit the class, which has changed since.
    """
    try:
        return Record(value=model.model_validate_json(json.dumps(memory.metadata)), memory=memory)
    except ValidationError as exc:
        raise _mismatch(memory, exc) from exc


def _mismatch(memory: Memory, error: ValidationError) -> RecordMismatchError:
    names = tuple(dict.fromkeys(str(item["loc"][0]) for item in error.errors() if item["loc"]))
    msg = (
        f"record {memory.memory_id!r} does not fit {memory.memory_target} any more: "
        f"{describe(error, memory.memory_target)}: mend it by put_record, patch_record of these fields, or delete it"
    )
    return RecordMismatchError(msg, memory_id=memory.memory_id, fields=names)


def fields_of_instance(schema: MemorySchema, value: BaseModel) -> dict[str, JsonValue]:
    """Return an instance as JSON, as it can be read again.

    Raises:
        InvalidInputError: It is of another class, or has a value that JSON does not bring back.
    """
    if type(value) is not schema.model:
        msg = f"wanted an instance of {schema.name}, found {shown(value)}"
        raise InvalidInputError(msg)
    try:
        # Not `model_dump_json`, whose JSON has null for nan and infinity.
        given = value.model_dump(mode="json", by_alias=True, round_trip=True)
        fields = _checked(schema, given)
    except (ValueError, RecursionError) as exc:
        told = describe(exc, schema.name) if isinstance(exc, ValidationError) else f"{schema.name}: {str(exc)[:200]}"
        msg = f"the instance can't be read again as it is written: {told}"
        raise InvalidInputError(msg) from exc
    if given != fields:
        msg = f"{schema.name}: is not the same when it is read again: {shown(given)}"
        raise InvalidInputError(msg)
    return fields


def _checked(schema: MemorySchema, fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return fields as an instance has them (ValueError: JSON that can't be kept, or that is none of the class)."""
    check_metadata(dict(fields))
    try:
        instance = schema.model.model_validate_json(json.dumps(fields))
        whole: dict[str, JsonValue] = json.loads(instance.model_dump_json(by_alias=True, round_trip=True))
    except ValueError:
        raise
    except Exception as exc:  # the class is not ours: a validator of its own may trip over what a model wrote
        msg = f"{schema.name} can't be checked, {type(exc).__name__} in a validator of its own: {str(exc)[:200]}"
        raise ValueError(msg) from exc
    check_metadata(whole)
    check_numbers(whole)
    return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchedFields:
    """What setting fields came to.

    Attributes:
        fields: All fields as they are afterwards; None: nothing could be set, or the whole is no instance.
        problems: What is wrong, by field; under "" what is wrong with the whole.
    """

    fields: dict[str, JsonValue] | None
    problems: Mapping[str, str] = field(default_factory=dict)


def set_fields(schema: MemorySchema, held: Mapping[str, JsonValue], given: Mapping[str, JsonValue]) -> PatchedFields:
    """Set fields of an instance, each checked by itself: one that can't be set costs no other one.

    None sets what the class takes it for; elsewhere it empties the field, which then has its default.
    """
    known = schema.fields if schema.model.model_config.get("extra") != "allow" else given.keys()
    listed = ", ".join(sorted(schema.fields))[:200]
    problems = {name: f"is no field of {schema.name}; there are {listed}" for name in given if name not in known}
    problems |= {name: why for name, value in given.items() if name in known and (why := _unkept(value))}
    base, wanted = dict(held), {name: value for name, value in given.items() if name not in problems}
    emptied = set[str]()
    while wanted or emptied:
        try:
            return PatchedFields(fields=_checked(schema, {**base, **wanted}), problems=problems)
        except ValidationError as exc:
            bad = {str(item["loc"][0]) for item in exc.errors() if item["loc"]} & wanted.keys()
            if not bad:
                return PatchedFields(fields=None, problems={**problems, "": describe(exc, schema.name)})
            told = {name: _problem(exc, name) for name in bad}
        except ValueError as exc:  # they are too much together
            return PatchedFields(fields=None, problems={**problems, "": str(exc)})
        for name in bad:
            if wanted.pop(name) is None and name not in schema.required:
                base.pop(name, None)
                emptied.add(name)
            else:
                problems[name] = told[name]
    return PatchedFields(fields=None, problems=problems or {"": "sets no field"})


def _unkept(value: JsonValue) -> str:
    """Return why a value can't be kept; empty: it can."""
    try:
        check_numbers(check_json(value))
    except ValueError as exc:
        return str(exc)
    return ""


def _problem(error: ValidationError, name: str) -> str:
    """Return what is wrong with one field."""
    item = next(item for item in error.errors() if item["loc"] and item["loc"][0] == name)
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"][1:])
    told = reason_of(item)
    return f"{place.lstrip('.')}: {told}" if place else f"{told} (found {shown(item['input'])})"


def record_memory(
    scope: Scope,
    schema: MemorySchema,
    fields: dict[str, JsonValue],
    held: Memory | None,
    *,
    sources: Sequence[Source],
    said_at: datetime,
    at: datetime,
    author: str,
) -> Memory:
    """Return the memory that keeps an instance, new or in place of one that is `held`; not written yet.

    Of its sources the last ones stay; the history has those before.
    """
    content = rendered(schema.name, fields)
    memory = held or Memory(
        memory_id=schema.single_id or new_id(),
        memory_space=scope.memory_space,
        user_id=scope.user_id,
        memory_type=MemoryType.RECORD,
        memory_target=schema.name,
        content=content,
        observed_at=said_at,
        valid_from=said_at,
        created_at=at,
        updated_at=at,
    )
    changes: dict[str, object] = {
        "content": content,
        "metadata": fields,
        "sources": tuple(sources)[-MAX_SOURCES:],
        "observed_at": max(memory.observed_at, said_at),
        "updated_at": at,
        "author": author,
    }
    return memory.model_copy(update=changes)


def rendered(name: str, fields: Mapping[str, JsonValue]) -> str:
    """Return an instance in words, by which it is searched: `Profile: home: Bergen; pets: Rex, Tom`."""
    told = [f"{key.replace('_', ' ')}: {text}" for key, value in fields.items() if (text := _told(value))]
    return shortened(f"{name}: {'; '.join(told) or 'empty'}", _MAX_CONTENT_CHARS)


def _told(value: JsonValue) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case dict():
            parts = ((key.replace("_", " "), _told(part)) for key, part in value.items())
            return ", ".join(f"{key} {text}" for key, text in parts if text)
        case list():
            texts = ((_told(part), isinstance(part, dict)) for part in value)
            return ", ".join(f"({text})" if is_object else text for text, is_object in texts if text)
        case _:
            return " ".join(str(value).split())
