"""The index of memories in Qdrant."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from qdrant_client import AsyncQdrantClient, models

from reme_core.errors import ConfigurationError, DimensionMismatchError, InvalidInputError
from reme_core.ports import DeleteEntries, IndexHit, MemorySearch, UpsertEntries, Vector
from reme_core.rules import CheckedFilter, check_filter, check_vector
from reme_core.schema import Scope
from reme_core.stores._cursors import check_limit
from reme_core.stores.qdrant import search as ranking
from reme_core.stores.qdrant.backend import Backend, translated
from reme_core.stores.qdrant.loop import QdrantLoopThread, open_folder
from reme_core.stores.qdrant.points import (
    POSITION,
    QdrantLayout,
    ensure_collection,
    entry_point,
    point_id,
    position_point,
    read_position,
)

COLLECTION = "reme_memories"


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

    def __repr__(self) -> str:
        """Name place and collection, and no key."""
        return f"QdrantIndex({self._place!r}, collection={self._collection!r})"

    async def find_position(self, scope: Scope) -> str | None:
        """Return the position that the scope has reached; see `MemoryIndex.find_position`."""
        return await self._loop.run(lambda: self._find_position(scope))

    async def upsert(self, scope: Scope, upsert: UpsertEntries) -> None:
        """Write entries, and then the position; see `MemoryIndex.upsert`."""
        for entry in upsert.entries:
            self._check_dimension(entry.vector, "the vector")
        await self._loop.run(lambda: self._upsert(scope, upsert), uninterrupted=True)

    async def delete(self, scope: Scope, delete: DeleteEntries) -> None:
        """Remove entries; see `MemoryIndex.delete`, and docs/qdrant.md on what a server's disk keeps."""
        await self._loop.run(lambda: self._delete(scope, delete), uninterrupted=True)

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
        return await self._loop.run(lambda: self._search(scope, checked, wanted))

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
                    client=client, collection=self._collection, shard_by_space=self._layout.shard_by_space
                )
            return self._backend

    async def _disconnect(self) -> None:
        if self._backend is not None:
            await self._backend.client.close()
            self._backend = None

    async def _find_position(self, scope: Scope) -> str | None:
        backend = await self._open()
        return read_position(await backend.find_payload(scope, point_id(scope, "", POSITION)))

    async def _upsert(self, scope: Scope, upsert: UpsertEntries) -> None:
        backend = await self._open()
        points = [entry_point(scope, entry) for entry in upsert.entries]
        if points:
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


def _points(ids: Sequence[str]) -> models.PointIdsList:
    return models.PointIdsList(points=list(ids))
