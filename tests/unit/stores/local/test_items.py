"""Items in the local file: what stands in its tables, how vectors in memory follow it, and what an erasure leaves."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from reme_core.errors import DimensionMismatchError, EmbeddingModelMismatchError
from reme_core.ports import (
    DeleteMemory,
    FilterOperator,
    IndexedBy,
    ItemAddress,
    ItemCondition,
    ItemRecord,
    ListMemories,
    PutMemory,
    RecordPlace,
    SearchItems,
)
from reme_core.schema import MemoryType, Scope
from reme_core.stores import LocalStore
from reme_core.stores.sql import bookkeeping as scopes
from reme_core.stores.sql.items import item_rows
from reme_core.testing.store_values import ALICE, BOB, at, axis, batch, changed, leaning, memory, random_unit
from tests.contract.suites.item_values import (
    ALICES,
    OF_ALICE,
    SPACE,
    address,
    asked,
    get,
    keys,
    of_alice,
    paged,
    put,
    write,
)
from tests.support.file_checks import bytes_on_disk, problems_of_file

RANKED = replace(asked(()), vector=axis(0))


def count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (found,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
    return int(found)


async def test_vectors_in_memory_follow_two_stores_whose_log_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scopes, "_FEWEST_KEPT", 2)
    monkeypatch.setattr(scopes, "_MOST_KEPT", 2)
    monkeypatch.setattr(scopes, "_PRUNE_EVERY", 1)
    one, other = (LocalStore(tmp_path / "m.db", synchronous="NORMAL", cache_bytes=limit) for limit in (1 << 20, 1))
    chance = random.Random(3)
    state: dict[str, float | None] = {}
    for step in range(120):
        store = chance.choice((one, other))
        for _ in range(chance.choice((1, 1, 12))):
            key, best = str(chance.randrange(12)), round(chance.random(), 3)
            where = address(key, ("docs", str(int(key) % 3)))
            match chance.choice(("put", "put", "bare", "delete")):
                case "put":
                    await write(store, put(where, {}, leaning(best / 2), leaning(best)), minute=step)
                    state[key] = best
                case "bare":
                    await write(store, put(where), minute=step)
                    state[key] = None
                case _:
                    await write(store, where)
                    state.pop(key, None)
        expected = sorted((best for best in state.values() if best is not None), reverse=True)
        for reader in (one, other):
            found = await reader.search_items(SPACE, RANKED)
            assert {item.key for item in found} == state.keys()
            assert [item.score for item in found if item.score is not None] == pytest.approx(expected, abs=1e-5)
            assert all(item.score == pytest.approx(state[item.key], abs=1e-5) for item in found)
    assert count(tmp_path / "m.db", "row_changes") <= 6  # two of each namespace
    for store in (one, other):
        await store.close()
    assert problems_of_file(tmp_path / "m.db") == []


async def test_a_random_life_leaves_nothing_that_belongs_to_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "m.db", synchronous="NORMAL")
    chance = random.Random(11)
    plain = [address(f"{n}", OF_ALICE) for n in range(4)]
    every = replace(RANKED, records=[ALICES])
    for step in range(150):
        where = chance.choice((chance.choice(plain), of_alice(str(chance.randrange(4)))))
        known = [i for i in await store.search_items(SPACE, every) if i.memory is not None]
        vectors = [random_unit(chance.randrange(9)) for _ in range(chance.randrange(3))]
        match chance.choice(("put", "put", "ttl", "hide", "delete", "add", "edit", "core delete", "close", "sweep")):
            case "put":
                await write(store, put(where, {"text": f"text {chance.randrange(3)}"}, *vectors), minute=step)
            case "ttl":
                await write(store, put(where, {"n": 1}, *vectors, ttl_s=60), minute=step)
            case "hide":
                await write(store, put(where, {"text": "hidden"}, ranked=False), minute=step)
            case "delete":
                await write(store, where, minute=step)
            case "add":
                made = memory(f"fact {step}", memory_id=str(chance.randrange(4)) + "x" * (step % 2))
                await store.put(ALICE, batch(PutMemory(memory=made, vector=axis(step % 8))))
            case "edit" if known and (one := chance.choice(known).memory):
                vector = vectors[0] if vectors else None
                edited = changed(one, {"content": f"edited {step}", "updated_at": at(step)})
                await store.put(ALICE, batch(PutMemory(memory=edited, vector=vector)))
            case "core delete" if known and (one := chance.choice(known).memory):
                await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id=one.memory_id),)))
            case "close" if known and (one := chance.choice(known).memory):
                await store.put(ALICE, batch(changed(one, {"valid_to": at(step), "superseded_by": "other"})))
            case _:
                await store.sweep_items(SPACE, at(step))
        ranked, listed = (
            await store.search_items(SPACE, every),
            await store.search_items(SPACE, replace(every, vector=None)),
        )
        assert sorted(map(repr, (replace(i, score=None) for i in ranked))) == sorted(map(repr, listed))
        assert await paged(store, every, 3) == ranked
        current = {item.memory.memory_id for item in ranked if item.memory is not None}
        assert current == {m.memory_id for m in (await store.list_memories(ALICE, _all())).memories}
        fresh = LocalStore(tmp_path / "m.db")
        if step % 30 == 0:
            assert await fresh.search_items(SPACE, every) == ranked
        await fresh.close()
    await store.close()
    assert problems_of_file(tmp_path / "m.db") == []


def _all() -> ListMemories:
    return ListMemories(limit=1_000)


async def test_vectors_that_an_item_has_no_more_are_gone_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    store = LocalStore(path, synchronous="NORMAL")
    for key in ("a", "b", "c", "d"):
        await write(store, put(key, {}, axis(0), axis(1)), put(of_alice(key), {"text": key}, axis(2), axis(3)))
    assert (count(path, "item_vectors"), count(path, "memory_vectors")) == (16, 4)
    for key, vectors in (("a", []), ("b", [axis(4)])):
        await write(store, put(key, {}, *vectors), put(of_alice(key), {"text": key}, *vectors))
    assert (count(path, "item_vectors"), count(path, "memory_vectors")) == (10, 3)
    await write(store, *(w for key in "cd" for w in (address(key), of_alice(key))))
    assert (count(path, "item_vectors"), count(path, "memory_vectors")) == (2, 1)
    await store.close()


async def test_erasing_a_user_leaves_nothing_of_their_items_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    store = LocalStore(path)
    scope = Scope(memory_space=SPACE, user_id="secretuser")
    record = ItemRecord(scope=scope, memory_type=MemoryType.PERSONAL)
    for step in range(3):
        some = [
            put(ItemAddress(namespace=("memories", "secretuser", "personal"), key=f"secretkey{n}", record=record),
                {"text": f"secrettext {n} {step}", "x": "secretx" * 500}, random_unit(100 + n))
            for n in range(40)
        ]  # fmt: skip
        await write(store, *some, minute=step)
    await write(store, put("kept", {}, axis(0)))
    assert b"secret" in bytes_on_disk(path)
    await store.erase(scope)
    assert b"secret" not in bytes_on_disk(path)
    assert random_unit(100).tobytes() not in bytes_on_disk(path)
    assert await keys(store, RANKED) == ["kept"]
    await store.close()
    assert problems_of_file(path) == []


async def test_the_vectors_of_memories_and_of_items_are_of_one_model(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "m.db", synchronous="NORMAL")
    await store.put(ALICE, batch(PutMemory(memory=memory("said", memory_id="m"), vector=axis(0))))
    short = axis(0, dimension=3)
    with pytest.raises(DimensionMismatchError):
        await write(store, put("plain", {}, short))
    with pytest.raises(DimensionMismatchError):
        await keys(store, replace(RANKED, vector=short, records=[ALICES]))
    with pytest.raises(DimensionMismatchError):
        await store.claim_index(SPACE, IndexedBy(dimension=3, model="m"))
    assert (await store.claim_index(SPACE, IndexedBy(dimension=8, model="m"))).model == "m"
    with pytest.raises(EmbeddingModelMismatchError):
        await keys(store, replace(RANKED, embedded_by="n"))
    await store.close()


async def test_of_a_thousand_namespaces_and_users_each_is_found(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "m.db", synchronous="NORMAL")
    await write(store, *(put(address(f"{n}", ("docs", f"{n}")), {"n": n}, leaning(n / 1_000)) for n in range(999)))
    for scope in (ALICE, BOB):
        await store.put(scope, batch(PutMemory(memory=memory(scope.user_id, scope=scope, minute=1), vector=axis(0))))
    place = RecordPlace(memory_space=SPACE, user_id=None, memory_types=(MemoryType.PERSONAL,))
    for search in (RANKED, asked(())):
        found = await store.search_items(SPACE, replace(search, records=[place], limit=2_000))
        assert len(found) == 1_001
        assert {item.value["content"] for item in found[:2]} == {"alice", "bob"}
    condition = ItemCondition(field="n", operator=FilterOperator.LT, operand=3)
    assert await keys(store, replace(RANKED, conditions=[condition])) == ["2", "1", "0"]
    await store.close()


async def test_a_page_reads_little_more_than_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path / "m.db", synchronous="NORMAL")
    await write(store, *(put(f"{n}", {"n": n % 10}, leaning(n / 1_000)) for n in range(900)))
    read: list[int] = []
    make = item_rows.read_value

    def counted(text: str) -> dict[str, object]:
        read.append(1)
        return make(text)

    monkeypatch.setattr(item_rows, "read_value", counted)
    condition = ItemCondition(field="n", operator=FilterOperator.EQ, operand=3)
    for search in (RANKED, asked(()), replace(RANKED, conditions=[condition])):
        read.clear()
        assert len(await keys(store, replace(search, limit=10))) == 10
        assert len(read) == 10
    await store.close()


async def test_a_search_leaves_no_snapshot_behind(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "m.db", synchronous="NORMAL")
    await write(store, *(put(f"{n}") for n in range(50)))
    for _ in range(8):
        assert len(await keys(store, SearchItems(prefix=(), limit=1, at=at(0)))) == 1
    await write(store, put("new"), minute=1)
    for _ in range(8):
        assert await keys(store, SearchItems(prefix=(), limit=1, at=at(0))) == ["new"]
    assert (await get(store, "new")).key == "new"
    with closing(sqlite3.connect(tmp_path / "m.db")) as connection:
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    await store.close()
