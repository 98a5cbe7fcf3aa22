"""The one format of exports and libraries: files of its first version, files of the other kind, and hostile lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reme_core.errors import InvalidLinesError
from reme_core.ports import ListBlocks, ListMemories, ListOffloads, ListToolCalls, MemoryFilter
from reme_core.schema import LoadedLibrary, Scope, TransferCounts
from reme_core.stores import LocalStore
from reme_core.testing.store_values import ALICE, BOB, NOW, batch, memory
from reme_core.transfer.memory_library import load_library
from reme_core.transfer.scope_transfer import dump_library, export_scope, import_scope

FILES = Path(__file__).parents[2] / "data" / "transfer"
HEAD = {"kind": "header", "format": "reme", "version": 2, "holds": "scope"}
LIBRARY_HEAD = {**HEAD, "holds": "library"}


async def load(store: LocalStore, path: Path, *, skip: bool = False) -> LoadedLibrary:
    return await load_library(
        store,
        None,
        BOB,
        path,
        memory_target=None,
        skip_bad_lines=skip,
        deduplicate=True,
        similarity=0.9,
        at=NOW,
    )


async def held(store: LocalStore, scope: Scope) -> dict[str, tuple[str, str, str | None]]:
    page = await store.list_memories(scope, ListMemories(filter=MemoryFilter(include_superseded=True)))
    return {item.memory_id: (item.memory_type, item.content, item.superseded_by) for item in page.memories}


async def test_an_export_of_the_version_before_is_read_and_twice_is_once(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db")
    for known in ({}, {"known_messages": 3, "known_memories": 4}):
        moved = await import_scope(store, None, BOB, FILES / "export_v1.jsonl")
        assert moved == TransferCounts(messages=3, blocks=1, memories=4, offloads=3, tool_calls=2, **known)
    assert await held(store, BOB) == {
        "old": ("personal", "she lives in Rome", "new"),
        "new": ("personal", "she lives in Oslo 奥斯陆", None),
        "entry": ("meta", "about self", None),
        "tip": ("procedural", "retry once", None),
    }
    [block] = (await store.list_blocks(BOB, ListBlocks())).blocks
    assert (block.block_id, block.message_ids) == ("b1", ("m0", "m1"))
    offloads = (await store.list_offloads(BOB, ListOffloads())).offloads
    assert {item.reference for item in offloads} == {"r1", "8627f0b99a101ecf", "b1f1efad67d7a796"}
    calls = (await store.list_tool_calls(BOB, ListToolCalls())).calls
    assert {(item.call_id, item.success) for item in calls} == {("c1", True), ("c2", False)}
    await store.close()


async def test_a_library_of_the_version_before_is_read_and_twice_is_once(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db")
    loaded = await load(store, FILES / "library_v1.jsonl")
    assert loaded.memory_ids == ("new", "tip", "old")
    assert (await load(store, FILES / "library_v1.jsonl")).known_memory_ids == loaded.memory_ids
    assert (await held(store, BOB))["old"] == ("personal", "she lives in Rome", "new")
    await store.close()


async def test_what_was_read_of_the_version_before_is_written_in_this_one_and_read_again(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "alice.jsonl"
    moved = await import_scope(store, None, ALICE, FILES / "export_v1.jsonl")
    assert await export_scope(store, ALICE, file) == moved.model_copy(update={"events": 4})
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
    assert lines[0] == HEAD
    assert not any("user_id" in line["value"] for line in lines if line["kind"] == "memory")
    assert await import_scope(store, None, BOB, file) == moved
    assert await held(store, BOB) == await held(store, ALICE)
    await store.close()


async def test_a_file_of_the_other_kind_is_refused_with_the_way_to_read_it(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "file.jsonl"
    await store.put(ALICE, batch(memory("Ann rows")))
    await dump_library(store, ALICE, file)
    with pytest.raises(InvalidLinesError, match="line 1: begins a library: load the file instead"):
        await import_scope(store, None, BOB, file)
    with pytest.raises(InvalidLinesError, match="has no 'kind'"):
        await import_scope(store, None, BOB, FILES / "library_v1.jsonl")
    await export_scope(store, ALICE, file)
    for path in (file, FILES / "export_v1.jsonl"):
        with pytest.raises(InvalidLinesError, match="line 1: begins an export: import the file instead"):
            await load(store, path, skip=True)
    assert await held(store, BOB) == {}
    await store.close()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 3}, "'reme' version 3 is not known"),
        ({"format": ["reme"]}, r"\['reme'\] version 2 is not known"),
        ({"holds": "everything"}, "holds 'everything' is not known"),
        ({"holds": {}}, "holds {} is not known"),
    ],
)
async def test_a_head_that_is_not_known_refuses_the_file_bad_lines_skipped_or_not(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "file.jsonl"
    for head in (HEAD, LIBRARY_HEAD):
        file.write_text(json.dumps({**head, **change}) + '\n{"content": "a"}\n', encoding="utf-8")
        for skip in (False, True):
            with pytest.raises(InvalidLinesError, match=f"line 1: .*{reason}"):
                await import_scope(store, None, BOB, file, skip_bad_lines=skip)
        with pytest.raises(InvalidLinesError, match=f"line 1: .*{reason}"):
            await load(store, file, skip=True)
    await store.close()


BAD = {
    "{": "not JSON",
    '["a"]': "wanted an object, found list",
    '{"kind": "message", "value": 5}': "value: wanted an object, found int",
    '{"kind": "message", "value": {}}': "message.message: is missing",
    '{"kind": "memory", "value": {"content": " "}}': "content is empty",
    '{"kind": "memory", "value": {"content": "\\ud800"}}': "lone surrogate",
    '{"kind": "memory", "value": {"content": ' + "[" * 100_000: "nested too deep",
    '{"kind": "dream", "value": {}}': "kind 'dream' is not known",
    '{"kind": ["memory"], "value": {}}': "kind ['memory'] is not known",
    '{"content": "a"}': "has no 'kind'",
}


async def test_what_bad_lines_leave_of_an_export_is_imported_where_they_are_to_be_skipped(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "file.jsonl"
    lines = (FILES / "export_v1.jsonl").read_text(encoding="utf-8").rstrip("\n").split("\n")
    assert '"message_id": "m0"' in lines[7]
    lines[7] = "{"
    file.write_text("\n".join([*lines, *BAD]), encoding="utf-8")
    moved = await import_scope(store, None, BOB, file, skip_bad_lines=True)
    assert (moved.messages, moved.blocks, moved.offloads, moved.memories) == (2, 0, 2, 4)
    assert [problem.line for problem in moved.problems[:3]] == [2, 4, 8]  # a block and an offload of that message
    told = [problem for problem in moved.problems if problem.line > len(lines)]
    assert [problem.line - len(lines) for problem in told] == list(range(1, len(BAD) + 1))
    assert all(reason in problem.reason for problem, reason in zip(told, BAD.values(), strict=True))
    await store.close()


async def test_every_bad_line_of_an_export_is_told_by_number_and_nothing_is_imported(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "file.jsonl"
    good = json.dumps({"kind": "memory", "value": {"content": "Ann rows"}})
    file.write_text("\n".join([json.dumps(HEAD), good, *BAD, "", good]), encoding="utf-8")
    with pytest.raises(InvalidLinesError, match="nothing was imported") as caught:
        await import_scope(store, None, BOB, file)
    assert [number for number, _ in caught.value.lines] == list(range(3, 3 + len(BAD)))
    for (_, reason), wanted in zip(caught.value.lines, BAD.values(), strict=True):
        assert wanted in reason
    assert (await store.list_memories(BOB, ListMemories())).memories == ()
    await store.close()
