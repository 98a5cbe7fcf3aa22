"""Models that are also read like dictionaries: `hit["memory"]`, `"score" in hit`, `dict(hit)`, `{**hit}`."""

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
