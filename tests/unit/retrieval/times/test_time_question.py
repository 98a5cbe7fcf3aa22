"""Questions about a time: which of them ask for nothing else, and what is listed for them in which order."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest

from reme_core.retrieval import AskedTime, Query, RankingIndex, asked_time, names_no_topic
from reme_core.retrieval.named_dates import (
    DaySpan,
    calendar_days,
    calendar_spans,
    relative_days,
    without_relative_days,
    without_times,
)
from reme_core.retrieval.time_question import asked_fit, bounds, days_asked_for, telling_terms
from tests.unit.retrieval.ranking.test_partition_index import Message, rows_of

NOW = datetime(2024, 5, 22, 12, tzinfo=UTC)  # a Wednesday


@pytest.mark.parametrize(
    "text",
    [
        "what happened last week",
        "What did I do on 5 May 2024?",
        "What did we talk about yesterday?",
        "Tell me everything from last month.",
        "What's new this week?",
        "What went on in May 2024?",
        "Summarize the past 3 days",
        "what happened two weeks ago",
        "LAST WEEK",
        "2024-05-05",
        "上周发生了什么",
        "上周我们聊了什么？",
        "我5月5日做了什么",
        "昨天",
        "先週何がありましたか？",
        "昨日何をした？",
        "지난주에 무슨 일이 있었어?",
        "어제 뭐 했어?",
    ],
)
def test_a_question_about_a_time_alone_names_a_time_and_no_topic(text: str) -> None:
    assert names_no_topic(text)
    assert asked_time(text, NOW) is not None


@pytest.mark.parametrize(
    "text",
    [
        "what did Alice say about the car last week",
        "Where did I travel in May 2024?",
        "上周小明买了什么车",
        "昨天吃了什么",
        "先週どこで寿司を食べましたか",
        "지난주에 어디로 여행을 갔어?",
    ],
)
def test_a_topic_beside_the_time_is_one(text: str) -> None:
    assert not names_no_topic(text)
    assert asked_time(text, NOW) is not None


@pytest.mark.parametrize("text", ["what happened to the car", "什么颜色", "How many times?", ""])
def test_without_a_time_none_is_asked_for(text: str) -> None:
    assert asked_time(text, NOW) is None


def test_yesterday_needs_the_time_of_asking() -> None:
    assert asked_time("what happened yesterday", None) is None
    assert asked_time("what happened on 3 May", None) is not None


def test_what_a_question_is_about_is_told_by_neither_its_time_nor_words_for_happening() -> None:
    assert telling_terms("What happened with the parseConfig change last week?") == [
        "pars", "config", "parseconfig", "chang",
    ]  # fmt: skip


def test_relative_times_are_taken_out_with_their_case_kept_and_dates_stay() -> None:
    assert without_relative_days("the parseConfig of Last Week") == "the parseConfig of  ; "
    assert without_relative_days("the trip of 5 May") == "the trip of 5 May"
    assert without_times("the trip of 5 May 2024, 昨天") == "the trip of  ; ,  ; "


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("last week", date(2024, 5, 13), date(2024, 5, 19)),
        ("this week", date(2024, 5, 20), date(2024, 5, 22)),
        ("上个月", date(2024, 4, 1), date(2024, 4, 30)),
        ("这个月", date(2024, 5, 1), date(2024, 5, 22)),
        ("last year", date(2023, 1, 1), date(2023, 12, 31)),
        ("今年", date(2024, 1, 1), date(2024, 5, 22)),
        ("yesterday", date(2024, 5, 21), date(2024, 5, 21)),
        ("the day before yesterday", date(2024, 5, 20), date(2024, 5, 20)),
        ("the past few days", date(2024, 5, 18), date(2024, 5, 22)),
        ("the last two weeks", date(2024, 5, 8), date(2024, 5, 22)),
    ],
)
def test_relative_times_are_those_of_the_calendar_and_lie_in_their_wide_side(
    text: str, first: date, last: date
) -> None:
    assert calendar_spans(text, NOW) == [DaySpan(first=first, last=last)]
    [wide] = relative_days(text, NOW)
    assert wide.first <= first
    assert wide.last >= last


def test_no_time_of_asking_makes_reading_a_week_fail() -> None:
    for now in (datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)):
        for text in ("last week", "this week", "last month", "last year", "999 years ago", "the last 999 years"):
            calendar_spans(text, now)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("5 May 2024", date(2024, 5, 5), date(2024, 5, 5)),
        ("31 June 2024", date(2024, 7, 1), date(2024, 7, 1)),
        ("February 2024", date(2024, 2, 1), date(2024, 2, 29)),
        ("December 2024", date(2024, 12, 1), date(2024, 12, 31)),
        ("2023年", date(2023, 1, 1), date(2023, 12, 31)),
    ],
)
def test_a_date_with_its_year_is_a_span_of_days(text: str, first: date, last: date) -> None:
    asked = _asked(text)
    assert days_asked_for(asked) == [DaySpan(first=first, last=last)]
    assert bounds(asked) == DaySpan(first=first, last=last + timedelta(days=8))


def test_a_date_without_a_year_lies_in_any() -> None:
    assert days_asked_for(_asked("5 May")) == []
    assert bounds(_asked("5 May")) is None


@pytest.mark.parametrize("text", ["5 May 2024", "May 2024", "2024年", "last week", "two weeks ago", "3 May"])
def test_nothing_outside_of_the_bounds_fits(text: str) -> None:
    asked = _asked(text)
    days = np.arange(19_000, 21_000)
    fitting = days[asked_fit(days, asked) > 0.0]
    assert len(fitting)
    if (span := bounds(asked)) is not None:
        assert _day(span.first) <= fitting.min() <= fitting.max() <= _day(span.last)


def test_the_time_itself_fits_and_what_is_near_it_less() -> None:
    asked = _asked("on 5 May 2024")
    fits = asked_fit(
        _days(date(2024, 5, 4), date(2024, 5, 5), date(2024, 5, 6), date(2024, 5, 12), date(2024, 6, 5)), asked
    )
    assert fits[1] == 1.0
    assert 1.0 > fits[2] > fits[3] > 0.0
    assert fits[[0, 4]].tolist() == [0.0, 0.0]
    assert asked_fit(_days(date(2024, 5, 14), date(2024, 5, 21)), _asked("last week")).tolist() == [1.0, 0.5]


def test_what_lies_in_a_time_is_listed_the_most_telling_first_and_the_newest_of_equals() -> None:
    told: list[Message] = [
        ("a long sentence about apples, rivers, guitars and violins in Lisbon", 0, "Ann", _at(2024, 5, 5)),
        ("did a long sentence ask about apples, rivers, guitars, violins in Lisbon?", 0, "Ann", _at(2024, 5, 5)),
        ("apple pie", 0, "Bob", _at(2024, 5, 5, 9)),
        ("apple tart", 0, "Bob", _at(2024, 5, 5, 10)),
        ("an even longer sentence about apples, rivers, guitars and violins in Lisbon", 0, "Ann", _at(2024, 5, 6)),
        ("another year", 0, "Ann", _at(2023, 5, 5)),
        ("of no time", 0, "Ann", None),
    ]
    index = RankingIndex()
    index.extend(rows_of(told, range(7)))
    asked = _asked("5 May 2024")
    assert [hit.key for hit in index.list_by_time(asked, limit=9)] == [0, 3, 2, 1, 4]
    assert [hit.key for hit in index.list_by_time(asked, limit=2)] == [0, 3]
    some = np.array([False, False, True, True, True, True, True])
    assert [hit.key for hit in index.list_by_time(asked, limit=9, allowed=some)] == [3, 2, 4]
    index.remove(np.array([0]))
    assert [hit.key for hit in index.list_by_time(asked, limit=1)] == [3]
    everything = index.list_by_time(None, limit=9)
    assert len(everything) == 6
    assert all(0.5 < hit.score <= 1.0 for hit in everything)
    assert RankingIndex().list_by_time(asked, limit=1) == []
    with pytest.raises(ValueError, match="limit"):
        index.list_by_time(asked, limit=0)


def test_the_week_of_a_question_is_not_the_week_of_a_text() -> None:
    told: list[Message] = [
        ("This week was a week of weeks, said the apple", -1, "", _at(2024, 5, 20)),
        ("The guitar came from Lisbon", -1, "", _at(2024, 5, 14)),
    ]
    index = RankingIndex()
    index.extend(rows_of(told, range(2)))
    asked = "Which guitar was it last week?"
    assert index.rank(Query(text=asked, now=NOW), limit=1)[0].key == 1
    # Where no text is of that week, its words are all there is to go by.
    later = Query(text="What was said last week?", now=NOW.replace(year=2034))
    assert [hit.key for hit in index.rank(later, limit=2)] == [0]


def _asked(text: str) -> AskedTime:
    asked = asked_time(text, NOW)
    assert asked is not None
    return asked


def _at(year: int, month: int, day: int, hour: int = 12) -> float:
    return datetime(year, month, day, hour, tzinfo=UTC).timestamp()


def _day(day: date) -> int:
    return day.toordinal() - date(1970, 1, 1).toordinal()


def _days(*days: date) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return calendar_days(np.array([_at(day.year, day.month, day.day) for day in days]))


@pytest.mark.parametrize(
    "question",
    [
        "What has happened since January 5 2024?",
        "What happened between 1 May 2024 and 20 May 2024?",
        "What did I say until 2024-01-10?",
        "5月1日到5月20日发生了什么",
        "What did May say?",
        "2024年过年我们做了什么？",
    ],
)
def test_a_range_a_name_and_a_feast_are_no_question_about_a_time_alone(question: str) -> None:
    assert not names_no_topic(question)


@pytest.mark.parametrize(
    ("question", "day"),
    [
        ("２０２４年５月１９日发生了什么", 19),
        ("大前天发生了什么", 19),
        ("おととい何があった", 20),
        ("그저께 뭐 했어", 20),
    ],
)
def test_full_width_dates_and_days_before_yesterday_are_read(question: str, day: int) -> None:
    asked = asked_time(question, datetime(2024, 5, 22, tzinfo=UTC))
    assert asked is not None
    assert [span.first for span in days_asked_for(asked)] == [date(2024, 5, day)]
