"""Everything that a scope holds, as plain values that can be compared."""

from __future__ import annotations

from pydantic import JsonValue

from reme_core.ports import (
    EventQuery,
    FindMessages,
    ListBlocks,
    ListMemories,
    ListOffloads,
    ListToolCalls,
    MemoryFilter,
)
from reme_core.schema import Scope
from reme_core.stores import LocalStore

_ALL = 10_000


async def snapshot(store: LocalStore, scope: Scope) -> dict[str, JsonValue]:
    """Return messages, blocks, memories, events, jobs, offloads, tool calls, counts and what waits for vectors."""
    messages = await store.find_messages(scope, FindMessages(limit=_ALL))
    blocks = await store.list_blocks(scope, ListBlocks(limit=_ALL))
    memories = await store.list_memories(scope, ListMemories(filter=MemoryFilter(include_superseded=True), limit=_ALL))
    events = await store.events(scope, EventQuery(limit=_ALL))
    infos = (await store.list_offloads(scope, ListOffloads(limit=_ALL))).offloads
    offloads = [await store.get_offload(scope, info.reference) for info in infos]
    calls = (await store.list_tool_calls(scope, ListToolCalls(limit=_ALL))).calls
    return {
        "messages": [item.model_dump(mode="json") for item in messages.messages],
        "blocks": [item.model_dump(mode="json") for item in blocks.blocks],
        "memories": [item.model_dump(mode="json") for item in memories.memories],
        "events": [item.model_dump(mode="json") for item in events],
        "jobs": [item.model_dump(mode="json") for item in await store.list_jobs(scope)],
        "offloads": [item.model_dump(mode="json") for item in offloads],
        "tool_calls": [item.model_dump(mode="json") for item in calls],
        "waiting": [item.key for item in await store.pending_texts(scope, _ALL)],
        "counts": (await store.count(scope)).model_dump(mode="json"),
    }
