"""Consolidation by a service: it looks now and then who is due, and leaves the work to the jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from reme_core.errors import ReMeError
from reme_core.evolve.schedule import promise_evolution
from reme_core.ports.items import SERVICE_SPACE
from reme_core.schema import Scope
from reme_core.serve.memories import Memories
from reme_core.stores import list_scopes

_LOG = logging.getLogger("reme.serve")
LOOK_S = 600.0
"""Between two looks."""
MOST_AT_A_LOOK = 20
"""Users who are begun with at a look, so that a service of many doesn't ask its model for all of them at once."""


@asynccontextmanager
async def evolving(memories: Memories, every: timedelta) -> AsyncIterator[None]:
    """Consolidate each user's memories that often, as long as this is open; of a database, those of the home space."""
    async with asyncio.TaskGroup() as group:
        looking = group.create_task(_look_again(memories, every))
        try:
            yield
        finally:
            looking.cancel()


async def _look_again(memories: Memories, every: timedelta) -> None:
    while True:
        try:
            await look(memories, every)
        except ReMeError as exc:  # it is looked again
            _LOG.error("who is due for a consolidation can't be told: %s", exc)
        await asyncio.sleep(LOOK_S)


async def look(memories: Memories, every: timedelta) -> list[Scope]:
    """Begin the consolidations that are due, and return whose."""
    begun: list[Scope] = []
    home = memories.home
    for held in await home.database.read(list_scopes, within=home.memory_space):
        if len(begun) == MOST_AT_A_LOOK:
            break
        if held.memories and held.scope.memory_space != SERVICE_SPACE:
            memory = await memories.of(held.scope.memory_space)
            if await promise_evolution(memories.store, memories.clock, held.scope, every):
                memory.start_waiting(held.scope)
                begun.append(held.scope)
    return begun
