"""Memories that somebody has deleted: what was forgotten is not told again by an import."""

from __future__ import annotations

from collections.abc import Collection

from reme_core.ports import EventQuery, Store
from reme_core.remember.memory_editor import UNDO_REASON
from reme_core.schema import EventKind, Scope
from reme_core.steps.message_lines import pieces_of


async def deleted_memories(store: Store, scope: Scope, memory_ids: Collection[str]) -> set[str]:
    """Return which of these memories were deleted, not by an undo."""
    deleted = set[str]()
    for some in pieces_of(sorted(memory_ids)):
        events = await store.events(scope, EventQuery(memory_ids=tuple(some), take="last", limit=len(some)))
        deleted |= {
            event.memory_id
            for event in events
            if event.operation is EventKind.DELETE and not event.reason.startswith(UNDO_REASON)
        }
    return deleted
