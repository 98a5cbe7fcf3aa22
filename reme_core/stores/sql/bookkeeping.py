"""Bookkeeping of each write beside its rows: numbers of scopes, and the log of changes.

A partition is a layer of a scope, or the items of a namespace. Its changes have numbers of their own, 1, 2, 3 and so on
without a gap, so that nothing that happens elsewhere in the file is ever looked at to follow it. The newest numbers are
kept: a quarter of all, but at least 64 and at most 20,000 of a partition. A reader that is further behind loads the
partition anew, which then takes no longer than to take over so many changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from enum import IntEnum
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from reme_core.schema import NO_STATEMENTS, Scope
from reme_core.stores.sql.connection import LogKept, NewTexts, SqlConnection, Statements

_KEPT_SHARE = 4
_FEWEST_KEPT = 64
_MOST_KEPT = 20_000
_PRUNE_EVERY = 64
_Words: TypeAlias = Sequence[Sequence[str]]

_SINCE_YEAR_1 = (date(1970, 1, 1).toordinal() - 1) * 86_400
ITEMS = 4
"""Beside the layers of a scope, in the log: the items of a namespace, whose number stands in place of a scope's."""


class Layer(IntEnum):
    """What a partition of a scope holds."""

    MESSAGES = 1
    BLOCKS = 2
    MEMORIES = 3


def find_scope(connection: SqlConnection, scope: Scope) -> int | None:
    """Return the number of a scope, None if nothing was ever stored in it."""
    known = connection.dialect.known_scope(connection, scope)
    return look_up_scope(connection, scope) if known is None else known


def look_up_scope(connection: Statements, scope: Scope) -> int | None:
    """Return what `find_scope` does, of any connection."""
    row = connection.execute(
        "SELECT scope FROM scopes WHERE memory_space = ? AND user_id = ?", (scope.memory_space, scope.user_id)
    ).fetchone()
    return None if row is None else int(row[0])


def make_scope_number(connection: Statements, scope: Scope) -> int:
    """Return the number of a scope, a new one for a new scope."""
    number = look_up_scope(connection, scope)
    if number is not None:
        return number
    made = connection.execute(
        "INSERT INTO scopes (memory_space, user_id) VALUES (?, ?) RETURNING scope", (scope.memory_space, scope.user_id)
    )
    return int(made.fetchone()[0])


def enter_scope(connection: SqlConnection, scope: Scope) -> int:
    """Return what `make_scope_number` does; an engine that knows the number isn't asked for it."""
    number = find_scope(connection, scope)
    return make_scope_number(connection, scope) if number is None else number


def find_session(connection: Statements, scope: int, session_id: str) -> int | None:
    """Return the number of a session, None if it has neither messages nor offloads."""
    row = connection.execute(
        "SELECT session FROM sessions WHERE scope = ? AND session_id = ?", (scope, session_id)
    ).fetchone()
    return None if row is None else int(row[0])


def session_asked(connection: Statements, scope: int, session_id: str | None) -> int | None:
    """Return the number of a session that is asked for, one that no session has for an unknown one; None: of all."""
    if session_id is None:
        return None
    number = find_session(connection, scope, session_id)
    return -1 if number is None else number


def make_session_number(connection: SqlConnection, scope: int, session_id: str) -> int:
    """Return the number of a session, a new one for a new session."""
    number = find_session(connection, scope, session_id)
    return make_session(connection, scope, session_id) if number is None else number


def make_session(connection: SqlConnection, scope: int, session_id: str) -> int:
    """Return the number of a session that was not found."""
    return insert_row(connection, "sessions", {"scope": scope, "session_id": session_id})


def log_changes(connection: SqlConnection, owner: int, layer: int, rows: Iterable[int]) -> None:
    """Note that rows of a partition were added, changed or removed, within the transaction that does it."""
    if changed := list(rows):
        connection.dialect.log_changes(connection, owner, int(layer), changed, _log_kept())


def _log_kept() -> LogKept:
    return LogKept(share=_KEPT_SHARE, fewest=_FEWEST_KEPT, most=_MOST_KEPT, prune_every=_PRUNE_EVERY)


def insert_messages(
    connection: SqlConnection, scope: int, columns: Sequence[str], rows: Sequence[Sequence[object]], words: _Words
) -> Iterable[int]:
    """Insert messages with their terms, and log them; see `Dialect.insert_texts` for the numbers."""
    new = NewTexts("messages", "seq", tuple(columns), rows, words, scope, Layer.MESSAGES)
    return connection.dialect.insert_texts(connection, new, _log_kept())


def insert_memory(
    connection: SqlConnection, scope: int, columns: Mapping[str, object], words: Sequence[str]
) -> Iterable[int]:
    """Insert a memory as `insert_messages` does messages."""
    new = NewTexts("memories", "row", tuple(columns), [tuple(columns.values())], [words], scope, Layer.MEMORIES)
    return connection.dialect.insert_texts(connection, new, _log_kept())


def begin_anew(connection: Statements, owner: int, layer: int) -> None:
    """Have whoever follows a partition load it anew: more has changed than is worth a log."""
    newest = newest_change(connection, owner, layer)
    forget_changes(connection, owner, [layer])
    # A number is left out, so that no reader is at the one before.
    connection.execute(
        "INSERT INTO row_changes (owner, layer, change, row) VALUES (?, ?, ?, 0)", (owner, int(layer), newest + 2)
    )


def newest_change(connection: Statements, owner: int, layer: int) -> int:
    """Return the number of the newest change of a partition, 0 if there was none."""
    (newest,) = connection.execute(
        "SELECT max(change) FROM row_changes WHERE owner = ? AND layer = ?", (owner, layer)
    ).fetchone()
    return int(newest or 0)


def find_newest_change(connection: SqlConnection, scope: Scope, layer: Layer) -> tuple[int, int] | None:
    """Return the number of a scope and that of the newest change of a layer; None as `find_scope` does."""
    known = connection.dialect.known_scope(connection, scope)
    if known is not None:
        return known, newest_change(connection, known, layer)
    row = connection.execute(
        "SELECT scope, (SELECT max(change) FROM row_changes WHERE owner = scopes.scope AND layer = ?) FROM scopes"
        " WHERE memory_space = ? AND user_id = ?",
        (int(layer), scope.memory_space, scope.user_id),
    ).fetchone()
    return None if row is None else (int(row[0]), int(row[1] or 0))


def changed_since(connection: Statements, owner: int, layer: int, seen: int) -> list[int] | None:
    """Return the rows of a partition that changed after a change, in order; None if the log begins later."""
    if not _reaches_back(connection, owner, layer, seen):
        return None
    rows = connection.execute(
        "SELECT DISTINCT row FROM row_changes WHERE owner = ? AND layer = ? AND change > ? ORDER BY row",
        (owner, layer, seen),
    )
    return [row for (row,) in rows]


def changes_after(connection: Statements, owner: int, layer: int, seen: int, limit: int) -> list[tuple[int, int]]:
    """Return the next changes of a partition after one, by number and row; none if the log begins later."""
    if not _reaches_back(connection, owner, layer, seen):
        return []
    return connection.execute(
        "SELECT change, row FROM row_changes WHERE owner = ? AND layer = ? AND change > ? ORDER BY change LIMIT ?",
        (owner, layer, seen, limit),
    ).fetchall()


def _reaches_back(connection: Statements, owner: int, layer: int, seen: int) -> bool:
    (oldest,) = connection.execute(
        "SELECT min(change) FROM row_changes WHERE owner = ? AND layer = ?", (owner, layer)
    ).fetchone()
    return oldest is not None and oldest <= seen + 1


def forget_changes(connection: Statements, owner: int, layers: Iterable[int]) -> None:
    """Remove the log of partitions whose owner goes for good: its number is never given again."""
    connection.executemany(
        "DELETE FROM row_changes WHERE owner = ? AND layer = ?", [(owner, int(layer)) for layer in layers]
    )


_KEYS = {
    "sessions": "session",
    "messages": "seq",
    "blocks": "block",
    "memories": "row",
    "events": "sequence",
    "jobs": "job",
    "offloads": "offload",
    "offload_passages": "passage",
    "item_namespaces": "ns",
    "items": "item",
}


def insert_row(connection: SqlConnection, table: str, columns: Mapping[str, object]) -> int:
    """Insert a row; return its number. The names are ours, the values bound."""
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608
    return connection.dialect.insert_one(connection, statement, _KEYS[table], tuple(columns.values()))


def put_once(connection: Statements, name: str, value: str) -> None:
    """Record a value that belongs to no scope, unless there is one of this name."""
    connection.execute("INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO NOTHING", (name, value))


def list_users(connection: SqlConnection, memory_space: str, after: str, limit: int) -> list[str]:
    """Return users of a memory space by name, those behind one of them; `""` is the shared scope."""
    rows = connection.execute(
        "SELECT user_id FROM scopes WHERE memory_space = ? AND user_id > ? ORDER BY user_id LIMIT ?",
        (memory_space, after, limit),
    )
    return [user_id for (user_id,) in rows]


class SessionRow(NamedTuple):
    """A session: its number, which grows, its id, how many messages it has, and when the first and last were said."""

    number: int
    session_id: str
    messages: int
    first_at: float | None
    last_at: float | None


def list_sessions(connection: SqlConnection, scope: Scope, before: int | None, limit: int) -> list[SessionRow]:
    """Return sessions of a scope, the newest first; those before a number."""
    number = find_scope(connection, scope)
    rows = connection.execute(
        "SELECT session, session_id, (SELECT count(*) FROM messages WHERE messages.session = sessions.session),"
        " (SELECT said_at FROM messages WHERE messages.session = sessions.session ORDER BY seq LIMIT 1),"
        " (SELECT said_at FROM messages WHERE messages.session = sessions.session ORDER BY seq DESC LIMIT 1)"
        " FROM sessions WHERE scope = ? AND session < ? ORDER BY session DESC LIMIT ?",
        (-1 if number is None else number, 1 << 62 if before is None else before, limit),
    )
    return [SessionRow(*row) for row in rows]


def count_days(connection: SqlConnection, scope: Scope) -> tuple[dict[date, int], dict[date, int]]:
    """Count the messages, and the memories of every state, of a scope by the day (UTC) on which they were said."""
    number = find_scope(connection, scope)
    others = ", ".join(f"'{kind}'" for kind in sorted(NO_STATEMENTS))
    memories = f"memory_type NOT IN ({others}) AND "
    return (
        _days_of(connection, "messages", "said_at", number),
        _days_of(connection, "memories", "observed_at", number, memories),
    )


def _days_of(
    connection: SqlConnection, table: str, column: str, scope: int | None, wanted: str = ""
) -> dict[date, int]:
    # A cast rounds in one engine and cuts off in the other; days are counted from the year 1, so that none is negative.
    second = f"CAST({column} AS BIGINT) - CASE WHEN CAST({column} AS BIGINT) > {column} THEN 1 ELSE 0 END"
    rows = connection.execute(
        f"SELECT ({second} + {_SINCE_YEAR_1}) / 86400 + 1, count(*) FROM {table} WHERE {wanted}scope = ?"  # noqa: S608
        " GROUP BY 1 ORDER BY 1",
        (scope,),
    )
    return {date.fromordinal(int(day)): count for day, count in rows}


_FIND_ROW = {
    Layer.MEMORIES: "SELECT row FROM memories WHERE scope = ? AND memory_id = ?",
    Layer.MESSAGES: "SELECT seq FROM messages WHERE scope = ? AND message_id = ?",
    Layer.BLOCKS: "SELECT block FROM blocks WHERE scope = ? AND block_id = ?",
}


def find_rows(connection: SqlConnection, scope: int, layer: Layer, name: str) -> npt.NDArray[np.int64]:
    """Return the row number of what has an id, (1,), or none of them, (0,)."""
    return np.array([row for (row,) in connection.execute(_FIND_ROW[layer], (scope, name))], np.int64)
