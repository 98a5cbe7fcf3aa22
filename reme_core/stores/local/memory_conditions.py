"""Conditions on the rows of memories: filters in SQL, and which rows wait for vectors."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence

from reme_core.errors import InvalidInputError, UnsupportedFilterError
from reme_core.ports import MemoryFilter, MessageVector, PendingText, PutMemory, Vector
from reme_core.rules import check_vector
from reme_core.schema import Memory, MemoryType
from reme_core.schema.checks import kind_of
from reme_core.stores._cursors import given, seconds
from reme_core.stores.local.file.scope_numbers import Layer, log_changes
from reme_core.stores.local.file.tables import has_word_tables
from reme_core.stores.local.file.vectors_and_words import claim_dimension, match_expression
from reme_core.stores.local.items import row_links as item_links
from reme_core.text import pack_terms, query_terms, terms, unpack_terms

_MOST_KEYS = 100
"""SQLite's expressions are at most 1,000 levels deep; each key is one of them."""

_BEFORE_ALL, _AFTER_ALL = -9e99, 9e99
_DURING = "((observed_at >= ? AND observed_at < ?) OR ((valid_from >= ? OR valid_to > ?) AND valid_from < ?))"


def check_filter(wanted: MemoryFilter) -> None:
    """Refuse a filter that means nothing, or that can't be honoured, whether or not the scope holds anything.

    Raises:
        InvalidInputError: `as_of` together with `include_superseded`, or a keyword without a word.
        UnsupportedFilterError: A metadata value that is neither a string, a number, a boolean nor None.
    """
    if wanted.as_of is not None and wanted.include_superseded:
        msg = "as_of and include_superseded contradict each other: give one of them"
        raise InvalidInputError(msg)
    if wanted.keyword is not None and not query_terms(wanted.keyword):
        msg = f"keyword: {wanted.keyword!r:.60} has no word that is indexed (only blanks, signs or words like 'the')"
        raise InvalidInputError(msg)
    if len(wanted.metadata) > _MOST_KEYS:
        msg = f"metadata: {len(wanted.metadata)} keys, at most {_MOST_KEYS} can be compared at once: give fewer"
        raise UnsupportedFilterError(msg)
    for key, value in wanted.metadata.items():
        _metadata(key, value)


def conditions(connection: sqlite3.Connection, scope: int, wanted: MemoryFilter) -> tuple[str, list[object]]:
    """Return the condition on `memories` and its values for a checked filter; the scope is always part of it."""
    where, values = given(
        ("scope = ?", scope),
        ("observed_at >= ?", seconds(wanted.observed_from)),
        ("observed_at < ?", seconds(wanted.observed_to)),
    )
    if wanted.as_of is not None:
        moment = wanted.as_of.timestamp()
        # One that was replaced nobody knows when held at no time; see `Memory.holds_at`.
        where.append("valid_from <= ? AND coalesce(? < valid_to, superseded_by IS NULL)")
        values += [moment, moment]
    elif not wanted.include_superseded:
        where.append("superseded_by IS NULL")
    types = wanted.types
    if types is not None and set(types) == {MemoryType.META}:
        where.append("memory_type = 'meta'")  # in these words, SQLite takes the index memories_meta
        types = None
    for column, names in (("memory_type", types), ("memory_target", wanted.targets)):
        if names is not None:
            where.append(f"{column} IN (SELECT value FROM json_each(?))")  # noqa: S608  # two names of columns
            values.append(json.dumps(names))
    if wanted.during_from is not None or wanted.during_to is not None:
        first = _BEFORE_ALL if wanted.during_from is None else wanted.during_from.timestamp()
        end = _AFTER_ALL if wanted.during_to is None else wanted.during_to.timestamp()
        where.append(_DURING)
        values += [first, end, first, first, end]
    for key, value in wanted.metadata.items():
        condition, bound = _metadata(key, value)
        where.append(condition)
        values += bound
    if wanted.keyword is not None:
        condition, bound = _keyword(connection, scope, wanted.keyword)
        where.append(condition)
        values += bound
    return " AND ".join(where), values


def _metadata(key: str, value: object) -> tuple[str, list[object]]:
    """Compare one key with JSON's types: true is not 1, 1 equals 1.0, null is not a missing key."""
    match value:
        case None:
            test, bound = "type = 'null'", list[object]()
        case bool():
            test, bound = "type = ?", ["true" if value else "false"]
        case int() | float():
            test, bound = "type IN ('integer', 'real') AND atom = ?", [_number(key, value)]
        case str():
            test, bound = "type = 'text' AND atom = ?", [value]
        case _:
            msg = f"metadata[{key!r}]: {kind_of(value)} can't be compared, only strings, numbers, booleans, None"
            raise UnsupportedFilterError(msg)
    return f"EXISTS (SELECT 1 FROM json_each(body, '$.metadata') WHERE key = ? AND {test})", [key, *bound]  # noqa: S608


def _number(key: str, value: float) -> float:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        msg = f"metadata[{key!r}]: {value} is beyond 64 bits, which this store can't compare: filter by a string"
        raise UnsupportedFilterError(msg)
    return value


def _keyword(connection: sqlite3.Connection, scope: int, keyword: str) -> tuple[str, list[object]]:
    expression = match_expression(scope, keyword)
    if has_word_tables(connection):
        return "row IN (SELECT rowid FROM memory_words WHERE memory_words MATCH ?)", [expression]
    # Without FTS5: the slower way, over the terms of every memory of the scope.
    wanted = set(unpack_terms(pack_terms(terms(keyword))).tolist())
    rows = connection.execute("SELECT row, terms FROM memories WHERE scope = ?", (scope,))
    found = [row for row, packed in rows if wanted <= set(unpack_terms(packed).tolist())]
    return "row IN (SELECT value FROM json_each(?))", [str(found)]


_KEY = re.compile(r"memory-([0-9]{1,18})", re.ASCII)


def note(connection: sqlite3.Connection, row: int, put: PutMemory, before: Memory | None) -> None:
    """Note whether a memory that was just written waits; where its text and its vector stay, so does that."""
    if put.vector is not None or before is None or before.index_text != put.memory.index_text:
        waits = put.vector is None and put.wants_vector
        connection.execute("UPDATE memories SET waits = ? WHERE row = ?", (waits, row))


def put_vector(connection: sqlite3.Connection, row: int, memory_id: str, vector: Vector) -> None:
    """Store the vector of a memory (DimensionMismatchError)."""
    claim_dimension(connection, len(vector), f"the vector of memory {memory_id!r}")
    connection.execute("INSERT OR REPLACE INTO memory_vectors VALUES (?, ?)", (row, vector.tobytes()))


def pending_memories(connection: sqlite3.Connection, scope: int, limit: int) -> list[PendingText]:
    """Return the memories that wait, oldest first, at most `limit`."""
    rows = connection.execute(
        "SELECT row, body FROM memories WHERE scope = ? AND waits ORDER BY row LIMIT ?", (scope, limit)
    )
    return [PendingText(key=f"memory-{row}", text=Memory.model_validate_json(body).index_text) for row, body in rows]


def is_of_memory(item: MessageVector) -> bool:
    """Tell whether a vector is that of a memory."""
    return _KEY.fullmatch(item.pending.key) is not None


def fill_memories(connection: sqlite3.Connection, scope: int, vectors: Sequence[MessageVector]) -> None:
    """Store the vectors of memories that wait and say what they said."""
    filled = [row for item in vectors if (row := _fill(connection, scope, item)) is not None]
    log_changes(connection, scope, Layer.MEMORIES, filled)


def _fill(connection: sqlite3.Connection, scope: int, item: MessageVector) -> int | None:
    """Store the vector of one memory; return its row if that is another one now."""
    row = int(item.pending.key.removeprefix("memory-"))
    found = connection.execute("SELECT body FROM memories WHERE scope = ? AND row = ? AND waits", (scope, row))
    memory = next((Memory.model_validate_json(body) for (body,) in found), None)
    if memory is None or memory.index_text != item.pending.text:
        return None
    connection.execute("UPDATE memories SET waits = 0 WHERE row = ?", (row,))
    if item.vector is None:
        return None
    vector = check_vector(item.vector, f"the vector of memory {memory.memory_id!r}")
    put_vector(connection, row, memory.memory_id, vector)
    item_links.fill_vector(connection, row, vector)
    return row
