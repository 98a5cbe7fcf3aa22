"""Models that are also read like dictionaries: `hit["memory"]`, `dict(hit)`, `{**hit}`; the cost of a call is one."""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")


class MappingModel(BaseModel):
    """A frozen model whose fields are also the items of a read-only mapping. Source: design.md, section 9."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
