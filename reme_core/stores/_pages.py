"""Pages of memories, newest first, and the cursors between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from reme_core.schema import Memory, MemoryPage
from reme_core.stores._cursors import bad_cursor, read_cursor, write_cursor

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KIND = "memories"
# Beyond any creation time that a memory can have, in microseconds.
_FARTHEST = 1 << 60


@dataclass(frozen=True, slots=True, order=True)
class PagePosition:
    """A place in a list: newest first, then by id. Microseconds since 1970 are counted backwards."""

    age: int
    memory_id: str

    @property
    def created_at(self) -> datetime:
        """The creation time of the memory at this place."""
        return _EPOCH - timedelta(microseconds=self.age)


def place_of(memory: Memory) -> PagePosition:
    """Return the place of a memory in a list."""
    return PagePosition((_EPOCH - memory.created_at) // timedelta(microseconds=1), memory.memory_id)


def write_place(place: PagePosition) -> str:
    """Write the cursor of the page that begins behind this place."""
    return write_cursor(_KIND, place.age, place.memory_id)


def read_place(cursor: str | None) -> PagePosition | None:
    """Read the place behind which a page begins; None for the first page.

    Raises:
        InvalidInputError: It is not one that `write_place` wrote.
    """
    if cursor is None:
        return None
    age, memory_id = read_cursor(_KIND, cursor, int, str)
    if not -_FARTHEST < int(age) < _FARTHEST:
        raise bad_cursor(cursor)
    return PagePosition(int(age), str(memory_id))


def cut_page(memories: Sequence[Memory], after: PagePosition | None, limit: int) -> MemoryPage:
    """Cut the page of `limit` memories behind a place out of all memories, which may come in any order."""
    ordered = sorted((item for item in memories if after is None or place_of(item) > after), key=place_of)
    more = len(ordered) > limit
    return MemoryPage(
        memories=tuple(ordered[:limit]), next_cursor=write_place(place_of(ordered[limit - 1])) if more else None
    )
