"""Counts of uses inside the rows of memories. The caller holds the transaction.

Counts stand in the body alone, which is read by its row: no event, no words and no vector know of them, so the indexes
in memory need no notice either.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from reme_core.errors import MemoryNotFoundError
from reme_core.ports import UseMemory
from reme_core.rules import used
from reme_core.schema import Memory, Scope
from reme_core.stores.local.file.scope_numbers import find_scope
from reme_core.stores.local.memories.memory_rows import find_memory


def record_uses(connection: sqlite3.Connection, scope: Scope, uses: Sequence[UseMemory]) -> list[Memory]:
    """Add checked uses to the counts of memories; see `Store.record_uses`."""
    number = find_scope(connection, scope)
    names = dict.fromkeys(use.memory_id for use in uses)
    found = {name: None if number is None else find_memory(connection, number, name) for name in names}
    held = {name: hit for name, hit in found.items() if hit is not None}
    missing = [name for name in names if name not in held]
    if missing:
        raise MemoryNotFoundError(missing)
    counted = used([memory for _, memory in held.values()], uses)
    connection.executemany(
        "UPDATE memories SET body = ? WHERE row = ?",
        [(memory.model_dump_json(), held[name][0]) for name, memory in counted.items()],
    )
    return [counted[use.memory_id] for use in uses]
