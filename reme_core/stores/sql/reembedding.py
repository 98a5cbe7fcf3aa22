"""Change of the embedding model of a memory space: new vectors beside the old ones, which one transaction replaces.

A row of `new_vectors` holds all vectors of a message, memory or item, one behind the other, and `stamp`, the version
of what was embedded: one whose text has changed since counts as lacking. No search reads that table. The swap moves
its rows over the old ones, and leaves a gap in the logs of changes, by which every reader, in memory, in another
process or an index such as Qdrant, sees that it has to load anew.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from reme_core.errors import ConflictError, DimensionMismatchError, InvalidInputError
from reme_core.ports import (
    IndexedBy,
    MessageVector,
    NewVectors,
    PendingText,
    Reembedding,
    ReembedPage,
    TextsToReembed,
    Vector,
)
from reme_core.rules import check_vector, write_value
from reme_core.schema import Memory
from reme_core.stores._cursors import check_limit
from reme_core.stores.sql.bookkeeping import ITEMS, Layer
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.embedding_record import find_embedding, find_target, set_embedding, set_target
from reme_core.stores.sql.items.item_rows import rows_by_items, value_of_row
from reme_core.stores.sql.new_vectors import NewVectorOf
from reme_core.stores.sql.row_conditions import texts_of_message

_SCOPES = "(SELECT scope FROM scopes WHERE memory_space = ?)"
_NAMESPACES = "(SELECT ns FROM item_namespaces WHERE memory_space = ?)"
# Of each kind: its table, key, version, what says that it is of the space, and the table of its old vectors by its key.
_KINDS = {
    NewVectorOf.MESSAGE: ("messages", "seq", "0", f"+messages.scope IN {_SCOPES}", "message_vectors", "seq"),
    NewVectorOf.MEMORY: (
        "memories",
        "row",
        "memories.revision",
        f"+memories.scope IN {_SCOPES}",
        "memory_vectors",
        "row",
    ),
    NewVectorOf.ITEM: ("items", "item", "items.updated", f"+items.ns IN {_NAMESPACES}", "item_vectors", "item"),
}
_CLEARED = 1_000
_KEY = re.compile(r"([123])\.([0-9]{1,18})\.([0-9]{1,18})(?:\.([0-9]{1,4}))?", re.ASCII)
_CURSOR = re.compile(r"([123])\.([0-9]{1,18})", re.ASCII)


def begin(connection: SqlConnection, memory_space: str, target: IndexedBy) -> None:
    """Record where the change goes, unless that stands there; see `Store.begin_reembedding`."""
    found = find_target(connection, memory_space)
    if found is None:
        while clear(connection, memory_space):  # what a change left behind that was killed at its end
            pass
        set_target(connection, memory_space, target)
    elif found != target:
        raise _under_way(found, memory_space)


def progress(connection: SqlConnection, memory_space: str, target: IndexedBy) -> Reembedding:
    """Return how far a change is."""
    total = sum(_count(connection, memory_space, kind, lacking=False) for kind in NewVectorOf)
    lacking = sum(_count(connection, memory_space, kind, lacking=True) for kind in NewVectorOf)
    before = find_embedding(connection, memory_space)
    return Reembedding(before=before, done=total if before == target else total - lacking, total=total)


def _count(connection: SqlConnection, memory_space: str, kind: NewVectorOf, *, lacking: bool) -> int:
    where = _having(kind) + (f" AND NOT {_done(kind)}" if lacking else "")
    query = f"SELECT count(*) FROM {_KINDS[kind][0]} WHERE {where}"  # noqa: S608  # fixed texts
    return int(connection.execute(query, (memory_space,)).fetchone()[0])


def _having(kind: NewVectorOf) -> str:
    """Return the condition that a row is of the space and has an old vector."""
    table, key, _, of_space, old, old_key = _KINDS[kind]
    return f"{of_space} AND EXISTS (SELECT 1 FROM {old} WHERE {old}.{old_key} = {table}.{key})"  # noqa: S608


def _done(kind: NewVectorOf, *, usable: bool = False) -> str:
    """Return the condition that a row has a new vector, of what it says now; or was given up, if that will do."""
    table, key, stamp, *_ = _KINDS[kind]
    return (
        f"EXISTS (SELECT 1 FROM new_vectors AS fresh WHERE fresh.kind = {int(kind)}"  # noqa: S608
        f" AND fresh.row = {table}.{key} AND fresh.stamp = {stamp}{' AND length(fresh.vector) > 0' if usable else ''})"
    )


def texts(connection: SqlConnection, memory_space: str, page: ReembedPage) -> TextsToReembed:
    """Return texts that have an old vector and no new one; see `Store.texts_to_reembed`."""
    check_limit(page.limit)
    first, after = _read_cursor(page.cursor)
    if find_target(connection, memory_space) is None:
        return TextsToReembed(texts=(), items=(), cursor=None)
    found: list[PendingText] = []
    items: list[PendingText] = []
    for kind in NewVectorOf:
        if kind < first:
            continue
        rows = _lacking(
            connection, memory_space, kind, after if kind == first else 0, page.limit - len(found) - len(items)
        )
        for row, stamp in rows:
            pending = _pending(connection, kind, row, stamp)
            (items if kind is NewVectorOf.ITEM else found).extend(pending)
            if len(found) + len(items) >= page.limit:
                return TextsToReembed(texts=found, items=items, cursor=f"{int(kind)}.{row}")
    return TextsToReembed(texts=found, items=items, cursor=None)


def _lacking(
    connection: SqlConnection, memory_space: str, kind: NewVectorOf, after: int, limit: int
) -> Sequence[tuple[int, int]]:
    table, key, stamp, *_ = _KINDS[kind]
    return connection.execute(
        f"SELECT {key}, {stamp} FROM {table} WHERE {table}.{key} > ? AND {_having(kind)} AND NOT {_done(kind)}"  # noqa: S608
        f" ORDER BY {table}.{key} LIMIT ?",
        (after, memory_space, limit),
    ).fetchall()


def _pending(connection: SqlConnection, kind: NewVectorOf, row: int, stamp: int) -> list[PendingText]:
    key = f"{int(kind)}.{row}.{stamp}"
    match kind:
        case NewVectorOf.MESSAGE:
            said = texts_of_message(connection, row)
            return [PendingText(key=f"{key}.{place}", text=text) for place, text in enumerate(said)]
        case NewVectorOf.MEMORY:
            (body,) = connection.execute("SELECT body FROM memories WHERE row = ?", (row,)).fetchone()
            return [PendingText(key=key, text=Memory.model_validate_json(body).index_text)]
        case NewVectorOf.ITEM:
            value, _ = value_of_row(connection, rows_by_items(connection, [row])[row])
            return [PendingText(key=key, text=write_value(value, f"item {row}"))]


def put(connection: SqlConnection, memory_space: str, new: NewVectors) -> None:
    """Keep vectors of the new model; see `Store.put_new_vectors`."""
    if not _is_under_way(connection, memory_space, new.target):
        return
    rows: dict[tuple[int, int, int], list[tuple[int, Vector | None]]] = {}
    for place, item in enumerate(new.vectors):
        kind, row, stamp, passage = _read_key(item)
        vector = None if item.vector is None else check_vector(item.vector, "a new vector")
        if vector is not None and len(vector) != new.target.dimension:
            raise DimensionMismatchError(expected=new.target.dimension, found=len(vector), what="a new vector")
        rows.setdefault((kind, row, stamp), []).append((place if passage is None else passage, vector))
    for (kind, row, stamp), vectors in rows.items():
        blob = _one_blob([vector for _, vector in sorted(vectors, key=lambda pair: pair[0])], NewVectorOf(kind))
        _put_one(connection, memory_space, NewVectorOf(kind), row, stamp, blob)


def _one_blob(vectors: Sequence[Vector | None], kind: NewVectorOf) -> bytes:
    """Return vectors one behind the other; of a message zeros stand for a passage that has none."""
    there = [vector for vector in vectors if vector is not None]
    if not there:
        return b""
    if kind is NewVectorOf.MESSAGE:
        there = [np.zeros_like(there[0]) if vector is None else vector for vector in vectors]
    return b"".join(vector.tobytes() for vector in there)


def _put_one(
    connection: SqlConnection, memory_space: str, kind: NewVectorOf, row: int, stamp: int, blob: bytes
) -> None:
    table, key, *_ = _KINDS[kind]
    scope = "erased_with" if kind is NewVectorOf.ITEM else "scope"
    connection.execute(
        "INSERT INTO new_vectors (memory_space, kind, row, stamp, scope, vector)"  # noqa: S608  # fixed texts
        f" SELECT ?, ?, {key}, ?, {scope}, ? FROM {table} WHERE {table}.{key} = ? AND {_KINDS[kind][3]}"
        " ON CONFLICT (memory_space, kind, row) DO UPDATE SET stamp = excluded.stamp, vector = excluded.vector",
        (memory_space, int(kind), stamp, blob, row, memory_space),
    )


def end(connection: SqlConnection, memory_space: str, target: IndexedBy | None) -> bool:
    """Swap the vectors, or give the change up; see `Store.end_reembedding`."""
    if target is not None:
        if not _is_under_way(connection, memory_space, target):
            return True
        if _count(connection, memory_space, NewVectorOf.ITEM, lacking=True):
            return False
        for kind in (NewVectorOf.MESSAGE, NewVectorOf.MEMORY):
            _swap(connection, memory_space, kind)
        _swap_items(connection, memory_space)
        _leave_gaps(connection, memory_space)
        set_embedding(connection, memory_space, target)
    set_target(connection, memory_space, None)
    return True


def clear(connection: SqlConnection, memory_space: str) -> bool:
    """Remove some new vectors that are of no use any more; return whether there may be more of them."""
    if find_target(connection, memory_space) is not None:
        return False  # somebody has begun another change
    gone = connection.execute(
        "DELETE FROM new_vectors WHERE (kind, row) IN"
        " (SELECT kind, row FROM new_vectors WHERE memory_space = ? LIMIT ?) AND memory_space = ?",
        (memory_space, _CLEARED, memory_space),
    )
    return gone.rowcount == _CLEARED


def _swap(connection: SqlConnection, memory_space: str, kind: NewVectorOf) -> None:
    """Put the new vectors of messages or memories over the old ones; what lacks one, waits for it."""
    table, key, _, _, old, old_key = _KINDS[kind]
    lacking = f"{_having(kind)} AND NOT {_done(kind)}"
    connection.execute(f"UPDATE {table} SET waits = ? WHERE {lacking}", (True, memory_space))  # noqa: S608
    useless = f"SELECT {key} FROM {table} WHERE {_having(kind)} AND NOT {_done(kind, usable=True)}"  # noqa: S608
    connection.execute(f"DELETE FROM {old} WHERE {old_key} IN ({useless})", (memory_space,))  # noqa: S608
    connection.execute(
        f"UPDATE {old} SET vector = fresh.vector FROM new_vectors AS fresh"  # noqa: S608
        f" WHERE fresh.memory_space = ? AND fresh.kind = {int(kind)} AND fresh.row = {old}.{old_key}",
        (memory_space,),
    )


def _swap_items(connection: SqlConnection, memory_space: str) -> None:
    target = find_target(connection, memory_space)
    assert target is not None  # noqa: S101  # `end` has checked it
    size = 4 * target.dimension
    rows = connection.execute(
        f"SELECT fresh.row, fresh.vector FROM new_vectors AS fresh JOIN items ON items.item = fresh.row"  # noqa: S608
        f" WHERE fresh.memory_space = ? AND fresh.kind = {int(NewVectorOf.ITEM)} AND fresh.stamp = items.updated",
        (memory_space,),
    )
    for item, blob in rows.fetchall():
        connection.execute("DELETE FROM item_vectors WHERE item = ?", (item,))
        parts = [(item, blob[start : start + size]) for start in range(0, len(blob), size)]
        connection.executemany("INSERT INTO item_vectors (item, data) VALUES (?, ?)", parts)


def _leave_gaps(connection: SqlConnection, memory_space: str) -> None:
    """Have the logs of a space begin behind what any reader has seen."""
    for layers, owners in ((f"{int(Layer.MESSAGES)}, {int(Layer.MEMORIES)}", _SCOPES), (str(ITEMS), _NAMESPACES)):
        of_space = f"layer IN ({layers}) AND owner IN {owners}"
        connection.execute(
            "INSERT INTO row_changes (owner, layer, change, row)"  # noqa: S608  # fixed texts
            f" SELECT owner, layer, max(change) + 2, 0 FROM row_changes WHERE {of_space} GROUP BY owner, layer",
            (memory_space,),
        )
        connection.execute(
            f"DELETE FROM row_changes WHERE {of_space} AND EXISTS (SELECT 1 FROM row_changes AS later WHERE"  # noqa: S608
            " later.owner = row_changes.owner AND later.layer = row_changes.layer"
            " AND later.change > row_changes.change)",
            (memory_space,),
        )


def _is_under_way(connection: SqlConnection, memory_space: str, target: IndexedBy) -> bool:
    """Tell whether a change goes on; not where another process has ended it meanwhile (ConflictError: nobody has)."""
    found = find_target(connection, memory_space)
    if found is None and find_embedding(connection, memory_space) == target:
        return False
    if found is None:
        msg = (
            f"no change of the embedding model of memory space {memory_space!r} is under way: it ended, or was given up"
        )
        raise ConflictError(msg)
    if found != target:
        raise _under_way(found, memory_space)
    return True


def _under_way(found: IndexedBy, memory_space: str) -> ConflictError:
    return ConflictError(
        f"the vectors of memory space {memory_space!r} are being changed to {found.model!r} ({found.dimension} "
        "dimensions): finish that with `reme reembed` and the same model, or give it up with `reme reembed --abandon`"
    )


def _read_key(item: MessageVector) -> tuple[int, int, int, int | None]:
    key = item.pending.key
    found = _KEY.fullmatch(key)
    if found is None:
        msg = f"key: {key!r:.40} is not one of this store: hand back what texts_to_reembed gave"
        raise InvalidInputError(msg)
    return int(found[1]), int(found[2]), int(found[3]), None if found[4] is None else int(found[4])


def _read_cursor(cursor: str | None) -> tuple[int, int]:
    found = _CURSOR.fullmatch(cursor or f"{int(NewVectorOf.MESSAGE)}.0")
    if found is None:
        msg = f"cursor: {cursor!r:.40} is none of this store: pass that of the page before, or None"
        raise InvalidInputError(msg)
    return int(found[1]), int(found[2])
