"""Writing items that are memories, with these, through the functions of memory_rows.py; one at a time."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from reme_core.ports import DeleteMemory, PutMemory, WriteBatch
from reme_core.rules import metadata_of, read_value, texts_of
from reme_core.schema import Memory
from reme_core.stores.local.file.scope_numbers import Layer, log_changes, make_scope_number
from reme_core.stores.local.items.checked_writes import ReadyBatch, ReadyWrite
from reme_core.stores.local.items.item_rows import ItemRow, find_namespace, find_unlinked, make_namespace, rows_by_keys
from reme_core.stores.local.items.row_links import drop_vectors, log_item_changes, remove_empty, remove_items
from reme_core.stores.local.memories.memory_rows import from_microseconds, put_batch

_ACTOR = "store"


def write_with_memory(
    connection: sqlite3.Connection, memory_space: str, write: ReadyWrite, batch: ReadyBatch, *, fts5: bool
) -> None:
    """Write one item that is, or was, a memory as well; or empty its address."""
    row = _row_at(connection, memory_space, write)
    anew = write.put is None or write.fresh
    if row is not None and (anew or row.is_closed or (batch.omit_expired and row.is_over(batch.at))):
        _remove(connection, row, batch.at, fts5=fts5)
        row = None
    if row is None and write.record is not None:
        row = find_unlinked(connection, write.record, write.key)
        if row is not None and row.memory_row is not None and anew:
            delete_memory(connection, row.memory_row, batch.at, fts5=fts5)
            row = None
    if write.put is not None:
        _put(connection, memory_space, write, batch, row, fts5=fts5)


def delete_memory(connection: sqlite3.Connection, memory_row: int, at: int, *, fts5: bool) -> None:
    """Delete a memory with all that hangs on it, its item included."""
    (body,) = connection.execute("SELECT body FROM memories WHERE row = ?", (memory_row,)).fetchone()
    memory = Memory.model_validate_json(body)
    batch = WriteBatch(deletes=[DeleteMemory(memory_id=memory.memory_id)], actor=_ACTOR, at=from_microseconds(at))
    put_batch(connection, memory.scope, batch, fts5=fts5)


def _row_at(connection: sqlite3.Connection, memory_space: str, write: ReadyWrite) -> ItemRow | None:
    ns = find_namespace(connection, memory_space, write.path)
    return None if ns is None else rows_by_keys(connection, ns, [write.key]).get(write.key)


def _remove(connection: sqlite3.Connection, row: ItemRow, at: int, *, fts5: bool) -> None:
    """Remove an item and its memory; one that was superseded stays, as history."""
    if row.memory_row is not None and not row.is_closed:
        delete_memory(connection, row.memory_row, at, fts5=fts5)
    elif row.item is not None and row.ns is not None:
        remove_items(connection, [row.item])
        remove_empty(connection, [row.ns])


@dataclass(frozen=True, slots=True)
class _Times:
    created: int
    updated: int


def _put(
    connection: sqlite3.Connection,
    memory_space: str,
    write: ReadyWrite,
    batch: ReadyBatch,
    row: ItemRow | None,
    *,
    fts5: bool,
) -> None:
    """Write the item in place of a row, if there is one: its own, or that of a memory not written as an item."""
    times = _Times(batch.at, batch.at) if row is None else _Times(row.created, max(batch.at, row.updated + 1))
    before = None if row is None else row.memory()
    kept = before is not None and write.record is not None and before.scope == write.record.scope
    if before is not None and row is not None and row.memory_row is not None and not kept:
        connection.execute("UPDATE items SET memory_row = NULL WHERE item = ?", (row.item,))
        delete_memory(connection, row.memory_row, batch.at, fts5=fts5)
        before = None
    memory_row = _put_memory(connection, write, batch, before, times, fts5=fts5)
    ns = make_namespace(connection, memory_space, write.path)
    expires = None if write.ttl is None else batch.at + write.ttl
    columns = (times.updated, expires, write.ttl, memory_row, write.text)
    if row is not None and row.item is not None:
        item = row.item
        drop_vectors(connection, [item])
        connection.execute(
            "UPDATE items SET updated = ?, expires = ?, ttl = ?, memory_row = ?, value = ? WHERE item = ?",
            (*columns, item),
        )
    else:
        cursor = connection.execute(
            "INSERT INTO items (ns, key, created, updated, expires, ttl, memory_row, value)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (ns, write.key, times.created, *columns),
        )
        item = int(cursor.lastrowid or 0)
    if write.vectors is not None:
        connection.executemany(
            "INSERT INTO item_vectors (item, data) VALUES (?, ?)",
            [(item, vector.tobytes()) for vector in write.vectors],
        )
        log_item_changes(connection, [(ns, item)])


def _put_memory(
    connection: sqlite3.Connection,
    write: ReadyWrite,
    batch: ReadyBatch,
    before: Memory | None,
    times: _Times,
    *,
    fts5: bool,
) -> int | None:
    """Write the memory of an item, if it is to be one, in place of the one before; return its row."""
    record, put = write.record, write.put
    if record is None or put is None or write.text is None:
        return None
    value = read_value(write.text)
    texts = texts_of(value)
    metadata = metadata_of(value, record.topic, texts)
    if before is None:
        memory = Memory(
            memory_space=record.scope.memory_space,
            user_id=record.scope.user_id,
            memory_type=record.memory_type,
            content=texts.content,
            when_to_use=texts.when_to_use,
            created_at=from_microseconds(times.created),
            updated_at=from_microseconds(times.updated),
            observed_at=from_microseconds(batch.at),
            valid_from=from_microseconds(batch.at),
            metadata=metadata,
        )
    else:
        memory = before.model_copy(
            update={
                "memory_type": record.memory_type,
                "content": texts.content,
                "when_to_use": texts.when_to_use,
                "updated_at": from_microseconds(times.updated),
                "metadata": metadata,
            }
        )
    vector = None if write.vectors is None else write.vectors[0]
    stored = put_batch(
        connection,
        record.scope,
        WriteBatch(puts=[PutMemory(memory=memory, vector=vector)], actor=_ACTOR, at=from_microseconds(batch.at)),
        fts5=fts5,
        distinct=True,
    )
    scope = make_scope_number(connection, record.scope)
    (memory_row,) = connection.execute(
        "SELECT row FROM memories WHERE scope = ? AND memory_id = ?", (scope, stored[0].memory_id)
    ).fetchone()
    if vector is None:  # what an item had before never answers for it
        connection.execute("DELETE FROM memory_vectors WHERE row = ?", (memory_row,))
    connection.execute(
        "UPDATE memories SET ranked = ? WHERE row = ? AND ranked <> ?", (put.ranked, memory_row, put.ranked)
    )
    log_changes(connection, scope, Layer.MEMORIES, [memory_row])
    return int(memory_row)
