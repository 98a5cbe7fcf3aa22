"""What goes along when a scope is exported and imported, and what stays behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import JsonValue

from reme_core import ReMe
from reme_core.errors import ConflictError, InvalidInputError, InvalidLinesError
from reme_core.ports import (
    AppendMessages,
    ListMemories,
    ListOffloads,
    ListToolCalls,
    MemoryFilter,
    MemorySearch,
    PutMemory,
    ToolCallPage,
)
from reme_core.schema import MemoryType, Scope, TransferCounts
from reme_core.stores import LocalStore
from reme_core.testing import HashedEmbedder
from reme_core.testing.store_values import ALICE, BOB, DIMENSION, axis, batch, memory, message
from reme_core.transfer.scope_transfer import export_scope, import_scope
from tests.contract.suites.job_values import job
from tests.contract.suites.offload_values import SESSION, clean, listed, pointer_to, put, result_of, search, text_of
from tests.contract.suites.tool_call_values import call, failed
from tests.contract.suites.tool_call_values import listed as listed_calls

ENTRIES = MemoryFilter(types=(MemoryType.META,))


async def test_the_routing_table_goes_along_without_vectors_and_jobs_stay(tmp_path: Path) -> None:
    store, embedder, file = LocalStore(tmp_path / "memory.db"), HashedEmbedder(DIMENSION), tmp_path / "alice.jsonl"
    entry = memory("personal memories about Ann", memory_type=MemoryType.META, target="personal/Ann")
    await store.put(ALICE, batch(entry, PutMemory(memory=memory("Ann rows", target="Ann"), vector=axis(0))))
    await store.add_jobs(ALICE, [job("a", payload={"of": "Alice"})])
    assert await export_scope(store, ALICE, file) == TransferCounts(memories=2, events=2)
    assert "offload" not in file.read_text(encoding="utf-8")
    assert "job" not in file.read_text(encoding="utf-8")
    assert await import_scope(store, embedder, BOB, file) == TransferCounts(memories=2)
    [copied] = (await store.list_memories(BOB, ListMemories(filter=ENTRIES))).memories
    assert (copied.content, copied.memory_target) == (entry.content, entry.memory_target)
    [query] = await embedder.embed(["Ann"])
    found = await store.search(BOB, MemorySearch(vector=query))
    assert [item.memory.content for item in found] == ["Ann rows"]
    assert await store.list_jobs(BOB) == []
    assert len(await store.list_jobs(ALICE)) == 1
    await store.close()


async def with_offloads(store: LocalStore, count: int = 3) -> None:
    said = [message(f"said {n}", message_id=f"m{n}") for n in range(3)]
    await store.append(ALICE, AppendMessages(session_id=SESSION, messages=said))
    await put(store, result_of("output 网球 \u2028\r\n", "m1"), pointer_to("m2", "m0"), hold=True)
    await put(store, *(text_of(f"walrus {n}", reference=f"r{n}", minute=-n, name="summary") for n in range(count)))


async def test_offloads_go_along_under_their_references_and_twice_is_once(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "alice.jsonl"
    await with_offloads(store, 50)
    assert await export_scope(store, ALICE, file) == TransferCounts(messages=3, offloads=52)
    told: list[int] = []
    for known in (0, 3):
        moved = await import_scope(store, None, BOB, file, progress=told.append)
        assert moved == TransferCounts(messages=3, offloads=52, known_messages=known)
        assert await listed(store, scope=BOB) == await listed(store)
        for info in await listed(store):
            assert await store.get_offload(BOB, info.reference) == await store.get_offload(ALICE, info.reference)
        assert [hit.info.reference for hit in await search(store, "walrus 7", scope=BOB, limit=1)] == ["r7"]
    assert told == [56, 3, *(23, 43, 55)] * 2  # of the head and 55 lines that are read, then what is done of them
    await store.close()


async def test_a_file_of_an_older_release_is_still_read(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "alice.jsonl"
    await with_offloads(store)
    await export_scope(store, ALICE, file)
    lines = file.read_text(encoding="utf-8").split("\n")
    file.write_text("\n".join(line for line in lines if '"kind": "offload"' not in line), encoding="utf-8")
    assert await import_scope(store, None, BOB, file) == TransferCounts(messages=3)
    await store.close()


def without_message(lines: list[str]) -> list[str]:
    return [line for line in lines if '"message_id": "m2"' not in line]


def twice(lines: list[str]) -> list[str]:
    return [*lines, next(line for line in lines if '"r1"' in line).replace("walrus", "pelican")]


def without_text(lines: list[str]) -> list[str]:
    return [line.replace('"text": "walrus 1"', '"text": ""') for line in lines]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (without_message, "points at messages that the file lacks"),
        (twice, "'r1' stands twice"),
        (without_text, "line .*has a text"),
    ],
)
async def test_a_file_with_a_wrong_offload_is_refused_before_anything_is_imported(
    tmp_path: Path, change: Callable[[list[str]], list[str]], text: str
) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "alice.jsonl"
    await with_offloads(store)
    await export_scope(store, ALICE, file)
    file.write_text("\n".join(change(file.read_text(encoding="utf-8").split("\n"))), encoding="utf-8")
    with pytest.raises(InvalidInputError, match=text):
        await import_scope(store, None, BOB, file)
    counts = await store.count(BOB)
    assert (counts.messages, counts.offloads) == (0, 0)
    await store.close()


async def test_a_reference_that_is_taken_by_something_else_conflicts(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "alice.jsonl"
    await with_offloads(store)
    await export_scope(store, ALICE, file)
    await put(store, text_of("something else", reference="r1"), scope=BOB)
    with pytest.raises(ConflictError):
        await import_scope(store, None, BOB, file)
    assert (await store.get_offload(BOB, "r1")).text == "something else"
    await store.close()


async def test_tool_calls_go_along_and_twice_is_once(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "alice.jsonl"
    await store.append(ALICE, AppendMessages(session_id=SESSION, messages=[message("hello", message_id="m1")]))
    made = [call(f"c{n}", f"tool{n % 3}", minute=-n, time_cost=n / 10, arguments={"n": n}) for n in range(600)]
    told = failed("ValueError: 网球 \u2028\r\n", "c600").model_copy(update={"message_ids": ("m1",)})
    await store.add_tool_calls(ALICE, [*made, told])
    assert await export_scope(store, ALICE, file) == TransferCounts(messages=1, tool_calls=601)
    for known in (0, 1):
        moved = await import_scope(store, None, BOB, file)
        assert moved == TransferCounts(messages=1, tool_calls=601, known_messages=known)
        assert await listed_calls(store, scope=BOB) == await listed_calls(store)
    assert await store.tool_statistics(BOB, ["tool1"]) == await store.tool_statistics(ALICE, ["tool1"])
    await store.close()


class NotingStore(LocalStore):
    """Notes how many calls it was asked for at once."""

    most = 0

    async def list_tool_calls(self, scope: Scope, query: ListToolCalls) -> ToolCallPage:
        self.most = max(self.most, query.limit)
        return await super().list_tool_calls(scope, query)


async def test_few_tool_calls_are_held_at_once_since_each_may_have_megabytes(tmp_path: Path) -> None:
    store = NotingStore(tmp_path / "memory.db")
    await store.add_tool_calls(ALICE, [call(f"c{n}") for n in range(45)])
    assert (await export_scope(store, ALICE, tmp_path / "alice.jsonl")).tool_calls == 45
    assert store.most == 20
    await store.close()


async def test_a_file_with_tool_calls_is_refused_where_it_is_wrong(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "alice.jsonl"
    await store.append(ALICE, AppendMessages(session_id=SESSION, messages=[message("hello")]))
    await store.add_tool_calls(ALICE, [call("c1")])
    await export_scope(store, ALICE, file)
    lines = file.read_text(encoding="utf-8").split("\n")
    again = next(line for line in lines if '"c1"' in line)
    for wrong, text in ((again, "'c1' stands twice"), (again.replace('"search"', "5"), "line .*tool_name")):
        file.write_text("\n".join([*lines, wrong]), encoding="utf-8")
        with pytest.raises(InvalidInputError, match=text):
            await import_scope(store, None, BOB, file)
    assert (await store.count(BOB)).messages == 0
    await store.close()


async def test_offloads_that_come_and_go_during_an_export_leave_a_file_that_can_be_read(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db", synchronous="NORMAL"), tmp_path / "alice.jsonl"
    await with_offloads(store, 30)

    async def come_and_go() -> None:
        for number in range(20):
            said = [message(f"new {number}", message_id=f"n{number}")]
            await store.append(ALICE, AppendMessages(session_id=SESSION, messages=said))
            await put(store, pointer_to(f"n{number}"), text_of(f"text {number}"))
            await clean(store, max_bytes=300 - 10 * number)

    references: list[str] = []
    task = asyncio.create_task(come_and_go())
    while not task.done():
        await export_scope(store, ALICE, file)
        whole = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
        references = [entry["value"]["reference"] for entry in whole if entry["kind"] == "offload"]
        assert len(references) == len(set(references))
    await task
    await import_scope(store, None, BOB, file)
    assert {info.reference for info in (await store.list_offloads(BOB, ListOffloads())).offloads} == set(references)
    await store.close()


@pytest.mark.parametrize("kind", ["message", "block"])
@pytest.mark.parametrize("change", [{"session_id": "other"}, {"other": "one"}, {"block_id": "another"}])
async def test_what_fits_no_other_line_costs_that_line_alone(
    tmp_path: Path, kind: str, change: dict[str, JsonValue]
) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        await memory.summary([{"role": "user", "content": "a", "message_id": "m"}], user_id="ann", session_id="s")
        file = tmp_path / "ann.jsonl"
        await memory.export(file, user_id="ann")
        head, *lines = (json.loads(line) for line in file.read_text().splitlines())
        [line] = (json.loads(json.dumps(line)) for line in lines if line["kind"] == kind)
        if "other" not in change:
            line["value"].update(change)
        elif kind == "message":
            line["value"]["message"]["content"] = "b"
        else:
            line["value"]["summary"] = "b"
        file.write_text("".join(json.dumps(one) + "\n" for one in (head, *lines, line)))
        for _ in range(2):
            moved = await memory.import_(file, user_id="bob", skip_bad_lines=True)
            wrong = (kind, change) != ("message", {"block_id": "another"})  # blocks say themselves what lies in them
            assert [problem.line for problem in moved.problems] == [len(lines) + 2] * wrong
            assert (await memory.stats(user_id="bob")).messages == 1


async def test_a_block_whose_messages_are_in_another_session_is_told_before_anything_is_imported(
    tmp_path: Path,
) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        await memory.summary([("user", "a")], user_id="ann", session_id="s")
        file = tmp_path / "ann.jsonl"
        await memory.export(file, user_id="ann")
        file.write_text(file.read_text().replace('"session_id": "s"', '"session_id": "t"', 1))
        with pytest.raises(InvalidLinesError, match="points at messages of another session"):
            await memory.import_(file, user_id="bob")
        assert (await memory.stats(user_id="bob")).messages == 0
        assert (await memory.import_(file, user_id="bob", skip_bad_lines=True)).messages == 1
