"""A memory filter as a SQL condition with bound values."""

from __future__ import annotations

import json
import sqlite3

from reme_core.errors import InvalidInputError, UnsupportedFilterError
from reme_core.ports import MemoryFilter
from reme_core.schema import MemoryType
from reme_core.stores.local.file.tables import has_word_tables
from reme_core.stores.local.file.word_tables import match_expression
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
    where, values = ["scope = ?"], list[object]([scope])
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
    if wanted.observed_from is not None:
        where.append("observed_at >= ?")
        values.append(wanted.observed_from.timestamp())
    if wanted.observed_to is not None:
        where.append("observed_at < ?")
        values.append(wanted.observed_to.timestamp())
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
            msg = f"metadata[{key!r}]: {type(value).__name__} can't be compared, only strings, numbers, booleans, None"
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
