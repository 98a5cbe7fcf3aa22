"""Numbers of scopes and sessions, and the log of what changed in each partition."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from enum import IntEnum

from reme_core.schema import Scope

# Readers that are further behind load their partition anew, so the log needn't grow with the file.
_KEPT_CHANGES = 20_000
_PRUNE_EVERY = 1_000


class Layer(IntEnum):
    """What a partition of a scope holds."""

    MESSAGES = 1
    BLOCKS = 2
    MEMORIES = 3


def find_scope(connection: sqlite3.Connection, scope: Scope) -> int | None:
    """Return the number of a scope, None if nothing was ever stored in it."""
    row = connection.execute(
        "SELECT scope FROM scopes WHERE memory_space = ? AND user_id = ?", (scope.memory_space, scope.user_id)
    ).fetchone()
    return None if row is None else int(row[0])


def make_scope_number(connection: sqlite3.Connection, scope: Scope) -> int:
    """Return the number of a scope, a new one for a new scope."""
    number = find_scope(connection, scope)
    if number is not None:
        return number
    cursor = connection.execute(
        "INSERT INTO scopes (memory_space, user_id) VALUES (?, ?)", (scope.memory_space, scope.user_id)
    )
    return int(cursor.lastrowid or 0)


def find_session(connection: sqlite3.Connection, scope: int, session_id: str) -> int | None:
    """Return the number of a session, None if it has neither messages nor offloads."""
    row = connection.execute(
        "SELECT session FROM sessions WHERE scope = ? AND session_id = ?", (scope, session_id)
    ).fetchone()
    return None if row is None else int(row[0])


def make_session_number(connection: sqlite3.Connection, scope: int, session_id: str) -> int:
    """Return the number of a session, a new one for a new session."""
    number = find_session(connection, scope, session_id)
    if number is not None:
        return number
    cursor = connection.execute("INSERT INTO sessions (scope, session_id) VALUES (?, ?)", (scope, session_id))
    return int(cursor.lastrowid or 0)


def log_changes(connection: sqlite3.Connection, scope: int, layer: Layer, rows: Iterable[int]) -> None:
    """Note that rows of a partition were added, changed or removed, within the transaction that does it."""
    logged = [(scope, int(layer), row) for row in rows]
    if not logged:
        return
    connection.executemany("INSERT INTO changes (scope, layer, row) VALUES (?, ?, ?)", logged)
    (after,) = connection.execute("SELECT last_insert_rowid()").fetchone()
    if (after - len(logged)) // _PRUNE_EVERY != after // _PRUNE_EVERY:
        connection.execute("DELETE FROM changes WHERE change <= ?", (after - _KEPT_CHANGES,))


def last_change(connection: sqlite3.Connection) -> int:
    """Return the number of the newest change, 0 if there was none."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").fetchone()
    return 0 if row is None else int(row[0])
