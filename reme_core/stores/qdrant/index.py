"""The index of memories in Qdrant."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from qdrant_client import AsyncQdrantClient, models

from reme_core.background_loop import EventLoopThread
from reme_core.errors import ConfigurationError, DimensionMismatchError, InvalidInputError
from reme_core.ports import DeleteEntries, IndexHit, MemorySearch, UpsertEntries, Vector
from reme_core.rules import CheckedFilter, check_filter, check_vector
from reme_core.schema import Scope
from reme_core.stores._cursors import check_limit
from reme_core.stores.qdrant import search as ranking
from reme_core.stores.qdrant.backend import (
    Backend,
    CollectionGoneError,
    ReadConsistency,
    open_folder,
    translated,
)
from reme_core.stores.qdrant.points import (
    POSITION,
    QdrantLayout,
    ensure_collection,
    entry_point,
    in_requests,
    point_id,
    position_point,
    quantization_of,
    read_position,
)

T = TypeVar("T")

COLLECTION = "reme_memories"

OVERSAMPLING = 3.0
"""With it at most 2 of 1,000 of the ten best are missed, whatever the kind of copies; measured in docs/qdrant.md."""


@dataclass(slots=True)
class _Opened:
    """What one process has opened; a fork's child begins with one of its own.

    Attributes:
        pid: The process.
        opening: Held while the client opens.
        closing: Held while it closes: who closes second waits for the first.
        backend: The collection behind its client; touched in the background loop alone.
        is_gone: Whether somebody has removed the collection since.
    """

    pid: int = field(default_factory=os.getpid)
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    closing: threading.Lock = field(default_factory=threading.Lock)
    backend: Backend | None = None
    is_gone: bool = False


class QdrantIndex:
    """A `MemoryIndex` in one collection of Qdrant.

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
        grpc_port: int = 6334,
        timeout_s: int = 30,
        collection: str = COLLECTION,
        layout: QdrantLayout = QdrantLayout(),  # noqa: B008  # frozen
        read_consistency: ReadConsistency = "majority",
        oversampling: float = OVERSAMPLING,
    ) -> None:
        """Name the place: one of `location` (only `:memory:`), `path` (a folder for one process) and `url`.

        `dimension` is that of the vectors; a collection takes one. `api_key` is sent to the server and kept nowhere
        else. A request that takes longer than `timeout_s` seconds has failed. `read_consistency` is how many copies a
        read asks: a word of Qdrant's, or their number. In a quantised collection `oversampling` times as many
        candidates as wanted are scored by their whole vectors.

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
        if timeout_s < 1 or oversampling < 1 or (isinstance(read_consistency, int) and read_consistency < 1):
            msg = "Qdrant: timeout_s, oversampling and a number as read_consistency are at least 1"
            raise ConfigurationError(msg)
        if dimension < 1:
            msg = f"Qdrant: dimension is that of the embedding model, at least 1, found {dimension}"
            raise ConfigurationError(msg)
        self._dimension = dimension
        self._collection = collection
        self._layout = layout
        self._consistency = (
            read_consistency if isinstance(read_consistency, int) else models.ReadConsistencyType(read_consistency)
        )
        self._oversampling = oversampling
        self._place = str(places[0])
        self._remote = url is not None

        def connect() -> AsyncQdrantClient:
            if path is not None:
                return open_folder(Path(path))
            if location is not None:
                return AsyncQdrantClient(location=location)
            return AsyncQdrantClient(
                url=url,
                api_key=api_key,
                prefer_grpc=prefer_grpc,
                grpc_port=grpc_port,
                timeout=timeout_s,
                check_compatibility=False,
            )

        self._connect: Callable[[], AsyncQdrantClient] = connect
        # A client belongs to the event loop that it was made in; this one serves the callers of any.
        self._loop = EventLoopThread(self)
        self._opened: list[_Opened] = [_Opened()]

    def __repr__(self) -> str:
        """Name place and collection, and no key."""
        return f"QdrantIndex({self._place!r}, collection={self._collection!r})"

    async def find_position(self, scope: Scope) -> str | None:
        """Return the position that the scope has reached; see `MemoryIndex.find_position`."""
        return await self._run(self._find_position(scope))

    async def count(self, scope: Scope) -> int:
        """Count the entries; see `MemoryIndex.count`."""
        return await self._run(self._count(scope))

    async def upsert(self, scope: Scope, upsert: UpsertEntries) -> None:
        """Write entries, and then the position; see `MemoryIndex.upsert`."""
        for entry in upsert.entries:
            self._check_dimension(entry.vector, "the vector")
        await self._run_to_its_end(self._upsert(scope, upsert))

    async def delete(self, scope: Scope, delete: DeleteEntries) -> None:
        """Remove entries; see `MemoryIndex.delete`, and docs/qdrant.md on what a server's disk keeps."""
        await self._run_to_its_end(self._delete(scope, delete))

    async def search(self, scope: Scope, search: MemorySearch) -> list[IndexHit]:
        """Return the best memories; see `MemoryIndex.search`."""
        check_limit(search.limit)
        wanted = check_filter(search.filter)
        if search.vector is None and not search.text.strip():
            msg = "a search needs a text or a vector: there is nothing to rank by"
            raise InvalidInputError(msg)
        vector = None if search.vector is None else check_vector(search.vector, "the query's vector")
        self._check_dimension(vector, "the query's vector")
        if ranking.matches_nothing(wanted):
            return []
        checked = MemorySearch(text=search.text, vector=vector, limit=search.limit, min_score=search.min_score)
        return await self._run(self._search(scope, checked, wanted))

    async def close(self) -> None:
        """Let writes end and close the client; later calls raise `StoreClosedError`. Closing twice is harmless."""
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        with self._own().closing:
            self._loop.end(self._disconnect())

    async def _run(self, work: Coroutine[object, object, T]) -> T:
        try:
            return await asyncio.wrap_future(self._loop.submit(work))
        except CollectionGoneError:
            self._own().is_gone = True
            raise

    async def _run_to_its_end(self, work: Coroutine[object, object, None]) -> None:
        """Run what a server may finish though nobody waits: who is cancelled meanwhile is so when it has ended."""
        writing = asyncio.ensure_future(self._run(work))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            while not writing.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([writing])
            raise

    def _own(self) -> _Opened:
        """Return what this process has opened. What a parent has is kept, and is not touched: it is the parent's."""
        if self._opened[-1].pid != os.getpid():
            self._opened.append(_Opened())
        return self._opened[-1]

    def _check_dimension(self, vector: Vector | None, what: str) -> None:
        if vector is not None and len(vector) != self._dimension:
            raise DimensionMismatchError(expected=self._dimension, found=len(vector), what=what)

    async def _open(self) -> Backend:
        own = self._own()
        async with own.opening:
            if own.backend is None:
                with translated(f"opening {self._place!r}"):
                    client = self._connect()
                try:
                    own.backend = await self._ensured(client)
                except BaseException:  # closes what it has opened, and re-raises
                    await client.close()
                    raise
            elif own.is_gone:
                own.backend = await self._ensured(own.backend.client)
            own.is_gone = False
            return own.backend

    async def _ensured(self, client: AsyncQdrantClient) -> Backend:
        info = await ensure_collection(client, self._collection, self._dimension, self._layout, remote=self._remote)
        return Backend(
            client=client,
            collection=self._collection,
            shard_by_space=self._layout.shard_by_space,
            consistency=self._consistency,
            search_params=None if quantization_of(info) is None else _rescored(self._oversampling),
        )

    async def _disconnect(self) -> None:
        own = self._own()
        if own.backend is not None:
            await own.backend.client.close()
            own.backend = None

    async def _find_position(self, scope: Scope) -> str | None:
        backend = await self._open()
        return read_position(await backend.find_payload(scope, point_id(scope, "", POSITION)))

    async def _count(self, scope: Scope) -> int:
        return await (await self._open()).count(scope, ranking.all_memories(scope))

    async def _upsert(self, scope: Scope, upsert: UpsertEntries) -> None:
        backend = await self._open()
        for points in in_requests(entry_point(scope, entry) for entry in upsert.entries):
            await backend.upsert(scope, points)
        await backend.upsert(scope, [position_point(scope, upsert.position)])

    async def _delete(self, scope: Scope, delete: DeleteEntries) -> None:
        backend = await self._open()
        if delete.keys is not None:
            await backend.delete(scope, _points([point_id(scope, key) for key in delete.keys]))
            return
        await backend.delete(scope, _points([point_id(scope, "", POSITION)]))
        await backend.delete(scope, ranking.whole_scope(scope))

    async def _search(self, scope: Scope, search: MemorySearch, wanted: CheckedFilter) -> list[IndexHit]:
        return await ranking.rank(await self._open(), scope, search, wanted)


def _rescored(oversampling: float) -> models.SearchParams:
    """Look for candidates in the small copies of the vectors, and score them by the vectors themselves."""
    return models.SearchParams(quantization=models.QuantizationSearchParams(rescore=True, oversampling=oversampling))


def _points(ids: Sequence[str]) -> models.PointIdsList:
    return models.PointIdsList(points=list(ids))
