"""A Qdrant server that is cut off at any request, done or not done: nothing is lost, found wrongly or left behind."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from qdrant_client import models

from reme_core import ReMe
from reme_core.errors import StoreUnavailableError
from reme_core.ports import DeleteMemory, MemorySearch, PutMemory
from reme_core.schema import Erased, Scope
from reme_core.stores import IndexedStore, LocalStore, QdrantIndex
from reme_core.stores.erasure_notes import ErasureNotes
from reme_core.stores.indexed import AWAY
from reme_core.stores.qdrant.points import payload_indexes, scope_key
from reme_core.testing import HashedEmbedder
from reme_core.testing.store_values import ALICE, BOB, DIMENSION, axis, batch, memory
from tests.support.indexed import on_server
from tests.support.qdrant_rest import KEY, RestServer, running

pytestmark = pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")

TEA, BOAT = memory("Ann likes tea", memory_id="tea"), memory("Ben has a boat", memory_id="boat")


@pytest.fixture
def server() -> Iterator[RestServer]:
    with running() as server:
        server.indexes += payload_indexes()  # asking for all of them takes most of the time of a test
        yield server


@asynccontextmanager
async def opened(folder: Path, server: RestServer) -> AsyncIterator[IndexedStore]:
    store = on_server(folder, server.url, KEY)
    try:
        yield store
    finally:
        await store.close()


async def found(store: IndexedStore, text: str, scope: Scope = ALICE) -> tuple[list[str], list[str]]:
    told: list[str] = []
    hits = await store.search(scope, MemorySearch(text=text, on_degraded=told.append))
    return [hit.memory.memory_id for hit in hits], told


def points_of(server: RestServer, scope: Scope) -> int:
    if not server.local.collection_exists("reme_memories"):
        return 0
    whose = models.FieldCondition(key="scope", match=models.MatchValue(value=scope_key(scope)))
    return server.local.count("reme_memories", models.Filter(must=[whose])).count


async def use(store: IndexedStore, alice: Scope, bob: Scope) -> bool:
    """Write, delete, search and erase; tell whether the erasure was acknowledged."""
    tea = memory("Ann likes tea", scope=alice, memory_id="tea")
    boat = memory("Ben has a boat", scope=alice, memory_id="boat")
    await store.put(alice, batch(PutMemory(memory=tea, vector=axis(0)), boat))
    await store.put(bob, batch(memory("Bob hides gold", scope=bob, memory_id="secret")))
    await store.put(alice, batch(deletes=(DeleteMemory(memory_id="boat"),)))
    assert (await found(store, "tea", alice))[0] == ["tea"]  # whatever the server does
    assert (await found(store, "boat", alice))[0] == []
    assert (await found(store, "gold", bob))[0] == ["secret"]
    try:
        return (await store.erase(alice)).index_cleared is True
    except StoreUnavailableError:
        return False


async def check_after_a_start(store: IndexedStore, server: RestServer, alice: Scope, bob: Scope) -> None:
    assert await store.waiting_scopes(alice.memory_space) == []  # what a start asks
    assert points_of(server, alice) == 0
    assert (await store.count(alice)).memories == 0
    assert await found(store, "gold", bob) == (["secret"], [])
    assert points_of(server, bob) == 2  # the memory and the position
    assert await ErasureNotes(store).read() == []


@pytest.mark.parametrize("answer_lost", [False, True])
async def test_whatever_request_is_the_last_the_next_start_finishes_and_finds_all(
    server: RestServer, tmp_path: Path, *, answer_lost: bool
) -> None:
    index = QdrantIndex(url=server.url, api_key=KEY, dimension=DIMENSION)
    file = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    server.loses_an_answer = answer_lost
    await index.find_position(ALICE)  # opens it; the next test cuts it off before
    acknowledged = False
    for last in itertools.count(1 + answer_lost, 2):  # one that is not done is as if the one before it was the last
        alice, bob = (Scope(memory_space="space", user_id=f"{name}-{last}") for name in ("alice", "bob"))
        server.seen.clear()
        server.breaks_at = last
        acknowledged = await use(IndexedStore(file, index, pause_s=0), alice, bob)
        was_reached, server.breaks_at = server.is_cut_off, None
        assert acknowledged == (not was_reached)
        if acknowledged:
            assert points_of(server, alice) == 0
        await check_after_a_start(IndexedStore(file, index), server, alice, bob)
        if acknowledged:
            break
    assert last > 20
    await index.close()
    await file.close()


@pytest.mark.parametrize("last", [1, 2, 3, 4])
async def test_a_server_that_is_cut_off_while_it_is_opened_is_opened_by_the_next_start(
    server: RestServer, tmp_path: Path, last: int
) -> None:
    server.breaks_at, server.loses_an_answer = last, True
    async with opened(tmp_path, server) as store:
        assert not await use(store, ALICE, BOB)
    server.breaks_at = None
    async with opened(tmp_path, server) as store:
        await check_after_a_start(store, server, ALICE, BOB)


async def test_erasing_while_qdrant_is_away_is_told_and_a_start_without_it_changes_nothing(
    server: RestServer, tmp_path: Path
) -> None:
    async with opened(tmp_path, server) as store:
        await store.put(ALICE, batch(TEA))
        server.breaks_at = 0
        with pytest.raises(StoreUnavailableError, match="the next start"):
            await store.erase(ALICE)
    async with opened(tmp_path, server) as store:
        await store.waiting_scopes(ALICE.memory_space)
        assert await ErasureNotes(store).read() == [ALICE]
    assert points_of(server, ALICE) == 2
    server.breaks_at = None
    async with opened(tmp_path, server) as store:
        erased = await store.erase(ALICE)
        assert erased.index_cleared
        assert (points_of(server, ALICE), await ErasureNotes(store).read()) == (0, [])


async def test_who_comes_back_after_an_unfinished_erasure_keeps_what_is_new(server: RestServer, tmp_path: Path) -> None:
    async with opened(tmp_path, server) as store:
        await store.put(ALICE, batch(TEA))
        server.breaks_at = 0
        with pytest.raises(StoreUnavailableError):
            await store.erase(ALICE)
        await store.put(ALICE, batch(BOAT))
        server.breaks_at = None
        assert await found(store, "tea") == ([], [])
        assert await found(store, "boat") == (["boat"], [])
        assert points_of(server, ALICE) == 2


async def test_a_memory_erased_while_qdrant_is_away_leaves_it_with_the_next_start(
    server: RestServer, tmp_path: Path
) -> None:
    async with opened(tmp_path, server) as store:
        await store.put(ALICE, batch(TEA, BOAT))
        server.breaks_at = 0
        with pytest.raises(StoreUnavailableError, match="the memory is deleted"):
            await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id="tea", erase=True),)))
    server.breaks_at = None
    async with opened(tmp_path, server) as store:
        await store.waiting_scopes(ALICE.memory_space)
        assert points_of(server, ALICE) == 0
        assert await found(store, "boat") == (["boat"], [])


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503, 507])
async def test_a_server_that_refuses_is_done_without_and_it_is_said(
    server: RestServer, tmp_path: Path, status: int
) -> None:
    async with opened(tmp_path, server) as store:
        await store.put(ALICE, batch(TEA))
        server.failing = status
        await store.put(ALICE, batch(BOAT))
        assert await found(store, "boat") == (["boat"], [AWAY])
        server.failing = 0
        assert await found(store, "boat") == (["boat"], [])


async def test_deleting_a_user_is_told_while_qdrant_is_away_and_finished_by_the_next_start(
    server: RestServer, tmp_path: Path
) -> None:
    def memories() -> ReMe:
        qdrant = {"backend": "qdrant", "url": server.url, "api_key": KEY, "collection": "reme_memories"}
        return ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder(8), vector_store=qdrant)

    async with memories() as memory:
        await memory.add_memory("Alice plays the violin.", user_id="alice")
        assert points_of(server, ALICE) == 2
        server.breaks_at = 0
        found = await memory.retrieve("violin", user_id="alice")
        assert [hit.memory for hit in found.results] == ["Alice plays the violin."]
        assert found.degraded == (AWAY,)
        with pytest.raises(StoreUnavailableError, match="the next start"):
            await memory.delete_all_memories(user_id="alice")
        assert (await memory.stats(user_id="alice")).memories == 0
    server.breaks_at = None
    assert points_of(server, ALICE) == 2
    async with memories() as memory:
        assert points_of(server, ALICE) == 0
        assert (await memory.delete_all_memories(user_id="alice")).index_cleared


async def test_a_process_that_ends_between_store_and_index_leaves_a_note(server: RestServer, tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    class Dying(LocalStore):
        async def erase(self, scope: Scope) -> Erased:
            await super().erase(scope)
            raise Killed

    async with opened(tmp_path, server) as store:
        await store.put(ALICE, batch(TEA))
    dying = IndexedStore(Dying(tmp_path / "memory.db"), QdrantIndex(url=server.url, api_key=KEY, dimension=DIMENSION))
    with pytest.raises(Killed):
        await dying.erase(ALICE)
    await dying.close()
    assert points_of(server, ALICE) == 2
    async with opened(tmp_path, server) as store:
        await store.waiting_scopes(ALICE.memory_space)
    assert points_of(server, ALICE) == 0
