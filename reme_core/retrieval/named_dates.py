"""Dates named in a query, and how well the time of a text fits them.

Regular expressions find named months in questions as well as a date library does, some 380 times faster (docs/design,
retrieval). English, Chinese, Japanese and Korean forms are read; relative ones ("yesterday", "上周") need the time the
query is asked.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
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

# Words for a span of days before the question: days back to its first day and to its last, on the wide side.
_THIS_WEEK, _THIS_MONTH, _THIS_YEAR = (6, 0), (30, 0), (365, 0)
_LAST_WEEK, _LAST_MONTH, _LAST_YEAR = (13, 1), (61, 1), (730, 1)
_SPANS = {
    "today": (0, 0), "tonight": (0, 0), "yesterday": (1, 1), "day before yesterday": (2, 2), "last night": (1, 1),
    "last week": _LAST_WEEK, "this week": _THIS_WEEK, "last month": _LAST_MONTH, "this month": _THIS_MONTH,
    "last year": _LAST_YEAR, "this year": _THIS_YEAR,
    "今天": (0, 0), "昨天": (1, 1), "前天": (2, 2), "大前天": (3, 3), "上周": _LAST_WEEK, "上週": _LAST_WEEK,
    "上星期": _LAST_WEEK,
    "上个星期": _LAST_WEEK, "本周": _THIS_WEEK, "这周": _THIS_WEEK, "上个月": _LAST_MONTH, "上個月": _LAST_MONTH,
    "这个月": _THIS_MONTH, "本月": _THIS_MONTH, "去年": _LAST_YEAR, "今年": _THIS_YEAR, "今日": (0, 0), "昨日": (1, 1),
    "一昨日": (2, 2), "おととい": (2, 2), "先週": _LAST_WEEK, "今週": _THIS_WEEK, "先月": _LAST_MONTH,
    "今月": _THIS_MONTH,
    "오늘": (0, 0), "어제": (1, 1), "그제": (2, 2), "그저께": (2, 2), "지난주": _LAST_WEEK, "지난 주": _LAST_WEEK,
    "지난달": _LAST_MONTH, "지난 달": _LAST_MONTH, "작년": _LAST_YEAR, "올해": _THIS_YEAR,
}  # fmt: skip
# Of ASCII letters alone the case is ignored: other letters may have a lower case of another length.
_FLAGS = re.ASCII | re.IGNORECASE
_SPAN = re.compile(
    r"\b(?:"
    + "|".join(w for w in _SPANS if w.isascii())
    + r")\b|"
    + "|".join(sorted((w for w in _SPANS if not w.isascii()), key=len, reverse=True)),
    _FLAGS,
)
_COUNT = r"[0-9]{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten"
_AGO = re.compile(rf"\b({_COUNT}) (day|week|month|year)s? ago\b", _FLAGS)
_LASTING = re.compile(rf"\b(?:last (?={_COUNT}|few)|past )(?:({_COUNT}|few) )?(day|week|month|year)s?\b", _FLAGS)
NUMBER_WORDS = dict(
    zip(("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), range(2, 11), strict=True)
)
"""Numbers that are mostly written as words, from two on."""
_NUMBERS = {"a": 1, "an": 1, "one": 1, "few": 4} | NUMBER_WORDS
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}

# What stands in place of a date that was read.
_GAP = " ; "
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
    return take_dates(text)[0]


def without_times(text: str) -> str:
    """Return what a text says beside the times that `named_dates` and `relative_days` read in it."""
    return without_relative_days(take_dates(text)[1])


def without_relative_days(text: str) -> str:
    """Return a text without what `relative_days` reads in it."""
    text = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _LASTING.sub(_GAP, _AGO.sub(_GAP, _SPAN.sub(_GAP, text)))


def take_dates(text: str) -> tuple[list[NamedDate], str]:
    """Return the dates that a text names, each once, and the text with a gap (" ; ") in the place of each."""
    found: list[NamedDate] = []
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)  # full-width figures, blanks of other widths
    if text.isascii() and not _may_name_date(text):
        return found, text
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
        text = pattern.sub(_GAP, text)
    return list(dict.fromkeys(found)), text


def relative_days(text: str, now: datetime) -> list[DaySpan]:
    """Resolve words such as "yesterday", "two weeks ago" or "上个月" against the time they were written.

    Spans err on the wide side: "last week" is the thirteen days before. Never raises; spans before year 1 are left out.
    """
    return [wide for wide, _ in _spans(text, _day_of(now))]


def calendar_spans(text: str, now: datetime) -> list[DaySpan]:
    """Resolve the same words by the calendar: "last week" is the week before, from Monday to Sunday."""
    return [exact for _, exact in _spans(text, _day_of(now))]


def _day_of(now: datetime) -> date:
    return now.astimezone(UTC).date() if now.tzinfo else now.date()


def _spans(text: str, today: date) -> Iterator[tuple[DaySpan, DaySpan]]:
    """Return each span on the wide side, and by the calendar."""
    text = text if text.isascii() else unicodedata.normalize("NFKC", text)
    for match in _SPAN.finditer(text):
        named = _SPANS[match.group().lower()]
        yield from _span(today, *named, by_calendar=_calendar_first(today, named))
    text = _SPAN.sub(_GAP, text)
    for match in _AGO.finditer(text):
        count, unit = _count(match.group(1)), _UNIT_DAYS[match.group(2).lower()]
        yield from _span(today, count * unit + unit // 2, max(count * unit - unit // 2, 0))
    for match in _LASTING.finditer(text):
        count = _count(match.group(1) or "one")
        yield from _span(today, count * _UNIT_DAYS[match.group(2).lower()], 0)


def _count(word: str) -> int:
    return int(word) if word.isdigit() else _NUMBERS[word.lower()]


def _span(
    today: date, first: int, last: int, *, by_calendar: tuple[date, date] | None = None
) -> Iterator[tuple[DaySpan, DaySpan]]:
    try:
        wide = DaySpan(first=today - timedelta(days=first), last=today - timedelta(days=last))
    except OverflowError:
        return
    yield wide, wide if by_calendar is None else DaySpan(first=by_calendar[0], last=by_calendar[1])


def _calendar_first(today: date, named: tuple[int, int]) -> tuple[date, date] | None:
    """Return first and last day of a named week, month or year; None for days, which are exact as they are."""
    if today.year <= 1:  # nothing lies before it
        return None
    week = today - timedelta(days=today.weekday())
    month, year = today.replace(day=1), today.replace(month=1, day=1)
    day = timedelta(days=1)
    if named == _LAST_WEEK:
        return week - 7 * day, week - day
    if named == _LAST_MONTH:
        return (month - day).replace(day=1), month - day
    if named == _LAST_YEAR:
        return year.replace(year=year.year - 1), year - day
    begun = {_THIS_WEEK: week, _THIS_MONTH: month, _THIS_YEAR: year}.get(named)
    return None if begun is None else (begun, today)


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


# Things are told after they happen: a text of the next month fits a named month a little, one of the week after a named
# day fits the less the later it is. Chosen on LoCoMo, rounded.
_NEXT_MONTH = 0.3
DAYS_AFTER = 8
_EPOCH = date(1970, 1, 1).toordinal()
_LAST_MONTHS = 12


def date_fit(days: IntArray, named: Sequence[NamedDate], spans: Sequence[DaySpan]) -> FloatArray:
    """Score days since 1970 (n,) against what a query names: the best of its dates, 0 to 2.

    1 for a text of the named month, 0.3 for one of the month after; up to 1 more where a day is named, falling to 0
    eight days after it. 1 for a text inside a span. A year that is named must agree; a year alone gives 0.3.
    """
    known = days > -(10**8)
    if not known.all():
        fit = np.zeros(len(days))
        fit[known] = date_fit(days[known], named, spans)
        return fit
    fit = np.zeros(len(days))
    months: IntArray = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    for name in named:
        if name.month is None:
            agrees = months // 12 + 1970 == name.year
            np.maximum(fit, np.where(agrees, _NEXT_MONTH, 0.0), out=fit)
        else:
            np.maximum(fit, _month_fit(days, months, name.month, name), out=fit)
    for span in spans:
        inside = (days >= span.first.toordinal() - _EPOCH) & (days <= span.last.toordinal() - _EPOCH)
        np.maximum(fit, inside, out=fit)
    return fit


def _month_fit(days: IntArray, months: IntArray, month: int, name: NamedDate) -> FloatArray:
    """Score days and months since 1970; without a year, against the last such month before or at each of them."""
    later = (months - (month - 1)) % _LAST_MONTHS if name.year is None else months - (name.year - 1970) * 12 - month + 1
    fit: FloatArray = np.where(later == 0, 1.0, np.where(later == 1, _NEXT_MONTH, 0.0))
    if name.day is not None:
        first_days = (months - later).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        after = days - first_days - (name.day - 1)
        fit += np.where((after >= 0) & (after < DAYS_AFTER), 1.0 - after / DAYS_AFTER, 0.0)
    return fit
