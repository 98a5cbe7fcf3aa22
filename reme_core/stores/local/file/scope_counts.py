"""Counts of what a scope holds, in all and for each target."""

from __future__ import annotations

import sqlite3

from reme_core.ports import Counts, Target
from reme_core.schema import MemoryType, Scope
from reme_core.stores.local.file.scope_numbers import find_scope
from reme_core.stores.local.offloads.offload_rows import count_offloads


def count_scope(connection: sqlite3.Connection, scope: Scope) -> Counts:
    """Count the rows of a scope."""
    number = find_scope(connection, scope)
    if number is None:
        return Counts()
    by_type = connection.execute(
        "SELECT memory_type, count(*) FROM memories WHERE scope = ? AND superseded_by IS NULL GROUP BY memory_type"
        " ORDER BY memory_type",
        (number,),
    )
    offloads, offload_bytes = count_offloads(connection, number)
    return Counts(
        current_memories={MemoryType(kind): count for kind, count in by_type},
        memories=_count(connection, "SELECT count(*) FROM memories WHERE scope = ?", number),
        messages=_count(connection, "SELECT count(*) FROM messages WHERE scope = ?", number),
        waiting_for_vectors=_count(connection, "SELECT count(*) FROM messages WHERE scope = ? AND waits", number)
        + _count(connection, "SELECT count(*) FROM memories WHERE scope = ? AND waits", number),
        blocks=_count(connection, "SELECT count(*) FROM blocks WHERE scope = ?", number),
        sessions=_count(connection, "SELECT count(*) FROM sessions WHERE scope = ?", number),
        events=_count(connection, "SELECT count(*) FROM events WHERE scope = ?", number),
        jobs=_count(connection, "SELECT count(*) FROM jobs WHERE scope = ?", number),
        dead_jobs=_count(connection, "SELECT count(*) FROM jobs WHERE scope = ? AND state = 'dead'", number),
        offloads=offloads,
        offload_bytes=offload_bytes,
        tool_calls=_count(connection, "SELECT count(*) FROM tool_calls WHERE scope = ?", number),
    )


def count_targets(connection: sqlite3.Connection, scope: Scope) -> dict[Target, int]:
    """Count the current memories of each target, along the index of these."""
    rows = connection.execute(
        "SELECT memory_type, memory_target, count(*) FROM memories WHERE scope = ? AND superseded_by IS NULL"
        " AND memory_type <> ? GROUP BY memory_type, memory_target ORDER BY memory_type, memory_target",
        (find_scope(connection, scope), MemoryType.META),
    )
    return {Target(MemoryType(kind), target): count for kind, target, count in rows}


def _count(connection: sqlite3.Connection, query: str, scope: int) -> int:
    return int(connection.execute(query, (scope,)).fetchone()[0])
