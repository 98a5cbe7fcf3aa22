"""Changes of memories: pages of them for an index outside the file, and counts of their uses.

Counts stand in the body alone, which is read by its row: no event, no words and no vector know of them, so the indexes
in memory need no notice either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from reme_core.errors import InvalidInputError, MemoryNotFoundError
from reme_core.ports import ChangesPage, ChangesQuery, IndexEntry, UseMemory, Vector
from reme_core.rules import used
from reme_core.schema import Memory, Scope, new_id
from reme_core.stores._cursors import check_limit
from reme_core.stores.sql.bookkeeping import Layer, changes_after, find_scope, newest_change, put_once
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.memory_rows import find_memory

_NAME = "file_id"
_COLUMNS = (
    "SELECT row, body, vector FROM memories LEFT JOIN memory_vectors USING (row)"
    " WHERE memories.scope = ? AND ranked AND row"
)


@dataclass(frozen=True, slots=True)
class _Position:
    """How far an index is.

    Attributes:
        file: The file, so that an index of another one begins anew.
        scope: The scope's number, which it loses when it is erased.
        change: The number of the last change that was taken over.
        row: Beyond which memories are still to be read for the first time; 0: none are.
    """

    file: str
    scope: int
    change: int = 0
    row: int = 0

    def __str__(self) -> str:
        return f"{self.file}.{self.scope}.{self.change}.{self.row}"


def find_file_id(connection: SqlConnection) -> str | None:
    """Return what tells this file from others, None as long as nobody has asked for it."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (_NAME,)).fetchone()
    return None if row is None else str(row[0])


def claim_file_id(connection: SqlConnection) -> str:
    """Return what tells this file from others, made now if nobody has asked before."""
    put_once(connection, _NAME, new_id())
    return find_file_id(connection) or ""


def memory_changes(connection: SqlConnection, file: str, scope: Scope, query: ChangesQuery) -> ChangesPage:
    """Return a page of changes; see `Store.memory_changes`."""
    check_limit(query.limit)
    number = find_scope(connection, scope) or 0
    page = _page(connection, file, number, query)
    if not query.with_total:
        return page
    (total,) = connection.execute("SELECT count(*) FROM memories WHERE scope = ? AND ranked", (number,)).fetchone()
    return replace(page, total=total)


def _page(connection: SqlConnection, file: str, number: int, query: ChangesQuery) -> ChangesPage:
    asked = _read(query.position)
    newest = newest_change(connection, number, Layer.MEMORIES)
    begin = _Position(file, number, newest, 0)
    is_ours = asked is not None and (asked.file, asked.scope) == (file, number) and asked.change <= newest
    if asked is not None and is_ours:
        if asked.row:
            return _whole_page(connection, asked, query.limit, starts_over=False)
        logged = changes_after(connection, number, Layer.MEMORIES, asked.change, query.limit)
        if asked.change == newest or logged:
            return _changed_page(connection, asked, logged, query.limit)
    return _whole_page(connection, begin, query.limit, starts_over=True)


def _changed_page(
    connection: SqlConnection, asked: _Position, logged: list[tuple[int, int]], limit: int
) -> ChangesPage:
    """Return the memories of rows that changed, as they are now."""
    rows = list(dict.fromkeys(row for _, row in logged))
    among = f"IN ({', '.join('?' * len(rows))})"
    entries = [_entry(row) for row in connection.execute(f"{_COLUMNS} {among}", (asked.scope, *rows))]
    there = {entry.key for entry in entries}
    last = logged[-1][0] if logged else asked.change
    return ChangesPage(
        entries=entries,
        gone=[str(row) for row in rows if str(row) not in there],
        position=str(_Position(asked.file, asked.scope, last)),
        starts_over=False,
        is_last=len(logged) < limit,
    )


def _whole_page(connection: SqlConnection, begin: _Position, limit: int, *, starts_over: bool) -> ChangesPage:
    """Return the next memories of all there are; what changes meanwhile comes after them."""
    rows = connection.execute(f"{_COLUMNS} > ? ORDER BY row LIMIT ?", (begin.scope, begin.row, limit)).fetchall()
    is_last = len(rows) < limit
    position = _Position(begin.file, begin.scope, begin.change, 0 if is_last else rows[-1][0])
    return ChangesPage(
        entries=[_entry(row) for row in rows],
        gone=(),
        position=str(position),
        starts_over=starts_over,
        is_last=is_last,
    )


def _entry(row: tuple[int, str, bytes | None]) -> IndexEntry:
    key, body, blob = row
    vector: Vector | None = None if blob is None else np.frombuffer(blob, "<f4").astype(np.float32)
    return IndexEntry(key=str(key), memory=Memory.model_validate_json(body), vector=vector)


def _read(position: str | None) -> _Position | None:
    if position is None:
        return None
    try:
        file, scope, change, row = position.split(".")
        return _Position(file, int(scope), int(change), int(row))
    except ValueError as exc:
        msg = f"position: {position!r:.60} is none of this store: pass that of the page before, or None"
        raise InvalidInputError(msg) from exc


def record_uses(connection: SqlConnection, scope: Scope, uses: Sequence[UseMemory]) -> list[Memory]:
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
