"""The full-text tables: which rows hold every word of a keyword."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Literal

from reme_core.text import query_terms

WordTable = Literal["message_words", "memory_words"]


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
    quoted = " AND ".join('"' + word.replace('"', '""') + '"' for word in dict.fromkeys(query_terms(keyword)))
    return f'scope : "s{scope}" AND words : ({quoted})'
