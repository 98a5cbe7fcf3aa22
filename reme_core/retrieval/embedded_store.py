"""A store as a memory with an embedding model uses it: the vectors of two models are never compared."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from reme_core.errors import DimensionMismatchError, EmbeddingModelMismatchError, ModelRejectedError
from reme_core.ports import (
    IndexedBy,
    MemorySearch,
    MessageSearch,
    MessageVector,
    PendingText,
    ScoredBlock,
    ScoredMemory,
    ScoredMessage,
    SettleJob,
    Store,
    WrappedStore,
    WriteBatch,
)
from reme_core.retrieval.resting_embedder import RestingEmbedder
from reme_core.schema import Memory, Scope

_LOG = logging.getLogger("reme")
S = TypeVar("S", MemorySearch, MessageSearch)
T = TypeVar("T")

_MISMATCHES = (EmbeddingModelMismatchError, DimensionMismatchError)
_CHANGED = "the embedding model of this memory space was changed meanwhile; words alone were compared"


class EmbeddedStore(WrappedStore):
    """A `Store` that is told with each vector which model made it.

    A model that is another one than that of the vectors stored is refused at its first use. Where it was the right one,
    and `reme reembed` has replaced the vectors meanwhile, this process goes on by words, until it is started with the
    new model: texts that it writes wait for their vectors.
    """

    def __init__(self, store: Store, embedder: RestingEmbedder) -> None:
        """Keep both; the vectors that come through here are those of the embedder."""
        super().__init__(store)
        self._embedder = embedder
        self._right: set[str] = set()

    def __repr__(self) -> str:
        """Name the store."""
        return repr(self._store)

    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        """Write a batch; see `Store.put`."""
        return await self._write(scope, batch, lambda marked: self._store.put(scope, marked))

    async def put_and_settle(self, scope: Scope, batch: WriteBatch, settle: SettleJob) -> list[Memory]:
        """Write a batch and settle its job; see `Store.put_and_settle`."""
        return await self._write(scope, batch, lambda marked: self._store.put_and_settle(scope, marked, settle))

    async def search(self, scope: Scope, search: MemorySearch) -> list[ScoredMemory]:
        """Return the best memories; see `Store.search`."""
        return await self._find(scope, search, lambda marked: self._store.search(scope, marked))

    async def search_messages(self, scope: Scope, search: MessageSearch) -> list[ScoredMessage]:
        """Return the best messages; see `Store.search_messages`."""
        return await self._find(scope, search, lambda marked: self._store.search_messages(scope, marked))

    async def search_blocks(self, scope: Scope, search: MessageSearch) -> list[ScoredBlock]:
        """Return the best blocks; see `Store.search_blocks`."""
        return await self._find(scope, search, lambda marked: self._store.search_blocks(scope, marked))

    async def pending_texts(self, scope: Scope, limit: int) -> list[PendingText]:
        """Return what waits for vectors, if they may be made by this model; see `Store.pending_texts`."""
        await self._check(scope.memory_space)
        return await self._store.pending_texts(scope, limit)

    async def put_vectors(self, scope: Scope, vectors: Sequence[MessageVector]) -> None:
        """Store vectors; see `Store.put_vectors`."""
        await self._check(scope.memory_space)
        try:
            await self._store.put_vectors(scope, [replace(item, embedded_by=self._embedder.name) for item in vectors])
        except _MISMATCHES:
            await self._is_replaced(scope.memory_space)
            raise
        if any(item.vector is not None for item in vectors):
            self._right.add(scope.memory_space)

    async def _find(self, scope: Scope, search: S, find: Callable[[S], Awaitable[T]]) -> T:
        if search.vector is None:
            return await find(search)
        await self._check(scope.memory_space)
        try:
            return await find(replace(search, embedded_by=self._embedder.name))
        except _MISMATCHES:
            if not await self._is_replaced(scope.memory_space) or not search.text.strip():
                raise
            if search.on_degraded is not None:
                search.on_degraded(_CHANGED)
            return await find(replace(search, vector=None))

    async def _write(self, scope: Scope, batch: WriteBatch, write: Callable[[WriteBatch], Awaitable[T]]) -> T:
        if all(put.vector is None for put in batch.puts):
            return await write(batch)
        await self._check(scope.memory_space)
        try:
            written = await write(replace(batch, embedded_by=self._embedder.name))
        except _MISMATCHES:
            if not await self._is_replaced(scope.memory_space):
                raise
            puts = [put if put.vector is None else replace(put, vector=None, wants_vector=True) for put in batch.puts]
            return await write(replace(batch, puts=puts))
        self._right.add(scope.memory_space)
        return written

    async def _check(self, memory_space: str) -> None:
        """Refuse a model that did not make the vectors of a space, unless it did when that was asked first.

        Raises:
            EmbeddingModelMismatchError: Another model made them.
            DimensionMismatchError: It is not known which model made them, and they have another dimension.
        """
        if memory_space in self._right:
            return
        stored = await self._store.find_index(memory_space)
        if stored is None:
            return  # the first vector that is written decides
        if stored.model is None:
            stored = await self._store.claim_index(memory_space, self._ours)
            told = "the vectors of memory space %r, of no known model, count as those of %r"
            _LOG.info(told, memory_space, self._ours.model)
        stored.check(self._ours, "a vector of this memory")
        self._right.add(memory_space)

    @property
    def _ours(self) -> IndexedBy:
        return IndexedBy(dimension=self._embedder.dimension, model=self._embedder.name)

    async def _is_replaced(self, memory_space: str) -> bool:
        """Tell whether a refused vector is that of the model of before; that is then asked no more."""
        stored = await self._store.find_index(memory_space)
        before = self._embedder.name
        if memory_space not in self._right or stored is None or stored.model == before:
            return False
        msg = (
            f"the vectors of memory space {memory_space!r} were changed from {before!r} to {stored.model!r}: this "
            "process goes on by words alone; start it again with the new model"
        )
        self._embedder.refuse(ModelRejectedError(msg))
        return True
