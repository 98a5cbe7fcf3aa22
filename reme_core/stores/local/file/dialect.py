"""The dialect of SQLite, and the connection that knows it."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar, cast

from reme_core.schema import Scope
from reme_core.stores.local.file.purging import mark_pages
from reme_core.stores.local.file.words import (
    add_words,
    has_word_tables,
    match_near,
    match_phrase,
    match_terms,
    remove_words,
)
from reme_core.stores.sql.bookkeeping import make_scope_number
from reme_core.stores.sql.connection import (
    EVENT_COLUMNS,
    Boundary,
    Cursor,
    LogKept,
    NewTexts,
    PassagePostings,
    Statements,
    WordPair,
    WordTable,
)
from reme_core.stores.sql.segment_anew import WORD_TABLE_NAMES

_UNCOUNTED = ("call",)  # the numbers of these rows may be given again


class SqliteDialect:
    """The `Dialect` of SQLite; see its namesakes there."""

    is_file: ClassVar[bool] = True

    def number_of(self, connection: Statements, scope: Scope) -> int:
        """Look it up, or make it: a transaction is alone with the file."""
        return make_scope_number(connection, scope)

    def insert_one(self, connection: Statements, statement: str, key: str, values: Sequence[object]) -> int:
        """Insert a row; the connection knows the number of the last one."""
        del key
        return cast("sqlite3.Connection", connection).execute(statement, values).lastrowid or 0

    def insert_many(
        self,
        connection: Statements,
        table: str,
        key: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
    ) -> Sequence[int]:
        """Insert rows; their numbers follow each other, since a transaction is alone with the file."""
        if not rows:
            return range(0)
        marks = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608  # names of ours
        connection.executemany(statement, rows)
        (last,) = connection.execute("SELECT last_insert_rowid()").fetchone()
        return range(last - len(rows) + 1, last + 1)

    def insert_texts(self, connection: Statements, new: NewTexts, kept: LogKept) -> Sequence[int]:
        """Do it now, one after the other."""
        numbers = self.insert_many(connection, new.table, new.key, new.columns, new.rows)
        for row, words in zip(numbers, new.words, strict=True):
            table: WordTable = "message_words" if new.table == "messages" else "memory_words"
            add_words(connection, table, new.owner, row, words)
        if numbers:
            self.log_changes(connection, new.owner, new.layer, numbers, kept)
        return numbers

    def known_scope(self, connection: Statements, scope: Scope) -> int | None:
        """Know none: to look one up takes no longer."""
        del connection, scope
        return None

    def log_changes(
        self, connection: Statements, owner: int, layer: int, changed: Sequence[int], kept: LogKept
    ) -> None:
        """Write the first row, which finds the number, then the others; prune where a multiple was passed."""
        (number,) = connection.execute(
            "INSERT INTO row_changes (owner, layer, change, row) SELECT ?, ?, coalesce(max(change), 0) + 1, ?"
            " FROM row_changes WHERE owner = ? AND layer = ? RETURNING change",
            (owner, layer, changed[0], owner, layer),
        ).fetchone()
        if len(changed) > 1:
            others = [(owner, layer, change, row) for change, row in enumerate(changed[1:], number + 1)]
            connection.executemany("INSERT INTO row_changes (owner, layer, change, row) VALUES (?, ?, ?, ?)", others)
        before, after = number - 1, number - 1 + len(changed)
        if before // kept.prune_every != after // kept.prune_every:
            last = after - min(max(after // kept.share, kept.fewest), kept.most)
            connection.execute(
                "DELETE FROM row_changes WHERE owner = ? AND layer = ? AND change <= ?", (owner, layer, last)
            )

    def add_event(self, connection: Statements, columns: Sequence[object]) -> None:
        """Insert it."""
        connection.execute(f"INSERT INTO events ({EVENT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", columns)  # noqa: S608

    def lock_namespaces(self, connection: Statements, namespaces: Collection[int]) -> None:
        """Nothing: a transaction that writes is alone with the file."""

    def within(self, connection: Statements, boundary: Boundary) -> AbstractContextManager[None]:
        """Do nothing: a file has no boundaries."""
        del connection, boundary
        return nullcontext()

    def renew(self, connection: Statements) -> None:
        """End the snapshot and begin a new one."""
        connection.execute("COMMIT")
        connection.execute("BEGIN")

    def stream(self, connection: Statements, sql: str, parameters: Sequence[object]) -> Cursor:
        """Run a query: each row is computed as it is read."""
        return connection.execute(sql, parameters)

    def along(self, index: str) -> str:
        """Name the index."""
        return f" INDEXED BY {index}"

    def json_text(self, column: str, key: str) -> str:
        """Extract a text."""
        return f"json_extract({column}, '$.{key}')"

    def holds(self, column: str) -> str:
        """Look for a text."""
        return f"instr({column}, ?)"

    def metadata_is(self, key: str, value: float | str | bool | None) -> tuple[str, list[object]]:  # noqa: FBT001
        """Compare one key with JSON's types."""
        match value:
            case None:
                test, bound = "type = 'null'", list[object]()
            case bool():
                test, bound = "type = ?", ["true" if value else "false"]
            case int() | float():
                test, bound = "type IN ('integer', 'real') AND atom = ?", [value]
            case _:
                test, bound = "type = 'text' AND atom = ?", [value]
        condition = f"EXISTS (SELECT 1 FROM json_each(body, '$.metadata') WHERE key = ? AND {test})"  # noqa: S608
        return condition, [key, *bound]

    def word_tables(self, connection: Statements) -> Sequence[WordTable]:
        """Return the full-text tables, if the file has them."""
        return WORD_TABLE_NAMES if has_word_tables(connection) else ()

    def table_names(self, connection: Statements) -> list[str]:
        """Return the tables but those of SQLite itself, and of its full-text indexes."""
        rows = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
        )
        return [str(name) for (name,) in rows if not str(name).startswith(WORD_TABLE_NAMES)]

    def set_aside(self, connection: Statements, table: str, key: str, highest: int) -> int:
        """Move the counter of a table; one that has none begins behind its rows."""
        counted = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        (newest,) = connection.execute(f"SELECT max({key}) FROM {table}").fetchone()  # noqa: S608  # names of ours
        higher = max(counted[0] if counted else 0, newest or 0)
        if counted:
            connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (higher + highest, table))
        elif key not in _UNCOUNTED:
            connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, highest))
        return higher

    def add_words(self, connection: Statements, table: WordTable, scope: int, row: int, words: Sequence[str]) -> None:
        """Index the terms of a row, in a file that has full-text tables."""
        add_words(connection, table, scope, row, words)

    def remove_words(self, connection: Statements, table: WordTable, rows: Iterable[int]) -> None:
        """Take rows out of the index, in a file that has full-text tables."""
        remove_words(connection, table, rows)

    def with_words(
        self, connection: Statements, table: WordTable, column: str, scope: int, words: Sequence[str]
    ) -> tuple[str, list[object]] | None:
        """Ask the full-text table, if the file has one."""
        if not has_word_tables(connection):
            return None
        condition = f"{column} IN (SELECT rowid FROM {table} WHERE {table} MATCH ?)"  # noqa: S608  # a closed set of names
        return condition, [match_terms(scope, words)]

    def postings(
        self, connection: Statements, scope: int, words: Sequence[str], pairs: Sequence[WordPair], *, reach: int
    ) -> PassagePostings | None:
        """Ask the full-text table, if the file has one: once for each word, and twice for each pair."""
        if not has_word_tables(connection):
            return None

        def matching(expression: str) -> list[int]:
            query = "SELECT rowid FROM offload_words WHERE offload_words MATCH ?"
            return [row for (row,) in connection.execute(query, (expression,))]

        return PassagePostings(
            {word: matching(match_terms(scope, [word])) for word in words},
            [row for pair in pairs for row in matching(match_near(scope, pair, reach))],
            [row for pair in pairs for row in matching(match_phrase(scope, pair))],
        )

    def note_erasure(self, connection: Statements) -> None:
        """Mark that pages are to be cleared."""
        mark_pages(connection)


class FileConnection(sqlite3.Connection):
    """A connection to a memory file."""

    dialect: ClassVar[SqliteDialect] = SqliteDialect()
