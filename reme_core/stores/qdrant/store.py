"""The store of memories over Qdrant."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from qdrant_client import AsyncQdrantClient, models

from reme_core.errors import ConfigurationError, DimensionMismatchError, InvalidInputError, MemoryNotFoundError
from reme_core.ports import (
    Counts,
    EventQuery,
    ListMemories,
    MemorySearch,
    MessageVector,
    PendingText,
    ScoredMemory,
    UseMemory,
    Vector,
    WriteBatch,
)
from reme_core.rules import CheckedFilter, check_batch, check_filter, check_uses, check_vector
from reme_core.schema import Erased, Event, Memory, MemoryPage, MemoryType, Scope
from reme_core.stores._cursors import check_limit
from reme_core.stores._pages import PagePosition, cut_page, read_place
from reme_core.stores.qdrant import filters, log
from reme_core.stores.qdrant import search as ranking
from reme_core.stores.qdrant.backend import Backend
from reme_core.stores.qdrant.collection import QdrantLayout, ensure_collection
from reme_core.stores.qdrant.failures import translated
from reme_core.stores.qdrant.folder import open_folder
from reme_core.stores.qdrant.loop import QdrantLoopThread
from reme_core.stores.qdrant.points import MEMORY, memory_id_point, read_memory

T = TypeVar("T")

COLLECTION = "reme_memories"
_FEWEST_LISTED = 64


class QdrantStore:
    """Memories in one collection of Qdrant.

    Usable from any number of threads and event loops. Nothing is opened before the first call. What holds for one
    process, for several, and on a cluster, is said in docs/qdrant.md.
    """

    def __init__(
        self,
        *,
        dimension: int,
        location: str | None = None,
        path: str | Path | None = None,
        url: str | None = None,
        api_key: str | None = None,
        prefer_grpc: bool = False,
        timeout_s: int = 30,
        collection: str = COLLECTION,
        layout: QdrantLayout = QdrantLayout(),  # noqa: B008  # frozen
    ) -> None:
        """Name the place: one of `location` (only `:memory:`), `path` (a folder for one process) and `url`.

        `dimension` is that of the vectors; a collection takes one. `api_key` is sent to the server and kept nowhere
        else.

        Raises:
            ConfigurationError: No place or several, a dimension below one, or an option that the place doesn't have.
        """
        places = [place for place in (location, path, url) if place is not None]
        if len(places) != 1 or location not in {None, ":memory:"}:
            msg = "Qdrant: give one of location=':memory:', path='folder' and url='http://host:6333'"
            raise ConfigurationError(msg)
        if url is None and (api_key or prefer_grpc or layout != QdrantLayout()):
            msg = "Qdrant: api_key, prefer_grpc and layout are options of a server; give url, or leave them out"
            raise ConfigurationError(msg)
        if dimension < 1:
            msg = f"Qdrant: dimension is that of the embedding model, at least 1, found {dimension}"
            raise ConfigurationError(msg)
        self._dimension = dimension
        self._collection = collection
        self._layout = layout
        self._place = str(places[0])
        self._remote = url is not None

        def connect() -> AsyncQdrantClient:
            if path is not None:
                return open_folder(Path(path))
            if location is not None:
                return AsyncQdrantClient(location=location)
            return AsyncQdrantClient(
                url=url, api_key=api_key, prefer_grpc=prefer_grpc, timeout=timeout_s, check_compatibility=False
            )

        self._connect: Callable[[], AsyncQdrantClient] = connect
        self._loop = QdrantLoopThread("reme-qdrant")
        # What follows is touched in the background loop alone.
        self._backend: Backend | None = None
        self._opening = asyncio.Lock()
        self._locks: WeakValueDictionary[Scope, asyncio.Lock] = WeakValueDictionary()
        self._settled: set[Scope] = set()

    def __repr__(self) -> str:
        """Name place and collection, and no key."""
        return f"QdrantStore({self._place!r}, collection={self._collection!r})"

    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        """Write a batch; see `MemoryStore.put`."""
        checked = check_batch(scope, batch)
        for put in checked.puts:
            self._check_dimension(put.vector, "the vector")
        answers = await self._loop.run(
            lambda: self._locked(scope, lambda backend: log.write(backend, scope, checked)), uninterrupted=True
        )
        return [memory.detached() for memory in answers]

    async def record_uses(self, scope: Scope, uses: Sequence[UseMemory]) -> list[Memory]:
        """Add to the counts of memories; see `CountsUses.record_uses`.

        Additions are ordered as writes are: exact among all processes that share a server, whatever else they write.
        One whose answer is lost on its way (`StoreUnavailableError`) may have counted. Each call leaves a record of
        some 300 bytes in the log of the scope until that is erased, so count what was used together in one call.
        """
        checked = check_uses(uses)
        counted = await self._loop.run(
            lambda: self._locked(scope, lambda backend: log.count_uses(backend, scope, checked)), uninterrupted=True
        )
        return [memory.detached() for memory in counted]

    async def get(self, scope: Scope, memory_ids: Sequence[str]) -> list[Memory]:
        """Return memories by id; see `MemoryStore.get`."""
        names = list(memory_ids)
        held = await self._loop.run(lambda: self._get(scope, list(dict.fromkeys(names))))
        missing = [name for name in dict.fromkeys(names) if name not in held]
        if missing:
            raise MemoryNotFoundError(missing)
        return [held[name].detached() for name in names]

    async def search(self, scope: Scope, search: MemorySearch) -> list[ScoredMemory]:
        """Return the best memories; see `MemoryStore.search`."""
        check_limit(search.limit)
        wanted = check_filter(search.filter)
        if search.vector is None and not search.text.strip():
            msg = "a search needs a text or a vector: there is nothing to rank by"
            raise InvalidInputError(msg)
        vector = None if search.vector is None else check_vector(search.vector, "the query's vector")
        self._check_dimension(vector, "the query's vector")
        checked = MemorySearch(text=search.text, vector=vector, limit=search.limit, min_score=search.min_score)
        return await self._loop.run(lambda: self._search(scope, checked, wanted))

    async def list_memories(self, scope: Scope, query: ListMemories) -> MemoryPage:
        """Return one page; see `MemoryStore.list_memories`."""
        check_limit(query.limit)
        wanted, after = check_filter(query.filter), read_place(query.cursor)
        return await self._loop.run(lambda: self._list(scope, wanted, after, query.limit))

    async def events(self, scope: Scope, query: EventQuery) -> list[Event]:
        """Return what happened, oldest first; see `MemoryStore.events`."""
        return await self._loop.run(lambda: self._events(scope, query))

    async def pending_texts(self, scope: Scope, limit: int) -> list[PendingText]:
        """Return memories that wait for vectors; see `FillsVectors.pending_texts`."""
        waiting = await self._loop.run(lambda: self._waiting(scope, limit))
        return [PendingText(key=memory.memory_id, text=memory.index_text) for memory in waiting]

    async def waiting_scopes(self, memory_space: str) -> list[Scope]:
        """Return scopes with memories that wait for vectors; see `FillsVectors.waiting_scopes`."""
        return await self._loop.run(lambda: self._waiting_scopes(memory_space))

    async def put_vectors(self, scope: Scope, vectors: Sequence[MessageVector]) -> None:
        """Store vectors of memories; see `FillsVectors.put_vectors`. A call leaves a record, as of `record_uses`."""
        given: dict[tuple[str, str], Vector | None] = {}
        for item in vectors:
            vector = None if item.vector is None else check_vector(item.vector, "the vector of a memory")
            self._check_dimension(vector, "the vector of a memory")
            given[item.pending.key, item.pending.text] = vector
        await self._loop.run(
            lambda: self._locked(scope, lambda backend: log.fill(backend, scope, given)), uninterrupted=True
        )

    async def count(self, scope: Scope) -> Counts:
        """Return how many memories and events the scope holds; see `Countable`."""
        return await self._loop.run(lambda: self._locked(scope, lambda backend: _count(backend, scope)))

    async def erase(self, scope: Scope) -> Erased:
        """Remove everything of the scope; see `MemoryStore.erase`, and docs/qdrant.md on what a server's disk keeps."""
        return await self._loop.run(
            lambda: self._locked(scope, lambda backend: _erase(backend, scope)), uninterrupted=True
        )

    async def close(self) -> None:
        """Let writes end and close the client; later calls raise `StoreClosedError`. Closing twice is harmless."""
        await self._loop.close(self._disconnect)

    def _check_dimension(self, vector: Vector | None, what: str) -> None:
        if vector is not None and len(vector) != self._dimension:
            raise DimensionMismatchError(expected=self._dimension, found=len(vector), what=what)

    async def _open(self) -> Backend:
        async with self._opening:
            if self._backend is None:
                with translated(f"opening {self._place!r}"):
                    client = self._connect()
                try:
                    await ensure_collection(
                        client, self._collection, self._dimension, self._layout, remote=self._remote
                    )
                except BaseException:  # closes what it has opened, and re-raises
                    await client.close()
                    raise
                self._backend = Backend(
                    client=client,
                    collection=self._collection,
                    remote=self._remote,
                    shard_by_space=self._layout.shard_by_space,
                )
            return self._backend

    async def _disconnect(self) -> None:
        if self._backend is not None:
            await self._backend.client.close()
            self._backend = None

    async def _locked(self, scope: Scope, work: Callable[[Backend], Awaitable[T]]) -> T:
        """Do something alone among the writers of this store to a scope, which is settled before the first time."""
        backend = await self._open()
        lock = self._locks.setdefault(scope, asyncio.Lock())
        async with lock:
            if scope not in self._settled:
                await _settle(backend, scope)
                self._settled.add(scope)
            return await work(backend)

    async def _readable(self, scope: Scope) -> Backend:
        """Open, and see that the scope was settled."""
        return await self._open() if scope in self._settled else await self._locked(scope, _same)

    async def _get(self, scope: Scope, names: Sequence[str]) -> dict[str, Memory]:
        backend = await self._readable(scope)
        records = await backend.retrieve(scope, [memory_id_point(scope, name) for name in names], vectors=False)
        found = (read_memory(item.payload) for item in records if item.payload and item.payload.get("kind") == MEMORY)
        return {memory.memory_id: memory for memory in found}

    async def _search(self, scope: Scope, search: MemorySearch, wanted: CheckedFilter) -> list[ScoredMemory]:
        if filters.matches_nothing(wanted):
            return []
        return await ranking.rank(await self._readable(scope), scope, search, wanted)

    async def _list(self, scope: Scope, wanted: CheckedFilter, after: PagePosition | None, limit: int) -> MemoryPage:
        """Fetch as many as make a page, those of its last creation time all of them, since ties go by id."""
        backend = await self._readable(scope)
        if filters.matches_nothing(wanted):
            return MemoryPage()
        condition = filters.matching(
            scope, wanted, *([] if after is None else [filters.created_until(after.created_at)])
        )
        newest = models.OrderBy(key="created_at", direction=models.Direction.DESC)
        count = max(2 * limit, _FEWEST_LISTED)
        while True:
            records = await backend.scroll(scope, condition, limit=count, order=newest)
            memories = [read_memory(record.payload) for record in records]
            if len(records) < count:
                return cut_page(memories, after, limit)
            last = min(memory.created_at for memory in memories)
            whole = [memory for memory in memories if memory.created_at > last]
            page = cut_page(whole, after, limit)
            if page.next_cursor is not None:
                return page
            count *= 4

    async def _waiting(self, scope: Scope, limit: int) -> list[Memory]:
        return await log.waiting_memories(await self._readable(scope), scope, limit) if limit > 0 else []

    async def _waiting_scopes(self, memory_space: str) -> list[Scope]:
        return await log.waiting_scopes(await self._open(), memory_space)

    async def _events(self, scope: Scope, query: EventQuery) -> list[Event]:
        return await log.events(await self._readable(scope), scope, query)


async def _settle(backend: Backend, scope: Scope) -> None:
    """See that nothing was left behind in a scope, by a writer that died or by an earlier release."""
    await log.settle(backend, scope)
    await log.tell_ends_from_replacements(backend, scope)


async def _same(backend: Backend) -> Backend:
    return backend


async def _count(backend: Backend, scope: Scope) -> Counts:
    current = {
        kind: await backend.count(
            scope, filters.all_memories(scope, filters.is_true("current"), filters.equals("type", kind.value))
        )
        for kind in MemoryType
    }
    return Counts(
        current_memories={kind: number for kind, number in current.items() if number},
        memories=await backend.count(scope, filters.all_memories(scope)),
        waiting_for_vectors=await backend.count(scope, filters.all_memories(scope, filters.is_true("waits"))),
        events=await log.count_events(backend, scope),
    )


async def _erase(backend: Backend, scope: Scope) -> Erased:
    events = await log.count_events(backend, scope)
    memories = await backend.count(scope, filters.all_memories(scope))
    await backend.delete(scope, filters.whole_scope(scope))
    return Erased(memories=memories, events=events)
