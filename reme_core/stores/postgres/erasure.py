"""Removal of a whole scope in one transaction."""

from __future__ import annotations

from reme_core.schema import Erased, Scope
from reme_core.stores.postgres.tables import SCOPED
from reme_core.stores.sql.bookkeeping import Layer, find_scope, forget_changes
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.items.row_links import items_of_scope, remove_items_of_scope

_COUNTED = ("memories", "messages", "blocks", "events", "jobs", "offloads", "tool_calls", "sessions")


def erase_rows(connection: SqlConnection, scope: Scope) -> Erased:
    """Delete the rows of a scope, its items, and its name; tell how many there were."""
    number = find_scope(connection, scope)
    if number is None:
        return Erased()
    items = len(items_of_scope(connection, number))
    remove_items_of_scope(connection, number)
    counts = {
        table: connection.execute(f"DELETE FROM {table} WHERE scope = ?", (number,)).rowcount  # noqa: S608  # our names
        for table in SCOPED
    }
    forget_changes(connection, number, Layer)
    connection.execute("DELETE FROM scopes WHERE scope = ?", (number,))
    return Erased(**{table: counts[table] for table in _COUNTED}, store_items=items)
