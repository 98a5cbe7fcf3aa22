"""Rows of items and of their vectors: what removes them, and what edits of memories change in them.

The caller holds the transaction. `memory_rows.py` calls this for each memory that it changes, most of which are no
items.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reme_core.ports import Vector
from reme_core.schema.blobs import APART
from reme_core.stores.sql.blob_rows import drop_unused
from reme_core.stores.sql.bookkeeping import ITEMS, forget_changes, log_changes
from reme_core.stores.sql.connection import AMONG, SqlConnection
from reme_core.stores.sql.new_vectors import NewVectorOf, forget_new_vectors


def log_item_changes(connection: SqlConnection, changed: Sequence[tuple[int, int]]) -> None:
    """Note (namespace, item) whose vectors or times of change are others now; see vectors_in_memory.py."""
    items: dict[int, list[int]] = {}
    for ns, item in changed:
        items.setdefault(ns, []).append(item)
    for ns, some in items.items():
        log_changes(connection, ns, ITEMS, some)


def put_vectors(connection: SqlConnection, ns: int, item: int, vectors: Iterable[Vector]) -> None:
    """Add vectors of an item, and note it."""
    rows = [(item, vector.tobytes()) for vector in vectors]
    connection.executemany("INSERT INTO item_vectors (item, data) VALUES (?, ?)", rows)
    log_item_changes(connection, [(ns, item)])


def drop_vectors(connection: SqlConnection, items: Sequence[int]) -> None:
    """Remove the vectors of items, and note it for those that had some."""
    if not items:
        return
    having = connection.execute(
        "SELECT ns, item FROM items WHERE item IN (SELECT value FROM json_each(?))"
        " AND EXISTS (SELECT 1 FROM item_vectors WHERE item_vectors.item = items.item)",
        (str(list(items)),),
    ).fetchall()
    if having:
        connection.executemany("DELETE FROM item_vectors WHERE item = ?", [(item,) for _, item in having])
        forget_new_vectors(connection, NewVectorOf.ITEM, [item for _, item in having])
        log_item_changes(connection, having)


def remove_items(connection: SqlConnection, items: Sequence[int]) -> None:
    """Remove rows of items with their vectors; memories stay. Their namespaces are left to `remove_empty`."""
    if not items:
        return
    apart = f"SELECT DISTINCT erased_with FROM items WHERE item {AMONG} AND value LIKE '{APART}%'"  # noqa: S608  # ours
    owners = connection.execute(apart, (str(list(items)),)).fetchall()
    drop_vectors(connection, items)
    connection.executemany("DELETE FROM items WHERE item = ?", [(item,) for item in items])
    for (owner,) in owners:  # a server shows their bytes only where nobody else writes to them
        drop_unused(connection, owner)


def remove_empty(connection: SqlConnection, namespaces: Iterable[int]) -> None:
    """Remove those of some namespaces that hold no item any more, with their change logs."""
    for ns in namespaces:
        if connection.execute("SELECT 1 FROM items WHERE ns = ? LIMIT 1", (ns,)).fetchone() is None:
            connection.execute("DELETE FROM item_namespaces WHERE ns = ?", (ns,))
            forget_changes(connection, ns, [ITEMS])


def remove_item_of(connection: SqlConnection, memory_row: int) -> None:
    """Remove the item that a memory is, if it is one; the memory goes in the same transaction."""
    found = connection.execute("SELECT item, ns FROM items WHERE memory_row = ?", (memory_row,)).fetchone()
    if found is not None:
        connection.dialect.lock_namespaces(connection, [found[1]])
        remove_items(connection, [found[0]])
        remove_empty(connection, [found[1]])


def items_of_scope(connection: SqlConnection, scope: int) -> list[tuple[int, int]]:
    """Return (item, namespace) of the memories of a scope, and of what was written in runs of its user."""
    return connection.execute(
        "SELECT item, ns FROM memories CROSS JOIN items ON memory_row = row WHERE memories.scope = ? "
        "UNION SELECT item, ns FROM items WHERE erased_with = ?",
        (scope, scope),
    ).fetchall()


def remove_items_of_scope(connection: SqlConnection, scope: int) -> None:
    """Remove the items of a scope."""
    remove_with_namespaces(connection, items_of_scope(connection, scope))


def remove_with_namespaces(connection: SqlConnection, found: Sequence[tuple[int, int]]) -> None:
    """Remove items, each given with its namespace, and the namespaces that are empty then."""
    connection.dialect.lock_namespaces(connection, {ns for _, ns in found})
    remove_items(connection, [item for item, _ in found])
    remove_empty(connection, {ns for _, ns in found})


def fill_vector(connection: SqlConnection, memory_row: int, vector: Vector) -> None:
    """Give the item that a memory is, if it is one, the vector that the memory has waited for."""
    found = connection.execute(
        "SELECT item, ns FROM items JOIN memories ON memories.row = memory_row WHERE memory_row = ? AND ranked",
        (memory_row,),
    ).fetchone()
    if found is not None:
        connection.dialect.lock_namespaces(connection, [found[1]])
        drop_vectors(connection, [found[0]])
        put_vectors(connection, found[1], found[0], [vector])


def follow_edit(
    connection: SqlConnection, memory_row: int, updated: int, vector: Vector | None, *, said_anew: bool
) -> None:
    """Take over an edit of a memory: the time, and the vector that stands for all its item had.

    Without a vector those of the item stay, unless the memory says something else now. An item whose memory is not
    ranked gets none.
    """
    found = connection.execute(
        "SELECT item, ns, updated, ranked FROM items JOIN memories ON memories.row = memory_row WHERE memory_row = ?",
        (memory_row,),
    ).fetchone()
    if found is None:
        return
    item, ns, before, ranked = found
    connection.dialect.lock_namespaces(connection, [ns])
    if said_anew or vector is not None:
        drop_vectors(connection, [item])
    if vector is not None and ranked:
        connection.execute("INSERT INTO item_vectors (item, data) VALUES (?, ?)", (item, vector.tobytes()))
    connection.execute("UPDATE items SET updated = ? WHERE item = ?", (max(updated, before + 1), item))
    log_item_changes(connection, [(ns, item)])
