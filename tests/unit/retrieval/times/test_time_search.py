"""Questions about a time: they list what lies there, in every language read, with an embedder and without."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reme_core import Hit, ReMe
from reme_core.errors import InvalidInputError, ModelUnavailableError
from reme_core.ports import Matrix, RetrieveRequest
from reme_core.retrieval.time_question import asks_by_time
from reme_core.testing import FixedClock, HashedEmbedder

NOW = datetime(2024, 5, 22, 12, tzinfo=UTC)  # a Wednesday
CAR = "I bought a red car from the dealer in Lyon."
GARAGE = "This week I cleaned the whole garage together with both children."
BROKEN = "My car broke down on the way to work and nobody knows what happened to it."
CLIMBING = "We went climbing near the lake."
SAID = (
    ("Alice", BROKEN, "2024-03-20 10:00:00"),
    ("Alice", CLIMBING, "2024-05-05 10:00:00"),
    ("Alice", CAR, "2024-05-14 10:00:00"),
    ("Bob", "Which one?", "2024-05-14 10:01:00"),
    ("Alice", "Fine.", "2024-05-15 10:00:00"),
    ("Alice", GARAGE, "2024-05-20 10:00:00"),
)
LAST_WEEK = [CAR, "Fine.", "Which one?"]


class FailingEmbedder:
    """An embedder whose model can't be reached."""

    dimension = 32

    async def embed(self, texts: Any) -> Matrix:
        raise ModelUnavailableError("down")


@pytest.fixture(params=["words", "vectors"])
async def reme(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ReMe]:
    embedder = HashedEmbedder(32) if request.param == "vectors" else None
    memory = ReMe("space", tmp_path, llm=None, embedding=embedder, clock=FixedClock(NOW))
    await memory.summary(messages(*SAID), user_id="alice", session_id="talk")
    yield memory
    await memory.close()


def messages(*said: tuple[str, str, str]) -> list[dict[str, str]]:
    return [{"role": "user", "name": name, "content": text, "created_at": time} for name, text, time in said]


async def found(reme: ReMe, query: str | None = None, **fields: Any) -> list[str]:
    return [hit.memory for hit in await hits(reme, query, **fields)]


async def hits(reme: ReMe, query: str | None = None, **fields: Any) -> tuple[Hit, ...]:
    result = await reme.retrieve(query, **{"user_id": "alice", **fields})
    assert all(0.0 < hit.score <= 1.0 for hit in result.results)
    assert [hit.score for hit in result.results] == sorted((hit.score for hit in result.results), reverse=True)
    return result.results


@pytest.mark.parametrize(
    "query",
    [
        "what happened last week",
        "What did we talk about last week?",
        "上周发生了什么",
        "先週何がありましたか？",
        "지난주에 무슨 일이 있었어?",
    ],
)
async def test_last_week_is_listed_the_most_telling_first_and_this_week_behind_it(reme: ReMe, query: str) -> None:
    assert await found(reme, query) == [*LAST_WEEK, GARAGE]


@pytest.mark.parametrize("query", ["What did I do on 5 May 2024?", "我2024年5月5日做了什么", "2024-05-05", "May 5"])
async def test_a_named_day_lists_what_was_said_on_it(reme: ReMe, query: str) -> None:
    assert await found(reme, query) == [CLIMBING]


async def test_a_question_about_a_time_in_which_nothing_was_said_finds_nothing(reme: ReMe) -> None:
    assert await found(reme, "what happened in July 2023?") == []
    assert await found(reme, "what happened last week?", user_id="bob") == []


async def test_words_that_every_such_question_has_decide_nothing(reme: ReMe) -> None:
    assert BROKEN not in await found(reme, "what happened last week")
    assert (await found(reme, "what happened to the car"))[0] == BROKEN


async def test_a_start_or_an_end_alone_lists_what_lies_between(reme: ReMe) -> None:
    assert await found(reme, "", start_time="2024-05-14", end_time="2024-05-20") == LAST_WEEK
    assert await found(reme, start_time="2024-05-20") == [GARAGE]
    assert await found(reme, None, end_time="2024-05-01") == [BROKEN]
    assert await found(reme, "what happened?", end_time="2024-05-01") == [BROKEN]
    assert await found(reme, " \0", start_time="2024-05-14", end_time="2024-05-20", limit=1) == [CAR]


async def test_words_beside_a_start_still_have_to_be_there(reme: ReMe) -> None:
    assert await found(reme, "dealer", start_time="2024-05-20", layers=["memory"]) == []
    assert (await found(reme, "garage", start_time="2024-05-14"))[0] == GARAGE


@pytest.mark.parametrize("query", ["", None, " \n"])
async def test_without_words_and_without_a_time_the_error_says_what_to_do(reme: ReMe, query: str | None) -> None:
    with pytest.raises(InvalidInputError, match=r"query: .*words.*start_time or end_time.*list"):
        await reme.retrieve(query, user_id="alice")
    with pytest.raises(InvalidInputError, match="query"):
        await reme.retrieve(query, user_id="alice", as_of="2024-05-20")


async def test_words_lead_where_there_are_some_and_the_time_comes_first_among_them(reme: ReMe) -> None:
    listed = await found(reme, "what did Alice say about the car last week")
    assert listed[0] == CAR
    assert listed.index(CAR) < listed.index(BROKEN)


async def test_a_session_and_a_budget_hold_for_a_listing(reme: ReMe) -> None:
    await reme.summary(messages(("Alice", "Elsewhere.", "2024-05-16 10:00:00")), user_id="alice", session_id="other")
    assert await found(reme, "what happened last week", session_id="other") == ["Elsewhere."]
    assert await found(reme, "what happened last week", token_budget=12) == [CAR]


async def test_people_come_before_tools(reme: ReMe) -> None:
    call = {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [{"id": "c", "function": {"name": "log", "arguments": "{}"}}],
        "created_at": "2024-04-10 10:00:00",
    }
    printed = {
        "role": "tool",
        "tool_call_id": "c",
        "content": "line after line of a log that a tool printed",
        "created_at": "2024-04-10 10:00:01",
    }
    await reme.summary([call, printed], user_id="alice", session_id="tools")
    listed = await found(reme, "what happened in April 2024")
    assert listed == ["I look.\nlog({})", printed["content"]]


async def test_memories_of_the_time_lead_by_when_they_were_said_or_held(reme: ReMe) -> None:
    for content, fields in (
        ("Alice drinks coffee.", {"observed_at": "2024-05-16"}),
        ("Alice has had a sister for a long time.", {"observed_at": "2024-01-01", "valid_from": "2019-01-01"}),
        ("Alice moved to Lyon.", {"observed_at": "2024-05-21", "valid_from": "2024-05-17"}),
    ):
        await reme.add_memory(content, user_id="alice", **fields)
    listed = await hits(reme, "what happened last week")
    assert [hit.memory for hit in listed[:2]] == ["Alice moved to Lyon.", "Alice drinks coffee."]
    assert [hit.layer for hit in listed[:3]] == ["memory", "memory", "message"]
    both = await found(reme, start_time="2024-05-16", end_time="2024-05-18")
    assert both == ["Alice moved to Lyon.", "Alice drinks coffee."]
    assert await found(reme, start_time="2024-05-16", memory_target="Bob") == []
    assert "Alice has had a sister for a long time." not in await found(reme, start_time="2024-02-01")


async def test_a_memory_with_the_words_and_of_the_time_comes_before_one_of_another_time(reme: ReMe) -> None:
    for content, day in (("Alice sold her old bicycle.", "2024-05-16"), ("Alice likes her bicycle.", "2023-05-16")):
        await reme.add_memory(content, user_id="alice", observed_at=day)
    listed = await found(reme, "what did Alice do with her bicycle last week", layers=["memory"])
    assert listed == ["Alice sold her old bicycle.", "Alice likes her bicycle."]
    listed = await found(reme, "what did Alice do with her bicycle in May 2023", layers=["memory"])
    assert listed == ["Alice likes her bicycle.", "Alice sold her old bicycle."]


async def test_many_memories_of_a_time_are_compared_whatever_page_they_stand_on(reme: ReMe) -> None:
    drafts: list[dict[str, object]] = [
        {"content": f"Fact {number}.", "observed_at": "2024-05-16 10:00:00"} for number in range(600)
    ]
    telling = "Alice was asked by four firms at once to build the bridge over the river."
    await reme.add_memories([{"content": telling, "observed_at": "2024-05-16"}, *drafts], user_id="alice")
    assert (await found(reme, "what happened last week", limit=1)) == [telling]


async def test_the_shared_scope_is_listed_where_asked(reme: ReMe) -> None:
    await reme.add_memory("The office moved.", shared=True, observed_at="2024-05-16")
    assert "The office moved." not in await found(reme, "what happened last week")
    assert (await found(reme, "what happened last week", include_shared=True))[0] == "The office moved."


async def test_blocks_of_a_time_are_listed_by_their_summaries(reme: ReMe) -> None:
    listed = await hits(reme, start_time="2024-03-20", end_time="2024-03-21", layers=["summary"])
    assert [hit.layer for hit in listed] == ["summary"]


async def test_a_listing_asks_no_model(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=FailingEmbedder(), embed_messages=False) as memory:
        await memory.summary(messages(*SAID), user_id="alice", session_id="talk")
        result = await memory.retrieve("what happened on 5 May 2024?", user_id="alice")
    assert [hit.memory for hit in result.results] == [CLIMBING]
    assert result.usage.embedding_calls == 0


QDRANT = {"backend": "qdrant", "location": ":memory:"}


async def test_memories_in_qdrant_are_listed_alike(tmp_path: Path) -> None:
    embedder = HashedEmbedder(32)
    async with ReMe(
        "space", tmp_path, llm=None, embedding=embedder, vector_store=QDRANT, clock=FixedClock(NOW)
    ) as memory:
        for content, day in (("Alice drinks coffee.", "2024-05-16"), ("Alice drinks tea.", "2024-04-16")):
            await memory.add_memory(content, user_id="alice", observed_at=day)
        assert await found(memory, "what happened last week") == ["Alice drinks coffee."]
        assert await found(memory, end_time="2024-05-01") == ["Alice drinks tea."]


@pytest.mark.parametrize(
    ("query", "fields", "lists"),
    [
        ("what happened", {}, False),
        ("what happened", {"said_from": NOW}, True),
        ("", {"said_to": NOW}, True),
        ("the car", {"said_to": NOW}, False),
        ("the car last week", {}, False),
        ("yesterday", {}, True),
    ],
)
def test_a_time_and_nothing_else_makes_a_listing(query: str, fields: dict[str, Any], lists: bool) -> None:
    assert asks_by_time(RetrieveRequest(query=query, now=NOW, **fields)) == lists


def test_the_blocking_face_lists_as_well(tmp_path: Path) -> None:
    with ReMe.sync("space", tmp_path, llm=None, embedding=None, clock=FixedClock(NOW)) as memory:
        memory.summary(messages(*SAID), user_id="alice", session_id="talk")
        listed = [hit.memory for hit in memory.retrieve(user_id="alice", start_time="2024-05-20").results]
    assert listed == [GARAGE]
