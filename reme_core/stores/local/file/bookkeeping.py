"""Bookkeeping of each write beside its rows: numbers of scopes, the log of changes, words, digests.

A partition is a layer of a scope, or the items of a namespace. Its changes have numbers of their own, 1, 2, 3 and so on
without a gap, so that nothing that happens elsewhere in the file is ever looked at to follow it. The newest numbers are
kept: a quarter of all, but at least 64 and at most 20,000 of a partition. A reader that is further behind loads the
partition anew, which then takes no longer than to take over so many changes.

Triggers of the writing connections keep the digests, in the same transaction. They are temporary ones, since the
function that they call lives in this process: the schema holds a plain table, which any SQLite can read and write.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Literal

from reme_core.errors import DimensionMismatchError
from reme_core.ports import Vector
from reme_core.schema import Scope
from reme_core.text import query_terms

_KEPT_SHARE = 4
_FEWEST_KEPT = 64
_MOST_KEPT = 20_000
_PRUNE_EVERY = 64

ITEMS = 4
"""Beside the layers of a scope, in the log: the items of a namespace, whose number stands in place of a scope's."""


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


def session_asked(connection: sqlite3.Connection, scope: int, session_id: str | None) -> int | None:
    """Return the number of a session that is asked for, one that no session has for an unknown one; None: of all."""
    if session_id is None:
        return None
    number = find_session(connection, scope, session_id)
    return -1 if number is None else number


def make_session_number(connection: sqlite3.Connection, scope: int, session_id: str) -> int:
    """Return the number of a session, a new one for a new session."""
    number = find_session(connection, scope, session_id)
    if number is not None:
        return number
    cursor = connection.execute("INSERT INTO sessions (scope, session_id) VALUES (?, ?)", (scope, session_id))
    return int(cursor.lastrowid or 0)


def log_changes(connection: sqlite3.Connection, owner: int, layer: int, rows: Iterable[int]) -> None:
    """Note that rows of a partition were added, changed or removed, within the transaction that does it."""
    before = newest_change(connection, owner, layer)
    logged = [(owner, layer, number, row) for number, row in enumerate(rows, before + 1)]
    connection.executemany("INSERT INTO row_changes VALUES (?, ?, ?, ?)", logged)
    after = before + len(logged)
    if before // _PRUNE_EVERY != after // _PRUNE_EVERY:
        kept = min(max(after // _KEPT_SHARE, _FEWEST_KEPT), _MOST_KEPT)
        connection.execute(
            "DELETE FROM row_changes WHERE owner = ? AND layer = ? AND change <= ?", (owner, layer, after - kept)
        )


def newest_change(connection: sqlite3.Connection, owner: int, layer: int) -> int:
    """Return the number of the newest change of a partition, 0 if there was none."""
    (newest,) = connection.execute(
        "SELECT max(change) FROM row_changes WHERE owner = ? AND layer = ?", (owner, layer)
    ).fetchone()
    return int(newest or 0)


def changed_since(connection: sqlite3.Connection, owner: int, layer: int, seen: int) -> list[int] | None:
    """Return the rows of a partition that changed after a change, in order; None if the log begins later."""
    if not _reaches_back(connection, owner, layer, seen):
        return None
    rows = connection.execute(
        "SELECT DISTINCT row FROM row_changes WHERE owner = ? AND layer = ? AND change > ? ORDER BY row",
        (owner, layer, seen),
    )
    return [row for (row,) in rows]


def changes_after(
    connection: sqlite3.Connection, owner: int, layer: int, seen: int, limit: int
) -> list[tuple[int, int]]:
    """Return the next changes of a partition after one, by number and row; none if the log begins later."""
    if not _reaches_back(connection, owner, layer, seen):
        return []
    return connection.execute(
        "SELECT change, row FROM row_changes WHERE owner = ? AND layer = ? AND change > ? ORDER BY change LIMIT ?",
        (owner, layer, seen, limit),
    ).fetchall()


def _reaches_back(connection: sqlite3.Connection, owner: int, layer: int, seen: int) -> bool:
    (oldest,) = connection.execute(
        "SELECT min(change) FROM row_changes WHERE owner = ? AND layer = ?", (owner, layer)
    ).fetchone()
    return oldest is not None and oldest <= seen + 1


def forget_changes(connection: sqlite3.Connection, owner: int, layers: Iterable[int]) -> None:
    """Remove the log of partitions whose owner goes for good: its number is never given again."""
    connection.executemany(
        "DELETE FROM row_changes WHERE owner = ? AND layer = ?", [(owner, int(layer)) for layer in layers]
    )


def insert_row(connection: sqlite3.Connection, table: str, columns: Mapping[str, object]) -> int:
    """Insert a row; return its number. The names are ours, the values bound."""
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    cursor = connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(columns.values()))  # noqa: S608
    return int(cursor.lastrowid or 0)


def stored_dimension(connection: sqlite3.Connection) -> int | None:
    """Return the dimension of the vectors in the file, None while there are none."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'dimension'").fetchone()
    return None if row is None else int(row[0])


def claim_dimension(connection: sqlite3.Connection, dimension: int, what: str) -> None:
    """Make this the dimension of the file, if it has none yet.

    Raises:
        DimensionMismatchError: It has another one.
    """
    expected = stored_dimension(connection)
    if expected is None:
        connection.execute("INSERT INTO meta VALUES ('dimension', ?)", (str(dimension),))
    elif expected != dimension:
        raise DimensionMismatchError(expected=expected, found=dimension, what=what)


def check_dimension(connection: sqlite3.Connection, vector: Vector | None, what: str) -> None:
    """Refuse a query's vector of another dimension than that of the file (DimensionMismatchError)."""
    expected = stored_dimension(connection)
    if vector is not None and expected is not None and len(vector) != expected:
        raise DimensionMismatchError(expected=expected, found=len(vector), what=what)


WordTable = Literal["message_words", "memory_words", "offload_words"]


def has_word_tables(connection: sqlite3.Connection) -> bool:
    """Tell whether the file has full-text tables; one that a build without FTS5 made has none and is scanned."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'message_words'").fetchone() is not None


def add_words(connection: sqlite3.Connection, table: WordTable, scope: int, row: int, words: Sequence[str]) -> None:
    """Index the terms of a row, in a file that has full-text tables."""
    if has_word_tables(connection):
        connection.execute(
            f"INSERT INTO {table} (rowid, scope, words) VALUES (?, ?, ?)",  # noqa: S608  # a closed set of names
            (row, f"s{scope}", " ".join(words)),
        )


def remove_words(connection: sqlite3.Connection, table: WordTable, rows: Iterable[int]) -> None:
    """Take rows out of the index, in a file that has full-text tables."""
    if has_word_tables(connection):
        connection.executemany(f"DELETE FROM {table} WHERE rowid = ?", ((row,) for row in rows))  # noqa: S608  # as above


def match_expression(scope: int, keyword: str) -> str:
    """Return the full-text query for every word of a keyword, which has some, in one scope."""
    return match_terms(scope, dict.fromkeys(query_terms(keyword)))


def match_terms(scope: int, words: Iterable[str]) -> str:
    """Return the full-text query for all of some terms, of which there is at least one, in one scope."""
    return f'scope : "s{scope}" AND words : ({" AND ".join(map(_quoted, words))})'


def match_near(scope: int, words: Iterable[str], reach: int) -> str:
    """Return the full-text query for two terms with at most `reach` others between them, in either order."""
    return f'scope : "s{scope}" AND words : NEAR({" ".join(map(_quoted, words))}, {reach})'


def match_phrase(scope: int, words: Iterable[str]) -> str:
    """Return the full-text query for terms one behind the other."""
    return f'scope : "s{scope}" AND words : {_quoted(" ".join(words))}'


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


DIGESTED = (
    ("messages", "seq", ("body",)),
    ("blocks", "block", ("body",)),
    ("memories", "row", ("body",)),
    ("events", "sequence", ("before", "after", "reason")),
    ("jobs", "job", ("body",)),
    ("offloads", "offload", ("info", "text")),
    ("tool_calls", "call", ("body",)),
    ("items", "item", ("value",)),
)
"""Tables, their keys, and the columns whose text is digested. Their order is part of the file: `kind` counts them."""

DIGEST_TABLE = """CREATE TABLE row_digests (
    kind INTEGER NOT NULL, row INTEGER NOT NULL, digest INTEGER NOT NULL, PRIMARY KEY (kind, row)) WITHOUT ROWID"""


def digest_of(*texts: str | bytes | None) -> int:
    """Return the CRC-32 of texts, which tells any single changed byte."""
    digest = 0
    for text in texts:
        data = b"\0" if text is None else text if isinstance(text, bytes) else str(text).encode("utf-8", "replace")
        digest = zlib.crc32(data, digest)
    return digest


def _prepare_function(connection: sqlite3.Connection) -> None:
    connection.create_function("reme_digest", -1, digest_of, deterministic=True)


def keep_digests(connection: sqlite3.Connection) -> None:
    """Have a writing connection keep the digest of each row that it writes."""
    _prepare_function(connection)
    for kind, (table, key, texts) in enumerate(DIGESTED):
        values = ", ".join(f"new.{text}" for text in texts)
        write = f"INSERT OR REPLACE INTO row_digests VALUES ({kind}, new.{key}, reme_digest({values}))"  # noqa: S608
        for event, work in (
            ("INSERT", write),
            (f"UPDATE OF {', '.join(texts)}", write),
            ("DELETE", f"DELETE FROM row_digests WHERE kind = {kind} AND row = old.{key}"),  # noqa: S608
        ):
            name = f"digest_{event.partition(' ')[0]}_{table}"
            connection.execute(f"CREATE TEMP TRIGGER {name} AFTER {event} ON main.{table} BEGIN {work}; END")


def fill_digests(connection: sqlite3.Connection) -> None:
    """Write the digests of all rows anew, from what they hold now, within a transaction."""
    _prepare_function(connection)
    connection.execute("DELETE FROM row_digests")
    for kind, (table, key, texts) in enumerate(DIGESTED):
        connection.execute(
            f"INSERT INTO row_digests SELECT {kind}, {key}, reme_digest({', '.join(texts)}) FROM {table}"  # noqa: S608
        )
