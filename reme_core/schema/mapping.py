"""Models that are also read like dictionaries: `hit["memory"]`, `dict(hit)`, `{**hit}`; the cost of a call is one."""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Mapping, Sequence
from datetime import date, datetime
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from reme_core.schema.checks import shown

T = TypeVar("T")

# A page of results stays within a terminal's window, and each within its width.
_MOST_LINES = 10
_LINE_CHARS = 100


def told_fields(model: BaseModel) -> str:
    """Return the representation of a model: the fields that differ from their defaults, cut to some 60 characters."""
    fields = type(model).model_fields
    said = [
        f"{name}={_told(value)}"
        for name, value in ((name, model.__dict__.get(name)) for name in fields)
        if value != fields[name].get_default(call_default_factory=True)
    ]
    return f"{type(model).__name__}({', '.join(said)})"


def _told(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, tuple) and (len(value) > 1 or any(isinstance(item, BaseModel) for item in value)):
        return f"[{len(value)}]"
    return f"{value:.4g}" if isinstance(value, float) else shown(value)


def told_items(head: str, items: Sequence[object]) -> str:
    """Return a first line and below it the first ten of some things, a line each, with the number of the others."""
    more = [f"  … and {len(items) - _MOST_LINES} more"] if len(items) > _MOST_LINES else []
    return "\n".join((head, *map(_line, items[:_MOST_LINES]), *more))


def _line(item: object) -> str:
    text = " ".join(str(item).split())
    return f"  {text[:_LINE_CHARS]}{' …' if len(text) > _LINE_CHARS else ''}"


class MappingModel(BaseModel):
    """A frozen model whose fields are also the items of a read-only mapping. Source: design.md, section 9."""

    # Built with the first answer of its kind, and not by whoever imports us: a process gives few kinds.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def __repr__(self) -> str:
        """Name the fields that say something, each cut to some 60 characters; of lists their length."""
        return told_fields(self)

    def __str__(self) -> str:
        """Tell what it is in one line, and below it the first of the things that it lists, a line each."""
        listed = [item for value in self.values() if isinstance(value, tuple) for item in value]
        return told_items(repr(self), [item for item in listed if isinstance(item, BaseModel)])

    def __getitem__(self, key: str) -> object:
        """Return the field `key`.

        Raises:
            KeyError: There is no such field; the message lists those there are.
        """
        if key in type(self).model_fields:
            return self.__dict__[key]
        msg = f"{key!r}: {type(self).__name__} has {', '.join(type(self).model_fields)}"
        raise KeyError(msg)

    def __iter__(self) -> Iterator[str]:  # type: ignore[override]  # keys, as a mapping, not pydantic's pairs
        """Iterate over the names of the fields."""
        return iter(type(self).model_fields)

    def __len__(self) -> int:
        """Return the number of fields."""
        return len(type(self).model_fields)

    def __contains__(self, key: object) -> bool:
        """Tell whether there is a field `key`."""
        return key in type(self).model_fields

    def __bool__(self) -> bool:
        """Be true: an answer without results is still an answer."""
        return True

    def keys(self) -> KeysView[str]:
        """Return the names of the fields."""
        return type(self).model_fields.keys()

    def get(self, key: str, default: T | None = None) -> object | T | None:
        """Return the field `key`, or `default` where there is none."""
        return self.__dict__.get(key, default)

    def values(self) -> list[object]:
        """Return the values of the fields."""
        return [self.__dict__[key] for key in self]

    def items(self) -> list[tuple[str, object]]:
        """Return pairs of name and value."""
        return [(key, self.__dict__[key]) for key in self]


Mapping.register(MappingModel)


class Cost(MappingModel):
    """What a user's memory spent on models for one purpose on one day (UTC), as the endpoints reported it."""

    day: date
    user_id: str
    purpose: str
    model_calls: int
    prompt_tokens: int
    completion_tokens: int


class Usage(MappingModel):
    """Model calls, tokens as the endpoints reported them, and wall-clock milliseconds."""

    model_calls: int = 0
    embedding_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    milliseconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        """Add up two costs."""
        return Usage(
            model_calls=self.model_calls + other.model_calls,
            embedding_calls=self.embedding_calls + other.embedding_calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            milliseconds=self.milliseconds + other.milliseconds,
        )
