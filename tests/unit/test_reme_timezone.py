"""Days are reckoned in the time zone of the user."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.errors import InvalidInputError
from reme_core.testing import ScriptedChatModel
from tests.unit.runtime.distilling import fact, facts


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
