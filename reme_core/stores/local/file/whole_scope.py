"""A whole scope, removed so that nothing of it can be read from the file; and the scopes that there are."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from reme_core.schema import Erased, Scope
from reme_core.stores.local.file.dialect import FileConnection
from reme_core.stores.local.file.purging import mark_erased
from reme_core.stores.sql.bookkeeping import look_up_scope
from reme_core.stores.sql.connection import Statements
from reme_core.stores.sql.count_scope import count_rows
from reme_core.stores.sql.items.row_links import items_of_scope, remove_items_of_scope


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldScope:
    """A scope of the file, and how much is kept in it."""

    scope: Scope
    memories: int
    messages: int


def list_scopes(connection: Statements) -> list[HeldScope]:
    """Return all scopes of the file, or of the space that a transaction is about, by space and user."""
    rows = connection.execute(
        "SELECT memory_space, user_id, (SELECT count(*) FROM memories WHERE memories.scope = scopes.scope),"
        " (SELECT count(*) FROM messages WHERE messages.scope = scopes.scope) FROM scopes ORDER BY 1, 2"
    )
    return [
        HeldScope(scope=Scope(memory_space=space, user_id=user), memories=memories, messages=messages)
        for space, user, memories, messages in rows
    ]


ERASED_WITH = "erased_with"
"""The column of an adapter's table that holds the number of the scope whose end is that of the row, or NULL.

A view of an adapter that has it tells of rows that go by a trigger, so that they are counted.
"""

_COUNTED = ("memories", "messages", "blocks", "events", "jobs", "offloads", "tool_calls", "sessions", "blobs")


def erase_name(connection: FileConnection, scope: Scope) -> Erased:
    """Make a scope unfindable for good, within a transaction: its items and rows of adapters go, the rest is marked.

    What is marked is cleared by a `Purge`.
    """
    number = look_up_scope(connection, scope)
    if number is None:
        return Erased()
    counts = {
        table: count_rows(connection, f"SELECT count(*) FROM {table} WHERE scope = ?", number)  # noqa: S608
        for table in _COUNTED
    }
    items = len(items_of_scope(connection, number))
    remove_items_of_scope(connection, number)
    of_adapters = _of_adapters(connection)
    rows = {
        name: count_rows(connection, f'SELECT count(*) FROM "{name}" WHERE {ERASED_WITH} = ?', number)  # noqa: S608
        for name in of_adapters
    }
    for table, kind in of_adapters.items():
        if kind == "table":
            connection.execute(f'DELETE FROM "{table}" WHERE {ERASED_WITH} = ?', (number,))  # noqa: S608
    mark_erased(connection, number)
    return Erased(**counts, store_items=items, adapter_rows={name: count for name, count in rows.items() if count})


def _of_adapters(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the tables and views, made by adapters, whose rows go with a scope, and which of both each is."""
    rows = connection.execute(
        "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name <> 'items' AND EXISTS"
        " (SELECT 1 FROM pragma_table_info(sqlite_master.name) AS field WHERE field.name = ?)",
        (ERASED_WITH,),
    )
    return {name.replace('"', '""'): kind for name, kind in rows}
