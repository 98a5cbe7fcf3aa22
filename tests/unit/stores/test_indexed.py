"""A store with an index beside it: what is durable, what is found, and how the index is brought up to date."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from reme_core.errors import DimensionMismatchError, StoreUnavailableError
from reme_core.ports import (
    ChangesQuery,
    DeleteEntries,
    DeleteMemory,
    IndexEntry,
    IndexHit,
    ItemAddress,
    ItemRecord,
    MemorySearch,
    MessageVector,
    PutItem,
    PutMemory,
    UpsertEntries,
    WriteItems,
)
from reme_core.schema import MemoryType, Scope
from reme_core.stores import IndexedStore, LocalStore, QdrantIndex
from reme_core.testing.store_values import ALICE, BOB, DIMENSION, NOW, axis, batch, closed, memory

TEA, BOAT = memory("Ann likes tea", memory_id="tea"), memory("Ben has a boat", memory_id="boat")


class Index(QdrantIndex):
    """Can be out of reach, and lose what it is told."""

    def __init__(self, dimension: int = DIMENSION) -> None:
        super().__init__(location=":memory:", dimension=dimension)
        self.is_down = False
        self.forgets_deletes = False
        self.fails_at_upsert = False
        self.asked = 0

    def _ask(self) -> None:
        self.asked += 1
        if self.is_down:
            raise StoreUnavailableError("down")

    async def find_position(self, scope: Scope) -> str | None:
        self._ask()
        return await super().find_position(scope)

    async def upsert(self, scope: Scope, upsert: UpsertEntries) -> None:
        self._ask()
        if self.fails_at_upsert:
            raise StoreUnavailableError("cut off")
        await super().upsert(scope, upsert)

    async def delete(self, scope: Scope, delete: DeleteEntries) -> None:
        self._ask()
        if not self.forgets_deletes:
            await super().delete(scope, delete)

    async def search(self, scope: Scope, search: MemorySearch) -> list[IndexHit]:
        self._ask()
        return await super().search(scope, search)

    async def holds(self, text: str, scope: Scope = ALICE) -> list[str]:
        """Return what the index itself finds."""
        return [hit.memory_id for hit in await super().search(scope, MemorySearch(text=text, limit=5000))]


class Waiting(Index):
    """Ends a write when it may, whoever waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_go_on = asyncio.Event(), asyncio.Event()
        self.may_go_on.set()

    async def upsert(self, scope: Scope, upsert: UpsertEntries) -> None:
        if not self.may_go_on.is_set():
            self.begun.set()
        await asyncio.shield(self._upsert_later(scope, upsert))

    async def _upsert_later(self, scope: Scope, upsert: UpsertEntries) -> None:
        await self.may_go_on.wait()
        await super().upsert(scope, upsert)


class Seconds:
    """A clock that stands."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def index() -> AsyncIterator[Index]:
    index = Index()
    yield index
    await index.close()


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
async def store(tmp_path: Path, index: Index, seconds: Seconds) -> AsyncIterator[IndexedStore]:
    store = IndexedStore(file_in(tmp_path), index, pause_s=30, seconds=seconds)
    yield store
    await store.close()


def file_in(folder: Path, name: str = "memory.db") -> LocalStore:
    return LocalStore(folder / name, synchronous="NORMAL")


def index_in(folder: Path) -> QdrantIndex:
    return QdrantIndex(path=folder / "qdrant", dimension=DIMENSION)


async def found(store: IndexedStore, text: str, scope: Scope = ALICE) -> list[str]:
    return [hit.memory.memory_id for hit in await store.search(scope, MemorySearch(text=text))]


async def test_a_search_is_answered_by_the_index(store: IndexedStore, index: Index) -> None:
    await store.put(ALICE, batch(TEA, BOAT))
    assert await index.holds("tea") == ["tea"]
    asked = index.asked
    assert await found(store, "tea") == ["tea"]
    assert index.asked == asked + 1


async def test_a_write_that_the_index_misses_is_durable_found_meanwhile_and_taken_over_later(
    store: IndexedStore, index: Index, seconds: Seconds
) -> None:
    await store.put(ALICE, batch(BOAT))
    index.is_down = True
    await store.put(ALICE, batch(TEA))
    assert await found(store, "tea") == ["tea"]
    index.is_down, seconds.now = False, 31
    assert await index.holds("tea") == []
    assert await found(store, "tea") == ["tea"]
    assert await index.holds("tea") == ["tea"]


async def test_an_index_that_failed_is_left_alone_for_a_while(
    store: IndexedStore, index: Index, seconds: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    index.is_down = True
    await store.put(ALICE, batch(TEA))
    asked = index.asked
    for _ in range(5):
        await store.put(ALICE, batch(BOAT))
        assert await found(store, "tea") == ["tea"]
    assert index.asked == asked
    assert caplog.text.count("is left alone") == 1
    seconds.now = 31
    await found(store, "tea")
    assert index.asked == asked + 1


async def test_what_the_index_holds_still_is_no_hit_once_it_is_deleted_or_replaced(
    store: IndexedStore, index: Index
) -> None:
    ending = memory("Ann likes green tea", memory_id="green")
    await store.put(ALICE, batch(TEA, ending))
    index.forgets_deletes = True
    await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id="tea"),)))
    assert sorted(await index.holds("tea")) == ["green", "tea"]
    assert await found(store, "tea") == ["green"]
    index.fails_at_upsert = True
    await store.put(ALICE, batch(closed(ending, minute=5)))
    assert sorted(await index.holds("tea")) == ["green", "tea"]
    assert await found(store, "tea") == []


async def test_a_hit_of_an_index_that_mixes_up_scopes_is_dropped(tmp_path: Path) -> None:
    class Mixing(Index):
        async def search(self, scope: Scope, search: MemorySearch) -> list[IndexHit]:
            return [*await super().search(ALICE, search), *await super().search(BOB, search)]

    store = IndexedStore(file_in(tmp_path), Mixing())
    await store.put(ALICE, batch(TEA))
    secret = memory("Bob hides tea", scope=BOB, memory_id="secret")
    await store.put(BOB, batch(secret))
    assert await found(store, "tea") == ["tea"]
    assert await found(store, "tea", BOB) == ["secret"]
    await store.close()


async def test_hits_that_are_none_do_not_crowd_out_those_that_are(store: IndexedStore, index: Index) -> None:
    many = [memory(f"tea number {n}", memory_id=f"tea-{n}") for n in range(40)]
    await store.put(ALICE, batch(*many, memory("there is tea in the old green tin box", memory_id="box")))
    index.forgets_deletes = True
    await store.put(ALICE, batch(deletes=tuple(DeleteMemory(memory_id=item.memory_id) for item in many)))
    hits = await store.search(ALICE, MemorySearch(text="tea", limit=1))
    assert [hit.memory.memory_id for hit in hits] == ["box"]


async def test_vectors_that_come_later_reach_the_index(store: IndexedStore) -> None:
    await store.put(ALICE, batch(PutMemory(memory=TEA, wants_vector=True)))
    [waiting] = await store.pending_texts(ALICE, 10)
    await store.put_vectors(ALICE, [MessageVector(pending=waiting, vector=axis(0))])
    [hit] = await store.search(ALICE, MemorySearch(vector=axis(0)))
    assert (hit.memory.memory_id, hit.score) == ("tea", pytest.approx(1.0))


async def test_memories_that_are_written_and_removed_as_items_are_found_and_gone(store: IndexedStore) -> None:
    place = ItemAddress(
        namespace=("memories", "alice"), key="k", record=ItemRecord(scope=ALICE, memory_type=MemoryType.PERSONAL)
    )
    await store.write_items("space", WriteItems(writes=[PutItem(address=place, value={"text": "Ann sails"})], at=NOW))
    assert len(await found(store, "sails")) == 1
    await store.write_items("space", WriteItems(writes=[place], at=NOW + timedelta(minutes=1)))
    assert await found(store, "sails") == []


async def test_an_index_that_lost_everything_is_made_anew_from_the_store(tmp_path: Path) -> None:
    many = [memory(f"thing number {n}", memory_id=f"m-{n:04}") for n in range(1203)]  # three pages of changes
    first = IndexedStore(file_in(tmp_path), Index())
    await first.put(ALICE, batch(*many))
    await first.close()
    empty = Index()
    second = IndexedStore(file_in(tmp_path), empty)
    assert len(await second.search(ALICE, MemorySearch(text="thing", limit=2000))) == 1203
    assert len(await empty.holds("thing")) == 1203
    await second.close()


async def test_entries_that_an_open_index_lost_are_found_by_the_next_search_and_written_anew(
    store: IndexedStore, index: Index
) -> None:
    await store.put(ALICE, batch(TEA, BOAT, memory("Ann likes green tea", memory_id="green")))
    assert await found(store, "tea") == ["tea", "green"]
    [gone] = (await store.memory_changes(ALICE, ChangesQuery(limit=1))).entries
    await QdrantIndex.delete(index, ALICE, DeleteEntries(keys=(gone.key,)))
    assert await found(store, "tea") == ["tea", "green"]
    assert await index.holds("tea") == ["tea", "green"]
    await QdrantIndex.delete(index, ALICE, DeleteEntries())
    assert await found(store, "tea") == ["tea", "green"]
    assert sorted([*await index.holds("tea"), *await index.holds("boat")]) == ["boat", "green", "tea"]


async def test_entries_that_were_lost_while_nobody_looked_are_missed_when_the_scope_is_opened(tmp_path: Path) -> None:
    first = IndexedStore(file_in(tmp_path), index_in(tmp_path))
    await first.put(ALICE, batch(TEA, BOAT))
    [entry] = (await first.memory_changes(ALICE, ChangesQuery(limit=1))).entries
    await first.close()
    losing = index_in(tmp_path)
    await losing.delete(ALICE, DeleteEntries(keys=(entry.key,)))
    await losing.close()
    second = IndexedStore(file_in(tmp_path), index_in(tmp_path))
    [hit] = await second.search(ALICE, MemorySearch(text=TEA.content, limit=1))
    assert hit.memory.memory_id == "tea"
    await second.close()


async def test_while_an_index_is_filled_anew_others_find_by_the_store(tmp_path: Path) -> None:
    index = Waiting()
    store = IndexedStore(file_in(tmp_path), index)
    await store.put(ALICE, batch(TEA))
    index.may_go_on.clear()
    writing = asyncio.create_task(store.put(ALICE, batch(BOAT)))
    await index.begun.wait()
    assert await found(store, "tea") == ["tea"]
    assert not writing.done()
    index.may_go_on.set()
    await writing
    await store.close()


@pytest.mark.parametrize("call", ["put", "search"])
async def test_what_a_cancelled_call_writes_into_the_index_does_not_come_after_an_erasure(
    tmp_path: Path, call: str
) -> None:
    index = Waiting()
    store = IndexedStore(file_in(tmp_path), index, pause_s=0)
    index.may_go_on.clear()
    if call == "search":
        index.is_down = True
        await store.put(ALICE, batch(TEA))
        index.is_down = False
        following = asyncio.create_task(found(store, "tea"))
    else:
        following = asyncio.create_task(store.put(ALICE, batch(TEA)))  # type: ignore[arg-type]
    await index.begun.wait()
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    erasing = asyncio.create_task(store.erase(ALICE))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not erasing.done()
    index.may_go_on.set()
    await erasing
    assert (await index.holds("tea"), await index.count(ALICE)) == ([], 0)
    await store.close()


async def test_the_child_of_a_fork_finds_while_its_parent_follows(tmp_path: Path) -> None:
    index = Waiting()
    store = IndexedStore(file_in(tmp_path), index)
    await store.put(ALICE, batch(TEA))
    index.may_go_on.clear()
    writing = asyncio.create_task(store.put(ALICE, batch(BOAT)))
    await index.begun.wait()
    receiving, sending = get_context("fork").Pipe(duplex=False)
    index.may_go_on.set()
    child = get_context("fork").Process(target=tell_found, args=(store, sending))
    child.start()
    told = await asyncio.to_thread(lambda: receiving.recv() if receiving.poll(30) else "nothing")
    await asyncio.to_thread(child.join, 30)
    assert (told, child.exitcode) == (["tea"], 0)
    await writing
    await store.close()


def tell_found(store: IndexedStore, sending: Connection) -> None:
    with ThreadPoolExecutor(1) as pool:  # the loop of the parent counts as running here
        sending.send(pool.submit(asyncio.run, found(store, "tea")).result())


async def test_what_an_index_missed_beyond_the_log_of_changes_is_taken_over_and_what_is_gone_leaves_it(
    store: IndexedStore, index: Index, seconds: Seconds
) -> None:
    await store.put(ALICE, batch(TEA, BOAT))
    index.is_down = True
    await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id="tea"),)))
    for page in range(5):  # a quarter of the changes is kept
        await store.put(ALICE, batch(*(memory(f"cup {page} {n}") for n in range(100))))
    index.is_down, seconds.now = False, 31
    assert len(await store.search(ALICE, MemorySearch(text="cup", limit=1000))) == 500
    assert await index.holds("tea") == []


async def test_an_index_of_another_file_begins_anew(tmp_path: Path) -> None:
    class Shared(Index):
        async def close(self) -> None:
            pass

    index = Shared()
    old = IndexedStore(file_in(tmp_path, "old.db"), index)
    await old.put(ALICE, batch(TEA, BOAT))
    await old.close()
    new = IndexedStore(file_in(tmp_path, "new.db"), index)
    await new.put(ALICE, batch(memory("Cid paints", memory_id="paints")))
    assert await found(new, "paints") == ["paints"]
    assert await index.holds("tea") == []
    await new.close()
    await QdrantIndex.close(index)


async def test_a_process_that_died_while_it_followed_leaves_nothing_out(tmp_path: Path, index: Index) -> None:
    dying = IndexedStore(file_in(tmp_path), index)
    await dying.put(ALICE, batch(BOAT))
    index.fails_at_upsert = True  # after the deletes of a page, before its entries and its position
    await dying.put(ALICE, batch(TEA, deletes=(DeleteMemory(memory_id="boat"),)))
    index.fails_at_upsert = False
    next_one = IndexedStore(file_in(tmp_path), index)
    assert await found(next_one, "tea") == ["tea"]
    assert await index.holds("boat") == []
    await next_one.close()
    await dying.close()


async def test_a_scope_is_erased_from_the_index_and_until_it_is_the_caller_is_told(
    store: IndexedStore, index: Index, seconds: Seconds
) -> None:
    await store.put(ALICE, batch(TEA))
    await store.put(BOB, batch(memory("Bob likes tea", scope=BOB, memory_id="bob")))
    index.is_down = True
    with pytest.raises(StoreUnavailableError, match="call again"):
        await store.erase(ALICE)
    assert (await store.count(ALICE)).memories == 0
    index.is_down, seconds.now = False, 31
    assert await index.holds("tea") == ["tea"]
    await store.erase(ALICE)
    assert await index.holds("tea") == []
    assert await index.find_position(ALICE) is None
    assert await found(store, "tea", BOB) == ["bob"]


async def test_vectors_that_the_index_does_not_take_are_an_error_of_the_search_and_kept(tmp_path: Path) -> None:
    store = IndexedStore(file_in(tmp_path), Index(dimension=DIMENSION + 1))
    await store.put(ALICE, batch(PutMemory(memory=TEA, vector=axis(0))))
    with pytest.raises(DimensionMismatchError):
        await store.search(ALICE, MemorySearch(text="tea"))
    assert (await store.get(ALICE, ["tea"]))[0].content == TEA.content
    await store.close()


async def test_nothing_of_a_text_is_readable_in_what_the_index_is_told() -> None:
    from reme_core.stores.qdrant.points import entry_point

    secret = memory("the password is swordfish", target="vault", metadata={"code": "hush"})
    point = entry_point(ALICE, IndexEntry(key="1", memory=secret, vector=axis(0)))
    told = point.model_dump_json()
    assert not [word for word in ("password", "swordfish", "vault", "hush") if word in told]


async def test_pages_of_changes_of_any_size_come_to_the_same(tmp_path: Path) -> None:
    store = file_in(tmp_path)
    await store.put(ALICE, batch(*(memory(f"fact {n}", memory_id=f"f-{n}") for n in range(7))))

    async def follow(position: str | None, held: dict[str, str], limit: int) -> str:
        while True:
            page = await store.memory_changes(ALICE, ChangesQuery(position=position, limit=limit))
            if page.starts_over:
                held.clear()
            for key in page.gone:
                held.pop(key, None)
            held |= {entry.key: entry.memory.content for entry in page.entries}
            position = page.position
            if page.is_last:
                return position

    for limit in (1, 2, 3, 7, 100):
        held: dict[str, str] = {}
        position = await follow(None, held, limit)
        assert sorted(held.values()) == [f"fact {n}" for n in range(7)]
        await store.put(ALICE, batch(memory("more", memory_id="more"), deletes=(DeleteMemory(memory_id="f-3"),)))
        position = await follow(position, held, limit)
        assert sorted(held.values()) == sorted([*(f"fact {n}" for n in range(7) if n != 3), "more"])
        assert (await store.memory_changes(ALICE, ChangesQuery(position=position))).position == position
        await store.put(ALICE, batch(memory("fact 3", memory_id="f-3"), deletes=(DeleteMemory(memory_id="more"),)))
    await store.close()
