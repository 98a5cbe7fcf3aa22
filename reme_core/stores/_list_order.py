"""The place of a memory in a list: newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from reme_core.schema import Memory

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a list: newest first, then by id. Microseconds since 1970 are counted backwards."""

    age: int
    memory_id: str


def place_of(memory: Memory) -> Place:
    """Return the place of a memory in a list."""
    return Place((_EPOCH - memory.created_at) // timedelta(microseconds=1), memory.memory_id)
