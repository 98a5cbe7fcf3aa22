"""Counts of the rows of a scope."""

from __future__ import annotations

from reme_core.ports import Counts
from reme_core.schema import MemoryType, Scope
from reme_core.stores.sql.blob_rows import count_blobs
from reme_core.stores.sql.bookkeeping import find_scope
from reme_core.stores.sql.connection import SqlConnection, Statements, reading_rows
from reme_core.stores.sql.offload_rows import count_offloads


@reading_rows()
def count_scope(connection: SqlConnection, scope: Scope) -> Counts:
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
    blobs, blob_bytes = count_blobs(connection, number)
    return Counts(
        current_memories={MemoryType(kind): count for kind, count in by_type},
        memories=count_rows(connection, "SELECT count(*) FROM memories WHERE scope = ?", number),
        messages=count_rows(connection, "SELECT count(*) FROM messages WHERE scope = ?", number),
        waiting_for_vectors=count_rows(connection, "SELECT count(*) FROM messages WHERE scope = ? AND waits", number)
        + count_rows(connection, "SELECT count(*) FROM memories WHERE scope = ? AND waits", number),
        blocks=count_rows(connection, "SELECT count(*) FROM blocks WHERE scope = ?", number),
        sessions=count_rows(connection, "SELECT count(*) FROM sessions WHERE scope = ?", number),
        events=count_rows(connection, "SELECT count(*) FROM events WHERE scope = ?", number),
        jobs=count_rows(connection, "SELECT count(*) FROM jobs WHERE scope = ?", number),
        dead_jobs=count_rows(connection, "SELECT count(*) FROM jobs WHERE scope = ? AND state = 'dead'", number),
        offloads=offloads,
        offload_bytes=offload_bytes,
        tool_calls=count_rows(connection, "SELECT count(*) FROM tool_calls WHERE scope = ?", number),
        blobs=blobs,
        blob_bytes=blob_bytes,
    )


def count_rows(connection: Statements, query: str, scope: int) -> int:
    """Run a query for one number of a scope."""
    return int(connection.execute(query, (scope,)).fetchone()[0])
