"""Writing items: plain ones many at a time, those that are memories one by one, with these."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

from reme_core.ports import DeleteMemory, IndexedBy, PutMemory, WriteBatch
from reme_core.rules import metadata_of, read_value, texts_of
from reme_core.schema import Memory, Scope
from reme_core.schema.blobs import LONG_BASE64, is_apart
from reme_core.stores.sql.blob_rows import drop_unused, keep_apart
from reme_core.stores.sql.bookkeeping import Layer, enter_scope, log_changes
from reme_core.stores.sql.connection import ItemsWithin, SqlConnection
from reme_core.stores.sql.embedding_record import claim_embedding
from reme_core.stores.sql.items.checked_writes import ReadyBatch, ReadyWrite
from reme_core.stores.sql.items.item_rows import (
    ItemRow,
    find_namespace,
    find_unlinked,
    make_namespace,
    rows_by_keys,
)
from reme_core.stores.sql.items.row_links import (
    drop_vectors,
    log_item_changes,
    put_vectors,
    remove_empty,
    remove_items,
)
from reme_core.stores.sql.memory_rows import from_microseconds, put_batch

_ACTOR = "store"
_COLUMNS = ("ns", "key", "created", "updated", "expires", "ttl", "memory_row", "value", "erased_with")


def write_with_memory(connection: SqlConnection, memory_space: str, write: ReadyWrite, batch: ReadyBatch) -> None:
    """Write one item that is, or was, a memory as well; or empty its address."""
    row = _row_at(connection, memory_space, write)
    anew = write.put is None or write.fresh
    if row is not None and (anew or row.is_closed or (batch.omit_expired and row.is_over(batch.at))):
        _remove(connection, row, batch.at)
        row = None
    if row is None and write.record is not None:
        row = find_unlinked(connection, write.record, write.key)
        if row is not None and row.memory_row is not None and anew:
            delete_memory(connection, row.memory_row, batch.at)
            row = None
    if write.put is not None:
        _put(connection, memory_space, write, batch, row)


def delete_memory(connection: SqlConnection, memory_row: int, at: int) -> None:
    """Delete a memory with all that hangs on it, its item included, and what its history says."""
    (body,) = connection.execute("SELECT body FROM memories WHERE row = ?", (memory_row,)).fetchone()
    memory = Memory.model_validate_json(body)
    deletes = [DeleteMemory(memory_id=memory.memory_id, erase=True)]
    put_batch(connection, memory.scope, WriteBatch(deletes=deletes, actor=_ACTOR, at=from_microseconds(at)))


def _row_at(connection: SqlConnection, memory_space: str, write: ReadyWrite) -> ItemRow | None:
    ns = find_namespace(connection, memory_space, write.path)
    return None if ns is None else rows_by_keys(connection, ns, [write.key]).get(write.key)


def _remove(connection: SqlConnection, row: ItemRow, at: int) -> None:
    """Remove an item and its memory; one that was superseded stays, as history."""
    if row.memory_row is not None and not row.is_closed:
        delete_memory(connection, row.memory_row, at)
    elif row.item is not None and row.ns is not None:
        remove_items(connection, [row.item])
        remove_empty(connection, [row.ns])


@dataclass(frozen=True, slots=True)
class _Times:
    created: int
    updated: int


def _put(
    connection: SqlConnection,
    memory_space: str,
    write: ReadyWrite,
    batch: ReadyBatch,
    row: ItemRow | None,
) -> None:
    """Write the item in place of a row, if there is one: its own, or that of a memory not written as an item."""
    times = _Times(batch.at, batch.at) if row is None else _Times(row.created, max(batch.at, row.updated + 1))
    before = None if row is None else row.memory()
    kept = before is not None and write.record is not None and before.scope == write.record.scope
    if before is not None and row is not None and row.memory_row is not None and not kept:
        connection.execute("UPDATE items SET memory_row = NULL WHERE item = ?", (row.item,))
        delete_memory(connection, row.memory_row, batch.at)
        before = None
    memory_row = _put_memory(connection, write, batch, before, times)
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
        owner = _owner(connection, write)
        born = (ns, write.key, times.created, *columns, owner)
        (item,) = connection.dialect.insert_many(connection, "items", "item", _COLUMNS, [born])
    if write.vectors is not None:
        put_vectors(connection, ns, item, write.vectors)


def _put_memory(
    connection: SqlConnection,
    write: ReadyWrite,
    batch: ReadyBatch,
    before: Memory | None,
    times: _Times,
) -> int | None:
    """Write the memory of an item, if it is to be one, in place of the one before; return its row."""
    record, put = write.record, write.put
    if record is None or put is None or write.text is None:
        return None
    value = read_value(write.text)
    texts = texts_of(value)
    said = {
        "memory_type": record.memory_type,
        "content": texts.content,
        "when_to_use": texts.when_to_use,
        "updated_at": from_microseconds(times.updated),
        "metadata": metadata_of(value, record.topic, texts),
    }
    if before is None:
        at = from_microseconds(batch.at)
        born = {"created_at": from_microseconds(times.created), "observed_at": at, "valid_from": at}
        memory = Memory.model_validate({**record.scope.model_dump(), **said, **born})
    else:
        memory = before.model_copy(update=said)
    vector = None if write.vectors is None else write.vectors[0]
    stored = put_batch(
        connection,
        record.scope,
        WriteBatch(
            puts=[PutMemory(memory=memory, vector=vector)],
            actor=_ACTOR,
            at=from_microseconds(batch.at),
            embedded_by=batch.embedded_by,
        ),
        distinct=True,
    )
    scope = enter_scope(connection, record.scope)
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


class WholeSpaceNeeded(Exception):  # noqa: N818  # a signal to the store; no caller meets it
    """A write met an item that is a memory, or removes bytes, of a scope which nobody had named."""


def items_within(memory_space: str, batch: ReadyBatch) -> ItemsWithin:
    """Return what a batch writes: its namespaces, and the scopes whose memories or property they are."""
    records = [write.record.scope for write in batch.writes if write.record is not None]
    owners = [write.put.owner for write in batch.writes if write.put is not None and write.put.owner is not None]
    paths = dict.fromkeys(write.path for write in batch.writes)
    return ItemsWithin(memory_space, tuple(paths), tuple(dict.fromkeys([*records, *owners])))


def write_items(
    connection: SqlConnection, memory_space: str, batch: ReadyBatch, scopes: Collection[Scope] | None = None
) -> None:
    """Write a batch that `prepare_writes` made ready; see `Store.write_items`.

    Raises:
        WholeSpaceNeeded: It would touch memories of a scope that isn't among `scopes`; None: of any.
    """
    if batch.dimension is not None:
        made = IndexedBy(dimension=batch.dimension, model=batch.embedded_by)
        claim_embedding(connection, memory_space, made, "a vector of an item")
    held = _held(connection, memory_space, batch.writes)
    memories = [memory for row in held.values() if (memory := row.memory()) is not None]
    gone = [row for write in batch.writes if write.put is None and (row := held.get((write.path, write.key)))]
    of_others = not connection.dialect.is_file and any(is_apart(row.value or "") for row in gone)  # their bytes go
    if scopes is not None and (of_others or not {memory.scope for memory in memories}.issubset(scopes)):
        raise WholeSpaceNeeded
    if gone:
        connection.dialect.note_erasure(connection)

    def is_plain(write: ReadyWrite) -> bool:
        row = held.get((write.path, write.key))
        return write.record is None and (row is None or row.memory_row is None)

    # In their order: rows are numbered as they are put first.
    for plain, run in groupby(batch.writes, is_plain):
        if plain:
            _write_plain(connection, memory_space, list(run), held, batch)
        else:
            for write in run:
                write_with_memory(connection, memory_space, write, batch)


def sweep_items(connection: SqlConnection, memory_space: str, at: int) -> int:
    """Remove the items whose time is over; see `Store.sweep_items`."""
    found = connection.execute(
        "SELECT item, ns, memory_row, superseded_by FROM items JOIN item_namespaces USING (ns)"
        " LEFT JOIN memories ON memories.row = memory_row WHERE item_namespaces.memory_space = ? AND expires <= ?",
        (memory_space, at),
    ).fetchall()
    # The item of a memory that was superseded is none any more, and the memory is history, which stays.
    for _, _, memory_row, superseded_by in found:
        if memory_row is not None and superseded_by is None:
            delete_memory(connection, memory_row, at)
    remove_items(connection, [item for item, *_ in found])
    remove_empty(connection, {ns for _, ns, *_ in found})
    if found:
        connection.dialect.note_erasure(connection)
    return len(found)


def sweepable(connection: SqlConnection, at: int) -> bool:
    """Tell whether anything is to be swept, whatever its space: most sweeps find nothing and needn't write."""
    return connection.execute("SELECT 1 FROM items WHERE expires <= ? LIMIT 1", (at,)).fetchone() is not None


def refresh_items(connection: SqlConnection, items: Sequence[int], at: int) -> None:
    """Begin the time to live of items anew."""
    connection.executemany(
        "UPDATE items SET expires = ? + ttl WHERE item = ? AND ttl IS NOT NULL", [(at, item) for item in sorted(items)]
    )


def _held(connection: SqlConnection, memory_space: str, writes: Sequence[ReadyWrite]) -> dict[tuple[str, str], ItemRow]:
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
    connection: SqlConnection,
    memory_space: str,
    writes: Sequence[ReadyWrite],
    held: dict[tuple[str, str], ItemRow],
    batch: ReadyBatch,
) -> None:
    gone: list[ItemRow] = []
    replaced: list[tuple[ItemRow, ReadyWrite]] = []
    changed: list[tuple[int, ReadyWrite]] = []
    added: list[ReadyWrite] = []
    for write in writes:
        row = held.get((write.path, write.key))
        replaces = row is not None and not write.fresh and not (batch.omit_expired and row.is_over(batch.at))
        if row is not None and row.item is not None and write.put is not None and replaces:
            replaced.append((row, write))
            changed.append((row.item, write))
            continue
        if row is not None:
            gone.append(row)
        if write.put is not None:
            added.append(write)
    remove_items(connection, [row.item for row in gone if row.item is not None])
    drop_vectors(connection, [item for item, _ in changed])
    _update(connection, memory_space, replaced, batch)
    numbers = {path: make_namespace(connection, memory_space, path) for path in {write.path for write in added}}
    numbers |= {write.path: row.ns for _, write in changed if (row := held[write.path, write.key]).ns is not None}
    changed += zip(_insert(connection, memory_space, added, numbers, batch), added, strict=True)
    having = [(item, numbers[write.path], write.vectors) for item, write in changed if write.vectors is not None]
    connection.executemany(
        "INSERT INTO item_vectors (item, data) VALUES (?, ?)",
        [(item, vector.tobytes()) for item, _, vectors in having for vector in vectors],
    )
    log_item_changes(connection, [(ns, item) for item, ns, _ in having])
    _drop_unused(connection, [write for row, write in replaced if is_apart(row.value or "")])
    remove_empty(connection, {row.ns for row in gone if row.ns is not None})


def _update(
    connection: SqlConnection, memory_space: str, replaced: Sequence[tuple[ItemRow, ReadyWrite]], batch: ReadyBatch
) -> None:
    """Write other values into rows."""
    updates: list[tuple[object, ...]] = []
    for row, write in replaced:
        text, owner = _owned(connection, memory_space, write)
        updates.append((text, max(batch.at, row.updated + 1), _expiry(write, batch), write.ttl, owner, row.item))
    connection.executemany(
        "UPDATE items SET value = ?, updated = ?, expires = ?, ttl = ?, erased_with = coalesce(?, erased_with)"
        " WHERE item = ?",
        updates,
    )


def _insert(
    connection: SqlConnection,
    memory_space: str,
    added: Sequence[ReadyWrite],
    numbers: dict[str, int],
    batch: ReadyBatch,
) -> Sequence[int]:
    """Insert new items; return their numbers."""
    rows = [
        (
            numbers[write.path],
            write.key,
            batch.at,
            batch.at,
            _expiry(write, batch),
            write.ttl,
            None,
            *_owned(connection, memory_space, write),
        )
        for write in added
    ]
    return connection.dialect.insert_many(connection, "items", "item", _COLUMNS, rows)


def _owned(connection: SqlConnection, memory_space: str, write: ReadyWrite) -> tuple[str | None, int | None]:
    """Return what is to lie in the row of a plain item, its long base64 kept apart for its owner, and whose it is."""
    owner, number = None if write.put is None else write.put.owner, _owner(connection, write)
    if owner is None or number is None or write.text is None or owner.memory_space != memory_space:
        return write.text, number
    if len(write.text) < LONG_BASE64:
        return write.text, number
    with connection.dialect.within(connection, owner):
        return keep_apart(connection, number, write.text), number


def _drop_unused(connection: SqlConnection, writes: Sequence[ReadyWrite]) -> None:
    """Remove bytes that only the values before these referred to, of the users whose these are."""
    for owner in {write.put.owner for write in writes if write.put is not None}:
        if owner is not None:
            with connection.dialect.within(connection, owner):
                drop_unused(connection, enter_scope(connection, owner))


def _owner(connection: SqlConnection, write: ReadyWrite) -> int | None:
    owner = None if write.put is None or write.record is not None else write.put.owner
    if owner is None:
        return None
    with connection.dialect.within(connection, owner):
        return enter_scope(connection, owner)


def _expiry(write: ReadyWrite, batch: ReadyBatch) -> int | None:
    return None if write.ttl is None else batch.at + write.ttl
