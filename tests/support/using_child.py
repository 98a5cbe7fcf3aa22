"""A process that uses a memory many times, one call each."""

from __future__ import annotations

import asyncio
from pathlib import Path

from reme_core.ports import UseMemory
from reme_core.stores import LocalStore
from reme_core.testing.store_values import ALICE


def use_many(path: Path, memory_id: str, count: int) -> None:
    """Record `count` uses, of which each helped a quarter."""
    asyncio.run(_use_many(path, memory_id, count))


async def _use_many(path: Path, memory_id: str, count: int) -> None:
    store = LocalStore(path, synchronous="NORMAL")
    for _ in range(count):
        await store.record_uses(ALICE, [UseMemory(memory_id=memory_id, helpful=0.25)])
    await store.close()
