"""A whole scope: counted, and removed so that nothing of it can be read from the file."""

from __future__ import annotations

import sqlite3

from reme_core.errors import StoreUnavailableError
from reme_core.ports import Counts, Target
from reme_core.schema import Erased, MemoryType, Scope
from reme_core.stores.local.file.scope_numbers import Layer, find_scope, forget_changes
from reme_core.stores.local.items.row_links import remove_items_of_scope
from reme_core.stores.local.offload_rows import count_offloads


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


ERASED_WITH = "erased_with"
"""The column of an adapter's table that holds the number of the scope whose end is that of the row, or NULL."""

_COUNTED = ("memories", "messages", "blocks", "events", "jobs", "offloads", "tool_calls")
# Whose words, the table that holds their row numbers, and its column.
_WITH_WORDS = (
    ("message", "messages", "seq"),
    ("memory", "memories", "row"),
    ("offload", "offload_passages", "passage"),
)
_UNCOUNTED = ("offload_passages", "offload_holds", "offload_holders", "sessions", "scopes")


def erase_rows(connection: sqlite3.Connection, scope: Scope, *, fts5: bool) -> Erased:
    """Delete every row of a scope, its name and the marks of it in the change log, within a transaction."""
    number = find_scope(connection, scope)
    if number is None:
        return Erased()
    counts = {
        table: int(connection.execute(f"SELECT count(*) FROM {table} WHERE scope = ?", (number,)).fetchone()[0])  # noqa: S608
        for table in _COUNTED
    }
    remove_items_of_scope(connection, number)
    for words, table, key in _WITH_WORDS:
        rows = f"SELECT {key} FROM {table} WHERE scope = ?"  # noqa: S608  # a closed set of names
        if words != "offload":
            connection.execute(f"DELETE FROM {words}_vectors WHERE {key} IN ({rows})", (number,))  # noqa: S608
        if fts5:
            connection.execute(f"DELETE FROM {words}_words WHERE rowid IN ({rows})", (number,))  # noqa: S608
            # Deleting from FTS5 leaves the words in older segments until these are merged.
            connection.execute(f"INSERT INTO {words}_words ({words}_words) VALUES ('optimize')")  # noqa: S608
    for table in _of_adapters(connection):
        connection.execute(f'DELETE FROM "{table}" WHERE {ERASED_WITH} = ?', (number,))  # noqa: S608
    forget_changes(connection, number, Layer)
    for table in (*_COUNTED, *_UNCOUNTED):
        connection.execute(f"DELETE FROM {table} WHERE scope = ?", (number,))  # noqa: S608
    return Erased(**counts)


def _of_adapters(connection: sqlite3.Connection) -> list[str]:
    """Return the tables, made by adapters, whose rows go with a scope."""
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND EXISTS"
        " (SELECT 1 FROM pragma_table_info(sqlite_master.name) AS field WHERE field.name = ?)",
        (ERASED_WITH,),
    )
    return [name.replace('"', '""') for (name,) in rows]


def purge_log(connection: sqlite3.Connection, path: str) -> None:
    """Write the file anew, then cut the write-ahead log to nothing: it still holds pages as they were.

    `secure_delete` clears what is deleted, but not the copies that stay in the gaps of a page when SQLite moves rows to
    another one; only a new file has none. 264 MB (100,000 messages with vectors) take 1.3 s.

    Raises:
        StoreUnavailableError: Another process is reading; the rows are gone, the log is not yet.
    """
    connection.execute("VACUUM")
    (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        msg = (
            f"the scope is deleted, but another process kept the write-ahead log of {path!r} in use, "
            "which still holds old pages: call again to clear it"
        )
        raise StoreUnavailableError(msg)
