"""Removal of a whole scope in one transaction, and the files that are noted to go with it."""

from __future__ import annotations

from pathlib import Path

from reme_core.ports.items import SERVICE_SPACE
from reme_core.schema import Erased, Scope
from reme_core.stores.postgres.tables import SCOPED
from reme_core.stores.sql.bookkeeping import Layer, find_scope, forget_changes
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.items.row_links import items_of_scope, remove_items_of_scope

_COUNTED = ("memories", "messages", "blocks", "events", "jobs", "offloads", "tool_calls", "sessions")


def erase_rows(connection: SqlConnection, scope: Scope, service_lock: int) -> Erased:
    """Delete the rows of a scope, its items, those of adapters, and its name; tell how many there were.

    What a service has noted of it, in a space of its own, goes as well; `service_lock` is that of writers there.
    """
    number = find_scope(connection, scope)
    if number is None:
        return Erased()
    # Adapters write in transactions of the whole space: those that name this scope hold its row until they end.
    connection.execute("SELECT 1 FROM scopes WHERE scope = ? FOR UPDATE", (number,))
    connection.execute("DELETE FROM new_vectors WHERE scope = ?", (number,))
    items = _remove_items(connection, number)
    connection.execute("SELECT pg_advisory_xact_lock(?)", (service_lock,))  # nobody notes anything more meanwhile
    with connection.dialect.within(connection, SERVICE_SPACE):
        items += _remove_items(connection, number)
    of_adapters = _erase_of_adapters(connection, number)
    counts = {
        table: connection.execute(f"DELETE FROM {table} WHERE scope = ?", (number,)).rowcount  # noqa: S608  # our names
        for table in SCOPED
    }
    forget_changes(connection, number, Layer)
    connection.execute("DELETE FROM scopes WHERE scope = ?", (number,))
    return Erased(
        **{table: counts[table] for table in _COUNTED},
        store_items=items,
        adapter_rows={name: count for name, count in of_adapters.items() if count},
    )


def _remove_items(connection: SqlConnection, number: int) -> int:
    items = len(items_of_scope(connection, number))
    remove_items_of_scope(connection, number)
    return items


def _erase_of_adapters(connection: SqlConnection, number: int) -> dict[str, int]:
    """Delete the rows of adapters that go with a scope; tell how many each table had, and each view of such rows."""
    rows = connection.execute(
        "SELECT relname, relkind = 'v' FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid"
        " WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v') AND relname <> 'items'"
        " AND attname = 'erased_with' AND NOT attisdropped ORDER BY relkind = 'v' DESC, relname"
    ).fetchall()
    counts = dict[str, int]()
    for name, is_view in rows:  # views first: they tell of rows that go with those of tables
        place = str(name).replace('"', '""')
        what = "SELECT 1 FROM" if is_view else "DELETE FROM"
        counts[name] = connection.execute(f'{what} "{place}" WHERE erased_with = ?', (number,)).rowcount
    return counts


def note_file(connection: SqlConnection, scope: Scope, path: Path) -> None:
    """Note that a file, or a folder with all in it, goes with a scope, if there is such a scope."""
    number = find_scope(connection, scope)
    if number is not None:
        statement = "INSERT INTO scope_files (scope, path) VALUES (?, ?) ON CONFLICT DO NOTHING"
        connection.execute(statement, (number, str(path.absolute())))


def forget_file(connection: SqlConnection, scope: Scope, path: Path) -> None:
    """Take a note back: the file is no more, or belongs to the user."""
    statement = "DELETE FROM scope_files WHERE scope = ? AND path = ?"
    connection.execute(statement, (find_scope(connection, scope), str(path.absolute())))


def noted_files(connection: SqlConnection, scope: Scope) -> list[Path]:
    """Return what was noted of a scope, on whatever machine."""
    rows = connection.execute("SELECT path FROM scope_files WHERE scope = ?", (find_scope(connection, scope),))
    return [Path(path) for (path,) in rows]
