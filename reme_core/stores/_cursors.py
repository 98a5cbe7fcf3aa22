"""Pages shared by the stores: limits, the place of a memory in a list, and cursors as opaque strings."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from reme_core.errors import InvalidInputError
from reme_core.schema import Memory


def write_cursor(kind: str, *place: int | str) -> str:
    """Write a cursor of a kind of page."""
    return base64.urlsafe_b64encode(json.dumps([kind, *place]).encode()).decode()


def _bindable(part: int | str) -> bool:
    return part.isascii() or _is_text(part) if isinstance(part, str) else -(2**63) <= part < 2**63


def _is_text(part: str) -> bool:
    try:
        part.encode()
    except UnicodeEncodeError:
        return False
    return True


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
