"""From the recorded calls of a tool to the memory that keeps its guideline."""

from __future__ import annotations

from pathlib import Path

import pytest

from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    InvalidInputError,
    ModelOutputError,
    ModelUnavailableError,
)
from reme_core.ports import AppendMessages, EventQuery, MemorySearch, WriteBatch
from reme_core.schema import Memory, MemoryType, ToolCallResult
from reme_core.steps.flow import FlowContext
from reme_core.stores import LocalStore
from reme_core.testing import HashedEmbedder, ScriptedChatModel
from reme_core.toolstats.guideline_flow import GuidelineDraft, guideline_batch, guideline_flow
from reme_core.toolstats.record_calls import read_tool_calls
from reme_core.toolstats.tool_guideline import MAX_REQUEST_CHARS, find_guideline
from tests.unit.toolstats.calling import (
    NOW,
    OTHER,
    SCOPE,
    answer,
    called,
    calls_tool,
    context_of,
    guideline,
    note,
    opened,
    put,
    request_chars,
    results,
    shown_lines,
)

TEXT = "Core function: Searches the web."


def draft(text: str = TEXT, *, calls: int = 3, before: Memory | None = None) -> GuidelineDraft:
    return GuidelineDraft(tool_name="search", text=text, calls=calls, before=before)


async def kept(store: LocalStore, batch: WriteBatch) -> Memory:
    return (await store.put(SCOPE, batch))[-1]


async def write_once(store: LocalStore, said: str, **options: object) -> tuple[Memory, ScriptedChatModel]:
    with ScriptedChatModel([said]) as model:
        context = context_of(store, model, **options)
        return await kept(store, await guideline_batch(await guideline_flow("search", context), context)), model


async def test_calls_become_one_memory_that_is_found_by_name_words_and_vector(tmp_path: Path) -> None:
    embedder = HashedEmbedder()
    async with opened(tmp_path) as store:
        await store.add_tool_calls(SCOPE, [called(1), called(2, error="HTTP 404"), called(3, tool="fetch")])
        await store.add_tool_calls(OTHER, [called(4, output="of another")])
        memory, model = await write_once(store, answer(), embedder=embedder)
        assert (memory.memory_type, memory.memory_target) == (MemoryType.TOOL, "search")
        assert (memory.content, memory.when_to_use, memory.author) == (TEXT, "search", "tool_summary")
        assert memory.metadata == {"kind": "guideline", "calls": 2}
        assert memory.created_at == memory.updated_at == NOW
        assert await find_guideline(store, SCOPE, "search") == memory
        vector = (await embedder.embed([memory.index_text]))[0]
        [found] = await store.search(SCOPE, MemorySearch(vector=vector))
        assert found.score == pytest.approx(1.0, abs=1e-5)
        [event] = await store.events(SCOPE, EventQuery(run_id="run"))
        assert event.actor == "tool_summary"
    assert [line["output"] for line in shown_lines(model.requests[0])] == ["HTTP 404", "found"]


async def test_a_later_guideline_takes_the_place_of_the_first_in_the_same_memory(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.add_tool_calls(SCOPE, [called(1)])
        first, _ = await write_once(store, answer())
        await store.add_tool_calls(SCOPE, [called(2), called(3)])
        second, model = await write_once(store, answer("Searches pages."))
        assert second.memory_id == first.memory_id
        assert (second.revision, second.content) == (2, "Core function: Searches pages.")
        assert second.metadata == {"kind": "guideline", "calls": 3}
        assert second.created_at == first.created_at
    assert shown_lines(model.requests[0], "guideline") == [{"text": TEXT}]


async def test_a_guideline_links_to_the_messages_of_its_calls_as_far_as_they_are_held(tmp_path: Path) -> None:
    messages = [calls_tool("m1", ("a", "search")), results("m2", ("a", "found"))]
    elsewhere = [calls_tool("m3", ("b", "search")), results("m4", ("b", "found"))]
    async with opened(tmp_path) as store:
        await store.append(SCOPE, AppendMessages(session_id="s", messages=messages))
        await store.append(OTHER, AppendMessages(session_id="s", messages=elsewhere))
        await store.add_tool_calls(SCOPE, read_tool_calls([*messages, *elsewhere]).calls)
        memory, _ = await write_once(store, answer())
        assert [(source.block_id, set(source.message_ids)) for source in memory.sources] == [(None, {"m1", "m2"})]


async def test_what_others_know_about_a_guideline_in_its_metadata_stays(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        [before] = await put(
            store, guideline("old", 1).model_copy(update={"metadata": {"kind": "guideline", "by": "me"}})
        )
        memory = await kept(store, await guideline_batch(draft(before=before), context_of(store)))
        assert memory.metadata == {"kind": "guideline", "by": "me", "calls": 3}


async def test_a_note_that_says_exactly_the_same_becomes_the_guideline(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        [same] = await put(store, note("core function: searches the WEB"))
        memory = await kept(store, await guideline_batch(draft(), context_of(store)))
        assert memory.memory_id == same.memory_id
        assert await find_guideline(store, SCOPE, "search") == memory
        assert memory.metadata["calls"] == 3


async def test_a_note_that_says_what_the_new_guideline_says_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        same, before = await put(store, note(TEXT), guideline("old", 1))
        memory = await kept(store, await guideline_batch(draft(before=before), context_of(store)))
        assert memory.memory_id == same.memory_id
        assert await find_guideline(store, SCOPE, "search") == memory
        [old] = await store.get(SCOPE, [before.memory_id])
        assert (old.content, old.is_current, old.superseded_by) == ("old", False, same.memory_id)


async def test_a_guideline_that_says_the_same_as_before_knows_of_more_calls(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        [before] = await put(store, guideline(TEXT, 1))
        memory = await kept(store, await guideline_batch(draft(before=before), context_of(store)))
        assert (memory.memory_id, memory.metadata["calls"]) == (before.memory_id, 3)


async def test_who_has_written_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        [before] = await put(store, guideline("old", 1))
        batch = await guideline_batch(draft(before=before), context_of(store))
        await put(store, before.model_copy(update={"content": "by hand"}))
        with pytest.raises(ConflictError):
            await store.put(SCOPE, batch)
        first = await guideline_batch(draft("one"), context_of(store))
        await put(store, note("one"))
        with pytest.raises(ConflictError):
            await store.put(SCOPE, first)


@pytest.mark.parametrize(
    ("calls", "language", "heading"),
    [
        ([called(1, input={"q": "天气怎么样"}, output="今天多云")], None, "核心功能："),
        ([called(1)], None, "Core function: "),
        ([called(1)], "zh", "核心功能："),
    ],
)
async def test_the_language_is_that_of_the_calls_unless_one_is_set(
    tmp_path: Path, calls: list[ToolCallResult], language: str | None, heading: str
) -> None:
    async with opened(tmp_path) as store:
        await store.add_tool_calls(SCOPE, calls)
        memory, _ = await write_once(store, answer("X."), language=language)
        assert memory.content == f"{heading}X."


async def test_an_answer_that_is_too_long_is_asked_for_again_and_then_an_error(tmp_path: Path) -> None:
    long = answer(" ".join(["word"] * 300))
    async with opened(tmp_path) as store:
        await store.add_tool_calls(SCOPE, [called(1)])
        with ScriptedChatModel([long, answer()]) as model:
            assert (await guideline_flow("search", context_of(store, model))).text == TEXT
            assert "302 words" in model.requests[1].messages[-1].text
        with ScriptedChatModel([long, long]) as model, pytest.raises(ModelOutputError, match="302 words"):
            await guideline_flow("search", context_of(store, model))


async def test_a_model_that_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.add_tool_calls(SCOPE, [called(1)])
        [before] = await put(store, guideline("old", 0))
        with ScriptedChatModel([ModelUnavailableError("away")]) as model, pytest.raises(ModelUnavailableError):
            await guideline_flow("search", context_of(store, model))
        assert await find_guideline(store, SCOPE, "search") == before


async def test_what_a_flow_lacks_is_said(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        with pytest.raises(InvalidInputError, match="no call of the tool 'search'"):
            await guideline_flow("search", context_of(store))
        await store.add_tool_calls(SCOPE, [called(1)])
        with pytest.raises(ConfigurationError, match="chat model"):
            await guideline_flow("search", context_of(store))


async def test_the_cost_of_embedding_is_counted(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        context: FlowContext = context_of(store, embedder=HashedEmbedder())
        await guideline_batch(draft(), context)
        assert context.trace.usage.embedding_calls == 1


async def test_the_request_is_bounded_with_many_calls_and_outputs_of_megabytes(tmp_path: Path) -> None:
    small, failed = called(0), called(0, error="HTTP 404 in step 7")
    calls = [(failed if n % 10 == 0 else small).model_copy(update={"call_id": f"s{n}"}) for n in range(20_000)]
    big = [called(100 + n, output="<" * 1_000_000, input="\x01" * 100_000) for n in range(2)]
    big += [called(200, error="ValueError: " + "漢" * 1_000_000)]
    async with opened(tmp_path) as store:
        await store.add_tool_calls(SCOPE, calls)
        await store.add_tool_calls(SCOPE, big)
        with ScriptedChatModel([answer()]) as model:
            written = await guideline_flow("search", context_of(store, model))
    assert written.calls == 20_003
    assert request_chars(model.requests[0]) <= MAX_REQUEST_CHARS
    lines = shown_lines(model.requests[0])
    assert 20 <= len(lines) <= 30
    assert [line["output"][:10] for line in lines if not line["ok"]] == ["ValueError", *["HTTP 404 i"] * 3]
