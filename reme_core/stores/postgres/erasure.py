"""Removal of a whole scope in one transaction, and the files that are noted to go with it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from platform import node
from typing import cast

from reme_core.schema import Erased, Scope
from reme_core.stores.postgres.adapter_tables import COUNTED_BESIDE
from reme_core.stores.postgres.connection import PgConnection
from reme_core.stores.postgres.tables import SCOPED
from reme_core.stores.sql.bookkeeping import Layer, find_scope, forget_changes
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.items.row_links import remove_with_namespaces

_COUNTED = ("memories", "messages", "blocks", "events", "jobs", "offloads", "tool_calls", "sessions", "blobs")


def erase_rows(connection: SqlConnection, scope: Scope) -> Erased:
    """Delete the rows of a scope, its items, those of adapters, and its name; tell how many there were.

    What is noted of it in other spaces, as services do, goes as well; who writes that waits for the same lock.
    """
    number = find_scope(connection, scope)
    if number is None:
        return Erased()
    # Adapters write in transactions of the whole space: those that name this scope hold its row until they end.
    connection.execute("SELECT 1 FROM scopes WHERE scope = ? FOR UPDATE", (number,))
    connection.execute("DELETE FROM new_vectors WHERE scope = ?", (number,))
    elsewhere = _files_elsewhere(connection, number)
    connection.execute(
        "INSERT INTO files_left (host, path) SELECT host, path FROM scope_files WHERE scope = ? ON CONFLICT DO NOTHING",
        (number,),
    )
    items = _remove_items(connection, scope, number)
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
        files_elsewhere=elsewhere,
        adapter_rows={name: count for name, count in of_adapters.items() if count},
    )


def _remove_items(connection: SqlConnection, scope: Scope, number: int) -> int:
    """Remove the items of a scope, in whatever space they lie; return how many there were."""
    rows = connection.execute(
        "SELECT memory_space, item, ns FROM items WHERE erased_with = ?"
        " OR memory_row IN (SELECT row FROM memories WHERE scope = ?) ORDER BY memory_space",
        (number, number),
    ).fetchall()
    for space, found in groupby(rows, key=itemgetter(0)):
        elsewhere = space != scope.memory_space
        if elsewhere:
            cast("PgConnection", connection).lock_beside(space)
        with connection.dialect.within(connection, space) if elsewhere else nullcontext():
            remove_with_namespaces(connection, [(item, ns) for _, item, ns in found])
    return len(rows)


def _erase_of_adapters(connection: SqlConnection, number: int) -> dict[str, int]:
    """Delete the rows of adapters that go with a scope; tell how many each table had, and each view of such rows."""
    rows = connection.execute(
        "SELECT relname, relkind = 'v' FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid"
        " WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v') AND relname <> 'items'"
        " AND attname = 'erased_with' AND NOT attisdropped ORDER BY relkind = 'v' DESC, relname"
    ).fetchall()
    counts = {name: connection.execute(query, (number,)).rowcount for name, query in COUNTED_BESIDE.items()}
    for name, is_view in rows:  # views first: they tell of rows that go with those of tables
        place = str(name).replace('"', '""')
        what = "SELECT 1 FROM" if is_view else "DELETE FROM"
        counts[name] = connection.execute(f'{what} "{place}" WHERE erased_with = ?', (number,)).rowcount
    return counts


def note_file(connection: SqlConnection, scope: Scope, path: Path) -> None:
    """Note that a file of this machine, or a folder with all in it, goes with a scope, if there is such a scope."""
    number = find_scope(connection, scope)
    if number is not None:
        statement = "INSERT INTO scope_files (scope, host, path) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        connection.execute(statement, (number, node(), str(path.absolute())))


def forget_file(connection: SqlConnection, scope: Scope, path: Path) -> None:
    """Take a note back: the file is no more, or belongs to the user."""
    statement = "DELETE FROM scope_files WHERE scope = ? AND host = ? AND path = ?"
    connection.execute(statement, (find_scope(connection, scope), node(), str(path.absolute())))


def _files_elsewhere(connection: SqlConnection, number: int) -> list[str]:
    """Return what other machines noted of a scope, as `machine:path`."""
    rows = connection.execute(
        "SELECT host, path FROM scope_files WHERE scope = ? AND host <> ? ORDER BY host, path", (number, node())
    )
    return [f"{host}:{path}" for host, path in rows]


def files_left(connection: SqlConnection) -> list[Path]:
    """Return the files of this machine that are still to be removed, as their scopes were erased.

    One that a scope of the space has noted anew is in use, and goes with that scope.
    """
    rows = connection.execute(
        "SELECT path FROM files_left WHERE host = ? AND NOT EXISTS (SELECT 1 FROM scope_files AS noted"
        " WHERE noted.host = files_left.host AND noted.path_digest = files_left.path_digest) ORDER BY path",
        (node(),),
    )
    return [Path(path) for (path,) in rows]


def forget_left(connection: SqlConnection, paths: Sequence[Path]) -> None:
    """Forget files that were removed."""
    connection.executemany(
        "DELETE FROM files_left WHERE host = ? AND path = ?", [(node(), str(path)) for path in paths]
    )
