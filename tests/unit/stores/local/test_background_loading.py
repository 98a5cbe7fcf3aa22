"""Scopes too large to be loaded at once: answers from what is loaded, which say so, and loading goes on behind them."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.errors import CorruptDataError, StoreClosedError
from reme_core.ports import (
    AppendMessages,
    DeleteMemory,
    MemoryFilter,
    MemorySearch,
    MessageSearch,
    MessageVector,
    PutMemory,
    WriteBatch,
)
from reme_core.retrieval import Query
from reme_core.schema import Memory, MemoryType, Scope
from reme_core.stores import LocalStore
from reme_core.stores.local.file.dialect import FileConnection
from reme_core.stores.sql import partitions
from reme_core.stores.sql.bookkeeping import Layer, find_scope
from reme_core.stores.sql.partitions import Partition
from reme_core.testing import HashedEmbedder
from reme_core.testing.store_values import ALICE, BOB, NOW, at, axis, batch, block, memory, message, random_unit

CHUNK = 20
COUNT = 95  # five chunks
TEA = MessageSearch(text="tea", limit=1000)
TOLD = "only the newest 20 messages were searched: the older ones are still being loaded"


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "_CHUNK_ROWS", CHUNK)


async def fill(path: Path, scope: Scope = ALICE, count: int = COUNT) -> None:
    """Say `tea 0` and so on, in three sessions, one minute after the other; every second one has a vector."""
    store = LocalStore(path, synchronous="NORMAL")
    for number in range(count):
        said = [message(f"tea {number}", minute=number)]
        request = AppendMessages(session_id=f"s{number % 3}", messages=said, want_vectors=number % 2 == 0)
        await store.append(scope, request)
    waiting = await store.pending_texts(scope, count)
    await store.put_vectors(scope, [MessageVector(pending=item, vector=random_unit(int(item.key))) for item in waiting])
    await store.close()


async def ask(store: LocalStore, search: MessageSearch, scope: Scope = ALICE) -> tuple[list[str], list[str]]:
    """Return the texts that a search has found, and what it said it could not do."""
    told: list[str] = []
    found = await store.search_messages(scope, replace(search, on_degraded=told.append))
    return [item.stored.message.text for item in found], told


def impatient(path: Path, *, cache_bytes: int = 1 << 30) -> LocalStore:
    return LocalStore(path, synchronous="NORMAL", loading_wait_s=0, cache_bytes=cache_bytes)


async def until_loaded(store: LocalStore) -> None:
    """Ask until nothing is said to be missing."""
    while (await ask(store, TEA))[1]:
        pass


async def test_a_question_in_mid_load_is_answered_from_the_newest_messages_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    store = impatient(path)
    first, told = await ask(store, TEA)
    assert told == [TOLD]
    assert set(first) == {f"tea {number}" for number in range(COUNT - CHUNK, COUNT)}
    await until_loaded(store)
    last, told = await ask(store, TEA)
    assert (len(last), told) == (COUNT, [])
    await store.close()


async def test_retrieve_says_what_was_not_searched(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    settings = {"backend": "local_file", "path": path, "loading_wait_s": 0}
    async with ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder(dimension=8), vector_store=settings) as reme:
        found = await reme.retrieve("tea 94", user_id="alice", limit=3)
        assert found.degraded == (TOLD,)
        assert found.results[0].memory == "tea 94"
        while found.degraded:
            found = await reme.retrieve("tea 3", user_id="alice", limit=3)
        assert found.results[0].memory == "tea 3"
        assert (await reme.retrieve("tea", user_id="nobody")).degraded == ()


async def test_a_search_that_cannot_say_so_is_never_answered_in_part(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    store = impatient(path)
    assert len(await store.search_messages(ALICE, TEA)) == COUNT
    await store.close()


async def test_a_scope_of_one_chunk_is_loaded_by_the_question_itself(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path, count=CHUNK)
    store = impatient(path)
    found, told = await ask(store, TEA)
    assert (len(found), told) == (CHUNK, [])
    assert not any(thread.name.startswith("reme-load") for thread in threading.enumerate())
    await store.close()


async def test_filters_hold_in_mid_load(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    for search, wanted in (
        (replace(TEA, session_id="s1"), {76, 79, 82, 85, 88, 91, 94}),
        (replace(TEA, said_from=at(90)), set(range(90, 95))),
        (replace(TEA, said_to=at(78)), {75, 76, 77}),
        (replace(TEA, text="", vector=axis(0), said_to=at(78)), {75, 76, 77}),
    ):
        store = impatient(path)
        found, told = await ask(store, search)
        assert told == [TOLD]
        assert set(found) == {f"tea {number}" for number in wanted}
        await store.close()


async def test_what_is_said_in_mid_load_is_found_at_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    store, other = impatient(path), LocalStore(path, synchronous="NORMAL")
    assert (await ask(store, TEA))[1] == [TOLD]
    said = [message("a new kettle", minute=500)]
    await other.append(ALICE, AppendMessages(session_id="s0", messages=said))
    assert (await ask(store, MessageSearch(text="kettle")))[0][0] == "a new kettle"
    await until_loaded(store)
    assert len((await ask(store, TEA))[0]) == COUNT + 1  # what stands next to tea is found as well
    await store.close()
    await other.close()


async def test_a_scope_erased_in_mid_load_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    store = impatient(path)
    assert (await ask(store, TEA))[1] == [TOLD]
    await store.erase(ALICE)
    assert await ask(store, TEA) == ([], [])
    await store.append(ALICE, AppendMessages(session_id="s0", messages=[message("tea again")]))
    assert await ask(store, TEA) == (["tea again"], [])
    await store.close()


@pytest.fixture
def threads_before() -> set[threading.Thread]:
    """The threads that other tests have left; ask for it before what starts some."""
    return set(threading.enumerate())


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[LocalStore, threading.Event]]:
    """A store on a file with a large scope whose loading thread has other work until the event is set."""
    path = tmp_path / "memory.db"
    asyncio.run(fill(path))
    asyncio.run(fill(path, BOB, 3))
    store, event = impatient(path), threading.Event()

    def wait(_: sqlite3.Connection) -> bool:
        event.wait()
        return False

    store.database.submit_repeated(wait)
    yield store, event
    event.set()
    asyncio.run(store.close())


def test_searches_that_wait_for_a_scope_keep_nobody_else_waiting(busy: tuple[LocalStore, threading.Event]) -> None:
    store, event = busy

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(store.search_messages(ALICE, TEA)) for _ in range(20)]
            for _ in range(5):
                assert len(await store.search_messages(BOB, TEA)) == 3
                assert (await ask(store, TEA))[1] == [TOLD]
            assert not any(task.done() for task in waiting)
            event.set()
        assert [len(task.result()) for task in waiting] == [COUNT] * 20

    asyncio.run(run())


def test_a_store_closed_in_mid_load_ends_its_threads_and_refuses_who_waits(
    threads_before: set[threading.Thread], busy: tuple[LocalStore, threading.Event]
) -> None:
    store, event = busy

    async def run() -> None:
        waiting = asyncio.create_task(store.search_messages(ALICE, TEA))
        assert (await ask(store, TEA))[1] == [TOLD]
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        event.set()
        await closing
        with pytest.raises(StoreClosedError):
            await waiting

    asyncio.run(run())
    assert not [
        thread.name for thread in set(threading.enumerate()) - threads_before if thread.name.startswith("reme-")
    ]


def test_who_waits_may_give_up_and_the_next_one_finds_everything(busy: tuple[LocalStore, threading.Event]) -> None:
    store, event = busy

    async def give_up() -> None:
        waiting = asyncio.create_task(store.search_messages(ALICE, TEA))
        await ask(store, TEA)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()

    asyncio.run(give_up())  # its event loop is closed before anything is loaded
    event.set()
    assert len(asyncio.run(store.search_messages(ALICE, TEA))) == COUNT


async def test_two_large_scopes_and_no_room_for_both_are_answered_in_full(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    await fill(path, BOB)
    store = impatient(path, cache_bytes=1)
    for _ in range(5):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(store.search_messages(scope, TEA)) for scope in (ALICE, BOB) * 3]
        assert [len(task.result()) for task in tasks] == [COUNT] * 6
    await store.close()


async def test_a_damaged_file_is_told_to_who_asks(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    with closing(sqlite3.connect(path, factory=FileConnection)) as connection:
        connection.execute(
            "UPDATE message_vectors SET vector = x'00' WHERE seq = (SELECT min(seq) FROM message_vectors)"
        )
        connection.commit()
    store = impatient(path)
    with pytest.raises(CorruptDataError, match="8 dimensions"):
        await store.search_messages(ALICE, TEA)
    await store.close()


def ranked(partition: Partition) -> list[tuple[int, float]]:
    query = Query(text="tea milk 3", vector=random_unit(1))
    return [(hit.key, round(hit.score, 6)) for hit in partition.index.rank(query, limit=1000)]


def followed(connection: sqlite3.Connection, partition: Partition, scope: int) -> Partition:
    partition.follow(connection, scope)
    while not partition.is_complete:
        partition.load_more(connection, scope)
    return partition


async def put(store: LocalStore, *contents: str) -> list[Memory]:
    puts = [PutMemory(memory=memory(text), vector=random_unit(len(text))) for text in contents]
    return await store.put(ALICE, batch(*puts))


async def test_memories_changed_in_mid_load_come_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path, synchronous="NORMAL")
    kept = await put(store, *(f"tea {number}" for number in range(COUNT)))
    with closing(sqlite3.connect(path, factory=FileConnection)) as connection:
        scope = find_scope(connection, ALICE)
        assert scope is not None
        partition = Partition(Layer.MEMORIES)
        partition.follow(connection, scope)
        assert len(partition.index) == CHUNK
        old, new = kept[3], kept[-3]
        for changed in (old, new):
            await store.put(ALICE, batch(changed.model_copy(update={"content": f"milk of {changed.content}"})))
        gone = [DeleteMemory(memory_id=item.memory_id) for item in (kept[5], kept[-5])]
        await store.put(ALICE, WriteBatch(deletes=gone, at=NOW))
        await put(store, "tea with milk", "tea 3 with milk")
        partition.follow(connection, scope)
        assert len(partition.index) == CHUNK - 1 + 2
        followed(connection, partition, scope)
        monkeypatch.setattr(partitions, "_CHUNK_ROWS", 1000)
        whole = followed(connection, Partition(Layer.MEMORIES), scope)
        assert len(whole.index) == COUNT
        assert ranked(partition) == ranked(whole)
    await store.close()


@pytest.mark.parametrize("layer", list(Layer))
async def test_what_is_loaded_in_chunks_ranks_like_what_is_loaded_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layer: Layer
) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    store = LocalStore(path, synchronous="NORMAL")
    for number in range(30):
        said = [message(f"milk {number} {place}", minute=200 + number) for place in range(3)]
        await store.append(ALICE, AppendMessages(session_id="blocks", messages=said))
        await store.put_blocks(ALICE, [block("blocks", *said, summary=f"milk {number} and tea")])
    await put(store, *(f"tea or milk {number}" for number in range(30)))
    with closing(sqlite3.connect(path, factory=FileConnection)) as connection:
        scope = find_scope(connection, ALICE)
        assert scope is not None
        chunks = followed(connection, Partition(layer), scope)
        monkeypatch.setattr(partitions, "_CHUNK_ROWS", 1000)
        whole = followed(connection, Partition(layer), scope)
        assert ranked(chunks) == ranked(whole)
        assert ranked(whole)
    await store.close()


async def test_long_texts_that_have_vectors_of_their_wholes_are_loaded(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path, synchronous="NORMAL")
    await put(store, "tea")  # its vector says how long vectors are
    texts = [" ".join(f"Tea {number} was poured at place {place}." for place in range(200)) for number in range(3)]
    said = [message(text, minute=number) for number, text in enumerate(texts)]
    await store.append(ALICE, AppendMessages(session_id="s", messages=said))
    await store.close()
    # As a release that knew no passages left it.
    with closing(
        sqlite3.connect(path, factory=FileConnection)
    ) as connection:  # as a release that knew no passages left it
        connection.execute("INSERT INTO message_vectors SELECT seq, ? FROM messages", (axis(0).tobytes(),))
        connection.commit()
    again = LocalStore(path)
    found = await again.search_messages(ALICE, MessageSearch(text="", vector=axis(0)))
    assert [item.stored.message.text for item in found] == texts[::-1]
    await again.close()


async def test_a_chunk_of_long_texts_has_fewer_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    monkeypatch.setattr(partitions, "_CHUNK_ROWS", 2)
    monkeypatch.setattr(partitions, "_CHUNK_BYTES", 3 * 8)  # the terms of a message and a half
    with closing(sqlite3.connect(path, factory=FileConnection)) as connection:
        scope = find_scope(connection, ALICE)
        assert scope is not None
        partition = Partition(Layer.MESSAGES)
        partition.follow(connection, scope)
        assert len(partition.index) == 2
        assert len(followed(connection, partition, scope).index) == COUNT


async def test_memories_say_so_as_well_and_a_filter_holds(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    writer = LocalStore(path, synchronous="NORMAL")
    await put(writer, *(f"tea {number}" for number in range(COUNT)))
    await writer.close()
    store = impatient(path)
    told: list[str] = []
    wanted = MemoryFilter(types=(MemoryType.PERSONAL,), keyword="94")
    found = await store.search(ALICE, MemorySearch(text="tea", filter=wanted, on_degraded=told.append))
    assert [item.memory.content for item in found] == ["tea 94"]
    assert told == ["only the newest 20 memories were searched: the older ones are still being loaded"]
    assert len(await store.search(ALICE, MemorySearch(text="tea", limit=1000))) == COUNT
    await store.close()
