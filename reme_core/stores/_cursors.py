"""Pages shared by the stores: limits, conditions, the place of a memory in a list, and cursors as opaque strings."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, TypeVar

from reme_core.errors import InvalidInputError, NotFoundError
from reme_core.schema import Memory

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]
"""A row as sqlite3 returns it."""


def write_cursor(kind: str, *place: int | str) -> str:
    """Write a cursor of a kind of page."""
    return base64.urlsafe_b64encode(json.dumps([kind, *place]).encode()).decode()


def read_cursor(kind: str, cursor: str, *types: type[int] | type[str]) -> list[int | str]:
    """Read a cursor of this kind, whose parts have these types.

    Raises:
        InvalidInputError: It is not one that `write_cursor` wrote for this kind of page.
    """
    try:
        parts = json.loads(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (ValueError, TypeError, RecursionError):
        parts = None
    if isinstance(parts, list) and parts[:1] == [kind]:
        place: list[int | str] = parts[1:]
        if [type(part) for part in place] == list(types) and all(map(_bindable, place)):
            return place
    raise bad_cursor(cursor)


def _bindable(part: int | str) -> bool:
    if isinstance(part, int):
        return -(2**63) <= part < 2**63
    try:
        part.encode()
    except UnicodeEncodeError:
        return False
    return True


def row_after(kind: str, cursor: str | None) -> int | None:
    """Return the number of the row that a page begins behind; None for the first page (InvalidInputError)."""
    return None if cursor is None else int(read_cursor(kind, cursor, int)[0])


def cut_page(rows: Sequence[Row], limit: int, kind: str, *, places: int = 1) -> tuple[Sequence[Row], str | None]:
    """Return the rows of a page, of which one too many was read, and the cursor behind it, None for the last page.

    The place of a row is told by its first columns, `places` of them.
    """
    page = rows[:limit]
    return page, write_cursor(kind, *page[-1][:places]) if len(rows) > limit else None


def given(*conditions: tuple[str, object]) -> tuple[list[str], list[object]]:
    """Return those conditions in SQL whose value is given, and the values; what is None was not asked for."""
    asked = [condition for condition in conditions if condition[1] is not None]
    return [text for text, _ in asked], [value for _, value in asked]


def seconds(moment: datetime | None) -> float | None:
    """Return seconds since 1970, None for no time."""
    return None if moment is None else moment.timestamp()


def in_order(wanted: Sequence[str], found: Mapping[str, T], error: type[NotFoundError]) -> list[T]:
    """Return what was found in the order asked for; what was not raises `error`, which names it."""
    missing = [name for name in dict.fromkeys(wanted) if name not in found]
    if missing:
        raise error(missing)
    return [found[name] for name in wanted]


def bad_cursor(cursor: str) -> InvalidInputError:
    """Return the error about a cursor that isn't ours."""
    msg = f"cursor: {cursor!r:.60} is not one of this list: pass next_cursor of the page before, or None"
    return InvalidInputError(msg)


def check_limit(limit: int) -> None:
    """Refuse a limit below one (InvalidInputError)."""
    if limit < 1:
        msg = f"limit: wanted at least 1, found {limit}"
        raise InvalidInputError(msg)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a list: newest first, then by id. Microseconds since 1970 are counted backwards."""

    age: int
    memory_id: str


def place_of(memory: Memory) -> Place:
    """Return the place of a memory in a list."""
    return Place((_EPOCH - memory.created_at) // timedelta(microseconds=1), memory.memory_id)
