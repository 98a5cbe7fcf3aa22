"""A store whose memories are searched in an index of their own, such as Qdrant."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import replace

from reme_core.errors import (
    CorruptDataError,
    DimensionMismatchError,
    MemoryNotFoundError,
    ReMeError,
    StorageFullError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from reme_core.ports import (
    ChangesPage,
    ChangesQuery,
    DeleteEntries,
    IndexedBy,
    IndexHit,
    MemoryIndex,
    MemorySearch,
    MessageVector,
    ScoredMemory,
    SettleJob,
    Store,
    UpsertEntries,
    WrappedStore,
    WriteBatch,
)
from reme_core.rules import CheckedFilter, check_filter, matches
from reme_core.schema import Erased, Memory, Scope
from reme_core.stores._cursors import check_limit, place_of
from reme_core.stores.erasure_notes import ErasureNotes

_LOG = logging.getLogger("reme")

PAUSE_S = 30.0
"""An index that failed is left alone for so long: a server that restarts takes about that, and nobody waits for it."""

AWAY = "the index of memories is away: its store was searched"
"""What a search says in `on_degraded` that was answered without the index."""

_FAILURES = (StoreUnavailableError, StoreAccessError, StorageFullError, CorruptDataError)


class IndexedStore(WrappedStore):
    """A `Store` that keeps everything, and an index that its memories are searched in.

    A write is durable in the store first; what changed is then taken over into the index. Where that fails the write
    stands, and the index is brought up to date before it is searched next. A search reads what it found from the
    store: what was deleted, replaced or belongs to another scope is no hit, whatever the index says. While the index
    can't be reached, lets nobody in, or is full or damaged, the store is searched instead, which `on_degraded` is told;
    so it is, for a search that can be told, where the vectors of the store have another length than the index takes.

    What is erased while the index is away is noted in the store, and cleared from the index before it is used next, at
    the latest by the next start.
    """

    def __init__(
        self,
        store: Store,
        index: MemoryIndex,
        *,
        pause_s: float = PAUSE_S,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep both; they are closed with this. After a failure the index rests for `pause_s`, told by `seconds`."""
        super().__init__(store)
        self._index = index
        self._pause_s = pause_s
        self._seconds = seconds
        self._rests_until = float("-inf")
        self._notes = ErasureNotes(store)
        self._may_be_noted = True
        self._pid = os.getpid()
        self._known: dict[Scope, str] = {}
        self._busy: dict[Scope, Future[None]] = {}
        self._following: set[asyncio.Task[bool]] = set()

    def __repr__(self) -> str:
        """Name both."""
        return f"IndexedStore({self._store!r}, {self._index!r})"

    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        """Write a batch; see `Store.put`."""
        written = await self._store.put(scope, batch)
        if not any(delete.erase for delete in batch.deletes):
            await self._try_to_follow(scope)
            return written
        try:
            await self._follow(scope)
        except StoreError as exc:
            await self._note(scope)
            msg = f"the memory is deleted; {_left_in_index(exc)}"
            raise StoreUnavailableError(msg) from exc
        return written

    async def put_and_settle(self, scope: Scope, batch: WriteBatch, settle: SettleJob) -> list[Memory]:
        """Write a batch and settle its job; see `Store.put_and_settle`."""
        written = await self._store.put_and_settle(scope, batch, settle)
        await self._try_to_follow(scope)
        return written

    async def put_vectors(self, scope: Scope, vectors: Sequence[MessageVector]) -> None:
        """Store vectors; see `Store.put_vectors`."""
        await self._store.put_vectors(scope, vectors)
        await self._try_to_follow(scope)

    async def search(self, scope: Scope, search: MemorySearch) -> list[ScoredMemory]:
        """Return the best memories; see `Store.search`."""
        check_limit(search.limit)
        wanted = check_filter(search.filter)
        if self._rests:
            return await self._search_without(scope, search)
        if search.only is not None:  # the index ranks the best alone
            return await self._store.search(scope, search)
        if scope in self._followed():
            return await self._store.search(scope, search)
        try:
            await self._check_model(scope, search)
            await self._follow(scope)
            found, is_short = await self._search(scope, search, wanted)
            if is_short and await self._follow(scope, doubted=True):
                found, _ = await self._search(scope, search, wanted)
            await self._check_model(scope, search)
        except _FAILURES as exc:
            self._rest(exc)
            return await self._search_without(scope, search)
        except DimensionMismatchError as exc:
            if search.on_degraded is None:
                raise
            found = await self._search_without(scope, search)  # raises where it is the query's
            self._rest(exc)
        return found

    async def _check_model(self, scope: Scope, search: MemorySearch) -> None:
        """Refuse a query of another model; before and after, since the vectors may be replaced between the two."""
        if search.vector is None or search.embedded_by is None:
            return
        stored = await self._store.find_index(scope.memory_space)
        if stored is not None:
            stored.check(IndexedBy(dimension=len(search.vector), model=search.embedded_by), "the query's vector")

    async def _search_without(self, scope: Scope, search: MemorySearch) -> list[ScoredMemory]:
        if search.on_degraded is not None:
            search.on_degraded(AWAY)
        return await self._store.search(scope, search)

    async def erase(self, scope: Scope) -> Erased:
        """Remove everything of the scope, from the store and then from the index; see `Store.erase`.

        Raises:
            StoreUnavailableError: It is gone from the store, not from the index, which failed. That is noted: the next
                call that reaches the index, or the next start, clears it. Call again to be told that it is.
        """
        async with self._alone(scope):  # so that nobody takes over what he has read before
            await self._note(scope)  # first: who is killed from here on leaves nothing in the index for ever
            erased = await self._store.erase(scope)
            try:
                await self._clear(scope)
            except StoreError as exc:
                msg = f"the scope is deleted; {_left_in_index(exc)}"
                raise StoreUnavailableError(msg) from exc
        return erased.model_copy(update={"index_cleared": True})

    async def waiting_scopes(self, memory_space: str) -> list[Scope]:
        """Tell who waits for vectors; see `Store.waiting_scopes`. A start asks this: erasures are finished first."""
        if not self._rests:
            try:
                await self._clear_noted()
            except _FAILURES as exc:
                self._rest(exc)
        return await self._store.waiting_scopes(memory_space)

    async def close(self) -> None:
        """Close the index and the store."""
        try:
            await self._index.close()
        finally:
            await self._store.close()

    @property
    def _rests(self) -> bool:
        return self._seconds() < self._rests_until

    async def _note(self, scope: Scope) -> None:
        self._may_be_noted = True
        await self._notes.add(scope)

    async def _clear(self, scope: Scope) -> None:
        """Clear the index of a scope that is noted; whoever holds the scope calls this."""
        self._known.pop(scope, None)
        await self._index.delete(scope, DeleteEntries())
        await self._notes.remove(scope)

    async def _clear_noted(self) -> None:
        """Clear the index of what was erased while it was away, by whatever process."""
        while self._may_be_noted:
            self._may_be_noted = False
            try:
                for scope in await self._notes.read():
                    self._may_be_noted = True  # there may be more of them
                    async with self._alone(scope):
                        await self._clear(scope)
            except BaseException:  # tried again next time; re-raised
                self._may_be_noted = True
                raise

    def _rest(self, failure: StoreError) -> None:
        self._rests_until = self._seconds() + self._pause_s
        _LOG.warning("the index of memories is left alone for %g s, its store is searched: %s", self._pause_s, failure)

    def _followed(self) -> dict[Scope, Future[None]]:
        """Return the scopes that are being followed. The child of a fork has none: its parent's calls end there."""
        if self._pid != os.getpid():
            self._pid, self._known, self._busy = os.getpid(), {}, {}
        return self._busy

    async def _try_to_follow(self, scope: Scope) -> None:
        """Take over what was just written; it is durable, so a failure is for the next search."""
        if self._rests:
            return
        try:
            await self._follow(scope)
        except _FAILURES as exc:
            self._rest(exc)
        except ReMeError as exc:
            _LOG.error("the index of memories refuses what was written, which is in its store alone: %s", exc)

    async def _follow(self, scope: Scope, *, doubted: bool = False) -> bool:
        """Bring the index to the state of the store; tell whether it was made anew, having lost entries.

        Who is cancelled leaves it going on, and the scope to it: an erasure waits for what is being written.
        """
        following = asyncio.create_task(self._follow_alone(scope, doubted=doubted))
        self._following.add(following)
        following.add_done_callback(self._following.discard)
        return await asyncio.shield(following)

    async def _follow_alone(self, scope: Scope, *, doubted: bool) -> bool:
        await self._clear_noted()
        async with self._alone(scope):
            known = self._known.get(scope)
            if known is None or (await self._news(scope, known)).position != known:
                await self._take_over(scope)
            lacks_some = (doubted or known is None) and await self._lacks_entries(scope)
            if lacks_some:
                _LOG.warning("the index of memories lost entries of a user: they are written anew from the store")
                await self._index.delete(scope, DeleteEntries())
                await self._take_over(scope)
            return lacks_some

    async def _news(self, scope: Scope, position: str, *, with_total: bool = False) -> ChangesPage:
        query = ChangesQuery(position=position, limit=1, with_total=with_total)
        return await self._store.memory_changes(scope, query)

    async def _lacks_entries(self, scope: Scope) -> bool:
        """Tell whether the index has fewer entries than the store says at the position that was taken over."""
        held, known = await self._index.count(scope), self._known[scope]
        news = await self._news(scope, known, with_total=True)
        return news.position == known and held < (news.total or 0)

    async def _take_over(self, scope: Scope) -> None:
        """Take over the changes since the position of the index: another process may have been here."""
        since = await self._index.find_position(scope)
        while True:
            changes = await self._store.memory_changes(scope, ChangesQuery(position=since))
            if changes.starts_over:
                await self._index.delete(scope, DeleteEntries())
            elif changes.gone:
                await self._index.delete(scope, DeleteEntries(keys=changes.gone))
            if changes.position != since and (changes.entries or not changes.starts_over):
                upsert = UpsertEntries(entries=changes.entries, position=changes.position)
                await self._index.upsert(scope, upsert)
            since = self._known[scope] = changes.position
            if changes.is_last:
                return

    @asynccontextmanager
    async def _alone(self, scope: Scope) -> AsyncIterator[None]:
        """Wait until nobody follows the scope, in whatever event loop."""
        mine: Future[None] = Future()
        followed = self._followed()
        while (other := followed.setdefault(scope, mine)) is not mine:
            await asyncio.wait([asyncio.wrap_future(other)])
        try:
            yield
        finally:
            del followed[scope]
            mine.set_result(None)

    async def _search(
        self, scope: Scope, search: MemorySearch, wanted: CheckedFilter
    ) -> tuple[list[ScoredMemory], bool]:
        """Search the index, further down where hits turn out to be none; tell whether it has no more to give."""
        limit = search.limit
        while True:
            hits = await self._index.search(scope, replace(search, limit=limit))
            found = [item for item in await self._held(scope, hits) if matches(item.memory, wanted)]
            is_short = len(hits) < limit
            if len(found) >= search.limit or is_short:
                found.sort(key=lambda item: (-item.score, place_of(item.memory)))
                return found[: search.limit], is_short
            limit *= 2

    async def _held(self, scope: Scope, hits: Sequence[IndexHit]) -> list[ScoredMemory]:
        """Read hits from the store, which decides what there is."""
        found: dict[str, IndexHit] = {}
        for hit in hits:
            found.setdefault(hit.memory_id, hit)
        while found:
            try:
                memories = await self._store.get(scope, list(found))
            except MemoryNotFoundError as exc:
                found = {name: hit for name, hit in found.items() if name not in exc.missing}
            else:
                pairs = [(memory, found[memory.memory_id]) for memory in memories]
                return [
                    ScoredMemory(memory=memory, score=hit.score, similarity=hit.similarity) for memory, hit in pairs
                ]
        return []


def _left_in_index(failure: StoreError) -> str:
    return (
        f"clearing it from the index failed: {failure} That is noted, and done by the next call that reaches the index "
        "or the next start; call again to be told that it is."
    )
