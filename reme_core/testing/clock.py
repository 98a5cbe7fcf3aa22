"""A clock that stands still."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from reme_core.schema import parse_time

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


class FixedClock:
    """Tells the same time until it is moved. A `Clock`."""

    def __init__(self, start: datetime | str = START) -> None:
        """Stand at `start`: aware, naive (taken as UTC), or ISO 8601."""
        self._now = parse_time(start)

    def now(self) -> datetime:
        """Return the time it stands at, aware, in UTC."""
        return self._now

    def advance(self, by: timedelta | None = None, *, seconds: float = 0.0) -> datetime:
        """Move by a time span, by seconds, or by both, and return the new time. Backwards is allowed."""
        self._now += (by or timedelta()) + timedelta(seconds=seconds)
        return self._now

    def set(self, moment: datetime | str) -> None:
        """Move to a point in time."""
        self._now = parse_time(moment)
