"""Memories that wait for vectors, in their rows. The caller holds the transaction."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence

from reme_core.ports import MessageVector, PendingText, PutMemory, Vector
from reme_core.schema import Memory
from reme_core.stores.local.file.scope_numbers import Layer, log_changes
from reme_core.stores.local.file.vector_bytes import check_vector, claim_dimension
from reme_core.stores.local.items import row_links as item_links

_KEY = re.compile(r"memory-([0-9]{1,18})", re.ASCII)


def note(connection: sqlite3.Connection, row: int, put: PutMemory, before: Memory | None) -> None:
    """Note whether a memory that was just written waits; where its text and its vector stay, so does that."""
    if put.vector is not None or before is None or before.index_text != put.memory.index_text:
        waits = put.vector is None and put.wants_vector
        connection.execute("UPDATE memories SET waits = ? WHERE row = ?", (waits, row))


def put_vector(connection: sqlite3.Connection, row: int, memory_id: str, vector: Vector) -> None:
    """Store the vector of a memory (DimensionMismatchError)."""
    claim_dimension(connection, len(vector), f"the vector of memory {memory_id!r}")
    connection.execute("INSERT OR REPLACE INTO memory_vectors VALUES (?, ?)", (row, vector.tobytes()))


def pending_memories(connection: sqlite3.Connection, scope: int, limit: int) -> list[PendingText]:
    """Return the memories that wait, oldest first, at most `limit`."""
    rows = connection.execute(
        "SELECT row, body FROM memories WHERE scope = ? AND waits ORDER BY row LIMIT ?", (scope, limit)
    )
    return [PendingText(key=f"memory-{row}", text=Memory.model_validate_json(body).index_text) for row, body in rows]


def is_of_memory(item: MessageVector) -> bool:
    """Tell whether a vector is that of a memory."""
    return _KEY.fullmatch(item.pending.key) is not None


def fill_memories(connection: sqlite3.Connection, scope: int, vectors: Sequence[MessageVector]) -> None:
    """Store the vectors of memories that wait and say what they said."""
    filled = [row for item in vectors if (row := _fill(connection, scope, item)) is not None]
    log_changes(connection, scope, Layer.MEMORIES, filled)


def _fill(connection: sqlite3.Connection, scope: int, item: MessageVector) -> int | None:
    """Store the vector of one memory; return its row if that is another one now."""
    row = int(item.pending.key.removeprefix("memory-"))
    found = connection.execute("SELECT body FROM memories WHERE scope = ? AND row = ? AND waits", (scope, row))
    memory = next((Memory.model_validate_json(body) for (body,) in found), None)
    if memory is None or memory.index_text != item.pending.text:
        return None
    connection.execute("UPDATE memories SET waits = 0 WHERE row = ?", (row,))
    if item.vector is None:
        return None
    vector = check_vector(item.vector, f"the vector of memory {memory.memory_id!r}")
    put_vector(connection, row, memory.memory_id, vector)
    item_links.fill_vector(connection, row, vector)
    return row
