"""Points in time: accepted in a few unambiguous forms, kept as timezone-aware UTC, written as ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, PlainSerializer

EARLIEST_YEAR = 1900
LATEST_YEAR = 9998
"""Years outside this range are placeholders (0001-01-01, 9999-12-31), not times that something was said at."""


UTC_NAME = "UTC"
"""The time zone of users of whom no other is known."""

_MAX_ZONE_CHARS = 100


def read_zone(name: str) -> tzinfo:
    """Return a time zone by its IANA name, such as "Europe/Berlin" (ValueError: there is none of that name here)."""
    if name == UTC_NAME:
        return UTC
    try:
        return ZoneInfo(name[:_MAX_ZONE_CHARS])
    except (KeyError, ValueError, OSError) as exc:  # an unknown name, a path, a folder of names
        msg = f"no time zone {name[:40]!r}: give an IANA name such as 'Europe/Berlin' (package tzdata, on some systems)"
        raise ValueError(msg) from exc


def utc_now() -> datetime:
    """Return the time of this machine, aware, in UTC."""
    return datetime.now(UTC)


def parse_time(value: object) -> datetime:
    """Read a point in time.

    Accepts aware or naive datetimes and strings in ISO 8601 or `YYYY-MM-DD HH:MM:SS`; a date alone is its midnight.
    What has no time zone is taken as UTC.

    Raises:
        ValueError: The value is something else, or its year lies outside 1900 to 9998.
    """
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError as exc:
            msg = f"not a time: {value[:40]!r}; write ISO 8601 such as 2026-01-31T09:30:00Z, or YYYY-MM-DD HH:MM:SS"
            raise ValueError(msg) from exc
    else:
        msg = f"a time is a datetime or an ISO 8601 string, not {type(value).__name__} {value!r:.40}"
        raise ValueError(msg)  # noqa: TRY004  # pydantic turns ValueError, and not TypeError, into a field's error
    if moment.tzinfo is not None and EARLIEST_YEAR <= moment.year <= LATEST_YEAR:
        moment = moment.astimezone(UTC)  # the year that is written is checked: a zone can move it over the edge
    if not EARLIEST_YEAR <= moment.year <= LATEST_YEAR:
        msg = f"the year {moment.year} lies outside {EARLIEST_YEAR} to {LATEST_YEAR}: leave the time out if unknown"
        raise ValueError(msg)
    return moment.replace(tzinfo=UTC)


def format_time(moment: datetime) -> str:
    """Write an aware time as ISO 8601 in UTC, with `Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


UtcTime = Annotated[datetime, BeforeValidator(parse_time), PlainSerializer(format_time, when_used="json")]
"""A pydantic field for a point in time; see `parse_time` for what is accepted."""
