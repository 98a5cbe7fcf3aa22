"""A store over another one: what it does not override goes through."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from reme_core import ports
from reme_core.schema import (
    Block,
    CleanedOffloads,
    Erased,
    Event,
    Job,
    JobState,
    Memory,
    MemoryPage,
    OffloadRecord,
    Scope,
    StoredMessage,
    ToolCallResult,
    ToolStatistics,
)


class WrappedStore:
    """A `Store` that hands every call to the one below; subclasses override what they do otherwise."""

    def __init__(self, store: ports.Store) -> None:
        """Keep the store below."""
        self._store = store

    async def put(self, scope: Scope, batch: ports.WriteBatch) -> list[Memory]:
        """See `Store.put`."""
        return await self._store.put(scope, batch)

    async def put_and_settle(self, scope: Scope, batch: ports.WriteBatch, settle: ports.SettleJob) -> list[Memory]:
        """See `Store.put_and_settle`."""
        return await self._store.put_and_settle(scope, batch, settle)

    async def record_uses(self, scope: Scope, uses: Sequence[ports.UseMemory]) -> list[Memory]:
        """See `Store.record_uses`."""
        return await self._store.record_uses(scope, uses)

    async def get(self, scope: Scope, memory_ids: Sequence[str]) -> list[Memory]:
        """See `Store.get`."""
        return await self._store.get(scope, memory_ids)

    async def search(self, scope: Scope, search: ports.MemorySearch) -> list[ports.ScoredMemory]:
        """See `Store.search`."""
        return await self._store.search(scope, search)

    async def list_memories(self, scope: Scope, query: ports.ListMemories) -> MemoryPage:
        """See `Store.list_memories`."""
        return await self._store.list_memories(scope, query)

    async def count_targets(self, scope: Scope) -> dict[ports.Target, int]:
        """See `Store.count_targets`."""
        return await self._store.count_targets(scope)

    async def events(self, scope: Scope, query: ports.EventQuery) -> list[Event]:
        """See `Store.events`."""
        return await self._store.events(scope, query)

    async def memory_changes(self, scope: Scope, query: ports.ChangesQuery) -> ports.ChangesPage:
        """See `Store.memory_changes`."""
        return await self._store.memory_changes(scope, query)

    async def append(self, scope: Scope, request: ports.AppendMessages) -> ports.Appended:
        """See `Store.append`."""
        return await self._store.append(scope, request)

    async def get_messages(self, scope: Scope, message_ids: Sequence[str]) -> list[StoredMessage]:
        """See `Store.get_messages`."""
        return await self._store.get_messages(scope, message_ids)

    async def find_messages(self, scope: Scope, query: ports.FindMessages) -> ports.MessagePage:
        """See `Store.find_messages`."""
        return await self._store.find_messages(scope, query)

    async def search_messages(self, scope: Scope, search: ports.MessageSearch) -> list[ports.ScoredMessage]:
        """See `Store.search_messages`."""
        return await self._store.search_messages(scope, search)

    async def put_blocks(self, scope: Scope, blocks: Sequence[Block]) -> None:
        """See `Store.put_blocks`."""
        await self._store.put_blocks(scope, blocks)

    async def get_blocks(self, scope: Scope, block_ids: Sequence[str]) -> list[Block]:
        """See `Store.get_blocks`."""
        return await self._store.get_blocks(scope, block_ids)

    async def list_blocks(self, scope: Scope, query: ports.ListBlocks) -> ports.BlockPage:
        """See `Store.list_blocks`."""
        return await self._store.list_blocks(scope, query)

    async def search_blocks(self, scope: Scope, search: ports.MessageSearch) -> list[ports.ScoredBlock]:
        """See `Store.search_blocks`."""
        return await self._store.search_blocks(scope, search)

    async def pending_texts(self, scope: Scope, limit: int) -> list[ports.PendingText]:
        """See `Store.pending_texts`."""
        return await self._store.pending_texts(scope, limit)

    async def waiting_scopes(self, memory_space: str) -> list[Scope]:
        """See `Store.waiting_scopes`."""
        return await self._store.waiting_scopes(memory_space)

    async def put_vectors(self, scope: Scope, vectors: Sequence[ports.MessageVector]) -> None:
        """See `Store.put_vectors`."""
        await self._store.put_vectors(scope, vectors)

    async def add_jobs(self, scope: Scope, jobs: Sequence[Job]) -> None:
        """See `Store.add_jobs`."""
        await self._store.add_jobs(scope, jobs)

    async def claim_job(self, scope: Scope, claim: ports.ClaimJob) -> Job | None:
        """See `Store.claim_job`."""
        return await self._store.claim_job(scope, claim)

    async def settle_job(self, scope: Scope, settle: ports.SettleJob) -> None:
        """See `Store.settle_job`."""
        await self._store.settle_job(scope, settle)

    async def list_jobs(self, scope: Scope, states: tuple[JobState, ...] | None = None) -> list[Job]:
        """See `Store.list_jobs`."""
        return await self._store.list_jobs(scope, states)

    async def job_scopes(self, memory_space: str) -> list[Scope]:
        """See `Store.job_scopes`."""
        return await self._store.job_scopes(memory_space)

    async def put_offloads(self, scope: Scope, put: ports.PutOffloads) -> list[str]:
        """See `Store.put_offloads`."""
        return await self._store.put_offloads(scope, put)

    async def get_offload(self, scope: Scope, reference: str) -> OffloadRecord:
        """See `Store.get_offload`."""
        return await self._store.get_offload(scope, reference)

    async def list_offloads(self, scope: Scope, query: ports.ListOffloads) -> ports.OffloadPage:
        """See `Store.list_offloads`."""
        return await self._store.list_offloads(scope, query)

    async def search_offloads(self, scope: Scope, search: ports.OffloadSearch) -> list[ports.ScoredOffload]:
        """See `Store.search_offloads`."""
        return await self._store.search_offloads(scope, search)

    async def hold_offloads(self, scope: Scope, hold: ports.HoldOffloads) -> None:
        """See `Store.hold_offloads`."""
        await self._store.hold_offloads(scope, hold)

    async def clean_offloads(self, scope: Scope, clean: ports.CleanOffloads) -> CleanedOffloads:
        """See `Store.clean_offloads`."""
        return await self._store.clean_offloads(scope, clean)

    async def add_tool_calls(self, scope: Scope, calls: Sequence[ToolCallResult]) -> ports.AddedToolCalls:
        """See `Store.add_tool_calls`."""
        return await self._store.add_tool_calls(scope, calls)

    async def get_tool_calls(self, scope: Scope, call_ids: Sequence[str]) -> list[ToolCallResult]:
        """See `Store.get_tool_calls`."""
        return await self._store.get_tool_calls(scope, call_ids)

    async def tool_statistics(self, scope: Scope, tool_names: Sequence[str]) -> list[ToolStatistics]:
        """See `Store.tool_statistics`."""
        return await self._store.tool_statistics(scope, tool_names)

    async def list_tool_calls(self, scope: Scope, query: ports.ListToolCalls) -> ports.ToolCallPage:
        """See `Store.list_tool_calls`."""
        return await self._store.list_tool_calls(scope, query)

    async def list_tools(self, scope: Scope, query: ports.ListTools) -> ports.ToolPage:
        """See `Store.list_tools`."""
        return await self._store.list_tools(scope, query)

    async def get_items(self, memory_space: str, get: ports.GetItems) -> list[ports.Item | None]:
        """See `Store.get_items`."""
        return await self._store.get_items(memory_space, get)

    async def search_items(self, memory_space: str, search: ports.SearchItems) -> list[ports.Item]:
        """See `Store.search_items`."""
        return await self._store.search_items(memory_space, search)

    async def list_item_namespaces(self, memory_space: str, query: ports.ListItemNamespaces) -> ports.ItemNamespaces:
        """See `Store.list_item_namespaces`."""
        return await self._store.list_item_namespaces(memory_space, query)

    async def write_items(self, memory_space: str, write: ports.WriteItems) -> None:
        """See `Store.write_items`."""
        await self._store.write_items(memory_space, write)

    async def sweep_items(self, memory_space: str, at: datetime) -> int:
        """See `Store.sweep_items`."""
        return await self._store.sweep_items(memory_space, at)

    async def find_index(self) -> ports.IndexedBy | None:
        """See `Store.find_index`."""
        return await self._store.find_index()

    async def claim_index(self, indexed: ports.IndexedBy) -> ports.IndexedBy:
        """See `Store.claim_index`."""
        return await self._store.claim_index(indexed)

    async def count(self, scope: Scope) -> ports.Counts:
        """See `Store.count`."""
        return await self._store.count(scope)

    async def erase(self, scope: Scope) -> Erased:
        """See `Store.erase`."""
        return await self._store.erase(scope)

    async def close(self) -> None:
        """Close the store below."""
        await self._store.close()
