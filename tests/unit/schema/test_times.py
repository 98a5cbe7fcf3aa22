"""Times that were told in part: read, kept, and shown as they were told."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from reme_core.ports import ScoredMemory
from reme_core.retrieval.hits import memory_hit
from reme_core.schema import (
    Memory,
    PartialTime,
    TimePrecision,
    describe,
    last_part,
    parse_partial_time,
    shown_end,
    shown_time,
    shown_validity,
    with_validity,
)
from reme_core.testing.store_values import NOW, memory

CHARS = {TimePrecision.YEAR: 4, TimePrecision.MONTH: 7, TimePrecision.DAY: 10}
DAYS = st.dates(min_value=date(1900, 1, 1), max_value=date(9997, 12, 31))


def told(since: object = None, until: object = None, **fields: Any) -> Memory:
    given = {"valid_from": since, "valid_to": until}
    plain = {name: value for name, value in memory("x").model_dump().items() if name not in {"valid_from", "valid_to"}}
    return Memory.model_validate({**plain, **{name: value for name, value in given.items() if value}, **fields})


@given(DAYS, st.sampled_from([*CHARS]))
def test_a_part_of_a_date_is_read_as_written_and_as_shown(day: date, precision: TimePrecision) -> None:
    text = day.isoformat()[: CHARS[precision]]
    read = parse_partial_time(text)
    assert read.precision is precision
    assert read.start <= datetime(day.year, day.month, day.day, tzinfo=UTC) < read.end
    assert parse_partial_time(shown_time(read.start, precision)) == read
    assert last_part(read.end, precision) == read.start
    assert parse_partial_time(f" {text}\n") == read


@pytest.mark.parametrize(
    ("text", "end"),
    [("2023", "2024-01-01"), ("2023-12", "2024-01-01"), ("2024-02", "2024-03-01"), ("2024-02-29", "2024-03-01")],
)
def test_a_part_of_a_date_lasts_until_the_next_one_begins(text: str, end: str) -> None:
    assert parse_partial_time(text).end == datetime.fromisoformat(end).replace(tzinfo=UTC)


@pytest.mark.parametrize("value", ["2023-01-05T00:00:00Z", "2023-01-05 00:00", "2023-01-05T02:00+02:00", NOW])
def test_a_time_with_a_clock_is_exact(value: object) -> None:
    assert parse_partial_time(value).precision is TimePrecision.EXACT
    assert parse_partial_time(value).end == parse_partial_time(value).start


@pytest.mark.parametrize(
    "value", ["23", "2023-13", "2023-00", "2023-02-30", "Mayor 2023", "32 May 2023", "1850", "", 5]
)
def test_what_is_no_part_of_a_date_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"not a time|the year|a time is|not int"):
        parse_partial_time(value)


@pytest.mark.parametrize(
    ("since", "until", "shown"),
    [
        (None, None, ""),
        ("2023-01", None, "since January 2023"),
        (None, "2030", "until 2030"),
        ("2023-06-12", "2023-06-12", "12 June 2023"),
        ("2023-06", "2023-06", "June 2023"),
        ("2015", "2019-03", "2015 to March 2019"),
        (None, "2019", "2019"),
        ("2023-06-12T09:30Z", "2023-06-12T17:00Z", "12 June 2023 09:30 to 12 June 2023 17:00"),
        ("2023-06-12T00:00Z", None, "since 12 June 2023"),
    ],
)
def test_a_memory_shows_its_own_time_as_it_was_told(since: str | None, until: str | None, shown: str) -> None:
    value = told(since, until)
    assert shown_validity(value) == shown
    assert shown_validity(memory_hit(ScoredMemory(memory=value, score=1.0), 1.0)) == shown
    assert with_validity("x", value) == (f"x ({shown})" if shown else "x")
    assert Memory.model_validate_json(value.model_dump_json()) == value
    assert Memory.model_validate(value.model_dump()) == value


def test_a_time_that_the_text_tells_is_not_told_again() -> None:
    value = told("2023-06-12", "2023-06-14")
    assert with_validity("stayed in Rome (12 June 2023 to 14 June 2023)", value).count("12 June 2023") == 1
    assert with_validity("came to Rome (12 June 2023)", value).endswith("(12 June 2023 to 14 June 2023)")


def test_when_it_was_said_is_no_time_that_was_told() -> None:
    assert shown_validity(told(observed_at="2026-01-02")) == ""
    assert shown_validity(told("2026-01-02", observed_at="2026-01-02")) == "since 2 January 2026"


def test_what_was_over_when_it_was_said_began_no_later_than_it_ended() -> None:
    over = told(None, "2019-03")
    assert (over.valid_from, over.valid_to) == (datetime(2019, 3, 1, tzinfo=UTC), datetime(2019, 4, 1, tzinfo=UTC))
    running = told(None, "2026-01", observed_at=NOW)
    assert (running.valid_from, running.valid_from_precision) == (NOW, TimePrecision.EXACT)
    moment = NOW - timedelta(days=3)
    assert told(None, moment).valid_from == moment


def test_a_memory_that_an_earlier_release_wrote_is_read_with_exact_times() -> None:
    written = json.loads(told("2023-01-01T00:00:00Z", "2023-02-01T00:00:00Z").model_dump_json())
    del written["valid_from_precision"], written["valid_to_precision"]
    read = Memory.model_validate_json(json.dumps(written))
    assert (read.valid_from_precision, read.valid_to_precision) == (TimePrecision.EXACT, TimePrecision.EXACT)
    assert (read.valid_to, shown_end(read)) == (datetime(2023, 2, 1, tzinfo=UTC), "1 February 2023")


@pytest.mark.parametrize(
    ("since", "until", "fields", "words"),
    [
        ("2023-05", "2023-04", {}, "lies before valid_from"),
        ("2023-05-02", "2023-05-01", {}, "lies before valid_from"),
        ("2023", "2022-12-31T23:59Z", {}, "lies before valid_from"),
        (None, "9998-12", {}, "the year 9999"),
        (None, "2023-13", {}, "memory.valid_to: not a time"),
        ("soon", None, {}, "memory.valid_from: not a time"),
        ("2023", None, {"valid_from_precision": "day"}, "is a year: leave one of the two out"),
        ("2023-05-01T00:00Z", None, {"valid_from_precision": "week"}, "valid_from_precision"),
    ],
)
def test_times_that_do_not_fit_together_are_refused(
    since: str | None, until: str | None, fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        told(since, until, **fields)
    assert words in describe(caught.value, "memory")


def test_a_time_with_a_precision_of_its_own_is_kept() -> None:
    value = told(datetime(2023, 1, 1, tzinfo=UTC), valid_from_precision="month")
    assert shown_validity(value) == "since January 2023"
    assert PartialTime(value.valid_from, value.valid_from_precision).end == datetime(2023, 2, 1, tzinfo=UTC)
