"""The calls of `Store` over a database that runs SQL: what the file and a server have alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from reme_core import ports
from reme_core.errors import StoreError, StoreUnavailableError
from reme_core.rules import check_uses
from reme_core.schema import Block, CleanedOffloads, Job, Memory, Scope, ToolCallResult
from reme_core.stores.sql import context_holds as holds
from reme_core.stores.sql import event_rows, offload_search, reembedding
from reme_core.stores.sql import job_rows as jobs
from reme_core.stores.sql import memory_changes as uses
from reme_core.stores.sql import memory_rows as memories
from reme_core.stores.sql import message_rows as messages
from reme_core.stores.sql import offload_rows as offloads
from reme_core.stores.sql import ranked_search as search
from reme_core.stores.sql import row_conditions as waiting
from reme_core.stores.sql import tool_call_rows as tool_calls
from reme_core.stores.sql.blob_rows import get_blob, take_apart
from reme_core.stores.sql.bookkeeping import Layer
from reme_core.stores.sql.connection import ItemsWithin, SqlConnection, SqlDatabase
from reme_core.stores.sql.count_scope import count_scope
from reme_core.stores.sql.embedding_record import adopt_embedding, find_embedding
from reme_core.stores.sql.items.checked_writes import check_space, prepare_writes
from reme_core.stores.sql.items.read_items import get_items, list_namespaces
from reme_core.stores.sql.items.search_items import ItemWords, search_items
from reme_core.stores.sql.items.vectors_in_memory import ItemVectors
from reme_core.stores.sql.items.write_items import (
    WholeSpaceNeeded,
    items_within,
    refresh_items,
    sweep_items,
    sweepable,
    write_items,
)
from reme_core.stores.sql.memory_changes import claim_file_id, find_file_id, memory_changes
from reme_core.stores.sql.memory_rows import microseconds
from reme_core.stores.sql.partitions import partitions_of
from reme_core.stores.sql.ranked_search import Loader

P = ParamSpec("P")
T = TypeVar("T")


def _reading(
    work: Callable[Concatenate[SqlConnection, Scope, P], T],
) -> Callable[Concatenate[SqlStore, Scope, P], Coroutine[Any, Any, T]]:
    """Return the call of a store that does such work in one snapshot; see its namesake of `Store`."""

    async def call(self: SqlStore, scope: Scope, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._database.read(lambda c: work(c, scope, *args, **kwargs), within=scope)

    update_wrapper(call, work)  # its docstring, and its signature behind the connection
    return call


class SqlStore:
    """The calls of `Store`, but for `erase`, which each engine does in its own way.

    Searches rank in memory: a partition (one layer of one scope) is read at its first search and follows the database
    from then on. So each call sees what was acknowledged before it, by whomever.
    """

    def __init__(self, database: SqlDatabase, *, cache_bytes: int, loading_wait_s: float) -> None:
        """Keep the database, which closes with this.

        Args:
            database: Runs the work of the calls.
            cache_bytes: What the partitions in memory may take together, and again what the vectors of items may; the
                largest one may take more.
            loading_wait_s: Seconds that a search whose caller takes a partial answer (`on_degraded`) waits for a scope
                that is too large to be loaded at once; it is then answered from the newest rows.
        """
        self._database = database
        self._partitions = partitions_of(cache_bytes)
        self._loader = Loader(database, self._partitions, patience_s=loading_wait_s)
        self._item_vectors = ItemVectors(cache_bytes)
        self._item_words = ItemWords(cache_bytes)

    @property
    def database(self) -> SqlDatabase:
        """What it lies in, for tables of adapters; it closes with this store."""
        return self._database

    async def put(self, scope: Scope, batch: ports.WriteBatch) -> list[Memory]:
        """Write a batch; see `Store.put`.

        Raises:
            StoreUnavailableError: It is written; clearing the file of what it erased failed.
        """
        checked = memories.check_batch(scope, batch)
        stored = await self._database.write(
            lambda c: memories.put_batch(c, scope, checked), within=scope, frees=not checked.puts
        )
        if any(delete.erase for delete in checked.deletes):
            await self._purge("the memory")
        return stored

    async def record_uses(self, scope: Scope, uses_: Sequence[ports.UseMemory]) -> list[Memory]:
        """Add to the counts of memories, whichever process adds; see `Store.record_uses`."""
        checked = check_uses(uses_)
        return await self._database.write(lambda c: uses.record_uses(c, scope, checked), within=scope)

    async def search(self, scope: Scope, search_: ports.MemorySearch) -> list[ports.ScoredMemory]:
        """Return the best memories; see `Store.search`."""
        return await self._loader.search(
            lambda c, held: search.search_memories(c, scope, search_, held), scope, search_.on_degraded
        )

    async def append(self, scope: Scope, request: ports.AppendMessages) -> ports.Appended:
        """Add messages; see `Store.append`."""
        request, blobs = await take_apart(request)

        def append(connection: SqlConnection) -> ports.Appended:
            appended = messages.append_messages(connection, scope, request, blobs)
            if request.slicer is None:
                return appended
            unsliced = messages.unsliced(connection, scope, request.session_id)
            sliced = tuple(request.slicer(unsliced))
            messages.put_blocks(connection, scope, sliced)
            if request.planner is None or not sliced:
                return replace(appended, blocks=sliced)
            cut = {message_id for block in sliced for message_id in block.message_ids}
            planned = tuple(request.planner([item for item in unsliced if item.message_id in cut], sliced))
            jobs.add_jobs(connection, scope, planned)
            return replace(appended, blocks=sliced, jobs=planned)

        return await self._database.write(append, within=scope)

    async def put_blocks(self, scope: Scope, blocks_: Sequence[Block]) -> None:
        """Add blocks; see `Store.put_blocks`."""
        items = tuple(blocks_)
        await self._database.write(lambda c: messages.put_blocks(c, scope, items), within=scope)

    async def search_messages(self, scope: Scope, search_: ports.MessageSearch) -> list[ports.ScoredMessage]:
        """Return the best messages; see `Store.search_messages`."""
        return await self._loader.search(
            lambda c, held: search.search_messages(c, scope, search_, held), scope, search_.on_degraded
        )

    async def search_blocks(self, scope: Scope, search_: ports.MessageSearch) -> list[ports.ScoredBlock]:
        """Return the best blocks; see `Store.search_blocks`."""
        return await self._loader.search(
            lambda c, held: search.search_blocks(c, scope, search_, held), scope, search_.on_degraded
        )

    async def put_vectors(self, scope: Scope, vectors: Sequence[ports.MessageVector]) -> None:
        """Store vectors of messages; see `Store.put_vectors`."""
        items = tuple(vectors)
        await self._database.write(lambda c: waiting.put_vectors(c, scope, items), within=scope, settled=False)

    async def add_jobs(self, scope: Scope, jobs_: Sequence[Job]) -> None:
        """Add jobs; see `Store.add_jobs`."""
        items = tuple(jobs_)
        await self._database.write(lambda c: jobs.add_jobs(c, scope, items), within=scope)

    async def claim_job(self, scope: Scope, claim: ports.ClaimJob) -> Job | None:
        """Take the oldest job that may be begun; see `Store.claim_job`."""
        checked = jobs.check_claim(claim)
        return await self._database.write(lambda c: jobs.claim_job(c, scope, checked), within=scope)

    async def settle_job(self, scope: Scope, settle: ports.SettleJob) -> None:
        """End, prolong or give back a job; see `Store.settle_job`."""
        checked = jobs.check_settle(settle)
        # A renewal that a power cut takes back harms nobody: whoever held the job is gone as well.
        settled = checked.outcome != "renew" or checked.payload is not None or bool(checked.summaries)
        await self._database.write(lambda c: _settle(c, scope, checked), within=scope, settled=settled)

    async def put_and_settle(self, scope: Scope, batch: ports.WriteBatch, settle: ports.SettleJob) -> list[Memory]:
        """Write a batch and settle the job that it is the outcome of; see `Store.put_and_settle`."""
        checked, done = memories.check_batch(scope, batch), jobs.check_settle(settle)

        def put_and_settle(connection: SqlConnection) -> list[Memory]:
            # First the job: whoever holds it no longer is told so, not what the batch would have met.
            _settle(connection, scope, done)
            return memories.put_batch(connection, scope, checked)

        return await self._database.write(put_and_settle, within=scope)

    async def put_offloads(self, scope: Scope, put: ports.PutOffloads) -> list[str]:
        """Keep offloads; see `Store.put_offloads`.

        Raises:
            MessageNotFoundError: Messages that are pointed at and that the scope doesn't hold.
        """
        hold, exact = put.hold, put.exact
        prepared = await asyncio.to_thread(offloads.prepare_offloads, tuple(put.offloads))
        return await self._database.write(
            lambda c: offloads.put_offloads(c, scope, prepared, hold=hold, exact=exact), within=scope
        )

    async def search_offloads(self, scope: Scope, search_: ports.OffloadSearch) -> list[ports.ScoredOffload]:
        """Return the best passages; see `Store.search_offloads`."""
        checked = offloads.check_query(search_)
        return await self._database.read(lambda c: offload_search.search_offloads(c, scope, checked), within=scope)

    async def hold_offloads(self, scope: Scope, hold: ports.HoldOffloads) -> None:
        """Say what an open session refers to; see `Store.hold_offloads`."""
        checked = holds.check_hold(hold)
        await self._database.write(lambda c: holds.hold_offloads(c, scope, checked), within=scope)

    async def clean_offloads(self, scope: Scope, clean: ports.CleanOffloads) -> CleanedOffloads:
        """Remove texts that may go; see `Store.clean_offloads`."""
        checked = holds.check_clean(clean)
        # What is only tried waits for no other writer.
        run = self._database.read if checked.dry_run else self._database.write
        return await run(lambda c: holds.clean_offloads(c, scope, checked), within=scope)

    async def add_tool_calls(self, scope: Scope, calls: Sequence[ToolCallResult]) -> ports.AddedToolCalls:
        """Record calls; see `Store.add_tool_calls`."""
        prepared = await asyncio.to_thread(tool_calls.prepare_calls, tuple(calls))
        return await self._database.write(lambda c: tool_calls.add_calls(c, scope, prepared), within=scope)

    async def _purge(self, what: str) -> None:
        try:
            await self._database.purge()
        except StoreError as exc:
            msg = f"{what} is deleted; clearing what the file still holds of it failed: {exc} Call again to clear it."
            raise StoreUnavailableError(msg) from exc

    async def memory_changes(self, scope: Scope, query: ports.ChangesQuery) -> ports.ChangesPage:
        """Return what an index of memories lacks; see `Store.memory_changes`."""
        found = await self._database.read(find_file_id, within=None)
        file = await self._database.write(claim_file_id, within=None) if found is None else found
        return await self._database.read(lambda c: memory_changes(c, file, scope, query), within=scope)

    async def waiting_scopes(self, memory_space: str) -> list[Scope]:
        """Return the scopes whose texts wait for vectors; see `Store.waiting_scopes`."""
        return await self._database.read(lambda c: waiting.waiting_scopes(c, memory_space), within=memory_space)

    async def job_scopes(self, memory_space: str) -> list[Scope]:
        """Return the scopes that have jobs; see `Store.job_scopes`."""
        return await self._database.read(lambda c: jobs.job_scopes(c, memory_space), within=memory_space)

    get = _reading(memories.get_memories)
    list_memories = _reading(memories.list_page)
    events = _reading(event_rows.list_events)
    get_messages = _reading(messages.get_messages)
    find_messages = _reading(messages.find_messages)
    get_blob = _reading(get_blob)
    get_blocks = _reading(messages.get_blocks)
    list_blocks = _reading(messages.list_blocks)
    pending_texts = _reading(waiting.pending_texts)
    list_jobs = _reading(jobs.list_jobs)
    get_offload = _reading(offloads.get_offload)
    list_offloads = _reading(offloads.list_offloads)
    get_tool_calls = _reading(tool_calls.get_calls)
    tool_statistics = _reading(tool_calls.tool_statistics)
    list_tool_calls = _reading(tool_calls.list_calls)
    list_tools = _reading(tool_calls.list_tools)
    count_targets = _reading(memories.count_targets)
    count = _reading(count_scope)

    async def get_items(self, memory_space: str, get: ports.GetItems) -> list[ports.Item | None]:
        """Return items by address; see `Store.get_items`."""
        check_space(memory_space)
        items, living = await self._database.read(lambda c: get_items(c, memory_space, get), within=memory_space)
        await self._refresh(memory_space, living, get.at)
        return items

    async def search_items(self, memory_space: str, search: ports.SearchItems) -> list[ports.Item]:
        """Return a page of items; see `Store.search_items`."""
        check_space(memory_space)
        found = await self._database.read(
            lambda c: search_items(c, memory_space, search, self._item_vectors, self._item_words), within=memory_space
        )
        if search.refresh:
            await self._refresh(memory_space, found.living, search.at)
        return found.items

    async def list_item_namespaces(self, memory_space: str, query: ports.ListItemNamespaces) -> ports.ItemNamespaces:
        """Return where there are items; see `Store.list_item_namespaces`."""
        check_space(memory_space)
        return await self._database.read(lambda c: list_namespaces(c, memory_space, query), within=memory_space)

    async def write_items(self, memory_space: str, write: ports.WriteItems) -> None:
        """Write items, all or nothing; see `Store.write_items`."""
        check_space(memory_space)
        batch = await asyncio.to_thread(prepare_writes, write)
        if batch.writes:
            frees, items = all(write.put is None for write in batch.writes), items_within(memory_space, batch)
            try:
                await self._database.write(
                    lambda c: write_items(c, memory_space, batch, items.scopes), within=items, frees=frees
                )
            except WholeSpaceNeeded:
                await self._database.write(
                    lambda c: write_items(c, memory_space, batch), within=memory_space, frees=frees
                )
        if any(write.put is None for write in batch.writes):
            self._database.begin_purge()

    async def sweep_items(self, memory_space: str, at: datetime) -> int:
        """Remove items whose time is over; see `Store.sweep_items`."""
        check_space(memory_space)
        moment = microseconds(at)
        if not await self._database.read(lambda c: sweepable(c, moment), within=memory_space):
            return 0
        swept = await self._database.write(
            lambda c: sweep_items(c, memory_space, moment), within=memory_space, frees=True
        )
        self._database.begin_purge()
        return swept

    async def find_index(self, memory_space: str) -> ports.IndexedBy | None:
        """Return what makes the vectors of a memory space; see `Store.find_index`."""
        check_space(memory_space)
        return await self._database.read(lambda c: find_embedding(c, memory_space), within=memory_space)

    async def claim_index(self, memory_space: str, indexed: ports.IndexedBy) -> ports.IndexedBy:
        """Record what makes the vectors of a memory space; see `Store.claim_index`."""
        found = await self.find_index(memory_space)
        if found is not None and found.model is not None:
            return found
        return await self._database.write(lambda c: adopt_embedding(c, memory_space, indexed), within=memory_space)

    async def begin_reembedding(self, memory_space: str, target: ports.IndexedBy) -> ports.Reembedding:
        """Begin, or go on, to replace all vectors; see `Store.begin_reembedding`."""
        check_space(memory_space)
        await self._database.write(lambda c: reembedding.begin(c, memory_space, target), within=memory_space)
        return await self._database.read(lambda c: reembedding.progress(c, memory_space, target), within=memory_space)

    async def texts_to_reembed(self, memory_space: str, page: ports.ReembedPage) -> ports.TextsToReembed:
        """Return texts that lack a new vector; see `Store.texts_to_reembed`."""
        check_space(memory_space)
        return await self._database.read(lambda c: reembedding.texts(c, memory_space, page), within=memory_space)

    async def put_new_vectors(self, memory_space: str, put: ports.NewVectors) -> None:
        """Keep vectors of the new model; see `Store.put_new_vectors`."""
        check_space(memory_space)
        await self._database.write(lambda c: reembedding.put(c, memory_space, put), within=memory_space)

    async def end_reembedding(self, memory_space: str, target: ports.IndexedBy | None) -> bool:
        """Take over all new vectors at once; see `Store.end_reembedding`."""
        check_space(memory_space)
        ended = await self._database.write(
            lambda c: reembedding.end(c, memory_space, target), within=memory_space, frees=True
        )
        # In steps, between which others write.
        while ended and await self._database.write(
            lambda c: reembedding.clear(c, memory_space), within=memory_space, settled=False, frees=True
        ):
            pass
        return ended

    async def _refresh(self, memory_space: str, items: list[int], at: datetime) -> None:
        if items:
            # A power cut that takes this back shortens the life of an item by the time since it was read before.
            moment = microseconds(at)
            within = ItemsWithin(memory_space)
            await self._database.write(lambda c: refresh_items(c, items, moment), within=within, settled=False)

    def _forget(self, number: int | None) -> None:
        """Let go of what is in memory of an erased scope."""
        if number is not None:
            self._partitions.forget((number, layer) for layer in Layer)
        self._item_vectors.forget()
        self._item_words.forget()

    async def close(self) -> None:
        """Finish what was begun and close the database; later calls raise `StoreClosedError`."""
        await self._database.close()


def _settle(connection: SqlConnection, scope: Scope, settle: ports.SettleJob) -> None:
    """Settle a job, and write the index entries that come with it, if it may be settled."""
    jobs.settle_job(connection, scope, settle)
    messages.put_summaries(connection, scope, settle.summaries)
