"""Searching memories, reading what was said, listing a range of time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reme_core.errors import BlockNotFoundError, ConfigurationError, InvalidInputError, MemoryNotFoundError
from reme_core.ports import AppendMessages, FindMessages
from reme_core.schema import Block, Source, bounded_query
from reme_core.stores import LocalStore
from reme_core.testing import HashedEmbedder
from reme_core.testing.store_values import ALICE, NOW, at
from reme_core.tools import (
    AddHistoryMemoryOp,
    DatetimeToolOp,
    ReadHistoryMemoryOp,
    RetrieveBlockOp,
    RetrieveMessageOp,
    ThinkToolOp,
    TimeAwareRetrieveOp,
    VectorRetrieveMemoryOp,
)
from tests.support.toolbox import EMMA, META, NOAH, SUMMARY, TOOL, Target, context_over, held, put, said

ANY = {"memory_type": None, "memory_target": None}


def ids(answer: str) -> list[str]:
    return [json.loads(line)["memory_id"] for line in answer.splitlines() if line.startswith('{"memory_id"')]


async def test_a_search_stays_with_the_target_of_the_call(store: LocalStore) -> None:
    context = context_over(store)
    answer = await VectorRetrieveMemoryOp()({"query_items": [{"query": "cello Berlin"}]}, context)
    assert ids(answer) == ["emma-1"]
    [line] = map(json.loads, answer.splitlines())
    assert line == {
        "memory_id": "emma-1",
        "about": "personal/Emma",
        "said": "2026-01-15 Thu 12:00",
        "text": "Emma lives in Berlin.",
    }
    [hit] = context.trace.hits
    assert (hit.memory_id, hit.layer, hit.block_ids) == ("emma-1", "memory", ("block-1",))
    with pytest.raises(InvalidInputError, match="memory_target"):
        await VectorRetrieveMemoryOp()({"query_items": [{"query": "cello", "memory_target": "Noah"}]}, context)


async def test_several_questions_are_embedded_at_once_and_show_a_memory_once(store: LocalStore) -> None:
    embedder = HashedEmbedder(32)
    await put(store, held("emma-2", "Emma sings."), embedder=embedder)
    context = context_over(store, embedder=embedder, **ANY)
    items = [{"query": "Emma sings"}, {"query": "sings"}, {"query": "cello"}]
    answer = await VectorRetrieveMemoryOp(top_k=1)({"query_items": items}, context)
    parts = answer.split("\n\n")
    assert ids(parts[0]) == ["emma-2"]
    assert parts[1].endswith("nothing but what is shown above")
    assert ids(parts[2]) == ["noah-1"] or "emma-2" in parts[0]
    assert embedder.calls[-1] == ("Emma sings", "sings", "cello")
    assert context.trace.usage.embedding_calls == 1
    pasted = "Emma sings " + "and so on " * 500
    await VectorRetrieveMemoryOp()({"query_items": [{"query": pasted}]}, context)
    assert embedder.calls[-1] == (bounded_query(pasted),)


async def test_a_model_that_may_choose_a_target_is_forgiven_its_spelling(store: LocalStore) -> None:
    tool = VectorRetrieveMemoryOp(add_memory_type_target=True, enable_multiple=False, enable_thinking_params=True)
    wanted = {"thinking": "so", "query": "plays lives", "memory_type": "personal", "memory_target": " noah "}
    assert ids(await tool(wanted, context_over(store, **ANY))) == ["noah-1"]
    assert ids(await tool({**wanted, "memory_type": None}, context_over(store, **ANY))) == ["noah-1"]
    for elsewhere in ({"memory_type": "tool"}, {"memory_target": "Liam"}):
        assert await tool({**wanted, **elsewhere}, context_over(store, **ANY)) == "no memories found"
    assert await tool(wanted, context_over(store)) == "no memories found"
    only = context_over(store, **ANY, targets=frozenset({EMMA}))
    assert await tool(wanted, only) == "no memories found"
    assert ids(await tool({"thinking": "so", "query": "plays lives"}, only)) == ["emma-1"]
    for wrong in ("meta", "summary", "history", "Personal"):
        with pytest.raises(InvalidInputError, match="memory_type"):
            await tool({**wanted, "memory_type": wrong}, only)


async def test_summaries_are_found_where_they_are_enabled_and_entries_never(store: LocalStore) -> None:
    await put(
        store,
        held("sum-1", "They talked about Berlin.", Target(SUMMARY, "self")),
        held("meta-1", "personal memories about Berlin", Target(META, "personal/Berlin")),
        held("tool-1", "Berlin needs a time zone.", Target(TOOL, "weather")),
        held("old-1", "Emma was born in Berlin.", superseded_by="emma-1"),
        held("trip-1", "Emma took a trip to Berlin.", valid_from=at(-60), valid_to=at(-30)),
    )
    question = {"query": "Berlin"}
    plain, wide = (
        VectorRetrieveMemoryOp(enable_multiple=False),
        VectorRetrieveMemoryOp(enable_summary_memory=True, enable_multiple=False),
    )
    everything = context_over(store, **ANY)
    assert set(ids(await plain(question, everything))) == {"emma-1", "trip-1", "tool-1"}
    assert set(ids(await wide(question, everything))) == {"emma-1", "trip-1", "tool-1", "sum-1"}
    some = context_over(store, **ANY, targets=frozenset({NOAH, Target(TOOL, "weather")}))
    assert set(ids(await plain(question, some))) == {"tool-1"}
    assert set(ids(await wide(question, some))) == {"tool-1", "sum-1"}
    assert set(ids(await wide(question, context_over(store)))) == {"emma-1", "trip-1", "sum-1"}
    assert await plain({"query": "nothing"}, context_over(store, targets=frozenset())) == "no memories found"


async def test_dates_that_differ_from_when_it_was_said_are_shown(store: LocalStore) -> None:
    dated = {"when_to_use": "homes", "valid_from": "2025-11", "valid_to": "2030"}
    await put(store, held("emma-2", "Emma lives in Lisbon.\nReally.", **dated))
    answer = await VectorRetrieveMemoryOp(enable_multiple=False)({"query": "Lisbon"}, context_over(store))
    line = json.loads(answer.splitlines()[0])
    assert (line["valid_from"], line["valid_to"], line["when_to_use"]) == ("November 2025", "2030", "homes")
    assert line["text"] == "Emma lives in Lisbon.\nReally."


@pytest.mark.parametrize("query", ["", " \n", None, 5, "x" * 9000])
async def test_a_question_that_is_none_is_refused(store: LocalStore, query: object) -> None:
    with pytest.raises(InvalidInputError, match="query"):
        await VectorRetrieveMemoryOp(enable_multiple=False)({"query": query}, context_over(store))


def test_a_search_for_nothing_at_all_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigurationError, match="top_k"):
        VectorRetrieveMemoryOp(top_k=0)


@pytest.mark.parametrize("memory_id", ["emma-1", "block-1"])
async def test_history_is_read_by_a_memory_or_its_block(store: LocalStore, memory_id: str) -> None:
    context = context_over(store)
    answer = await ReadHistoryMemoryOp()({"memory_ids": [memory_id, memory_id]}, context)
    assert [json.loads(line)["text"] for line in answer.splitlines()] == ["I drink tea now.", "Bye."]
    assert [hit.message_ids for hit in context.trace.hits] == [("message-1",), ("message-2",)]
    assert {hit.layer for hit in context.trace.hits} == {"message"}
    single = ReadHistoryMemoryOp(enable_multiple=False)
    assert await single({"memory_id": memory_id}, context) == answer
    assert len(context.trace.hits) == 2


@pytest.mark.parametrize("memory_id", ["noah-1", "nothing", "message-1"])
async def test_history_of_what_the_call_is_not_about_is_not_there(store: LocalStore, memory_id: str) -> None:
    with pytest.raises(MemoryNotFoundError):
        await ReadHistoryMemoryOp()({"memory_ids": ["emma-1", memory_id]}, context_over(store))


async def test_sources_that_are_not_kept_are_no_error(store: LocalStore) -> None:
    gone = Source(block_id="gone", message_ids=("gone", "message-2"))
    await put(store, held("emma-2", "Emma said bye.", sources=(gone,)), held("emma-3", "Emma exists."))
    tool, context = ReadHistoryMemoryOp(enable_multiple=False), context_over(store)
    assert '"Bye."' in await tool({"memory_id": "emma-2"}, context)
    assert "not kept" in await tool({"memory_id": "emma-3"}, context)


async def test_a_long_history_says_what_it_leaves_out(store: LocalStore) -> None:
    messages = [said(f"{place} " + "long " * 2000, message_id=f"m-{place}", minute=place) for place in range(20)]
    block = Block(
        block_id="long",
        session_id="s",
        message_ids=tuple(m.message_id for m in messages),
        started_at=NOW,
        ended_at=at(20),
    )
    await store.append(ALICE, AppendMessages(session_id="s", messages=messages, slicer=lambda _: [block]))
    context = context_over(store)
    answer = await ReadHistoryMemoryOp()({"memory_ids": ["long"]}, context)
    assert len(answer) < 30_000
    assert "characters left out" in answer
    last = answer.splitlines()[-1]
    assert f"[{20 - len(context.trace.hits)} more messages" in last
    assert "2026-01-15 Thu 12:19" in last
    assert "retrieve_message" not in last  # whoever reads this may not have it


async def test_added_history_is_one_block_in_a_session_of_its_own(store: LocalStore) -> None:
    messages = [
        {"role": "user", "content": "I moved.", "name": "Emma", "created_at": "2023-05-08 13:56:00"},
        {"role": "assistant", "content": "Where to?"},
    ]
    answer = json.loads(
        await AddHistoryMemoryOp(enable_thinking_params=True)(
            {"thinking": "so", "messages": messages}, context_over(store, embedder=HashedEmbedder(8))
        )
    )
    assert answer["messages"] == 2
    [block] = await store.get_blocks(ALICE, [answer["memory_id"]])
    assert block.session_id != "session-1"
    page = await store.find_messages(ALICE, FindMessages(session_id=block.session_id))
    assert [(m.message.role, m.message.name, m.message.text) for m in page.messages] == [
        ("user", "Emma", "I moved."),
        ("assistant", None, "Where to?"),
    ]
    assert page.messages[1].message.created_at == NOW
    assert len(await store.pending_texts(ALICE, 10)) == 2
    assert "I moved." in await ReadHistoryMemoryOp()({"memory_ids": [block.block_id]}, context_over(store))


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": " "},
        {"role": "boss", "content": "x"},
        {"role": "user", "content": "x", "user_id": "bob"},
        {"role": "user", "content": "x", "created_at": "2099-01-01"},
        {"role": "user", "content": "x", "created_at": "soon"},
        {"role": "user", "content": "x" * (9 << 20)},
        "text",
    ],
)
async def test_messages_that_are_none_are_not_kept(store: LocalStore, message: object) -> None:
    tool = AddHistoryMemoryOp()
    with pytest.raises(InvalidInputError):
        await tool({"messages": [{"role": "user", "content": "fine"}, message]}, context_over(store))
    assert len((await store.find_messages(ALICE, FindMessages())).messages) == 2


async def test_a_block_is_read_with_its_entry_in_the_index(store: LocalStore) -> None:
    answer = await RetrieveBlockOp()({"block_id": "block-1"}, context_over(store))
    head, *lines = [json.loads(line) for line in answer.splitlines()]
    assert head == {
        "block_id": "block-1",
        "from": "2026-01-15 Thu 11:00",
        "to": "2026-01-15 Thu 11:01",
        "summary": "Emma drinks tea.",
    }
    assert [line["by"] for line in lines] == ["Emma", "Emma"]
    with pytest.raises(BlockNotFoundError):
        await RetrieveBlockOp()({"block_id": "emma-1"}, context_over(store))


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        ({}, ["I drink tea now.", "Bye."]),
        ({"limit": 1}, ["Bye."]),
        ({"key_word": "drinking"}, ["I drink tea now."]),
        ({"key_word": "coffee"}, []),
        ({"start_time": "2026-01-15T11:01:00Z"}, ["Bye."]),
        ({"end_time": "2026-01-15 11:01:00"}, ["I drink tea now."]),
        ({"start_time": "2026-01-15", "end_time": "2026-01-15"}, ["I drink tea now.", "Bye."]),
        ({"start_time": "2026-01-16"}, []),
    ],
)
async def test_messages_are_found_by_word_and_time(store: LocalStore, arguments: Any, texts: list[str]) -> None:
    answer = await RetrieveMessageOp()(arguments, context_over(store))
    assert [json.loads(line)["text"] for line in answer.splitlines() if line.startswith("{")] == texts
    assert texts or answer == "no messages found"
    assert ("earlier messages" in answer) == ("limit" in arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"key_word": "the"},
        {"key_word": " "},
        {"start_time": "2026-01-16", "end_time": "2026-01-15"},
        {"start_time": "yesterday"},
        {"limit": 0},
        {"limit": 100_000},
    ],
)
async def test_a_query_for_messages_that_means_nothing_is_refused(store: LocalStore, arguments: Any) -> None:
    with pytest.raises(InvalidInputError):
        await RetrieveMessageOp()(arguments, context_over(store))


async def test_a_range_of_time_shows_blocks_and_the_memories_of_the_call(store: LocalStore) -> None:
    context = context_over(store)
    answer = await TimeAwareRetrieveOp()({"start_time": "2026-01-15", "end_time": "2026-01-15"}, context)
    lines = [json.loads(line) for line in answer.splitlines()]
    assert [line.get("block_id") or line["memory_id"] for line in lines] == ["block-1", "emma-1"]
    assert [hit.layer for hit in context.trace.hits] == ["summary", "memory"]
    empty = {"start_time": "2025-01-15", "end_time": "2025-01-16"}
    assert "nothing was said" in await TimeAwareRetrieveOp()(empty, context)
    for place in range(60):
        await put(store, held(f"many-{place}", f"Emma has {place} cats."))
    answer = await TimeAwareRetrieveOp()({"start_time": "2026-01-15", "end_time": "2026-01-15"}, context)
    assert answer.endswith("[more memories are not shown: ask for a shorter range]")


async def test_a_range_of_time_shows_what_held_in_it(store: LocalStore) -> None:
    await put(store, held("moved", "Emma moves to Rome.").model_copy(update={"valid_from": at(30 * 24 * 60)}))
    answer = await TimeAwareRetrieveOp()({"start_time": "2026-02-14", "end_time": "2026-02-14"}, context_over(store))
    assert "Emma moves to Rome." in answer


async def test_a_question_about_a_time_finds_the_memories_of_it(store: LocalStore) -> None:
    context = context_over(store)
    for query in ("What happened today?", "今天发生了什么", "what do you know about 15 January 2026?"):
        answer = await VectorRetrieveMemoryOp()({"query_items": [{"query": query}]}, context)
        assert "emma-1" in answer
    answer = await VectorRetrieveMemoryOp()({"query_items": [{"query": "What happened last month?"}]}, context)
    assert answer == "no memories found"


async def test_the_time_is_that_of_the_clock(store: LocalStore) -> None:
    assert await DatetimeToolOp()({}, context_over(store)) == "2026-01-15 Thu 12:00 UTC (2026-01-15T12:00:00Z)"


async def test_thinking_is_noted_and_repeated_only_on_demand(store: LocalStore) -> None:
    thought = {"reflection": "Berlin is missing."}
    assert await ThinkToolOp()(thought, context_over(store)) == "noted, go on"
    assert await ThinkToolOp(add_output_reflection=True)(thought, context_over(store)) == "Berlin is missing."
