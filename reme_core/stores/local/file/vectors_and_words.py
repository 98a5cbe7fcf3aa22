"""Vectors and words on their way into the file and out: float32 of one dimension, and the full-text tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from reme_core.errors import DimensionMismatchError
from reme_core.ports import Vector
from reme_core.text import query_terms


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
    """Index the terms of a row."""
    connection.execute(
        f"INSERT INTO {table} (rowid, scope, words) VALUES (?, ?, ?)",  # noqa: S608  # a closed set of names
        (row, f"s{scope}", " ".join(words)),
    )


def remove_words(connection: sqlite3.Connection, table: WordTable, rows: Iterable[int]) -> None:
    """Take rows out of the index."""
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
