"""The dialect of PostgreSQL.

Words are found by their packed hashes (`pack_terms`), which stand in the rows: row level security keeps the planner
from indexes over arrays or text-search vectors, and a scope's rows are few enough to be looked through.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from itertools import chain
from typing import ClassVar, Final, cast

import numpy as np
from psycopg.errors import InsufficientPrivilege

from reme_core.errors import StoreAccessError
from reme_core.retrieval import BoolArray, IntArray
from reme_core.schema import Scope
from reme_core.stores.postgres.connection import PgConnection, Stream
from reme_core.stores.postgres.translate import array
from reme_core.stores.sql.connection import (
    Boundary,
    LogKept,
    NewTexts,
    PassagePostings,
    Statements,
    WordPair,
    WordTable,
)
from reme_core.text import pack_terms, unpack_terms

_WORDS_OF = {
    "message_words": "messages.terms",
    "memory_words": "memories.terms",
    "offload_words": "offload_words.terms",
}


class PostgresDialect:
    """The `Dialect` of PostgreSQL; see its namesakes there."""

    is_file: ClassVar[bool] = False

    def number_of(self, connection: Statements, scope: Scope) -> int:
        """Look it up and hold its row, or make it; again where others have made or erased it in between."""
        name = (scope.memory_space, scope.user_id)
        while True:
            for statement in (_HELD_SCOPE, _NEW_SCOPE):
                found = connection.execute(statement, name).fetchone()
                if found is not None:
                    return int(found[0])

    def insert_one(self, connection: Statements, statement: str, key: str, values: Sequence[object]) -> int:
        """Insert a row that returns its number."""
        return int(connection.execute(f"{statement} RETURNING {key}", values).fetchone()[0])

    def insert_many(
        self, connection: Statements, table: str, key: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> Sequence[int]:
        """Insert rows, some at a time; the numbers of one statement rise in the order of its rows."""
        numbers: list[int] = []
        marks = f"({', '.join('?' * len(columns))})"
        for start in range(0, len(rows), _SOME):
            some = rows[start : start + _SOME]
            values = ", ".join([marks] * len(some))
            statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {values} RETURNING {key}"  # noqa: S608
            found = connection.execute(statement, [value for row in some for value in row]).fetchall()
            numbers += sorted(number for (number,) in found)
        return numbers

    def insert_texts(self, connection: Statements, new: NewTexts, kept: LogKept) -> Iterator[int]:
        """Insert and log them by one statement, some at a time, for whose numbers nobody has to wait."""
        inserted = [
            connection.execute(
                _inserting(new[:3], len(some)), [*chain.from_iterable(some), new.owner, new.layer, *kept]
            )
            for some in (new.rows[start : start + _SOME] for start in range(0, len(new.rows), _SOME))
        ]
        return (number for rows in inserted for (number,) in rows)

    def known_scope(self, connection: Statements, scope: Scope) -> int | None:
        """Return what was looked up when the transaction began."""
        return cast("PgConnection", connection).known_scope(scope)

    def log_changes(
        self, connection: Statements, owner: int, layer: int, changed: Sequence[int], kept: LogKept
    ) -> None:
        """Have a function of the schema do it, which nobody waits for."""
        cast("PgConnection", connection).call_later("reme_log", (owner, layer, array(changed), *kept))

    def add_event(self, connection: Statements, columns: Sequence[object]) -> None:
        """Have a function do it, as above."""
        cast("PgConnection", connection).call_later("reme_add_event", columns)

    def lock_namespaces(self, connection: Statements, namespaces: Collection[int]) -> None:
        """Take the locks of their paths, in the order in which all take them."""
        ours = cast("PgConnection", connection)
        if namespaces and ours.is_of_scope:  # a writer of items has them
            where = "WHERE ns IN (SELECT value FROM json_each(?))"
            asked = f"SELECT memory_space, path FROM item_namespaces {where}"  # noqa: S608  # a fixed text
            ours.lock_paths(ours.execute(asked, (str(list(namespaces)),)).fetchall())

    def within(self, connection: Statements, boundary: Boundary) -> AbstractContextManager[None]:
        """Set another boundary, and then the one before."""
        return cast("PgConnection", connection).within(boundary)

    def renew(self, connection: Statements) -> None:
        """End the snapshot and begin a new one."""
        cast("PgConnection", connection).renew()

    def stream(self, connection: Statements, sql: str, parameters: Sequence[object]) -> Stream:
        """Run a query whose rows stay in the server until they are read."""
        return cast("PgConnection", connection).stream(sql, parameters)

    def along(self, index: str) -> str:
        """Leave the choice to the planner."""
        del index
        return ""

    def json_text(self, column: str, key: str) -> str:
        """Extract a text, escaped as the texts that it is compared with are; see adapters.py."""
        return f"replace({column}::json ->> '{key}', chr(1), chr(1) || chr(2))"

    def holds(self, column: str) -> str:
        """Look for a text."""
        return f"strpos({column}, ?) > 0"

    def metadata_is(self, key: str, value: float | str | bool | None) -> tuple[str, list[object]]:  # noqa: FBT001
        """Compare one key with JSON's types."""
        found = "(body::json -> 'metadata' -> ?::text)"
        match value:
            case None:
                return f"json_typeof{found} = 'null'", [key]
            case bool():
                return f"{found}::text = ?", [key, "true" if value else "false"]
            case float() if not math.isfinite(value):
                return "false", []  # JSON has no such number
            case int() | float():
                # Exactly, as SQLite and Python do: a whole number as it stands, another one as the float that it is.
                whole = str(int(value)) if value == int(value) else None
                as_float = repr(float(value)) if value == float(value) else None
                is_equal = (
                    f"CASE WHEN {found}::text ~ '[.eE]' THEN {found}::text::float8 = ?::text::float8"
                    f" ELSE {found}::text::numeric = ?::text::numeric END"
                )
                return f"CASE json_typeof{found} WHEN 'number' THEN {is_equal} ELSE false END", [
                    *[key] * 3,
                    as_float,
                    key,
                    whole,
                ]
            case _:
                text = "body::json -> 'metadata' ->> ?::text"
                return f"json_typeof{found} = 'string' AND {text} = ?", [key, key, value]

    def word_tables(self, connection: Statements) -> Sequence[WordTable]:
        """Return that of passages; other rows hold their own terms."""
        del connection
        return ("offload_words",)

    def table_names(self, connection: Statements) -> list[str]:
        """Return the tables of the schema."""
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        return [str(name) for (name,) in rows]

    def set_aside(self, connection: Statements, table: str, key: str, highest: int) -> int:
        """Move the sequence of a table, as its owner: nobody takes a number of it meanwhile."""
        (name,) = connection.execute("SELECT pg_get_serial_sequence(?, ?)", (table, key)).fetchone()
        try:
            connection.execute(f"ALTER SEQUENCE {name} NO CYCLE")  # changes nothing, and locks it
            cast("PgConnection", connection).flush()
        except InsufficientPrivilege as exc:
            msg = f"the role may not set numbers of {name} aside: copy as the role that owns the tables"
            raise StoreAccessError(msg) from exc
        last, is_taken = connection.execute(f"SELECT last_value, is_called FROM {name}").fetchone()  # noqa: S608  # ours
        higher = int(last) if is_taken else int(last) - 1
        connection.execute(f"ALTER SEQUENCE {name} RESTART WITH {higher + highest + 1}")
        return higher

    def add_words(self, connection: Statements, table: WordTable, scope: int, row: int, words: Sequence[str]) -> None:
        """Keep the terms of a passage; those of other rows stand in them."""
        if table == "offload_words":
            statement = "INSERT INTO offload_words (row, scope, terms) VALUES (?, ?, ?)"
            connection.execute(statement, (row, scope, pack_terms(words)))

    def remove_words(self, connection: Statements, table: WordTable, rows: Iterable[int]) -> None:
        """Remove the terms of passages."""
        if table == "offload_words":
            statement = "DELETE FROM offload_words WHERE row IN (SELECT value FROM json_each(?))"
            connection.execute(statement, (str(list(rows)),))

    def with_words(
        self, connection: Statements, table: WordTable, column: str, scope: int, words: Sequence[str]
    ) -> tuple[str, list[object]] | None:
        """Look for the hash of each word among those of the row."""
        del connection, column, scope  # the row is looked at itself, and the query names its scope
        wanted = list(dict.fromkeys(words))
        return " AND ".join([_holding(_WORDS_OF[table])] * len(wanted)), [pack_terms([word]) for word in wanted]

    def postings(
        self, connection: Statements, scope: int, words: Sequence[str], pairs: Sequence[WordPair], *, reach: int
    ) -> PassagePostings | None:
        """Read the passages that hold a word, and look where in them the words stand."""
        hashes = {word: pack_terms([word]) for word in words}
        some = " OR ".join([_holding("terms")] * len(words))
        rows = connection.execute(
            f"SELECT row, terms FROM offload_words WHERE scope = ? AND ({some})",  # noqa: S608  # fixed texts
            (scope, *hashes.values()),
        ).fetchall()
        passages = np.array([row for row, _ in rows], np.int64)
        places, owners = _laid_out([terms for _, terms in rows], apart=reach + 2)
        terms = unpack_terms(b"".join(packed for _, packed in rows))
        at = {word: np.flatnonzero(terms == unpack_terms(packed)[0]) for word, packed in hashes.items()}
        found = PassagePostings(
            {word: passages[np.unique(owners[there])].tolist() for word, there in at.items()}, [], []
        )
        for one, other in pairs:
            begins, ends = places[at[one]], places[at[other]]
            near = _any_within(ends, begins - reach - 1, begins + reach + 1)
            behind = _any_within(ends, begins + 1, begins + 1)
            found.near.extend(passages[np.unique(owners[at[one]][near])].tolist())
            found.behind.extend(passages[np.unique(owners[at[one]][behind])].tolist())
        return found

    def note_erasure(self, connection: Statements) -> None:
        """Nothing: PostgreSQL's own VACUUM clears what deleted rows leave."""


_SOME = 500
_HELD_SCOPE = "SELECT scope FROM scopes WHERE memory_space = ? AND user_id = ? FOR KEY SHARE"
_NEW_SCOPE = "INSERT INTO scopes (memory_space, user_id) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING scope"


@lru_cache(maxsize=64)
def _inserting(new: tuple[str, str, tuple[str, ...]], count: int) -> str:
    """Return the statement that inserts and logs so many texts; what it returns has it done."""
    table, key, columns = new
    marks = ", ".join([f"({', '.join('?' * len(columns))})"] * count)
    return (
        f"WITH added AS (INSERT INTO {table} ({', '.join(columns)}) VALUES {marks} RETURNING {key} AS number),"  # noqa: S608
        " logged AS (SELECT reme_log(?, ?, array_agg(number ORDER BY number), ?, ?, ?, ?) FROM added)"
        " SELECT number FROM added, logged ORDER BY number"
    )


def _holding(column: str) -> str:
    """Return the condition that packed terms hold one; one found across two others is as rare as equal hashes."""
    return f"position(? IN {column}) > 0"


def _laid_out(packed: Sequence[bytes], *, apart: int) -> tuple[IntArray, IntArray]:
    """Lay passages one behind the other, so far apart that no word is near to one of another passage.

    Returns:
        The place of each term, and the number of its passage, (n,) both.
    """
    lengths = np.array([len(terms) // 8 for terms in packed], np.int64)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    return np.arange(len(owners)) + apart * owners, owners


def _any_within(places: IntArray, first: IntArray, last: IntArray) -> BoolArray:
    """Tell for each stretch, from a first place to a last one, whether one of some rising places lies in it."""
    within: BoolArray = np.searchsorted(places, last, "right") > np.searchsorted(places, first, "left")
    return within


POSTGRES: Final = PostgresDialect()
