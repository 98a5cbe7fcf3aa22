"""Points in time: accepted in a few unambiguous forms, or as a model writes them; kept as UTC, written as ISO 8601.

A time that somebody told may be known to the day, the month or the year alone: then it has that precision, and is shown
so again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, PlainSerializer

from reme_core.schema.checks import kind_of, shown

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


class SystemClock:
    """Tells the time of this machine, aware, in UTC. A `Clock`."""

    def now(self) -> datetime:
        """Return the time now."""
        return utc_now()


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
        msg = f"a time is a datetime or an ISO 8601 string, not {kind_of(value)} {shown(value)[:40]}"
        raise ValueError(msg)  # noqa: TRY004  # pydantic turns ValueError, and not TypeError, into a field's error
    if moment.tzinfo is not None and EARLIEST_YEAR <= moment.year <= LATEST_YEAR:
        moment = moment.astimezone(UTC)  # the year that is written is checked: a zone can move it over the edge
    if not EARLIEST_YEAR <= moment.year <= LATEST_YEAR:
        msg = f"the year {moment.year} lies outside {EARLIEST_YEAR} to {LATEST_YEAR}: leave the time out if unknown"
        raise ValueError(msg)
    return moment.replace(tzinfo=UTC)


class TimePrecision(StrEnum):
    """How much of a time was told: all of it, or its day, month or year."""

    EXACT = "exact"
    DAY = "day"
    MONTH = "month"
    YEAR = "year"


@dataclass(frozen=True, slots=True)
class PartialTime:
    """A time as it was told.

    Attributes:
        start: Its first moment, in UTC.
        precision: How much of it was told.
    """

    start: datetime
    precision: TimePrecision = TimePrecision.EXACT

    @property
    def end(self) -> datetime:
        """The first moment after it; of an exact time, that time itself."""
        match self.precision:
            case TimePrecision.EXACT:
                return self.start
            case TimePrecision.DAY:
                return self.start + timedelta(days=1)
            case TimePrecision.MONTH:
                return (self.start + timedelta(days=31)).replace(day=1)
            case TimePrecision.YEAR:
                return self.start.replace(year=self.start.year + 1)


_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
# As ISO 8601 writes a part of a date, and as `shown_time` does.
_PART = re.compile(r"(?P<year>\d{4})(?:-(?P<month>\d{2})(?:-(?P<day>\d{2}))?)?")
_SHOWN_PART = re.compile(rf"(?:(?P<day>\d{{1,2}}) )?(?P<month>{'|'.join(_MONTHS)}) (?P<year>\d{{4}})")


def parse_partial_time(value: object) -> PartialTime:
    """Read a time with its precision: `2023` is a year, `2023-01` a month, `2023-01-05` a day, all else exact.

    The forms that `shown_time` writes ("January 2023", "5 January 2023") are read back as well. A part of a date is one
    in UTC.

    Raises:
        ValueError: As `parse_time`, which reads all else.
    """
    found = None
    if isinstance(value, str):
        text = value.strip()
        found = _PART.fullmatch(text) or _SHOWN_PART.fullmatch(text)
    if found is None:
        return PartialTime(parse_time(value))
    year, month, day = found["year"], found["month"], found["day"]
    number = int(month) if month and month.isdigit() else _MONTHS.index(month) + 1 if month else 1
    start = parse_time(f"{year}-{number:02d}-{int(day or 1):02d}")
    precision = TimePrecision.DAY if day else TimePrecision.MONTH if month else TimePrecision.YEAR
    return PartialTime(start, precision)


def shown_time(moment: datetime, precision: TimePrecision = TimePrecision.EXACT) -> str:
    """Write a time as it was told, for readers and models: `2023`, `January 2023`, `5 January 2023`, with the clock.

    In UTC. An exact time at midnight shows its day alone: it was a date, before dates had a precision.
    """
    moment = moment.astimezone(UTC)
    day = f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}"
    match precision:
        case TimePrecision.EXACT:
            is_date = moment.hour == moment.minute == moment.second == moment.microsecond == 0
            return day if is_date else f"{day} {moment:%H:%M}"
        case TimePrecision.DAY:
            return day
        case TimePrecision.MONTH:
            return f"{_MONTHS[moment.month - 1]} {moment.year}"
        case TimePrecision.YEAR:
            return f"{moment.year}"


def last_part(end: datetime, precision: TimePrecision) -> datetime:
    """Return a moment in the last day, month or year before an end, which itself is not part of it: its first one."""
    if precision is TimePrecision.EXACT:
        return end
    last = (end - timedelta(microseconds=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    if precision is TimePrecision.DAY:
        return last
    return last.replace(day=1) if precision is TimePrecision.MONTH else last.replace(month=1, day=1)


def may_end(begins: datetime, end: datetime, precision: TimePrecision) -> bool:
    """Tell whether what begins at a time can last until an end; of its last day, month or year, some belongs to it."""
    return begins <= end if precision is TimePrecision.EXACT else begins < end


def format_time(moment: datetime) -> str:
    """Write an aware time as ISO 8601 in UTC, with `Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


UtcTime = Annotated[datetime, BeforeValidator(parse_time), PlainSerializer(format_time, when_used="json")]
"""A pydantic field for a point in time; see `parse_time` for what is accepted."""


_NONE = frozenset(
    {"", "none", "null", "unknown", "n/a", "na", "-", "?", "未知", "无", "不详", "没说", "未提及"}
    | {"present", "now", "today", "current", "currently", "ongoing", "still", "至今", "现在", "目前", "今"}
)
_MONTH_BEGINNINGS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMED = "(?P<month>" + "|".join(_MONTH_BEGINNINGS) + r")[a-z]*\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"
# With an end after the day, a full time is left to ISO 8601.
_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"{_YEAR}",
        rf"{_YEAR}[-/.](?P<month>\d{{1,2}})(?:[-/.]{_DAY})?",
        rf"{_YEAR}\s*年(?:\s*(?P<month>\d{{1,2}})\s*月(?:\s*{_DAY}\s*[日号])?)?",
        rf"{_NAMED}(?:\s+{_DAY})?,?\s+{_YEAR}",
        rf"{_DAY}\s+(?:of\s+)?{_NAMED},?\s+{_YEAR}",
    )
)
# Prompts show times with their weekday, so that models write it as well.
_WEEKDAY = re.compile(r"(?:\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*\b,?|[(（]?(?:周|星期)[一二三四五六日天][)）]?)\s*")


def read_said_time(value: object, zone: tzinfo = UTC) -> PartialTime | None:
    """Read a date that a model wrote, as exact as it was written: a year, a month, a day or a time.

    A day, a month and a year are those of the calendar, wherever the user is; a time of the day without an offset is
    that of `zone`. None, an empty text and words such as "unknown" or "present" are None.

    Raises:
        ValueError: It is something else, or there is no such date.
    """
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)[:20]  # a year without quotes
    if not isinstance(value, str):
        msg = f"a date is a text such as 2023-05-08, not {kind_of(value)}"
        raise ValueError(msg)  # noqa: TRY004  # told to a model, like all that is wrong with a date
    text = _WEEKDAY.sub("", value.strip()).strip()
    if text.casefold() in _NONE:
        return None
    text = next((_in_figures(found) for form in _FORMS if (found := form.fullmatch(text))), text)
    read = parse_partial_time(text)
    parse_time(read.end)  # the end of the last year has none that can be kept
    if read.precision is not TimePrecision.EXACT or datetime.fromisoformat(text).tzinfo is not None:
        return read
    return PartialTime(parse_time(read.start.replace(tzinfo=zone)))


def _in_figures(found: re.Match[str]) -> str:
    parts = {"month": None, "day": None, **found.groupdict()}
    month = parts["month"]
    if month is None:
        return found["year"]
    number = _MONTH_BEGINNINGS.index(month.lower()) + 1 if month.isalpha() else int(month)
    day = "" if parts["day"] is None else f"-{int(parts['day']):02d}"
    return f"{found['year']}-{number:02d}{day}"


def parse_said_time(value: object, zone: tzinfo = UTC) -> PartialTime | None:
    """Read a time as a model writes it, as `read_said_time` does; what is wrong with it is told in words for a model.

    Raises:
        ValueError: It is something else; the message says how to write it.
    """
    try:
        return read_said_time(value, zone)
    except ValueError as exc:
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise
        shown = f"{str(value).strip()[:40]!r}"
        msg = f"{shown} is no time: write 2023, 2023-01, 2023-01-05 or 2023-01-05T18:30:00Z, or leave it out"
        raise ValueError(msg) from exc
