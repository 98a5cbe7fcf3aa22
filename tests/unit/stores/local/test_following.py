"""Indexes in memory follow the file: whoever writes, however far behind, however small the cache, the answers agree."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from reme_core.errors import StoreClosedError
from reme_core.ports import (
    AppendMessages,
    DeleteMemory,
    ListMemories,
    MemorySearch,
    MessageSearch,
    MessageVector,
    PutMemory,
    ScoredMemory,
    Store,
    WriteBatch,
)
from reme_core.schema import Scope
from reme_core.stores import LocalStore
from reme_core.stores.sql import bookkeeping as scopes
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.ranked_search import SearchedPartitions, search_memories
from reme_core.stores.sql.store import SqlStore
from reme_core.testing.store_values import ALICE, BOB, NOW, axis, batch, block, memory, message, random_unit
from tests.support.file_checks import problems_of_file

WORDS = ["tea", "coffee", "milk", "sugar", "cup", "spoon", "kettle", "water", "leaf", "bean"]


async def answers(store: Store, scope: Scope) -> list[list[tuple[str, float]]]:
    found: list[list[tuple[str, float]]] = []
    for number, text in enumerate(("tea", "coffee milk", "leaf bean spoon")):
        for vector in (None, random_unit(number)):
            memories = await store.search(scope, MemorySearch(text=text, vector=vector, limit=20))
            messages = await store.search_messages(scope, MessageSearch(text=text, vector=vector, limit=20))
            blocks = await store.search_blocks(scope, MessageSearch(text=text, limit=20))
            found.append([(item.memory.memory_id, round(item.score, 5)) for item in memories])
            found.append([(item.stored.message.message_id, round(item.score, 5)) for item in messages])
            found.append([(item.block.block_id, round(item.score, 5)) for item in blocks])
    return found


async def write_something(store: Store, scope: Scope, chance: random.Random, step: int) -> None:
    text = " ".join(chance.choices(WORDS, k=chance.randint(1, 12))) + f" {step}"
    held = (await store.list_memories(scope, ListMemories(limit=1000))).memories
    match chance.choice(("add", "add", "say", "say", "say", "update", "drop vector", "delete", "vectors", "erase")):
        case "add":
            vector = random_unit(step) if chance.random() < 0.7 else None
            await store.put(scope, batch(PutMemory(memory=memory(text, scope=scope, minute=step), vector=vector)))
        case "say":
            said = [message(f"{text} {place}", minute=step) for place in range(chance.randint(1, 4))]
            request = AppendMessages(session_id=f"s{step % 3}", messages=said, want_vectors=True)
            await store.append(scope, request)
            if chance.random() < 0.5:
                await store.put_blocks(scope, [block(f"s{step % 3}", *said, summary=text)])
        case "vectors":
            waiting = await store.pending_texts(scope, 3)
            await store.put_vectors(
                scope, [MessageVector(pending=item, vector=random_unit(int(item.key))) for item in waiting]
            )
        case "update" | "drop vector" as kind if held:
            changed = chance.choice(held).model_copy(update={"content": text})
            vector = random_unit(step) if kind == "update" else None
            await store.put(scope, batch(PutMemory(memory=changed, vector=vector)))
        case "delete" if held:
            gone = DeleteMemory(memory_id=chance.choice(held).memory_id)
            await store.put(scope, WriteBatch(deletes=[gone], at=NOW))
        case "erase" if chance.random() < 0.1:
            await store.erase(scope)
        case _:
            pass


@pytest.mark.parametrize(("seed", "cache_bytes"), [(1, 1 << 30), (2, 1), (3, 20_000)])
async def test_a_reader_that_follows_answers_like_one_that_has_just_opened(
    tmp_path: Path, seed: int, cache_bytes: int
) -> None:
    path = tmp_path / "memory.db"
    chance = random.Random(seed)
    writer, reader = LocalStore(path, synchronous="NORMAL"), LocalStore(path, cache_bytes=cache_bytes)
    for step in range(150):
        await write_something(writer, chance.choice((ALICE, BOB)), chance, step)
        if step % 10 == 0:
            fresh = LocalStore(path)
            for scope in (ALICE, BOB):
                assert await answers(reader, scope) == await answers(fresh, scope)
            await fresh.close()
    await writer.close()
    await reader.close()
    assert problems_of_file(path) == []


async def test_a_reader_behind_a_pruned_log_loads_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scopes, "_FEWEST_KEPT", 10)
    monkeypatch.setattr(scopes, "_MOST_KEPT", 10)
    monkeypatch.setattr(scopes, "_PRUNE_EVERY", 5)
    path = tmp_path / "memory.db"
    writer, reader = LocalStore(path, synchronous="NORMAL"), LocalStore(path)
    for step in range(60):
        await writer.put(ALICE, batch(PutMemory(memory=memory(f"tea {step}", minute=step), vector=axis(step % 8))))
        if step % 20 == 0:
            assert len(await reader.search(ALICE, MemorySearch(text="tea", limit=100))) == step + 1
    assert len(await reader.search(ALICE, MemorySearch(text="tea", limit=100))) == 60
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM row_changes").fetchone()[0] <= 15
    await writer.close()
    await reader.close()


async def test_changes_of_other_users_do_not_hide_those_of_this_one(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    await store.put(ALICE, batch(memory("tea")))
    await store.search(ALICE, MemorySearch(text="tea"))
    for number in range(20):
        await store.put(BOB, batch(memory(f"tea {number}", scope=BOB)))
    await store.erase(BOB)
    await store.put(ALICE, batch(memory("more tea")))
    assert len(await store.search(ALICE, MemorySearch(text="tea"))) == 2
    await store.close()


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_ids_decide_between_equal_scores_at_the_limit(tmp_path: Path, limit: int) -> None:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    for name in ("c", "b", "a", "d"):
        await store.put(ALICE, batch(PutMemory(memory=memory(f"tea {name}", memory_id=name), vector=axis(0))))
    for count in (4, 3, 2):
        found = await store.search(ALICE, MemorySearch(vector=axis(0), limit=limit))
        assert [item.memory.memory_id for item in found] == ["a", "b", "c", "d"][: min(limit, count)]
        await store.put(ALICE, WriteBatch(deletes=[DeleteMemory(memory_id="abcd"[count - 1])], at=NOW))
    await store.close()


async def test_two_memories_that_tie_are_told_apart_by_id_not_by_age_of_the_row(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    for name in ("b", "a"):
        await store.put(ALICE, batch(PutMemory(memory=memory(f"tea {name}", memory_id=name), vector=axis(0))))
    [first] = await store.search(ALICE, MemorySearch(vector=axis(0), limit=1))
    assert first.memory.memory_id == "a"
    await store.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_and_its_parent_go_on_with_the_same_store(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db")

    def add(text: str) -> None:
        asyncio.run(store.put(ALICE, batch(memory(text))))

    add("fact before")
    asyncio.run(store.search(ALICE, MemorySearch(text="fact")))
    to_child, from_parent = os.pipe()
    to_parent, from_child = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(from_parent)
            add("fact of the child")
            os.write(from_child, b"1")
            os.read(to_child, 1)  # also returns if the parent is gone
            add("another fact of the child, after the parent has closed")
            status = 0 if len(asyncio.run(store.search(ALICE, MemorySearch(text="child")))) == 2 else 2
        finally:
            os._exit(status)
    os.close(from_child)
    try:
        assert os.read(to_parent, 1) == b"1"
        add("fact of the parent")
        assert len(asyncio.run(store.search(ALICE, MemorySearch(text="fact")))) == 3
        asyncio.run(store.close())
    finally:
        os.close(from_parent)
        _, status = os.waitpid(child, 0)
        os.close(to_child)
        os.close(to_parent)
    assert os.waitstatus_to_exitcode(status) == 0
    again = LocalStore(tmp_path / "memory.db")
    assert len(asyncio.run(again.list_memories(ALICE, ListMemories())).memories) == 4
    asyncio.run(again.close())
    assert problems_of_file(tmp_path / "memory.db") == []


async def test_a_cancelled_write_is_there_wholly_or_not_at_all(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    for number in range(60):
        written = [PutMemory(memory=memory(f"{number} {place}"), vector=axis(place)) for place in range(5)]
        task = asyncio.ensure_future(store.put(ALICE, batch(*written)))
        for _ in range(number % 7):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or len(task.result()) == 5
    texts = [item.content for item in (await store.list_memories(ALICE, ListMemories(limit=1000))).memories]
    counts = {number: sum(text.startswith(f"{number} ") for text in texts) for number in range(60)}
    assert set(counts.values()) <= {0, 5}
    await store.put(ALICE, batch(memory("and on it goes")))
    await store.close()
    assert problems_of_file(tmp_path / "memory.db") == []


def test_two_event_loops_one_after_the_other_share_a_store(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db")
    asyncio.run(store.put(ALICE, batch(memory("first"))))
    asyncio.run(store.put(ALICE, batch(memory("second"))))
    assert len(asyncio.run(store.list_memories(ALICE, ListMemories())).memories) == 2
    asyncio.run(store.close())


async def test_closing_while_calls_are_in_flight_finishes_or_refuses_each(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    await store.put(ALICE, batch(memory("first")))
    tasks = [asyncio.ensure_future(store.put(ALICE, batch(memory(f"fact {number}")))) for number in range(30)]
    await asyncio.sleep(0)
    await store.close()
    done, _ = await asyncio.wait(tasks)
    refused = [task for task in done if task.exception() is not None]
    assert all(isinstance(task.exception(), StoreClosedError) for task in refused)
    again = LocalStore(tmp_path / "memory.db")
    assert len((await again.list_memories(ALICE, ListMemories())).memories) == 31 - len(refused)
    await again.close()


async def test_closing_from_another_thread_never_gives_a_foreign_error(tmp_path: Path) -> None:
    for attempt in range(20):
        store = LocalStore(tmp_path / f"{attempt}.db", synchronous="NORMAL")

        async def keep_asking(store: LocalStore = store) -> None:
            with pytest.raises(StoreClosedError):  # noqa: PT012
                while True:
                    await store.count(ALICE)

        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(asyncio.run, keep_asking()))
            group.create_task(asyncio.to_thread(asyncio.run, keep_asking()))
            await store.count(ALICE)
            await asyncio.to_thread(asyncio.run, store.close())


async def test_pages_go_on_while_others_are_written(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    for number in range(30):
        await store.put(ALICE, batch(memory(f"fact {number}", minute=number)))
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await store.list_memories(ALICE, ListMemories(limit=4, cursor=cursor))
        seen += [item.content for item in page.memories]
        await store.put(ALICE, batch(memory(f"meanwhile {len(seen)}", minute=1000 + len(seen))))
        gone = next(item for item in page.memories)
        await store.put(ALICE, WriteBatch(deletes=[DeleteMemory(memory_id=gone.memory_id)], at=NOW))
        if (cursor := page.next_cursor) is None:
            break
    assert seen == [f"fact {number}" for number in reversed(range(30))]
    await store.close()


async def search_from_an_older_snapshot(store: SqlStore) -> tuple[list[str], list[str]]:
    """Begin a search, let another one find what was written meanwhile, and go on; return what both found."""
    began, goes_on = threading.Event(), threading.Event()
    tea = MemorySearch(text="tea")

    def late(connection: SqlConnection, held: SearchedPartitions) -> list[ScoredMemory]:
        connection.execute("SELECT count(*) FROM memories").fetchone()  # so the snapshot is one of before
        began.set()
        assert goes_on.wait(30)
        return search_memories(connection, ALICE, tea, held)

    await store.put(ALICE, batch(memory("green tea", memory_id="first")))
    await store.search(ALICE, tea)
    searching = asyncio.create_task(store._loader.search(late, ALICE, None))
    await asyncio.to_thread(began.wait, 30)
    await store.put(ALICE, batch(memory("black tea", memory_id="second", minute=1)))
    early = await store.search(ALICE, tea)
    goes_on.set()
    return [hit.memory.memory_id for hit in early], [hit.memory.memory_id for hit in await searching]


async def test_a_search_begun_before_what_its_partition_holds_finds_that_as_well(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    early, late = await search_from_an_older_snapshot(store)
    assert early == late == ["second", "first"]
    await store.close()
