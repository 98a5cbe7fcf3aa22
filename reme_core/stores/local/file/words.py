"""Full-text queries of the file: FTS5 over terms that our own segmentation cut, where the build of SQLite has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reme_core.stores.sql.connection import Statements, WordTable


def has_word_tables(connection: Statements) -> bool:
    """Tell whether the file has full-text tables; one that a build without FTS5 made has none and is scanned."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'message_words'").fetchone() is not None


def add_words(connection: Statements, table: WordTable, scope: int, row: int, words: Sequence[str]) -> None:
    """Index the terms of a row, in a file that has full-text tables."""
    if has_word_tables(connection):
        connection.execute(
            f"INSERT INTO {table} (rowid, scope, words) VALUES (?, ?, ?)",  # noqa: S608  # a closed set of names
            (row, f"s{scope}", " ".join(words)),
        )


def remove_words(connection: Statements, table: WordTable, rows: Iterable[int]) -> None:
    """Take rows out of the index, in a file that has full-text tables."""
    if has_word_tables(connection):
        connection.executemany(f"DELETE FROM {table} WHERE rowid = ?", ((row,) for row in rows))  # noqa: S608  # as above


def match_terms(scope: int, words: Iterable[str]) -> str:
    """Return the full-text query for all of some terms, of which there is at least one, in one scope."""
    return f'scope : "s{scope}" AND words : ({" AND ".join(map(_quoted, dict.fromkeys(words)))})'


def match_near(scope: int, words: Iterable[str], reach: int) -> str:
    """Return the full-text query for two terms with at most `reach` others between them, in either order."""
    return f'scope : "s{scope}" AND words : NEAR({" ".join(map(_quoted, words))}, {reach})'


def match_phrase(scope: int, words: Iterable[str]) -> str:
    """Return the full-text query for terms one behind the other."""
    return f'scope : "s{scope}" AND words : {_quoted(" ".join(words))}'


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'
