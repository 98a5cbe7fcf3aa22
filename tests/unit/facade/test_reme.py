"""What the calls of the facade do, and what they answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from reme_core import Hit, ReMe, Slicing
from reme_core.errors import (
    ConflictError,
    InvalidInputError,
    MemoryNotFoundError,
    ModelRejectedError,
    ModelUnavailableError,
    PartialFailureError,
)
from reme_core.models import CharacterTokenCounter
from reme_core.ports import Matrix
from reme_core.schema import Scope, new_id
from reme_core.stores import LocalStore
from reme_core.testing import HashedEmbedder
from tests.support import processes
from tests.support.new_processes import NEW_PROCESSES
from tests.support.snapshots import snapshot

ALICE: dict[str, Any] = {"user_id": "alice"}
CALL = {
    "role": "assistant",
    "tool_calls": [{"id": "c1", "function": {"name": "weather", "arguments": '{"in": "Rome"}'}}],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "sunny"}


@pytest.fixture
async def reme(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder(32)) as memory:
        yield memory


async def contents(reme: ReMe, user_id: str = "alice", **wanted: object) -> list[str]:
    page = await reme.list_memories(user_id=user_id, limit=1000, **wanted)  # type: ignore[arg-type]  # as given
    return sorted(item.content for item in page.memories)


# summary


async def test_messages_keep_id_time_name_and_order(reme: ReMe) -> None:
    said = [
        {"role": "user", "name": "Ann", "content": "one", "id": "m1", "timestamp": "2024-05-01 10:00:00"},
        {"role": "assistant", "content": [{"type": "text", "text": "two"}], "created_at": "2024-05-01T12:00:01+02:00"},
        ("user", "three"),
    ]
    result = await reme.summary(said, **ALICE, session_id="s")
    found = await reme.get_messages(result.message_ids, **ALICE)
    assert [item.message.text for item in found] == ["one", "two", "three"]
    assert (found[0].message.message_id, found[0].message.name) == ("m1", "Ann")
    assert found[0].message.created_at == datetime(2024, 5, 1, 10, tzinfo=UTC)
    assert found[1].message.created_at == datetime(2024, 5, 1, 10, 0, 1, tzinfo=UTC)
    assert {item.session_id for item in found} == {"s"}
    assert result.block_ids


async def test_saying_the_same_again_changes_nothing(reme: ReMe) -> None:
    said = [{"role": "user", "content": f"say {n}", "id": f"m{n}", "created_at": "2026-01-01"} for n in range(3)]
    first = await reme.summary(said, **ALICE, session_id="s")
    again = await reme.summary(said, **ALICE, session_id="s")
    more = await reme.summary([*said, {"role": "user", "content": "new", "id": "m3"}], **ALICE, session_id="s")
    assert (first.known_message_ids, again.known_message_ids) == ((), ("m0", "m1", "m2"))
    assert again.block_ids == ()
    assert more.known_message_ids == ("m0", "m1", "m2")
    assert (await reme.stats(**ALICE)).messages == 4


async def test_a_tool_call_waits_for_its_result_of_the_next_call(reme: ReMe) -> None:
    first = await reme.summary([("user", "weather?"), CALL], **ALICE, session_id="s", end_session=False)
    second = await reme.summary([RESULT, ("assistant", "Sunny.")], **ALICE, session_id="s", end_session=False)
    third = await reme.summary([], **ALICE, session_id="s", end_session=True)
    blocks = [await reme.get_block(item, **ALICE) for item in (*first.block_ids, *second.block_ids, *third.block_ids)]
    parts = [set(block.message_ids) for block in blocks]
    assert any({first.message_ids[1], second.message_ids[0]} <= part for part in parts)
    assert sum(map(len, parts)) == 4


async def test_a_call_without_result_is_sliced_when_the_session_ends(reme: ReMe) -> None:
    result = await reme.summary([("user", "weather?"), CALL], **ALICE)
    [block] = [await reme.get_block(item, **ALICE) for item in result.block_ids]
    assert block.message_ids == result.message_ids


async def test_five_thousand_messages_in_one_call(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None, slicing=Slicing(overlap=2)) as reme:
        result = await reme.summary([("user", f"message {n}") for n in range(5000)], **ALICE)
        counts = await reme.stats(**ALICE)
        assert (counts.messages, counts.blocks, len(result.block_ids)) == (5000, 250, 250)
        found = await reme.retrieve("message 4321", **ALICE, limit=10_000)
        assert len(found.results) == 5000
        assert found.results[0].memory == "message 4321"
        assert len(await reme.get_messages(result.message_ids, **ALICE)) == 5000


async def test_no_messages_are_no_session(reme: ReMe) -> None:
    assert (await reme.summary([], **ALICE)).message_ids == ()
    assert (await reme.stats(**ALICE)).sessions == 0


async def test_what_could_not_be_embedded_is_kept_and_finished_by_flush(tmp_path: Path) -> None:
    down = HashedEmbedder(32, failures=[ModelUnavailableError("down")] * 2)
    async with ReMe("space", tmp_path, llm=None, embedding=down) as reme:
        kept = await reme.summary([{"role": "user", "content": "tea time", "id": "m"}], **ALICE)
        assert kept.degraded == ("embedding: down; texts without vectors are found by their words",)
        with pytest.raises(PartialFailureError, match="failed"):
            await reme.flush()
        assert (await reme.stats(**ALICE)).waiting_for_vectors == 1
        assert (await reme.find_messages(keyword="tea", **ALICE)).messages
        assert (await reme.flush()).embedding_calls == 1
        assert (await reme.flush()).embedding_calls == 0
        assert (await reme.stats(**ALICE)).waiting_for_vectors == 0


async def test_a_new_process_finishes_what_was_left(tmp_path: Path) -> None:
    down = HashedEmbedder(32, failures=[ModelUnavailableError("down")])
    async with ReMe(processes.SPACE, tmp_path, llm=None, embedding=down) as reme:
        assert (await reme.summary([("user", "tea time")], **ALICE)).degraded
    with ProcessPoolExecutor(1, mp_context=NEW_PROCESSES) as pool:
        assert pool.submit(processes.flush_with, tmp_path, 32).result() == 1
        assert pool.submit(processes.count_waiting, tmp_path / "memory.db").result() == 0


async def test_a_message_whose_id_is_taken_is_kept_under_another_one_and_known_there(reme: ReMe) -> None:
    said = {"role": "user", "content": "tea", "message_id": "x"}
    first = await reme.summary([said], **ALICE, session_id="s", on_conflict="rename")
    assert first.message_ids == ("x",)
    for session, text in (("s", "coffee"), ("t", "tea")):
        given = [{**said, "content": text}]
        kept = await reme.summary(given, **ALICE, session_id=session, background=True, on_conflict="rename")
        again = await reme.summary(given, **ALICE, session_id=session, background=True, on_conflict="rename")
        assert again.message_ids == again.known_message_ids == kept.message_ids != ("x",)
        [stored] = await reme.get_messages(kept.message_ids, **ALICE)
        assert (stored.session_id, stored.message.text) == (session, text)
        assert stored.message.metadata == {"reme_original_id": "x"}
    assert len((await reme.find_messages(**ALICE)).messages) == 3


# memories


async def test_a_memory_is_added_read_changed_and_deleted(reme: ReMe) -> None:
    stored = await reme.add_memory("drinks tea", **ALICE, metadata={"a": [1, {"b": None}]}, importance=0.9)
    assert await reme.get_memory(stored.memory_id, **ALICE) == stored
    changed = await reme.update_memory(stored.memory_id, **ALICE, content="drinks coffee", metadata={"a": None})
    assert (changed.memory_id, changed.created_at, changed.revision) == (stored.memory_id, stored.created_at, 2)
    assert (changed.importance, changed.metadata) == (0.9, {})
    await reme.delete_memory(stored.memory_id, **ALICE)
    with pytest.raises(MemoryNotFoundError):
        await reme.get_memory(stored.memory_id, **ALICE)
    assert [event.operation for event in await reme.history(stored.memory_id, **ALICE)] == ["add", "update", "delete"]


async def test_the_same_fact_is_the_same_memory(reme: ReMe) -> None:
    first = await reme.add_memory("Drinks tea.", **ALICE)
    assert await reme.add_memory("  drinks TEA", **ALICE) == first
    assert (await reme.add_memory("drinks tea", **ALICE, memory_target="Bob")).memory_id != first.memory_id
    assert len(await reme.history(first.memory_id, **ALICE)) == 1


async def test_a_batch_is_written_wholly_or_not_at_all(reme: ReMe) -> None:
    await reme.add_memories([{"content": "taken", "memory_id": "x"}], **ALICE)
    with pytest.raises(ConflictError):
        await reme.add_memories([{"content": "new"}, {"content": "other", "memory_id": "x"}], **ALICE)
    assert await contents(reme) == ["taken"]


async def test_an_own_time_decides_what_held_when_and_hides_nothing(reme: ReMe) -> None:
    old = await reme.add_memory("lives in Rome", **ALICE, valid_from="2020-01-01", observed_at="2020-01-01")
    await reme.update_memory(old.memory_id, **ALICE, valid_to="2022-01-01")
    await reme.add_memory("lives in Oslo", **ALICE, valid_from="2022-01-01", observed_at="2022-01-01")
    for wanted, texts in (
        ({}, ["lives in Oslo", "lives in Rome"]),
        ({"as_of": "2021-06-01"}, ["lives in Rome"]),
        ({"as_of": "2022-01-02"}, ["lives in Oslo"]),
        ({"as_of": "2022-01-01T23:59:59.999999Z"}, ["lives in Oslo", "lives in Rome"]),
        ({"as_of": "2019-01-01"}, []),
        ({"include_superseded": True}, ["lives in Oslo", "lives in Rome"]),
    ):
        assert await contents(reme, **wanted) == texts
        found = await reme.retrieve("lives in", **ALICE, layers=["memory"], **wanted)
        assert sorted(hit.memory for hit in found.results) == texts


async def test_pages_of_memories_partition_them(reme: ReMe) -> None:
    await reme.add_memories([{"content": f"fact {n}"} for n in range(23)], **ALICE)
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await reme.list_memories(**ALICE, limit=5, cursor=cursor)
        seen += [item.content for item in page.memories]
        if (cursor := page.next_cursor) is None:
            break
    assert sorted(seen) == sorted({f"fact {n}" for n in range(23)})


# undo


async def test_undo_takes_back_what_a_run_added_and_can_be_undone_itself(reme: ReMe) -> None:
    await reme.add_memory("stays", **ALICE)
    await reme.add_memories([{"content": "one"}, {"content": "two"}], **ALICE, run_id="r")
    done = await reme.undo("r", **ALICE)
    assert len(done.removed) == 2
    assert await contents(reme) == ["stays"]
    back = await reme.undo(done.undo_run_id, **ALICE)
    assert sorted(back.restored) == sorted(done.removed)
    assert await contents(reme) == ["one", "stays", "two"]
    assert (await reme.retrieve("two", **ALICE)).results[0].memory == "two"
    await reme.undo(back.undo_run_id, **ALICE)
    assert await contents(reme) == ["stays"]


async def test_undo_after_a_later_change_is_refused_and_changes_nothing(reme: ReMe) -> None:
    stored = await reme.add_memories([{"content": "one"}, {"content": "two"}], **ALICE, run_id="r")
    await reme.update_memory(stored[1].memory_id, **ALICE, content="two and a half")
    with pytest.raises(ConflictError, match="changed after run 'r'"):
        await reme.undo("r", **ALICE)
    assert await contents(reme) == ["one", "two and a half"]


async def test_a_deletion_that_is_undone_twice_at_once_is_undone_once(reme: ReMe) -> None:
    kept = await reme.add_memory("Ana likes tea.", user_id="ana")
    await reme.delete_memory(kept.memory_id, user_id="ana")
    run_id = (await reme.history(kept.memory_id, user_id="ana"))[-1].run_id or ""
    undone = await asyncio.gather(*(reme.undo(run_id, user_id="ana") for _ in range(4)), return_exceptions=True)
    assert [type(item).__name__ for item in undone].count("ConflictError") == 3
    assert len(await reme.history(kept.memory_id, user_id="ana")) == 3


async def test_undo_brings_a_superseded_and_a_deleted_memory_back(tmp_path: Path) -> None:
    from reme_core.ports import DeleteMemory, PutMemory, WriteBatch

    store = LocalStore(tmp_path / "memory.db")
    scope, now = Scope(memory_space="space", user_id="alice"), datetime.now(UTC)
    reme = ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder(32), vector_store=store)
    rome, cat = await reme.add_memories([{"content": "lives in Rome"}, {"content": "has a cat"}], **ALICE)
    oslo = rome.model_copy(update={"memory_id": "oslo", "content": "lives in Oslo"})
    closed = rome.model_copy(update={"valid_to": rome.valid_from + timedelta(days=1), "superseded_by": "oslo"})
    await store.put(
        scope,
        WriteBatch(
            puts=[PutMemory(memory=closed), PutMemory(memory=oslo)],
            deletes=[DeleteMemory(memory_id=cat.memory_id)],
            run_id="move",
            at=now,
        ),
    )
    assert await contents(reme) == ["lives in Oslo"]
    done = await reme.undo("move", **ALICE)
    assert await contents(reme) == ["has a cat", "lives in Rome"]
    assert (await reme.get_memory(rome.memory_id, **ALICE)).superseded_by is None
    await reme.undo(done.undo_run_id, **ALICE)
    assert await contents(reme) == ["lives in Oslo"]
    await store.close()


# retrieve


async def test_results_read_like_mappings(reme: ReMe) -> None:
    await reme.add_memory("drinks tea", **ALICE, metadata={"k": 1})
    found = await reme.retrieve("tea", **ALICE)
    hit = found["results"][0]  # type: ignore[index]  # a tuple of hits
    assert isinstance(hit, Mapping)
    assert hit["memory"] == "drinks tea"
    assert "score" in hit
    assert "nothing" not in hit
    assert set(dict(hit)) == {*hit} == set({**hit}) == set(Hit.model_fields)
    assert hit.get("nothing", 5) == 5
    assert json.loads(found.results[0].model_dump_json())["metadata"] == {"k": 1}
    with pytest.raises(KeyError, match="Hit has memory"):
        hit["nothing"]
    assert found
    assert "drinks tea" in "\n".join(f"- {m['memory']}" for m in found["results"])  # type: ignore[attr-defined]  # hits


WORDS = st.sampled_from(
    ["tea", "coffee", "milk", "cat", "dog", "Rome", "Oslo", "茶", "猫", "the", "is", "ok", "no", "42", "?"]
)
TEXT = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    store = LocalStore(tmp_path_factory.mktemp("shared") / "memory.db", synchronous="NORMAL")
    yield store
    asyncio.run(store.close())


@settings(max_examples=40, deadline=None)
@given(
    facts=st.lists(TEXT, max_size=6),
    said=st.lists(TEXT, max_size=10),
    query=TEXT,
    budget=st.integers(1, 60),
    embeds=st.booleans(),
)
def test_a_budget_is_never_exceeded_and_nothing_is_told_twice(
    shared_store: LocalStore, facts: list[str], said: list[str], query: str, budget: int, embeds: bool
) -> None:
    user = new_id()

    async def work() -> None:
        embedder = HashedEmbedder(16) if embeds else None
        reme = ReMe("space", ".", llm=None, embedding=embedder, vector_store=shared_store)
        await reme.add_memories([{"content": text} for text in facts], user_id=user)
        await reme.summary([("user", text) for text in said], user_id=user)
        found = await reme.retrieve(query, user_id=user, token_budget=budget, layers=["memory", "summary", "message"])
        texts = [hit.memory for hit in found.results]
        assert sum(map(CharacterTokenCounter().count, texts)) <= budget
        assert len(texts) == len(set(texts))
        everything = (await reme.retrieve(query, user_id=user, limit=100)).results
        scores = [hit.score for hit in everything]
        assert all(0.0 <= score <= 1.0 for score in scores)
        assert scores == sorted(scores, reverse=True)
        assert len((await reme.retrieve(query, user_id=user, limit=2)).results) <= 2

    asyncio.run(work())


async def test_top_k_is_another_name_of_limit(reme: ReMe) -> None:
    await reme.summary([("user", f"I have seen a fox number {n}") for n in range(6)], **ALICE)
    for named in ({"limit": 2}, {"top_k": 2}, {"limit": 2, "top_k": 2}):
        assert len((await reme.retrieve("fox", **ALICE, **named)).results) == 2
    assert len((await reme.retrieve("fox", **ALICE, top_k=9)).results) == 6


async def test_a_least_score_leaves_out_what_scores_lower_and_nothing_else(reme: ReMe) -> None:
    await reme.add_memory("Alice saw a fox in the garden", **ALICE)
    await reme.add_memory("Alice has a garden", **ALICE)
    await reme.summary([("user", f"The fox was {n} metres away") for n in range(4)], **ALICE)
    whole = (await reme.retrieve("Where was the fox seen?", **ALICE)).results
    assert len({hit.score for hit in whole}) > 2
    for floor in (0, whole[0].score, whole[2].score, whole[-1].score, 1.0):
        found = (await reme.retrieve("Where was the fox seen?", **ALICE, min_score=floor)).results
        assert list(found) == [hit for hit in whole if hit.score >= floor]
    [lead] = (await reme.retrieve("Where was the fox seen?", **ALICE, min_score=whole[0].score, limit=5)).results
    assert lead == whole[0]
    in_budget = await reme.retrieve("Where was the fox seen?", **ALICE, min_score=whole[1].score, token_budget=500)
    assert [hit.score >= whole[1].score for hit in in_budget.results] == [True, True]


async def test_a_least_score_parts_what_lies_in_a_time_from_what_is_near_it(reme: ReMe) -> None:
    said = [{"role": "user", "content": f"day {day}", "created_at": f"2024-05-{day:02}"} for day in (5, 6, 9)]
    await reme.summary(said, **ALICE)
    assert len((await reme.retrieve("What happened on 5 May 2024?", **ALICE)).results) == 3
    [hit] = (await reme.retrieve("What happened on 5 May 2024?", **ALICE, min_score=0.25)).results
    assert hit.memory == "day 5"


async def test_times_and_sessions_filter_what_was_said(reme: ReMe) -> None:
    for day in (1, 2, 3):
        said = {"role": "user", "content": f"tea on day {day}", "created_at": f"2026-01-0{day}T10:00:00Z"}
        await reme.summary([said], **ALICE, session_id=f"s{day}")
    found = await reme.retrieve("tea", **ALICE, start_time="2026-01-02T10:00:00Z", end_time="2026-01-03T10:00:00Z")
    assert [hit.memory for hit in found.results] == ["tea on day 2"]
    found = await reme.retrieve("tea", **ALICE, session_id="s3")
    assert [hit.memory for hit in found.results] == ["tea on day 3"]
    found = await reme.retrieve("tea", **ALICE, as_of="2026-01-02T10:00:00Z", layers=["message"])
    assert sorted(hit.memory for hit in found.results) == ["tea on day 1", "tea on day 2"]
    page = await reme.find_messages(**ALICE, start_time="2026-01-02", newest_first=True)
    assert [item.message.text for item in page.messages] == ["tea on day 3", "tea on day 2"]


# export, import


async def comparable(store: LocalStore, scope: Scope) -> dict[str, JsonValue]:
    """Return what an export carries: all but events, counts, revisions and the names of the scope."""
    held = await snapshot(store, scope)
    memories = sorted((dict(item) for item in held["memories"]), key=lambda item: item["memory_id"])  # type: ignore[union-attr,arg-type]  # mappings
    for item in memories:
        for name in ("memory_space", "user_id", "revision"):
            del item[name]
    return {"messages": held["messages"], "blocks": held["blocks"], "memories": memories}  # type: ignore[dict-item]  # JSON


async def test_an_export_read_by_another_user_is_the_same_and_twice_is_once(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db")
    reme = ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder(32), vector_store=store)
    other = ReMe("other", tmp_path, llm=None, embedding=HashedEmbedder(32), vector_store=store)
    for number in range(3):
        said = [("user", f"session {number} \u2028 line 猫 {place}") for place in range(30)]
        await reme.summary([*said, CALL, RESULT], **ALICE, session_id=f"s{number}")
    kept = await reme.add_memories([{"content": f"fact {n}", "metadata": {"n": n}} for n in range(5)], **ALICE)
    await reme.update_memory(kept[0].memory_id, **ALICE, valid_to="2100-01-01")
    await reme.update_memory(kept[1].memory_id, **ALICE, content="changed")
    moved = await reme.export(tmp_path / "out.jsonl", **ALICE)
    assert (moved.messages, moved.memories, moved.events) == (96, 5, 7)
    lines: list[int] = []
    for _ in range(2):
        read = await other.import_(tmp_path / "out.jsonl", user_id="bob", progress=lines.append)
        assert (read.messages, read.blocks, read.memories) == (moved.messages, moved.blocks, moved.memories)
        mine = await comparable(store, Scope(memory_space="space", user_id="alice"))
        assert await comparable(store, Scope(memory_space="other", user_id="bob")) == mine
    assert lines
    assert (await other.stats(user_id="bob")).waiting_for_vectors == 0
    assert [item.name for item in tmp_path.iterdir() if "part" in item.name] == []  # noqa: ASYNC240
    await store.close()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("{broken", "line 4: not JSON"),
        ("[1]", "line 4: wanted an object, found list"),
        ('{"content": "a"}', "line 4: has no 'kind'"),
        ('{"kind": "dream", "value": {}}', "line 4: kind 'dream' is not known"),
        ('{"kind": "message", "value": {"session_id": "s"}}', r"line 4: message.*: is missing.*imported"),
        ('{"kind": "memory", "value": {"content": "\\ud800"}}', "line 4.*lone surrogate"),
        ('{"kind": "memory", "value": 5}', "line 4"),
        ("[" * 100_000, "line 4: nested too deep"),
        ('{"kind": "header", "format": "x", "version": 1}', "line 4: 'x' version 1 is not known"),
    ],
)
async def test_a_bad_line_is_named_and_nothing_is_imported(reme: ReMe, tmp_path: Path, line: str, text: str) -> None:
    await reme.summary([("user", "one")], user_id="bob")
    await reme.add_memory("fact", user_id="bob")
    await reme.export(tmp_path / "out.jsonl", user_id="bob")
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    lines.insert(3, line)
    (tmp_path / "bad.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InvalidInputError, match=text):
        await reme.import_(tmp_path / "bad.jsonl", **ALICE)
    counts = await reme.stats(**ALICE)
    assert counts.messages + counts.memories + counts.blocks == 0


async def test_an_export_while_others_write_can_be_imported(reme: ReMe, tmp_path: Path) -> None:
    for number in range(30):
        await reme.summary([("user", f"before {number}")], **ALICE)

    async def keep_writing() -> None:
        for number in range(40):
            await reme.summary([("user", f"meanwhile {number}")], **ALICE)

    writing = asyncio.ensure_future(keep_writing())
    for attempt in range(4):
        await reme.export(tmp_path / f"{attempt}.jsonl", **ALICE)
    await writing
    for attempt in range(4):
        await reme.import_(tmp_path / f"{attempt}.jsonl", user_id=f"reader {attempt}")


async def test_a_path_that_cannot_be_written_is_named_and_leaves_the_old_file(reme: ReMe, tmp_path: Path) -> None:
    from reme_core.errors import StoreAccessError

    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreAccessError, match="folder"):
        await reme.export(tmp_path / "folder", **ALICE)
    assert [item.name for item in tmp_path.iterdir() if item.name.endswith(".part")] == []  # noqa: ASYNC240


async def test_long_keywords_and_questions_are_answered(reme: ReMe) -> None:
    await reme.summary([("user", "tea " + " ".join(f"word{n}" for n in range(3000)))], **ALICE)
    await reme.add_memory(" ".join(f"word{n}" for n in range(3000)), **ALICE)
    keyword = " ".join(f"word{n}" for n in range(3000))
    assert len((await reme.find_messages(**ALICE, keyword=keyword)).messages) == 1
    assert len((await reme.list_memories(**ALICE, keyword=keyword)).memories) == 1
    assert (await reme.list_memories(**ALICE, memory_target=[f"t{n}" for n in range(300_000)])).memories == ()
    assert (await reme.retrieve(keyword * 20, **ALICE)).results


class GatedEmbedder(HashedEmbedder):
    """Embeds messages when it is let."""

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.gate = asyncio.Event()

    async def embed(self, texts: Sequence[str]) -> Matrix:
        if any("I keep" in text for text in texts):
            await self.gate.wait()
        return await super().embed(texts)


async def test_in_the_background_messages_are_found_by_words_and_get_vectors_later(tmp_path: Path) -> None:
    embedder = GatedEmbedder(32)
    async with ReMe("space", tmp_path, llm=None, embedding=embedder) as reme:
        await reme.summary([{"role": "user", "content": "I keep bees"}], **ALICE, background=True)
        assert (await reme.stats(**ALICE)).waiting_for_vectors == 1
        assert (await reme.retrieve("bees", **ALICE)).results[0].memory == "I keep bees"
        embedder.gate.set()
        await reme.flush()
        assert (await reme.stats(**ALICE)).waiting_for_vectors == 0


async def test_a_message_said_again_without_its_time_is_known(reme: ReMe) -> None:
    said = {"role": "user", "content": "The tickets are booked.", "message_id": "m-4"}
    await reme.summary([said], **ALICE, session_id="s")
    again = await reme.summary([said], **ALICE, session_id="s")
    assert again.known_message_ids == ("m-4",)
    with pytest.raises(ConflictError):
        await reme.summary([{**said, "created_at": "2020-01-01"}], **ALICE, session_id="s")


async def test_a_change_that_leaves_the_text_needs_no_model(tmp_path: Path) -> None:
    embedder = HashedEmbedder(32, failures=[None, ModelUnavailableError("down")])
    async with ReMe("space", tmp_path, llm=None, embedding=embedder) as reme:
        memory = await reme.add_memory("keeps bees", **ALICE)
        changed = await reme.update_memory(memory.memory_id, **ALICE, metadata={"seen": True})
        assert changed.metadata == {"seen": True}
        assert (await reme.stats(**ALICE)).waiting_for_vectors == 0
        await reme.update_memory(memory.memory_id, **ALICE, content="keeps goats")
        assert (await reme.stats(**ALICE)).waiting_for_vectors == 1


@pytest.mark.parametrize("damage", ["a block without its messages", "a memory twice"])
async def test_a_file_that_lacks_a_part_is_refused_whole(reme: ReMe, tmp_path: Path, damage: str) -> None:
    await reme.summary([{"role": "user", "content": "I keep bees"}], **ALICE)
    await reme.add_memory("keeps bees", **ALICE)
    path = tmp_path / "export.jsonl"
    await reme.export(path, **ALICE)
    lines = path.read_text(encoding="utf-8").splitlines()
    match damage:
        case "a block without its messages":
            lines = [line for line in lines if '"kind": "message"' not in line]
        case _:
            lines += [line for line in lines if '"kind": "memory"' in line]
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InvalidInputError, match="nothing was imported"):
        await reme.import_(path, user_id="bob")
    assert await reme.stats(user_id="bob") == await reme.stats(user_id="nobody")


async def test_a_superseded_fact_is_found_as_of_its_time_and_the_new_one_now(reme: ReMe) -> None:
    old = await reme.add_memory("lives in Berlin", **ALICE, observed_at="2020-01-01")
    new = await reme.supersede_memory(old.memory_id, "lives in Lisbon", **ALICE, observed_at="2024-05-01")
    assert await contents(reme) == ["lives in Lisbon"]
    then = await reme.retrieve("where does she live", **ALICE, as_of="2022-01-01", layers=["memory"])
    assert [hit.memory for hit in then.results] == ["lives in Berlin"]
    closed = await reme.get_memory(old.memory_id, **ALICE)
    assert (closed.valid_to, closed.superseded_by) == (new.valid_from, new.memory_id)
    with pytest.raises(ConflictError, match="was replaced by"):
        await reme.supersede_memory(old.memory_id, "lives in Rome", **ALICE)
    with pytest.raises(InvalidInputError, match="before"):
        await reme.supersede_memory(new.memory_id, "lives in Rome", **ALICE, observed_at="2019-01-01")


@pytest.mark.parametrize("change", ["add", "update", "supersede", "delete"])
async def test_every_change_by_hand_can_be_undone(reme: ReMe, change: str) -> None:
    kept = await reme.add_memory("lives in Berlin", **ALICE, observed_at="2020-01-01")
    touched = kept.memory_id
    match change:
        case "add":
            touched = (await reme.add_memory("likes tea", **ALICE)).memory_id
        case "update":
            await reme.update_memory(touched, **ALICE, content="lives in Bern")
        case "supersede":
            await reme.supersede_memory(touched, "lives in Lisbon", **ALICE)
        case _:
            await reme.delete_memory(touched, **ALICE)
    run_id = (await reme.history(touched, **ALICE))[-1].run_id
    assert run_id is not None
    await reme.undo(run_id, **ALICE)
    assert await contents(reme) == ["lives in Berlin"]
    assert (await reme.get_memory(kept.memory_id, **ALICE)).is_current


async def test_a_text_that_the_model_refuses_is_not_in_the_way_of_others(tmp_path: Path) -> None:
    class Picky(HashedEmbedder):
        async def embed(self, texts: Sequence[str]) -> Matrix:
            if any("poison" in text for text in texts):
                raise ModelRejectedError("refused")
            return await super().embed(texts)

    async with ReMe("space", tmp_path, llm=None, embedding=Picky(32)) as reme:
        for said, others in (("poison", []), ("more poison", ["bees", "goats"])):
            kept = await reme.summary([("user", said), *(("user", other) for other in others)], **ALICE)
            assert kept.degraded == ("embedding: refused; texts without vectors are found by their words",)
            assert (await reme.stats(**ALICE)).waiting_for_vectors == 0
        assert (await reme.summary([("user", "sheep")], **ALICE)).degraded == ()
        assert (await reme.find_messages(**ALICE, keyword="poison")).messages


@pytest.mark.parametrize(
    ("said", "asked"), [("我喜欢喝茶", "茶"), ("犬を飼っています", "犬"), ("나는 차를 마신다", "차")]
)
async def test_a_question_of_one_character_finds_it(reme: ReMe, said: str, asked: str) -> None:
    await reme.summary([("user", said), ("user", "something else")], **ALICE)
    await reme.add_memory(said, **ALICE)
    assert (await reme.find_messages(**ALICE, keyword=asked)).messages[0].message.text == said
    assert await contents(reme, keyword=asked) == [said]
    found = await reme.retrieve(asked, **ALICE)
    assert found.results[0].memory == said
