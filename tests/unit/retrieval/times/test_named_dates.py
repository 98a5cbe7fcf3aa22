"""Dates named in questions, and the texts they fit."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.retrieval import DaySpan, NamedDate, named_dates, relative_days
from reme_core.retrieval.named_dates import calendar_days, date_fit

NOW = datetime(2024, 3, 10, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "year", "month", "day"),
    [
        ("What happened on 8 May, 2023?", 2023, 5, 8),
        ("on May 8th, 2023", 2023, 5, 8),
        ("the 3rd of July", None, 7, 3),
        ("in August 2022", 2022, 8, None),
        ("during January", None, 1, None),
        ("Sept. 4", None, 9, 4),
        ("2023-05-08", 2023, 5, 8),
        ("2023/5", 2023, 5, None),
        ("2023年5月8日发生了什么", 2023, 5, 8),
        ("5月8号去哪了", None, 5, 8),
        ("2023년 5월 8일", 2023, 5, 8),
        ("12月に何をした", None, 12, None),
        ("what did she do in 2021", 2021, None, None),
        ("去年2021年", 2021, None, None),
    ],
)
def test_a_date_is_read_in_its_most_exact_form(text: str, year: int | None, month: int | None, day: int | None) -> None:
    assert named_dates(text) == [NamedDate(year=year, month=month, day=day)]


@pytest.mark.parametrize(
    "text",
    ["may I march on?", "it cost $2000 then", "Maybe Juniper decided", "32/45", "13月40日", "marching", "dec 5 nov"],
)
def test_other_words_and_numbers_are_no_dates(text: str) -> None:
    assert [named for named in named_dates(text) if named.month is not None] == []
    assert [named for named in named_dates(text) if named.year == 2000] == []


def test_two_dates_are_both_read() -> None:
    assert set(named_dates("between August 11 and August 15 2023")) == {
        NamedDate(month=8, day=11),
        NamedDate(year=2023, month=8, day=15),
    }


@given(st.text(st.characters(codec=None), max_size=80))
def test_no_text_makes_reading_dates_fail(text: str) -> None:
    named_dates(text)
    relative_days(text, NOW)


@given(
    st.lists(
        st.sampled_from(["2023", "年", "5", "月", "8", "日", "May", " ", ",", "-", "/", "of", "ago", "999", "years"])
    )
)
def test_no_broken_date_makes_reading_dates_fail(pieces: list[str]) -> None:
    for named in named_dates("".join(pieces)):
        assert named.month is None or 1 <= named.month <= 12
        assert named.day is None or 1 <= named.day <= 31
    relative_days("".join(pieces), datetime(1, 1, 2, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("what did I say yesterday?", date(2024, 3, 9), date(2024, 3, 9)),
        ("昨天说了什么", date(2024, 3, 9), date(2024, 3, 9)),
        ("last week", date(2024, 2, 26), date(2024, 3, 9)),
        ("two days ago", date(2024, 3, 8), date(2024, 3, 8)),
    ],
)
def test_relative_words_are_days_before_the_question(text: str, first: date, last: date) -> None:
    assert relative_days(text, NOW) == [DaySpan(first=first, last=last)]


def test_one_and_a_half_weeks_ago_lie_in_a_week_ago_or_two() -> None:
    spans = relative_days("a week ago or two weeks ago", NOW)
    assert any(span.first <= date(2024, 2, 28) <= span.last for span in spans)


def _fit(text: str, *times: datetime) -> list[float]:
    days = calendar_days(np.array([time.timestamp() for time in times]))
    return [float(fit) for fit in date_fit(days, named_dates(text), relative_days(text, NOW))]


def test_the_named_day_fits_best_then_the_days_after_then_the_month_then_the_next() -> None:
    day = datetime(2023, 5, 8, 12, tzinfo=UTC)
    later = [day + timedelta(days=n) for n in (0, 3, -5, 30, 90)]
    fits = _fit("on 8 May 2023", *later)
    assert fits == sorted(fits, reverse=True)
    assert fits[0] == 2.0
    assert fits[-1] == 0.0


def test_another_year_does_not_fit() -> None:
    assert _fit("in May 2022", datetime(2023, 5, 8, tzinfo=UTC)) == [0.0]


def test_without_a_year_every_year_fits() -> None:
    assert _fit("in May", datetime(2023, 5, 8, tzinfo=UTC), datetime(2021, 5, 30, tzinfo=UTC)) == [1.0, 1.0]


def test_the_month_after_december_is_january() -> None:
    assert _fit("in December", datetime(2024, 1, 8, tzinfo=UTC))[0] == pytest.approx(0.3)
    assert _fit("in December 2023", datetime(2024, 1, 8, tzinfo=UTC))[0] == pytest.approx(0.3)


def test_texts_without_a_time_fit_nothing() -> None:
    days = calendar_days(np.array([np.nan, np.inf, datetime(2023, 5, 8, tzinfo=UTC).timestamp()]))
    assert date_fit(days, named_dates("8 May 2023"), []).tolist() == [0.0, 0.0, 2.0]


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=5), st.sampled_from(["5月8日", "in 2023", "May"])
)
def test_a_fit_lies_between_nothing_and_two(times: list[float], text: str) -> None:
    fit = date_fit(calendar_days(np.array(times, np.float64)), named_dates(text), [])
    assert bool(((fit >= 0.0) & (fit <= 2.0)).all())
