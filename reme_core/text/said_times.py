"""Dates as a model writes them: whole or in part, in figures or words, or a word for none."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo

from reme_core.schema import PartialTime, TimePrecision, parse_partial_time, parse_time
from reme_core.schema.checks import kind_of

_NONE = frozenset(
    {"", "none", "null", "unknown", "n/a", "na", "-", "?", "未知", "无", "不详", "没说", "未提及"}
    | {"present", "now", "today", "current", "currently", "ongoing", "still", "至今", "现在", "目前", "今"}
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMED = "(?P<month>" + "|".join(_MONTHS) + r")[a-z]*\.?"
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
    number = _MONTHS.index(month.lower()) + 1 if month.isalpha() else int(month)
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
