"""The local store: memories, messages, blocks, jobs, offloads, tool calls and items of many scopes in one file."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import update_wrapper
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from reme_core import ports
from reme_core.errors import StoreError, StoreUnavailableError
from reme_core.rules import check_uses
from reme_core.schema import (
    Block,
    CleanedOffloads,
    Erased,
    Job,
    Memory,
    Scope,
    ToolCallResult,
)
from reme_core.stores.local.file.database import Database, Work
from reme_core.stores.local.file.file_location import FileSettings
from reme_core.stores.local.file.purging import forget_file, note_file, noted_files, remove_files
from reme_core.stores.local.file.whole_scope import count_scope, erase_name
from reme_core.stores.sql import context_holds as holds
from reme_core.stores.sql import job_rows as jobs
from reme_core.stores.sql import memory_changes as uses
from reme_core.stores.sql import memory_rows as memories
from reme_core.stores.sql import message_rows as messages
from reme_core.stores.sql import offload_rows as offloads
from reme_core.stores.sql import offload_search
from reme_core.stores.sql import ranked_search as search
from reme_core.stores.sql import row_conditions as waiting
from reme_core.stores.sql import tool_call_rows as tool_calls
from reme_core.stores.sql.bookkeeping import Layer, find_scope
from reme_core.stores.sql.items.item_store import ItemCalls
from reme_core.stores.sql.items.search_items import ItemWords
from reme_core.stores.sql.items.vectors_in_memory import ItemVectors
from reme_core.stores.sql.memory_changes import claim_file_id, find_file_id, memory_changes
from reme_core.stores.sql.partitions import partitions_of
from reme_core.stores.sql.ranked_search import Loader

P = ParamSpec("P")
T = TypeVar("T")


def _reading(
    work: Callable[Concatenate[sqlite3.Connection, P], T],
) -> Callable[Concatenate[LocalStore, P], Coroutine[Any, Any, T]]:
    """Return the call of a store that does such work on a reading thread; see its namesake of `Store`."""

    async def call(self: LocalStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.read(lambda connection: work(connection, *args, **kwargs))

    update_wrapper(call, work)  # its docstring, and its signature behind the connection
    return call


class LocalStore(ItemCalls):
    """The `Store` on one file.

    The file is opened with the first call. Several stores, threads, event loops and processes may use it at once: each
    call sees what was acknowledged before it, by whomever. Searches rank in memory: a partition (one layer of one
    scope) is read at its first search and follows the file from then on.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        busy_timeout_s: float = 10.0,
        max_bytes: int | None = None,
        cache_bytes: int = 1 << 30,
        loading_wait_s: float = 0.5,
    ) -> None:
        """Keep the settings.

        Args:
            path: The file.
            synchronous: FULL (safe against power cuts) or NORMAL (against killed processes); see `FileSettings`.
            busy_timeout_s: Seconds to wait for another process that is writing.
            max_bytes: The size that the file may reach, if it is to be bounded.
            cache_bytes: What the partitions in memory may take together, and again what the vectors of items may; the
                largest one may take more.
            loading_wait_s: Seconds that a search whose caller takes a partial answer (`on_degraded`) waits for a scope
                that is too large to be loaded at once; it is then answered from the newest rows.
        """
        self._database = Database(
            FileSettings(path=Path(path), synchronous=synchronous, busy_timeout_s=busy_timeout_s, max_bytes=max_bytes)
        )
        self._partitions = partitions_of(cache_bytes)
        self._loader = Loader(self._database, self._partitions, patience_s=loading_wait_s)
        self._item_vectors = ItemVectors(cache_bytes)
        self._item_words = ItemWords(cache_bytes)

    def __repr__(self) -> str:
        """Name the file."""
        return f"LocalStore({self._database.path!r})"

    @property
    def database(self) -> Database:
        """The file itself, for tables of adapters that are to live in it; it closes with this store."""
        return self._database

    async def put(self, scope: Scope, batch: ports.WriteBatch) -> list[Memory]:
        """Write a batch; see `Store.put`.

        Raises:
            StoreUnavailableError: It is written; clearing the file of what it erased failed.
        """
        checked = memories.check_batch(scope, batch)
        stored = await self._database.write(lambda c: memories.put_batch(c, scope, checked), frees=not checked.puts)
        if any(delete.erase for delete in checked.deletes):
            await self._purge("the memory")
        return stored

    async def record_uses(self, scope: Scope, uses_: Sequence[ports.UseMemory]) -> list[Memory]:
        """Add to the counts of memories, whichever process adds; see `Store.record_uses`."""
        checked = check_uses(uses_)
        return await self._database.write(lambda c: uses.record_uses(c, scope, checked))

    async def search(self, scope: Scope, search_: ports.MemorySearch) -> list[ports.ScoredMemory]:
        """Return the best memories; see `Store.search`."""
        return await self._loader.search(
            lambda c, held: search.search_memories(c, scope, search_, held), search_.on_degraded
        )

    async def append(self, scope: Scope, request: ports.AppendMessages) -> ports.Appended:
        """Add messages; see `Store.append`."""

        def append(connection: sqlite3.Connection) -> ports.Appended:
            appended = messages.append_messages(connection, scope, request)
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

        return await self._database.write(append)

    async def put_blocks(self, scope: Scope, blocks_: Sequence[Block]) -> None:
        """Add blocks; see `Store.put_blocks`."""
        items = tuple(blocks_)
        await self._database.write(lambda c: messages.put_blocks(c, scope, items))

    async def search_messages(self, scope: Scope, search_: ports.MessageSearch) -> list[ports.ScoredMessage]:
        """Return the best messages; see `Store.search_messages`."""
        return await self._loader.search(
            lambda c, held: search.search_messages(c, scope, search_, held), search_.on_degraded
        )

    async def search_blocks(self, scope: Scope, search_: ports.MessageSearch) -> list[ports.ScoredBlock]:
        """Return the best blocks; see `Store.search_blocks`."""
        return await self._loader.search(
            lambda c, held: search.search_blocks(c, scope, search_, held), search_.on_degraded
        )

    async def put_vectors(self, scope: Scope, vectors: Sequence[ports.MessageVector]) -> None:
        """Store vectors of messages; see `Store.put_vectors`."""
        items = tuple(vectors)
        await self._database.write(lambda c: waiting.put_vectors(c, scope, items), settled=False)

    async def add_jobs(self, scope: Scope, jobs_: Sequence[Job]) -> None:
        """Add jobs; see `Store.add_jobs`."""
        items = tuple(jobs_)
        await self._database.write(lambda c: jobs.add_jobs(c, scope, items))

    async def claim_job(self, scope: Scope, claim: ports.ClaimJob) -> Job | None:
        """Take the oldest job that may be begun; see `Store.claim_job`."""
        checked = jobs.check_claim(claim)
        return await self._database.write(lambda c: jobs.claim_job(c, scope, checked))

    async def settle_job(self, scope: Scope, settle: ports.SettleJob) -> None:
        """End, prolong or give back a job; see `Store.settle_job`."""
        checked = jobs.check_settle(settle)
        # A renewal that a power cut takes back harms nobody: whoever held the job is gone as well.
        settled = checked.outcome != "renew" or checked.payload is not None or bool(checked.summaries)
        await self._database.write(lambda c: _settle(c, scope, checked), settled=settled)

    async def put_and_settle(self, scope: Scope, batch: ports.WriteBatch, settle: ports.SettleJob) -> list[Memory]:
        """Write a batch and settle the job that it is the outcome of; see `Store.put_and_settle`."""
        checked, done = memories.check_batch(scope, batch), jobs.check_settle(settle)

        def put_and_settle(connection: sqlite3.Connection) -> list[Memory]:
            # First the job: whoever holds it no longer is told so, not what the batch would have met.
            _settle(connection, scope, done)
            return memories.put_batch(connection, scope, checked)

        return await self._database.write(put_and_settle)

    async def put_offloads(self, scope: Scope, put: ports.PutOffloads) -> list[str]:
        """Keep offloads; see `Store.put_offloads`.

        Raises:
            MessageNotFoundError: Messages that are pointed at and that the scope doesn't hold.
        """
        hold, exact = put.hold, put.exact
        prepared = await asyncio.to_thread(offloads.prepare_offloads, tuple(put.offloads))
        return await self._database.write(lambda c: offloads.put_offloads(c, scope, prepared, hold=hold, exact=exact))

    async def search_offloads(self, scope: Scope, search_: ports.OffloadSearch) -> list[ports.ScoredOffload]:
        """Return the best passages; see `Store.search_offloads`."""
        checked = offloads.check_query(search_)
        return await self._database.read(lambda c: offload_search.search_offloads(c, scope, checked))

    async def hold_offloads(self, scope: Scope, hold: ports.HoldOffloads) -> None:
        """Say what an open session refers to; see `Store.hold_offloads`."""
        checked = holds.check_hold(hold)
        await self._database.write(lambda c: holds.hold_offloads(c, scope, checked))

    async def clean_offloads(self, scope: Scope, clean: ports.CleanOffloads) -> CleanedOffloads:
        """Remove texts that may go; see `Store.clean_offloads`."""
        checked = holds.check_clean(clean)
        # What is only tried waits for no other writer.
        run = self._database.read if checked.dry_run else self._database.write
        return await run(lambda c: holds.clean_offloads(c, scope, checked))

    async def add_tool_calls(self, scope: Scope, calls: Sequence[ToolCallResult]) -> ports.AddedToolCalls:
        """Record calls; see `Store.add_tool_calls`."""
        prepared = await asyncio.to_thread(tool_calls.prepare_calls, tuple(calls))
        return await self._database.write(lambda c: tool_calls.add_calls(c, scope, prepared))

    async def erase(self, scope: Scope) -> Erased:
        """Remove everything of the scope, of all layers, from the file and its log, and the files that were noted.

        Raises:
            StoreUnavailableError: The rows are gone, but another process is reading the log; call again.
        """
        number = await self._database.read(lambda c: find_scope(c, scope))
        files = [] if number is None else await self._database.read(lambda c: noted_files(c, number))
        erased = await self._database.write(lambda c: erase_name(c, scope), frees=True)
        if number is not None:
            self._partitions.forget((number, layer) for layer in Layer)
        self._item_vectors.forget()
        self._item_words.forget()
        removed = 0
        with suppress(StoreError):  # what can't be removed is told by the purge, which tries it again
            removed = await asyncio.to_thread(remove_files, files)
        await self._purge("the scope")
        return erased.model_copy(update={"files": removed, "pages_cleared": True})

    async def note_file(self, scope: Scope, path: Path) -> None:
        """Note a file outside that goes with a scope, if there is such a scope."""
        number = await self._database.read(lambda c: find_scope(c, scope))
        if number is not None:
            await self._database.write(lambda c: note_file(c, number, path))

    async def forget_file(self, scope: Scope, path: Path) -> None:
        """Take such a note back."""
        number = await self._database.read(lambda c: find_scope(c, scope))
        if number is not None:
            await self._database.write(lambda c: forget_file(c, number, path))

    async def _purge(self, what: str) -> None:
        try:
            await self._database.purge()
        except StoreError as exc:
            msg = f"{what} is deleted; clearing what the file still holds of it failed: {exc} Call again to clear it."
            raise StoreUnavailableError(msg) from exc

    async def memory_changes(self, scope: Scope, query: ports.ChangesQuery) -> ports.ChangesPage:
        """Return what an index of memories lacks; see `Store.memory_changes`."""
        find: Work[str | None] = find_file_id
        claim: Work[str] = claim_file_id
        found = await self._database.read(find)
        file = await self._database.write(claim) if found is None else found
        return await self._database.read(lambda c: memory_changes(c, file, scope, query))

    get = _reading(memories.get_memories)
    list_memories = _reading(memories.list_page)
    events = _reading(memories.list_events)
    get_messages = _reading(messages.get_messages)
    find_messages = _reading(messages.find_messages)
    get_blocks = _reading(messages.get_blocks)
    list_blocks = _reading(messages.list_blocks)
    pending_texts = _reading(waiting.pending_texts)
    waiting_scopes = _reading(waiting.waiting_scopes)
    list_jobs = _reading(jobs.list_jobs)
    job_scopes = _reading(jobs.job_scopes)
    get_offload = _reading(offloads.get_offload)
    list_offloads = _reading(offloads.list_offloads)
    get_tool_calls = _reading(tool_calls.get_calls)
    tool_statistics = _reading(tool_calls.tool_statistics)
    list_tool_calls = _reading(tool_calls.list_calls)
    list_tools = _reading(tool_calls.list_tools)
    count_targets = _reading(memories.count_targets)
    count = _reading(count_scope)

    async def close(self) -> None:
        """Finish what was begun and close the file; later calls raise `StoreClosedError`."""
        await self._database.close()


def _settle(connection: sqlite3.Connection, scope: Scope, settle: ports.SettleJob) -> None:
    """Settle a job, and write the index entries that come with it, if it may be settled."""
    jobs.settle_job(connection, scope, settle)
    messages.put_summaries(connection, scope, settle.summaries)
