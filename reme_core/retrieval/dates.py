"""Dates named in a query, and how well the time of a text fits them.

Regular expressions find named months in questions as well as a date library does, some 380 times faster (docs/design,
retrieval). English, Chinese, Japanese and Korean forms are read; relative ones ("yesterday", "上周") need the time the
query is asked.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import numpy as np

from reme_core.retrieval.arrays import FloatArray, IntArray

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# "may", "march" and short forms are other words too unless written as a name.
_MONTH = (
    r"(January|February|March|April|May|June|July|August|September|October|November|December"
    r"|january|february|april|june|july|august|september|october|november|december"
    r"|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec)\b\.?)"
)
_DAY = r"([0-3]?[0-9])(?:st|nd|rd|th)?"
_YEAR = r"((?:19|20)[0-9]{2})"
_DAY_MONTH = re.compile(rf"\b{_DAY}(?: of)? {_MONTH}(?:,? {_YEAR})?\b")
_MONTH_DAY = re.compile(rf"\b{_MONTH} {_DAY}\b(?!:)(?:,? {_YEAR}\b)?")
_MONTH_ONLY = re.compile(rf"\b{_MONTH}(?:,? (?:of )?{_YEAR})?\b")
_ISO = re.compile(rf"\b{_YEAR}[-/.]([01]?[0-9])(?:[-/.]([0-3]?[0-9]))?\b")
_EASTERN = re.compile(rf"(?:{_YEAR}\s?[年년]\s?)?([01]?[0-9])\s?[月월](?:\s?([0-3]?[0-9])\s?[日号號일])?")
_EASTERN_YEAR = re.compile(rf"{_YEAR}\s?[年년]")
_YEAR_ONLY = re.compile(rf"(?<![0-9$€£.,:/-]){_YEAR}\b(?![-/.:][0-9])")

# Words for a span of days before the question: days back to its first day and to its last.
_SPANS = {
    "today": (0, 0), "tonight": (0, 0), "yesterday": (1, 1), "last night": (1, 1), "last week": (13, 1),
    "this week": (6, 0), "last month": (61, 1), "this month": (30, 0), "last year": (730, 1),
    "今天": (0, 0), "昨天": (1, 1), "前天": (2, 2), "上周": (13, 1), "上週": (13, 1), "上个月": (61, 1),
    "上個月": (61, 1), "去年": (730, 1), "今日": (0, 0), "昨日": (1, 1), "一昨日": (2, 2), "先週": (13, 1),
    "先月": (61, 1),
    "오늘": (0, 0), "어제": (1, 1), "그제": (2, 2), "지난주": (13, 1), "지난달": (61, 1), "작년": (730, 1),
}  # fmt: skip
_SPAN = re.compile(
    r"\b(?:" + "|".join(w for w in _SPANS if w.isascii()) + r")\b|" + "|".join(w for w in _SPANS if not w.isascii())
)
_AGO = re.compile(r"\b([0-9]{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten) (day|week|month|year)s? ago\b")
_NUMBERS = {"an": 1, "one": 1} | dict(
    zip(("a", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), range(1, 11), strict=True)
)
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}

_DAY_SECONDS = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedDate:
    """What a query says of a date; parts it leaves out are None."""

    year: int | None = None
    month: int | None = None
    day: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DaySpan:
    """Days from `first` to `last`, both included."""

    first: date
    last: date


def named_dates(text: str) -> list[NamedDate]:
    """Read the dates a text names, the most exact reading of each place once, in no promised order.

    A day or month out of range is not a date and is passed over. Never raises.
    """
    found: list[NamedDate] = []
    if text.isascii() and not _may_name_date(text):
        return found
    for pattern, order in (
        (_ISO, (0, 1, 2)),
        (_EASTERN, (0, 1, 2)),
        (_EASTERN_YEAR, (0, None, None)),
        (_DAY_MONTH, (2, 1, 0)),
        (_MONTH_DAY, (2, 0, 1)),
        (_MONTH_ONLY, (1, 0, None)),
        (_YEAR_ONLY, (0, None, None)),
    ):
        for match in pattern.finditer(text):
            year, month, day = (match.group(i + 1) if i is not None else None for i in order)
            if (named := _named(year, month, day)) is not None:
                found.append(named)
        text = pattern.sub(" ; ", text)
    return list(dict.fromkeys(found))


def relative_days(text: str, now: datetime) -> list[DaySpan]:
    """Resolve words such as "yesterday", "two weeks ago" or "上个月" against the time they were written.

    Spans err on the wide side: "last week" is the thirteen days before. Never raises; spans before year 1 are left out.
    """
    return list(_spans(text.lower(), now.astimezone(UTC).date() if now.tzinfo else now.date()))


def _spans(text: str, today: date) -> Iterator[DaySpan]:
    for match in _SPAN.finditer(text):
        first, last = _SPANS[match.group()]
        yield from _span(today, first, last)
    for match in _AGO.finditer(text):
        count = int(match.group(1)) if match.group(1).isdigit() else _NUMBERS[match.group(1)]
        unit = _UNIT_DAYS[match.group(2)]
        yield from _span(today, count * unit + unit // 2, max(count * unit - unit // 2, 0))


def _span(today: date, first: int, last: int) -> Iterator[DaySpan]:
    try:
        yield DaySpan(first=today - timedelta(days=first), last=today - timedelta(days=last))
    except OverflowError:
        return


def _may_name_date(text: str) -> bool:
    lower = text.lower()
    return any(month in lower for month in _MONTHS) or any(century in lower for century in ("19", "20"))


def _named(year: str | None, month: str | None, day: str | None) -> NamedDate | None:
    number = None
    if month is not None:
        number = int(month) if month.isdigit() else _MONTHS.index(month[:3].lower()) + 1
    day_number = None if day is None else int(day)
    if not (number is None or 1 <= number <= 12) or not (day_number is None or 1 <= day_number <= 31):
        return None
    return NamedDate(year=None if year is None else int(year), month=number, day=day_number)


def calendar_days(times: FloatArray) -> IntArray:
    """Days since 1970 of times in seconds, (n,); -1e9 where the time is NaN or beyond 280,000 years."""
    known = np.abs(times) < 9e12
    return np.where(known, np.floor(np.where(known, times, 0.0) / _DAY_SECONDS), -(10**9)).astype(np.int64)
