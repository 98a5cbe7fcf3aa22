"""Days are reckoned in the time zone of the user."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.errors import InvalidInputError
from reme_core.testing import FixedClock, ScriptedChatModel
from tests.unit.remember.distilling import choose, fact, facts
from tests.unit.remember.distilling import shown as shown_lines


def said(text: str, at: str) -> dict[str, Any]:
    return {"role": "user", "name": "Alice", "content": text, "created_at": at}


def times_of(model: ScriptedChatModel) -> list[str]:
    lines = model.requests[-1].messages[1].text.splitlines()
    return [json.loads(line)["at"] for line in lines[lines.index("<conversation>") + 1 : -1]]


LATE = said("I launched my shop today", "2023-05-08T22:30:00Z")


@pytest.mark.parametrize(
    ("of_memory", "of_call", "shown"),
    [
        (None, None, "2023-05-08 Mon 22:30"),
        ("Europe/Berlin", None, "2023-05-09 Tue 00:30+02:00"),
        ("Europe/Berlin", "America/New_York", "2023-05-08 Mon 18:30-04:00"),
        (None, "Asia/Kathmandu", "2023-05-09 Tue 04:15+05:45"),
        ("Asia/Tokyo", "UTC", "2023-05-08 Mon 22:30"),
    ],
)
async def test_the_model_is_shown_the_users_time_with_its_offset(
    tmp_path: Path, of_memory: str | None, of_call: str | None, shown: str
) -> None:
    options = {} if of_memory is None else {"timezone": of_memory}
    with ScriptedChatModel([facts()]) as model:
        async with ReMe("space", tmp_path, llm=model, embedding=None, **options) as memory:
            await memory.summary([LATE], user_id="u", timezone=of_call)
    assert times_of(model) == [shown]


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("2023-05-09", datetime(2023, 5, 9, tzinfo=UTC)),
        ("2023-05", datetime(2023, 5, 1, tzinfo=UTC)),
        ("2023-05-09 Tue 00:30", datetime(2023, 5, 8, 22, 30, tzinfo=UTC)),
        ("2023-05-09 Tue 00:30+02:00", datetime(2023, 5, 8, 22, 30, tzinfo=UTC)),
        ("2023-05-08T22:30:00Z", datetime(2023, 5, 8, 22, 30, tzinfo=UTC)),
    ],
)
async def test_days_are_those_of_the_users_calendar_and_times_of_day_are_theirs(
    tmp_path: Path, written: str, stored: datetime
) -> None:
    with ScriptedChatModel([facts(fact("Alice launched her shop (9 May 2023)", valid_from=written))]) as model:
        async with ReMe("space", tmp_path, llm=model, embedding=None, timezone="Europe/Berlin") as memory:
            [kept] = (await memory.summary([LATE], user_id="u")).memories
    assert kept.valid_from == stored


@pytest.mark.parametrize(
    ("written", "began", "ends"),
    [
        ("2027", (datetime(2023, 5, 8, 22, 30, tzinfo=UTC), "exact"), (datetime(2028, 1, 1, tzinfo=UTC), "year")),
        ("2027-05", (datetime(2023, 5, 8, 22, 30, tzinfo=UTC), "exact"), (datetime(2027, 6, 1, tzinfo=UTC), "month")),
        ("2022-05", (datetime(2022, 5, 1, tzinfo=UTC), "month"), (datetime(2022, 6, 1, tzinfo=UTC), "month")),
    ],
)
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Los_Angeles"])
async def test_an_end_past_or_ahead_is_kept_as_exact_as_it_was_told_and_hides_nothing(
    tmp_path: Path, zone: str, written: str, began: tuple[datetime, str], ends: tuple[datetime, str]
) -> None:
    with ScriptedChatModel([facts(fact("Alice rents a shop", valid_to=written))]) as model:
        async with ReMe("space", tmp_path, llm=model, embedding=None, timezone=zone) as memory:
            await memory.summary([LATE], user_id="u")
            [kept] = (await memory.retrieve("Who rents a shop?", user_id="u", layers=["memory"])).results
    assert (kept.valid_from, kept.valid_from_precision) == began
    assert (kept.valid_to, kept.valid_to_precision) == ends


@pytest.mark.parametrize(
    ("zone", "now", "current"),
    [
        # 1:00 on 9 May
        ("Asia/Tokyo", "2023-05-08T16:00:00Z", ["Alice lives in Kyoto"]),
        ("UTC", "2023-05-08T16:00:00Z", ["Alice lives in Kyoto", "Alice lives in Oslo"]),
        # 18:00 on 8 May
        ("America/Los_Angeles", "2023-05-09T01:00:00Z", ["Alice lives in Kyoto", "Alice lives in Oslo"]),
    ],
)
async def test_a_change_of_today_replaces_and_one_of_tomorrow_does_not_yet(
    tmp_path: Path, zone: str, now: str, current: list[str]
) -> None:
    moved = fact("Alice lives in Kyoto", valid_from="2023-05-09")
    steps = [facts(fact("Alice lives in Oslo")), facts(moved), choose(("Kyoto", "supersede", "Oslo"))]
    clock = FixedClock(datetime.fromisoformat(now))
    with ScriptedChatModel(steps) as model:
        async with ReMe("space", tmp_path, llm=model, embedding=None, timezone=zone, clock=clock) as memory:
            await memory.summary([said("I live in Oslo", "2023-05-01T12:00:00Z")], user_id="u")
            await memory.summary([said("I live in Kyoto as of 9 May", now)], user_id="u")
            kept = (await memory.list_memories(user_id="u")).memories
    assert sorted(item.content for item in kept) == current


@pytest.mark.parametrize(
    ("zone", "bought", "since"),
    [("UTC", "7 May 2023", "9 May 2023"), ("Asia/Tokyo", "8 May 2023", "10 May 2023")],
)
async def test_memories_and_facts_are_shown_with_the_users_days_and_months(
    tmp_path: Path, zone: str, bought: str, since: str
) -> None:
    boat = fact("Alice has a boat", valid_from="2023-05-07T22:30:00Z")
    more = [
        fact("Alice sold a boat in the morning", valid_from="2023-05-09T22:30:00Z"),
        fact("Alice built a boat", valid_from="2023-05", valid_to="2023-05"),
    ]
    with ScriptedChatModel([facts(boat), facts(*more), choose()]) as model:
        async with ReMe("space", tmp_path, llm=model, embedding=None, timezone=zone) as memory:
            await memory.summary([LATE], user_id="u")
            await memory.summary([said("I sold it", "2023-05-10T01:00:00Z")], user_id="u")
    assert [line["since"] for line in shown_lines(model.requests[-1], "memories")] == [bought]
    sold, built = shown_lines(model.requests[-1], "facts")
    assert (sold["since"], built["since"], built["until"]) == (since, "May 2023", "May 2023")


async def test_of_an_end_before_the_beginning_in_the_users_zone_the_end_is_kept(tmp_path: Path) -> None:
    answer = facts(fact("Alice ran a fair", valid_from="2023-05-08T20:00", valid_to="2023-05-08"))
    with ScriptedChatModel([answer]) as model:
        async with ReMe("space", tmp_path, llm=model, embedding=None, timezone="America/Los_Angeles") as memory:
            [kept] = (await memory.summary([LATE], user_id="u")).memories
    assert (kept.valid_to, kept.valid_to_precision) == (datetime(2023, 5, 9, tzinfo=UTC), "day")


async def test_a_time_that_the_users_zone_moves_out_of_all_years_costs_the_time_alone(tmp_path: Path) -> None:
    answer = facts(fact("Alice skis", valid_from="1900-01-01T00:30"))
    with ScriptedChatModel([answer, answer]) as model:
        async with ReMe("space", tmp_path, llm=model, embedding=None, timezone="Asia/Tokyo") as memory:
            [kept] = (await memory.summary([LATE], user_id="u")).memories
    assert (kept.content, kept.valid_from) == ("Alice skis", kept.observed_at)


@pytest.mark.parametrize("name", ["Europe/Atlantis", "", "../../etc/passwd", "Europe", "utc+2", 2, None])
async def test_a_time_zone_that_there_is_not_is_named(tmp_path: Path, name: Any) -> None:
    with pytest.raises(InvalidInputError, match="timezone"):
        ReMe("space", tmp_path, llm=None, embedding=None, timezone=name)
    if name is None:
        return
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        with pytest.raises(InvalidInputError, match="timezone"):
            await memory.summary([LATE], user_id="u", timezone=name)
        assert (await memory.find_messages(user_id="u")).messages == ()
