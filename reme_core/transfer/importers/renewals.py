"""Renewal of imported memories: what the source has changed since, and nobody here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reme_core.ports import EventQuery, Store
from reme_core.rules import claim_of
from reme_core.schema import Memory, Scope
from reme_core.steps.message_lines import find_all
from reme_core.steps.targets import target_of
from reme_core.transfer.library_plan import FindClaims, is_taken, says

ACTOR = "import"
_EVENTS = 500
_RENEWED_FIELDS = {"content", "when_to_use", "updated_at", "metadata"}


async def find_renewed(
    store: Store, scope: Scope, memories: Sequence[Memory], find_claims: FindClaims
) -> dict[str, Memory]:
    """Return what held memories become that their source tells otherwise by now, by id.

    One that was changed here stays as it is, and so does one whose new words another memory says already.
    """
    held = {one.memory_id: one for one in await find_all(partial(store.get, scope), [m.memory_id for m in memories])}
    renewed: dict[str, Memory] = {}
    for memory in memories:
        before, claim = held.get(memory.memory_id), claim_of(memory)
        if before is None or claim is None or not before.is_current or target_of(before) != target_of(memory):
            continue
        is_changed = is_taken(before, memory) and not await find_claims([claim])
        if is_changed and await _is_as_imported(store, before):
            renewed[memory.memory_id] = before.model_copy(update=memory.model_dump(include=_RENEWED_FIELDS))
    return renewed


async def _is_as_imported(store: Store, memory: Memory) -> bool:
    """Tell whether imports alone have said what a memory says."""
    events = await store.events(memory.scope, EventQuery(memory_id=memory.memory_id, limit=_EVENTS))
    return all(
        event.actor == ACTOR or (event.before and event.after and says(event.before) == says(event.after))
        for event in events
    )
