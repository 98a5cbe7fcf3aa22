"""What the local store adds to the contract of counting uses: many processes, and what a use costs the file."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from reme_core import ReMe
from reme_core.ports import EventQuery, ListMemories, MemorySearch, PutMemory, UseMemory
from reme_core.stores import LocalStore
from reme_core.testing.store_values import ALICE, axis, batch, changed, in_new_process, memory
from tests.support.file_checks import problems_of_file
from tests.support.using_child import use_many

USES = 500


async def test_of_uses_by_two_processes_and_edits_by_a_third_none_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path, synchronous="NORMAL")
    [fact] = await store.put(ALICE, batch(memory("fact")))
    edits = 0
    async with asyncio.TaskGroup() as group:
        children = [group.create_task(in_new_process(use_many, path, fact.memory_id, USES)) for _ in range(2)]
        while not all(child.done() for child in children):
            edits += 1
            await store.put(ALICE, batch(changed(fact, {"content": f"edit {edits}"})))
            await asyncio.wait(children, timeout=0.05)
    [found] = await store.get(ALICE, [fact.memory_id])
    assert (found.freq, found.utility) == (2 * USES, USES / 2)
    assert (found.content, found.revision) == (f"edit {edits}", edits + 1)
    assert len(await store.events(ALICE, EventQuery(limit=10_000))) == edits + 1
    await store.close()
    assert problems_of_file(path) == []


async def test_a_use_touches_no_row_but_that_of_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path, synchronous="NORMAL")
    [fact, _] = await store.put(
        ALICE, batch(PutMemory(memory=memory("fact", memory_id="fact"), vector=axis(0)), memory("other"))
    )
    await store.search(ALICE, MemorySearch(text="fact"))

    def everything() -> list[object]:
        with closing(sqlite3.connect(path)) as connection:
            names = [
                name
                for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
                if name not in {"memories", "row_digests"}  # the digest of a memory goes with it
            ]
            rows = [connection.execute(f"SELECT * FROM {name}").fetchall() for name in names]  # noqa: S608
            columns = "row, memory_id, revision, normal, created, observed_at, valid_from, valid_to, terms"
            return [*rows, connection.execute(f"SELECT {columns} FROM memories").fetchall()]  # noqa: S608

    before = everything()
    await store.record_uses(ALICE, [UseMemory(memory_id=fact.memory_id, uses=3)])
    assert everything() == before
    [first, *_] = await store.search(ALICE, MemorySearch(text="fact"))
    assert first.memory.freq == 3
    await store.close()


async def test_uses_travel_with_an_exported_memory_and_stay_where_it_is_imported_again(tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    async with ReMe("space", tmp_path, llm=None, embedding=None, vector_store=store) as reme:
        kept = await reme.add_memory("fact", user_id="alice")
        await store.record_uses(ALICE, [UseMemory(memory_id=kept.memory_id, uses=2, helpful=1.5)])
        await reme.export(file, user_id="alice")
        await store.record_uses(ALICE, [UseMemory(memory_id=kept.memory_id)])
        await reme.import_(file, user_id="alice")
        await reme.import_(file, user_id="bob")
        [here] = (await store.list_memories(ALICE, ListMemories())).memories
        there = await reme.get_memory(kept.memory_id, user_id="bob")
    await store.close()
    assert (here.freq, here.utility) == (3, 1.5)
    assert (there.freq, there.utility) == (2, 1.5)


async def test_a_run_can_be_undone_though_its_memories_were_used_since(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    async with ReMe("space", tmp_path, llm=None, embedding=None, vector_store=store) as reme:
        drafts = [{"content": "fact", "memory_id": "a"}]
        await reme.add_memories(drafts, user_id="alice", run_id="added")
        edit = changed((await store.get(ALICE, ["a"]))[0], {"content": "edited"})
        await store.put(ALICE, replace(batch(edit), run_id="edited"))
        await store.record_uses(ALICE, [UseMemory(memory_id="a", uses=2, helpful=1.0)])
        await reme.undo("edited", user_id="alice")
        [back] = await store.get(ALICE, ["a"])
        assert (back.content, back.freq, back.utility) == ("fact", 2, 1.0)
        await reme.undo("added", user_id="alice")
        assert (await store.list_memories(ALICE, ListMemories())).memories == ()
    await store.close()
