"""The base of memory tools: options, schemas, and the way from what a model wrote to a checked list of items."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, create_model, model_validator

from reme_core.errors import ConfigurationError, InvalidInputError, ReMeError, ToolFeedback
from reme_core.ports import ToolContext, ToolSpec
from reme_core.schema import describe
from reme_core.schema.checks import copy_json

MAX_ITEMS = 64
"""Items of one call in multiple mode; a model that writes more has lost its way."""


class ToolItem(BaseModel):
    """One item of arguments, as the model writes it: unknown keys are refused, and null means left out."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: object) -> object:
        # Many models write null for what they don't want to say, whatever the schema allows.
        if not isinstance(data, Mapping):
            return data
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {name: value for name, value in data.items() if value is not None or name not in optional}


class NoArguments(ToolItem):
    """The item of a tool that takes none."""


ItemT = TypeVar("ItemT", bound=ToolItem)


@dataclass(kw_only=True, eq=False)
class BaseMemoryToolOp(ABC, Generic[ItemT]):
    """A tool over memories; subclass it for one of your own.

    A subclass names itself and its item, and writes `execute`:

    ```python
    class CountItem(ToolItem):
        word: str


    class CountMemoriesOp(BaseMemoryToolOp[CountItem]):
        name = "count_memories"
        description = "Count the memories that hold a word."
        item = CountItem
        items_name = "words"

        async def execute(self, items, context):
            ...
    ```

    In single mode the model writes the fields of one item. In multiple mode (`enable_multiple`, where the class has an
    `items_name`) it writes a list of items under that name; where an item has a single field and the class says so
    by `plain_items`, a list of its values. With `enable_thinking_params` it also has to write `thinking`. `execute`
    sees the same list of items in every form. An object holds options, never the state of a call; a subclass with
    options of its own is a dataclass that names them.

    Attributes:
        name: The name that the model writes.
        description: What it does, for the model.
        item: The model of one item; a subclass of `ToolItem`.
        items_name: The name of the list in multiple mode; None for a tool that has none.
        plain_items: In multiple mode the list holds the values of the item's only field.
        is_concurrent: Whether calls next to each other may run at once.
        enable_multiple: Offer a list of items.
        enable_thinking_params: Require a text `thinking`, in which the model says why.
        memory_metadata_dir: A folder with descriptions of targets for the routing table, read where that is shown:
            `personal.json` and so on, each an object from target to description.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    item: ClassVar[type[ToolItem]]
    items_name: ClassVar[str | None] = None
    plain_items: ClassVar[bool] = False
    is_concurrent: ClassVar[bool] = False

    enable_multiple: bool = True
    enable_thinking_params: bool = False
    memory_metadata_dir: str | Path | None = None
    _arguments: type[BaseModel] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Make the form of the arguments; a subclass that checks its options calls this as well."""
        self.enable_multiple = self.enable_multiple and self.items_name is not None
        self._arguments = self._build_arguments()

    def hidden_fields(self) -> frozenset[str]:
        """Return the fields of the item that are not offered under these options; they keep their defaults."""
        return frozenset()

    @property
    def arguments(self) -> type[BaseModel]:
        """The model of the arguments under these options."""
        return self._arguments

    def spec(self) -> ToolSpec:
        """Return name, description and JSON schema, as a `ChatRequest` takes them."""
        return ToolSpec(name=self.name, description=self.description, parameters=parameters_of(self._arguments))

    def schema(self) -> dict[str, JsonValue]:
        """Return the tool in OpenAI's form."""
        function: dict[str, JsonValue] = {
            "name": self.name,
            "description": self.description,
            "parameters": parameters_of(self._arguments),
        }
        return {"type": "function", "function": function}

    async def __call__(self, arguments: Mapping[str, object] | str | BaseModel, context: ToolContext) -> str:
        """Check arguments (a mapping, or JSON as a model writes it) and run the tool, outside a loop.

        Raises:
            InvalidInputError: The arguments are not what the schema says, or make no sense here.
            ReMeError: What the tool raises; an unknown id is a NotFoundError.
        """
        try:
            return await self.run(read_arguments(self, arguments), context)
        except ToolFeedback as exc:
            feedback, cause = exc, exc.__cause__
        if isinstance(cause, ReMeError):
            raise cause  # outside of the handler: the feedback names it as its cause, which would make a ring
        msg = f"{self.name}: {feedback}"
        raise InvalidInputError(msg) from feedback

    async def run(self, arguments: BaseModel, context: ToolContext) -> str:
        """Run the tool with checked arguments; see `Tool.run`."""
        return await self.execute(self._items(arguments), context)

    @abstractmethod
    async def execute(self, items: Sequence[ItemT], context: ToolContext) -> str:
        """Do it for each item, and answer in words for the model; at least one item.

        Raises:
            ToolFeedback: The model has to correct something; the text says what. Nothing was done.
        """

    def _items(self, arguments: BaseModel) -> list[ItemT]:
        values = arguments.model_dump(exclude_unset=True)
        values.pop("thinking", None)
        listed = [values]
        if self.enable_multiple:
            assert self.items_name is not None  # noqa: S101  # enable_multiple is False without one
            listed = values[self.items_name]
            if self.plain_items:
                [field] = self.item.model_fields
                listed = [{field: value} for value in listed]
        try:
            return [self.item.model_validate(value) for value in listed]  # type: ignore[misc]  # `item` is of ItemT
        except ValidationError as exc:  # of a validator that the form of the arguments doesn't have
            raise _refused(exc, self.name, self._arguments) from exc

    def _build_arguments(self) -> type[BaseModel]:
        items_name = self.items_name if self.enable_multiple else None
        title = f"{type(self).__name__}Arguments"
        offered = _without(self.item, self.hidden_fields())
        return _arguments_of(title, offered, items_name, self.plain_items, self.enable_thinking_params)


# Making a model of pydantic takes a millisecond, and each run of an agent has tools of its own.
@lru_cache(maxsize=256)
def _arguments_of(
    title: str,
    offered: type[BaseModel],
    items_name: str | None,
    is_plain: bool,  # noqa: FBT001  # cached, by place
    has_thinking: bool,  # noqa: FBT001  # the same
) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    if has_thinking:
        thinking = "Why you call this tool with these arguments, step by step."
        fields["thinking"] = (str, Field(min_length=1, description=thinking))
    if items_name is None:
        for name, field in offered.model_fields.items():
            fields[name] = (field.annotation, field)
    elif is_plain:
        [only] = offered.model_fields.values()
        value: Any = only.annotation
        if only.metadata:  # what the field demands beyond its type
            value = Annotated[value, *only.metadata]
        fields[items_name] = (
            list[value],
            Field(min_length=1, max_length=MAX_ITEMS, description=only.description),
        )
    else:
        fields[items_name] = (
            list[offered],  # type: ignore[valid-type]  # built at run time
            Field(min_length=1, max_length=MAX_ITEMS, description=f"One to {MAX_ITEMS} items."),
        )
    return create_model(title, __base__=ToolItem, **fields)


@lru_cache(maxsize=256)
def _without(item: type[ToolItem], hidden: frozenset[str]) -> type[BaseModel]:
    if not hidden:
        return item
    fields: dict[str, Any] = {
        name: (field.annotation, field) for name, field in item.model_fields.items() if name not in hidden
    }
    return create_model(item.__name__, __base__=ToolItem, **fields)


def check_at_least_one(name: str, value: int) -> None:
    """Refuse an option of a tool that is below 1 (ConfigurationError)."""
    if value < 1:
        msg = f"{name}: wanted at least 1, found {value}"
        raise ConfigurationError(msg)


def parameters_of(model: type[BaseModel]) -> dict[str, JsonValue]:
    """Return the JSON schema of arguments as every endpoint takes it: small, and without references.

    Definitions stand where they are used; titles, empty defaults and the alternative null, which only cost tokens, are
    left out.

    Raises:
        ConfigurationError: A model that contains itself has no such schema.
    """
    own = copy_json(_parameters_of(model))
    assert isinstance(own, dict)  # noqa: S101  # a model's schema is an object
    return own


@lru_cache(maxsize=256)
def _parameters_of(model: type[BaseModel]) -> dict[str, JsonValue]:
    schema = model.model_json_schema()
    plain = _inlined(schema, schema.pop("$defs", {}), ())
    assert isinstance(plain, dict)  # noqa: S101  # as above
    plain.setdefault("properties", {})
    return plain


def _inlined(value: JsonValue, definitions: Mapping[str, JsonValue], path: tuple[str, ...]) -> JsonValue:
    if isinstance(value, list):
        return [_inlined(item, definitions, path) for item in value]
    if not isinstance(value, dict):
        return value
    value, path = _resolved(value, definitions, path)
    plain = {
        key: _inlined(item, definitions, path)
        for key, item in value.items()
        # "title" and "default" may also be names of properties, whose values are objects with something in them
        if not (key == "title" and isinstance(item, str)) and not (key == "default" and not item)
    }
    if plain.get("additionalProperties") == {}:
        plain["additionalProperties"] = True
    return plain


def _resolved(
    value: dict[str, JsonValue], definitions: Mapping[str, JsonValue], path: tuple[str, ...]
) -> tuple[dict[str, JsonValue], tuple[str, ...]]:
    """Put a definition in the place of its reference, and the only real alternative in the place of a choice."""
    while True:
        instead: JsonValue = None
        reference, choices = value.get("$ref"), value.get("anyOf")
        if isinstance(reference, str):
            name = reference.rpartition("/")[2]
            if name in path:
                msg = f"{name} contains itself: the arguments of a tool are written without references"
                raise ConfigurationError(msg)
            instead, path = definitions[name], (*path, name)
        elif isinstance(choices, list):
            real = [choice for choice in choices if choice != {"type": "null"}]
            instead = real[0] if len(real) == 1 < len(choices) else None
        if not isinstance(instead, dict):
            return value, path
        value = {**instead, **{key: item for key, item in value.items() if key not in {"$ref", "anyOf"}}}


def read_arguments(tool: BaseMemoryToolOp[Any], arguments: Mapping[str, object] | str | BaseModel) -> BaseModel:
    """Check arguments against a tool's model.

    Raises:
        ToolFeedback: Naming what is wrong, and what may be written.
    """
    return check_arguments(tool.name, tool.arguments, arguments)


def check_arguments(name: str, form: type[BaseModel], arguments: Mapping[str, object] | str | BaseModel) -> BaseModel:
    """Check what a model wrote against the model of a tool's arguments.

    Raises:
        ToolFeedback: Naming what is wrong, and what may be written.
    """
    given: object = arguments
    if isinstance(arguments, str):
        try:
            given = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError) as exc:
            msg = f"the arguments are not JSON ({str(exc)[:80]}); write an object of this form: {_form(form)}"
            raise ToolFeedback(msg) from exc
    elif isinstance(arguments, BaseModel):
        given = arguments.model_dump(exclude_unset=True)
    try:
        return form.model_validate(given)
    except ValidationError as exc:
        raise _refused(exc, name, form) from exc


def _refused(exc: ValidationError, name: str, form: type[BaseModel]) -> ToolFeedback:
    return ToolFeedback(f"{describe(exc, name)}; write an object of this form: {_form(form)}")


def _form(form: type[BaseModel]) -> str:
    return json.dumps(parameters_of(form), ensure_ascii=False)[:2000]
