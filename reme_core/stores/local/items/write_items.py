"""Writing items: plain ones many at a time, those that are memories one by one. The caller holds the transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import groupby

from reme_core.errors import DimensionMismatchError
from reme_core.stores.local.items.checked_writes import ReadyBatch, ReadyWrite
from reme_core.stores.local.items.embedding_model import item_dimension
from reme_core.stores.local.items.item_rows import ItemRow, find_namespace, make_namespace, rows_by_keys
from reme_core.stores.local.items.memory_items import delete_memory, write_with_memory
from reme_core.stores.local.items.row_links import drop_vectors, log_item_changes, remove_empty, remove_items


def write_items(connection: sqlite3.Connection, memory_space: str, batch: ReadyBatch, *, fts5: bool) -> None:
    """Write a batch that `prepare_writes` made ready; see `Store.write_items`."""
    if batch.dimension is not None:
        expected = item_dimension(connection)
        if expected is not None and expected != batch.dimension:
            raise DimensionMismatchError(expected=expected, found=batch.dimension, what="a vector of an item")
    held = _held(connection, memory_space, batch.writes)

    def is_plain(write: ReadyWrite) -> bool:
        row = held.get((write.path, write.key))
        return write.record is None and (row is None or row.memory_row is None)

    # In their order: rows are numbered as they are put first.
    for plain, run in groupby(batch.writes, is_plain):
        if plain:
            _write_plain(connection, memory_space, list(run), held, batch)
        else:
            for write in run:
                write_with_memory(connection, memory_space, write, batch, fts5=fts5)


def sweep_items(connection: sqlite3.Connection, memory_space: str, at: int, *, fts5: bool) -> int:
    """Remove the items whose time is over; see `Store.sweep_items`."""
    found = connection.execute(
        "SELECT item, ns, memory_row, superseded_by FROM items JOIN item_namespaces USING (ns)"
        " LEFT JOIN memories ON memories.row = memory_row WHERE memory_space = ? AND expires <= ?",
        (memory_space, at),
    ).fetchall()
    # The item of a memory that was superseded is none any more, and the memory is history, which stays.
    for _, _, memory_row, superseded_by in found:
        if memory_row is not None and superseded_by is None:
            delete_memory(connection, memory_row, at, fts5=fts5)
    remove_items(connection, [item for item, *_ in found])
    remove_empty(connection, {ns for _, ns, *_ in found})
    return len(found)


def sweepable(connection: sqlite3.Connection, at: int) -> bool:
    """Tell whether anything is to be swept, whatever its space: most sweeps find nothing and needn't write."""
    return connection.execute("SELECT 1 FROM items WHERE expires <= ? LIMIT 1", (at,)).fetchone() is not None


def refresh_items(connection: sqlite3.Connection, items: Sequence[int], at: int) -> None:
    """Begin the time to live of items anew."""
    connection.executemany(
        "UPDATE items SET expires = ? + ttl WHERE item = ? AND ttl IS NOT NULL", [(at, item) for item in items]
    )


def _held(
    connection: sqlite3.Connection, memory_space: str, writes: Sequence[ReadyWrite]
) -> dict[tuple[str, str], ItemRow]:
    keys: dict[str, list[str]] = {}
    for write in writes:
        keys.setdefault(write.path, []).append(write.key)
    held: dict[tuple[str, str], ItemRow] = {}
    for path, some in keys.items():
        ns = find_namespace(connection, memory_space, path)
        if ns is not None:
            held |= {(path, key): row for key, row in rows_by_keys(connection, ns, some).items()}
    return held


def _write_plain(
    connection: sqlite3.Connection,
    memory_space: str,
    writes: Sequence[ReadyWrite],
    held: dict[tuple[str, str], ItemRow],
    batch: ReadyBatch,
) -> None:
    gone: list[ItemRow] = []
    changed: list[tuple[int, ReadyWrite]] = []
    updates: list[tuple[object, ...]] = []
    added: list[ReadyWrite] = []
    for write in writes:
        row = held.get((write.path, write.key))
        replaces = row is not None and not write.fresh and not (batch.omit_expired and row.is_over(batch.at))
        if row is not None and row.item is not None and write.put is not None and replaces:
            updates.append((write.text, max(batch.at, row.updated + 1), _expiry(write, batch), write.ttl, row.item))
            changed.append((row.item, write))
            continue
        if row is not None:
            gone.append(row)
        if write.put is not None:
            added.append(write)
    remove_items(connection, [row.item for row in gone if row.item is not None])
    drop_vectors(connection, [item for item, _ in changed])
    connection.executemany("UPDATE items SET value = ?, updated = ?, expires = ?, ttl = ? WHERE item = ?", updates)
    numbers = {path: make_namespace(connection, memory_space, path) for path in {write.path for write in added}}
    numbers |= {write.path: row.ns for _, write in changed if (row := held[write.path, write.key]).ns is not None}
    changed += zip(_insert(connection, added, numbers, batch), added, strict=True)
    having = [(item, numbers[write.path], write.vectors) for item, write in changed if write.vectors is not None]
    connection.executemany(
        "INSERT INTO item_vectors (item, data) VALUES (?, ?)",
        [(item, vector.tobytes()) for item, _, vectors in having for vector in vectors],
    )
    log_item_changes(connection, [(ns, item) for item, ns, _ in having])
    remove_empty(connection, {row.ns for row in gone if row.ns is not None})


def _insert(
    connection: sqlite3.Connection, added: Sequence[ReadyWrite], numbers: dict[str, int], batch: ReadyBatch
) -> range:
    """Insert new items; return their numbers, which follow each other."""
    if not added:
        return range(0)
    connection.executemany(
        "INSERT INTO items (ns, key, created, updated, expires, ttl, value) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (numbers[write.path], write.key, batch.at, batch.at, _expiry(write, batch), write.ttl, write.text)
            for write in added
        ],
    )
    (last,) = connection.execute("SELECT last_insert_rowid()").fetchone()
    return range(last - len(added) + 1, last + 1)


def _expiry(write: ReadyWrite, batch: ReadyBatch) -> int | None:
    return None if write.ttl is None else batch.at + write.ttl
