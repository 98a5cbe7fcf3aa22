"""Pages of memories, newest first, and the cursors between them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from reme_core.errors import InvalidInputError
from reme_core.schema import Memory, MemoryPage

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KIND = "memories"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a list: newest first, then by id. Microseconds since 1970 are counted backwards."""

    age: int
    memory_id: str

    @property
    def created_at(self) -> datetime:
        """The creation time of the memory at this place."""
        return _EPOCH - timedelta(microseconds=self.age)


def place_of(memory: Memory) -> Place:
    """Return the place of a memory in a list."""
    return Place((_EPOCH - memory.created_at) // timedelta(microseconds=1), memory.memory_id)


def write_cursor(place: Place) -> str:
    """Write the cursor of the page that begins behind this place."""
    return base64.urlsafe_b64encode(json.dumps([_KIND, place.age, place.memory_id]).encode()).decode()


def read_cursor(cursor: str | None) -> Place | None:
    """Read the place behind which a page begins; None for the first page.

    Raises:
        InvalidInputError: It is not one that `write_cursor` wrote.
    """
    if cursor is None:
        return None
    try:
        parts = json.loads(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (ValueError, TypeError, RecursionError):
        parts = None
    match parts:
        case [str(kind), int(age), str(memory_id)] if kind == _KIND and abs(age) < 1 << 60:
            return Place(age, memory_id)
    msg = f"cursor: {cursor!r:.60} is not one of this list: pass next_cursor of the page before, or None"
    raise InvalidInputError(msg)


def check_limit(limit: int) -> None:
    """Refuse a limit below one (InvalidInputError)."""
    if limit < 1:
        msg = f"limit: at least 1 is asked for, found {limit}"
        raise InvalidInputError(msg)


def cut_page(memories: Sequence[Memory], after: Place | None, limit: int) -> MemoryPage:
    """Cut the page of `limit` memories behind a place out of all memories, which may come in any order."""
    ordered = sorted((item for item in memories if after is None or place_of(item) > after), key=place_of)
    more = len(ordered) > limit
    return MemoryPage(
        memories=tuple(ordered[:limit]), next_cursor=write_cursor(place_of(ordered[limit - 1])) if more else None
    )
