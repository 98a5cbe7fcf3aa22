"""Removing a whole scope so that nothing of it can be read from the file."""

from __future__ import annotations

import sqlite3

from reme_core.errors import StoreUnavailableError
from reme_core.schema import Erased, Scope
from reme_core.stores.local.file.scope_numbers import Layer, find_scope, forget_changes
from reme_core.stores.local.items.row_links import remove_items_of_scope

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
