"""Schedule of consolidations: who is due gets a durable job, which is done like any other."""

from __future__ import annotations

import json
from datetime import timedelta

from pydantic import JsonValue

from reme_core.ports import Clock, EventQuery, GetItems, ItemAddress, PutItem, Store, WriteItems
from reme_core.ports.items import SERVICE_SPACE
from reme_core.schema import Job, JobState, Scope, format_time, parse_time
from reme_core.schema.changes import EVOLVE

_EVOLVED = "evolved"
# What the last consolidation itself wrote makes no other one due, as long as it is less than this.
_MOST_EVENTS = 100


async def promise_evolution(store: Store, clock: Clock, scope: Scope, every: timedelta) -> bool:
    """Add the job of a consolidation where the last one lies that long back and something was written since.

    A scope that is seen for the first time is due after that time. A process that dies in between has promised it
    twice at most, and the second one finds nothing to do. Returns whether there is a new job.
    """
    if any(job.kind == EVOLVE for job in await store.list_jobs(scope, (JobState.PENDING, JobState.RUNNING))):
        return False
    now = clock.now()
    key = json.dumps([scope.memory_space, scope.user_id])
    address = ItemAddress(namespace=(_EVOLVED,), key=key)
    [item] = await store.get_items(SERVICE_SPACE, GetItems(addresses=[address], at=now))
    before = {} if item is None else item.value
    if before and parse_time(before["at"]) + every > now:
        return False
    seen = int(str(before.get("sequence", 0)))
    events = await store.events(scope, EventQuery(after=seen, limit=_MOST_EVENTS))
    is_due = bool(before) and (len(events) == _MOST_EVENTS or any(event.actor != EVOLVE for event in events))
    last = await store.events(scope, EventQuery(limit=1, newest_first=True))
    sequence = last[0].sequence if last else 0
    if is_due:
        await store.add_jobs(scope, [Job(kind=EVOLVE, payload={}, created_at=now, due_at=now)])
    value: dict[str, JsonValue] = {"at": format_time(now), "sequence": sequence if is_due else seen}
    await store.write_items(
        SERVICE_SPACE, WriteItems(writes=[PutItem(address=address, value=value, owner=scope)], at=now)
    )
    return is_due
