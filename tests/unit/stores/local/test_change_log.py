"""The change log: an index is followed by the changes of its own partition, and the log stays small."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from reme_core.ports import AppendMessages, MemorySearch, MessageSearch
from reme_core.schema import Scope
from reme_core.stores import LocalStore
from reme_core.stores.local.file.dialect import FileConnection
from reme_core.stores.sql.bookkeeping import ITEMS, Layer, changed_since, find_scope, log_changes, newest_change
from reme_core.stores.sql.items.vectors_in_memory import ItemSource, VectorPart
from reme_core.stores.sql.partitions import Partition
from reme_core.testing.store_values import ALICE, BOB, axis, batch, in_new_process, memory, message
from tests.contract.suites.item_values import address, put, write
from tests.support.file_checks import problems_of_file


async def say(store: LocalStore, scope: Scope, *texts: str) -> None:
    said = [message(text, minute=place) for place, text in enumerate(texts)]
    await store.append(scope, AppendMessages(session_id="s", messages=said))


async def log_many(store: LocalStore, owner: int, layer: int, count: int, *, at_once: int = 1_000) -> None:
    for start in range(0, count, at_once):
        rows = range(start, start + at_once)
        await store.database.write(lambda c, rows=rows: log_changes(c, owner, layer, rows), settled=False)


def logged(path: Path) -> dict[tuple[int, int], int]:
    with closing(sqlite3.connect(path, factory=FileConnection)) as connection:
        rows = connection.execute("SELECT owner, layer, count(*) FROM row_changes GROUP BY owner, layer")
        return {(owner, layer): count for owner, layer, count in rows}


async def test_25_000_changes_of_another_scope_make_no_partition_load_anew(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path, synchronous="NORMAL")
    await say(store, ALICE, *(f"tea {number}" for number in range(50)))
    await say(store, BOB, "coffee")
    with closing(sqlite3.connect(path, factory=FileConnection)) as connection:
        alice, bob = find_scope(connection, ALICE), find_scope(connection, BOB)
        assert alice is not None
        assert bob is not None
        partition = Partition(Layer.MESSAGES)
        partition.follow(connection, alice)
        loaded = partition.index
        await say(store, ALICE, "tea before")
        await log_many(store, bob, Layer.MESSAGES, 25_000)
        await say(store, ALICE, "tea after")
        partition.follow(connection, alice)
        assert partition.index is loaded
        assert len(loaded) == 52
    await store.close()


async def test_25_000_changes_of_another_namespace_change_nothing_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path, synchronous="NORMAL")
    await write(store, put(address("k", ("docs",)), {}, axis(0)), put(address("k", ("notes",)), {}, axis(1)))
    with closing(sqlite3.connect(path, factory=FileConnection)) as connection:
        [docs, notes] = [ns for (ns,) in connection.execute("SELECT ns FROM item_namespaces ORDER BY path")]
        part = VectorPart(ItemSource(docs))
        before = part.follow(connection)
        await log_many(store, notes, ITEMS, 25_000)
        assert part.follow(connection) is before
        await write(store, put(address("l", ("docs",)), {}, axis(2)))
        assert len(part.follow(connection).keys) == 2
    await store.close()


async def test_the_log_keeps_a_bounded_number_of_changes_of_each_partition(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path, synchronous="NORMAL")
    await store.put(ALICE, batch(memory("tea")))  # makes the file
    counts = {10: 5, 11: 64, 12: 1_000, 13: 200_000}
    for owner, count in counts.items():
        await log_many(store, owner, Layer.MEMORIES, count, at_once=min(count, 1_000))
    found = logged(path)
    assert found[10, Layer.MEMORIES] == 5
    assert found[11, Layer.MEMORIES] == 64
    assert 250 <= found[12, Layer.MEMORIES] < 250 + 64
    assert 20_000 <= found[13, Layer.MEMORIES] < 20_000 + 64
    with closing(sqlite3.connect(path, factory=FileConnection)) as connection:
        for owner, count in counts.items():
            assert newest_change(connection, owner, Layer.MEMORIES) == count
            assert changed_since(connection, owner, Layer.MEMORIES, count) == []
        assert changed_since(connection, 12, Layer.MEMORIES, 998) == [998, 999]
        assert changed_since(connection, 12, Layer.MEMORIES, 600) is None
        assert changed_since(connection, 13, Layer.MEMORIES, 150_000) is None
    await store.close()


async def test_changes_one_by_one_are_cut_like_many_at_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path, synchronous="NORMAL")
    kept = await store.put(ALICE, batch(memory("tea")))
    for number in range(300):
        await store.put(ALICE, batch(kept[0].model_copy(update={"content": f"tea {number}"})))
    [(_, count)] = logged(path).items()
    assert 75 <= count < 75 + 64
    await store.close()
    assert problems_of_file(path) == []


async def test_with_a_scope_or_a_namespace_its_log_goes(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path, synchronous="NORMAL")
    where = address("k", ("docs",))
    for scope in (ALICE, BOB):
        await say(store, scope, "tea")
        await store.put(scope, batch(memory("tea", scope=scope)))
    await write(store, put(where, {}, axis(0)))
    with closing(sqlite3.connect(path, factory=FileConnection)) as connection:
        alice, bob = find_scope(connection, ALICE), find_scope(connection, BOB)
    assert len(logged(path)) == 5
    await store.erase(ALICE)
    assert set(logged(path)) == {(bob, Layer.MESSAGES), (bob, Layer.MEMORIES), (1, ITEMS)}
    await write(store, where)
    assert set(logged(path)) == {(bob, Layer.MESSAGES), (bob, Layer.MEMORIES)}
    await say(store, ALICE, "tea again")
    assert alice not in {owner for owner, _ in logged(path)}
    assert len(await store.search_messages(ALICE, MessageSearch(text="tea"))) == 1
    await store.close()
    assert problems_of_file(path) == []


def write_in_a_process(path: Path, count: int) -> int:
    async def run() -> int:
        store = LocalStore(path, synchronous="NORMAL")
        for number in range(count):
            await say(store, ALICE, f"tea {number}")
            await say(store, BOB, *(f"coffee {number} {place}" for place in range(10)))
            await store.put(ALICE, batch(memory(f"likes tea {number}")))
        found = await store.search_messages(ALICE, MessageSearch(text="tea", limit=1_000))
        await store.close()
        return len(found)

    return asyncio.run(run())


async def test_processes_that_write_and_read_at_once_agree(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path)
    await say(store, ALICE, "tea at first")
    async with asyncio.TaskGroup() as group:
        writers = [group.create_task(in_new_process(write_in_a_process, path, 100)) for _ in range(2)]
        last = 0
        while not all(writer.done() for writer in writers):
            found = len(await store.search_messages(ALICE, MessageSearch(text="tea", limit=1_000)))
            assert found >= last
            last = found
    fresh = LocalStore(path)
    for reader in (store, fresh):
        assert len(await reader.search_messages(ALICE, MessageSearch(text="tea", limit=1_000))) == 201
        assert len(await reader.search_messages(BOB, MessageSearch(text="coffee", limit=5_000))) == 2_000
        assert len(await reader.search(ALICE, MemorySearch(text="tea", limit=1_000))) == 100
        await reader.close()
    assert problems_of_file(path) == []
