"""Libraries in the form that earlier tools wrote: what becomes of each of their fields."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from reme_core.errors import InvalidLinesError
from reme_core.ports import ListMemories, ListToolCalls, WriteBatch
from reme_core.schema import LoadedLibrary, Memory, MemoryType, Scope, ToolCallResult, parse_time
from reme_core.stores import LocalStore
from reme_core.testing.store_values import ALICE, NOW
from reme_core.toolstats.tool_guideline import find_guideline
from reme_core.transfer.memory_library import load_library

TASK: dict[str, JsonValue] = {
    "workspace_id": "games",
    "memory_id": "t1",
    "memory_type": "task",
    "when_to_use": "when a login fails",
    "content": "Ask for a fresh token first.",
    "score": 0.75,
    "time_created": "2025-09-01 10:00:00",
    "time_modified": "2025-09-02 11:30:00",
    "author": "qwen",
    "metadata": {
        "tags": ["login"],
        "step_type": "action",
        "confidence": 0.9,
        "freq": 7,
        "utility": 3,
        "when_to_use": "when a login fails",
    },
}
CALL: dict[str, JsonValue] = {
    "create_time": "2025-09-01 10:00:00",
    "tool_name": "search",
    "input": {"query": "walrus"},
    "output": "3 results",
    "token_cost": -1,
    "success": True,
    "time_cost": 1.5,
    "summary": "found",
    "evaluation": "",
    "score": 1.0,
    "is_summarized": True,
    "call_hash": "",
    "metadata": {"source": "trace"},
}
TOOL: dict[str, JsonValue] = {
    "workspace_id": "games",
    "memory_id": "w1",
    "memory_type": "tool",
    "when_to_use": "search",
    "content": "Use short queries.",
    "score": 0,
    "time_created": "2025-09-01 10:00:00",
    "metadata": {},
    "tool_call_results": [CALL, {**CALL, "output": "no answer", "success": False, "is_summarized": False}],
}


def write(path: Path, items: object) -> None:
    path.write_text(json.dumps(items), encoding="utf-8")


async def load(
    store: LocalStore, path: Path, *items: object, memory_target: str | None = None, skip: bool = False
) -> LoadedLibrary:
    write(path, items)  # one list, as those tools' files are, whatever their names say
    return await load_library(
        store,
        None,
        ALICE,
        path,
        memory_target=memory_target,
        skip_bad_lines=skip,
        deduplicate=False,
        similarity=0.9,
        at=NOW,
    )


async def only(store: LocalStore) -> Memory:
    [found] = (await store.list_memories(ALICE, ListMemories())).memories
    return found


async def calls_of(store: LocalStore) -> list[ToolCallResult]:
    return list((await store.list_tool_calls(ALICE, ListToolCalls(newest_first=False))).calls)


async def test_a_line_about_a_task_becomes_a_procedural_memory_with_all_that_it_said(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "library.jsonl"
    loaded = await load(store, file, {**TASK, "emotion": "calm"})
    assert loaded.memory_ids == ("t1",)
    assert await only(store) == Memory(
        memory_id="t1",
        memory_space=ALICE.memory_space,
        user_id=ALICE.user_id,
        memory_type=MemoryType.PROCEDURAL,
        memory_target="games",
        content="Ask for a fresh token first.",
        when_to_use="when a login fails",
        observed_at=parse_time("2025-09-01T10:00:00Z"),
        valid_from=parse_time("2025-09-01T10:00:00Z"),
        created_at=parse_time("2025-09-01T10:00:00Z"),
        updated_at=parse_time("2025-09-02T11:30:00Z"),
        author="qwen",
        importance=0.75,
        confidence=0.9,
        freq=7,
        utility=3.0,
        metadata={
            "tags": ["login"],
            "step_type": "action",
            "origin": {"workspace_id": "games", "memory_id": "t1", "emotion": "calm"},
        },
    )
    assert (await load(store, file, TASK)).known_memory_ids == ("t1",)
    await store.close()


async def test_values_that_have_no_place_are_kept_beside(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "library.jsonl"
    odd = {"confidence": 7, "freq": -1, "utility": "high", "when_to_use": "other", "origin": "notes"}
    plain = {"memory_type": "task", "content": "a", "score": 87, "author": "", "time_created": "", "metadata": odd}
    await load(store, file, plain)
    found = await only(store)
    assert found.metadata == {**odd, "score": 87}
    assert (found.importance, found.confidence, found.freq, found.author) == (0.5, 1.0, 0, "import")
    assert (found.memory_target, found.created_at) == ("default", NOW)
    await store.close()


@pytest.mark.parametrize(
    ("given", "named", "target"), [(None, "", "games"), (None, "login", "login"), ("chess", "login", "chess")]
)
async def test_the_target_is_the_one_given_or_else_the_task_or_else_the_workspace(
    tmp_path: Path, given: str | None, named: str, target: str
) -> None:
    store = LocalStore(tmp_path / "memory.db")
    await load(store, tmp_path / "library.jsonl", {**TASK, "metadata": {"task_name": named}}, memory_target=given)
    assert (await only(store)).memory_target == target
    await store.close()


async def test_personal_lines_keep_whom_they_are_about_and_what_was_reflected_on(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db")
    said = {**TASK, "memory_type": "personal", "target": "Ann", "reflection_subject": "sport", "metadata": {}}
    await load(store, tmp_path / "library.jsonl", said, memory_target="rust")
    found = await only(store)
    assert (found.memory_type, found.memory_target) == (MemoryType.PERSONAL, "Ann")
    assert found.metadata["reflection_subject"] == "sport"
    await store.close()


async def test_a_line_about_a_tool_becomes_its_guideline_and_calls_that_two_loads_record_once(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "library.jsonl"
    loaded = await load(store, file, TOOL)
    assert (loaded.memory_ids, loaded.tool_calls) == (("w1",), 2)
    guideline = await find_guideline(store, ALICE, "search")
    assert guideline is not None
    assert (guideline.memory_type, guideline.memory_target) == (MemoryType.TOOL, "search")
    origin = {"workspace_id": "games", "memory_id": "w1"}
    assert guideline.metadata == {"kind": "guideline", "score": 0, "origin": {**origin, "calls": 1}}
    [good, bad] = await calls_of(store)
    assert good == ToolCallResult(
        call_id=good.call_id,
        create_time=parse_time("2025-09-01T10:00:00Z"),
        tool_name="search",
        input={"query": "walrus"},
        output="3 results",
        time_cost=1.5,
        metadata={"source": "trace", "origin": {"summary": "found", "score": 1.0, "is_summarized": True}},
    )
    assert (bad.success, bad.output) == (False, "no answer")
    again = await load(store, file, TOOL)
    assert (again.known_memory_ids, again.tool_calls, again.run_id) == (("w1",), 0, None)
    assert len(await calls_of(store)) == 2
    await store.close()


async def test_a_tool_without_a_guideline_brings_its_calls_alone(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "library.jsonl"
    plain = {"output": {"found": 3}, "create_time": ""}
    loaded = await load(store, file, {**TOOL, "content": "", "tool_call_results": [plain]})
    assert loaded == LoadedLibrary(tool_calls=1)
    [call] = await calls_of(store)
    assert (call.tool_name, call.output, call.create_time) == (
        "search",
        '{"found": 3}',
        parse_time("2025-09-01T10:00:00Z"),
    )
    await store.close()


async def test_a_second_guideline_of_a_tool_becomes_a_note(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "library.jsonl"
    second = {**TOOL, "memory_id": "w2", "content": "Use long queries.", "tool_call_results": []}
    await load(store, file, TOOL, second)
    await load(store, file, {**second, "memory_id": "w3", "content": "Use none."})
    found = (await store.list_memories(ALICE, ListMemories())).memories
    assert {item.memory_id: item.metadata.get("kind") for item in found} == {"w1": "guideline", "w2": None, "w3": None}
    assert {item.memory_id: item.metadata["origin"] for item in found}["w2"] == {
        "workspace_id": "games",
        "memory_id": "w2",
        "kind": "guideline",
        "calls": 0,
    }
    await store.close()


BAD: dict[str, dict[str, JsonValue]] = {
    "memory.memory_type": {**TASK, "memory_type": "dream"},
    "memory.time_created: not a time": {**TASK, "time_created": "yesterday"},
    "memory: content is empty": {**TASK, "content": ""},
    "memory.metadata": {**TASK, "metadata": []},
    "nested deeper": {**TASK, "metadata": {}, "more": json.loads('{"a": ' * 40 + "1" + "}" * 40)},
    "when_to_use is empty": {**TOOL, "when_to_use": " "},
    "memory_id is missing": {**TOOL, "memory_id": ""},
    "belong to memories of type tool": {**TOOL, "memory_type": "task"},
    "memory.tool_call_results[1].time_cost": {**TOOL, "tool_call_results": [CALL, {**CALL, "time_cost": "long"}]},
    "create_time: is missing": {**TOOL, "time_created": None, "tool_call_results": [{}]},
    "memory_target": {**TASK, "workspace_id": "x" * 600},
}


@pytest.mark.parametrize("reason", BAD)
async def test_a_bad_line_names_its_field_and_nothing_of_the_file_is_loaded(tmp_path: Path, reason: str) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "library.jsonl"
    with pytest.raises(InvalidLinesError) as caught:
        await load(store, file, {**TASK, "memory_id": "other"}, BAD[reason])
    [(number, told)] = caught.value.lines
    assert number == 2
    assert reason in told
    counts = await store.count(ALICE)
    assert (counts.memories, counts.tool_calls) == (0, 0)
    await store.close()


async def test_a_later_file_of_the_same_tool_brings_only_the_calls_that_are_new(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "library.jsonl"
    twice = [CALL, CALL, {**CALL, "create_time": ""}, {**CALL, "output": "old"}]
    assert (
        await load(store, file, {**TOOL, "tool_call_results": [{**CALL, "output": "first"}, *twice]})
    ).tool_calls == 5
    noted = [{**call, "is_summarized": True, "evaluation": "good", "score": 0.5, "token_cost": 7} for call in twice]
    later = {**TOOL, "time_created": "2025-10-01 10:00:00", "tool_call_results": [*noted, {**CALL, "output": "new"}]}
    loaded = await load(store, file, later)
    assert (loaded.tool_calls, loaded.known_memory_ids) == (1, ("w1",))
    assert len(await calls_of(store)) == 6
    await store.close()


class SlowStore(LocalStore):
    """A store in which writing begins when `begun` is set, and goes on when `go_on` is."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        self.begun.set()
        await self.go_on.wait()
        return await super().put(scope, batch)


async def test_a_load_that_is_cancelled_while_it_writes_records_the_calls_too(tmp_path: Path) -> None:
    store = SlowStore(tmp_path / "memory.db")
    task = asyncio.create_task(load(store, tmp_path / "library.jsonl", TOOL))
    await store.begun.wait()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    store.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    counts = await store.count(ALICE)
    assert (counts.memories, counts.tool_calls) == (1, 2)
    await store.close()
