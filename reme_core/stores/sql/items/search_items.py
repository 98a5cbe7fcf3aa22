"""Pages of items, ranked by vectors or words, or last change first. One snapshot of the file on a reading thread.

Words of items stand nowhere in the file, so the first search under a prefix reads its items; later ones read what has
changed. An index tells that by the times of change, which move forward with each put and each edit of a memory.
"""

from __future__ import annotations

import heapq
import json
import math
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import numpy as np
from pydantic import JsonValue

from reme_core.errors import InvalidInputError
from reme_core.ports import Item, ItemValue, RecordPlace, SearchItems, Vector
from reme_core.retrieval import MEMORY_WEIGHTS, IntArray, Query, RankingIndex, plain_rows
from reme_core.rules import check_vector, meets, namespace_path, needle, read_value
from reme_core.schema import Memory, Scope
from reme_core.stores.sql.bookkeeping import find_scope
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.embedding_record import check_embedding
from reme_core.stores.sql.items.item_rows import (
    NOT_ITEMS,
    ItemRow,
    make_item,
    namespaces_under,
    rows_by_items,
    rows_by_memories,
    value_of_row,
)
from reme_core.stores.sql.items.vectors_in_memory import ItemSource, ItemVectors, MemorySource, Scores
from reme_core.stores.sql.memory_rows import microseconds
from reme_core.stores.sql.partitions import RecentlyUsed
from reme_core.text import pack_terms, terms

MEMORIES = 1 << 62
"""Added to the numbers of memories that were not written as items: behind those of items where all else is equal."""

Place: TypeAlias = tuple[str, str, tuple[MemorySource, ...]]
"""Memory space, path of the prefix, and the memories that it covers."""

_SOME = 500
_BYTES_A_NUMBER = 200  # two integers in a dictionary


class WordIndex:
    """The words of what lies under one prefix; usable by several threads."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._index = RankingIndex(MEMORY_WEIGHTS)
        self._updated: dict[int, int] = {}

    @property
    def nbytes(self) -> int:
        """The bytes held, about."""
        return self._index.nbytes + _BYTES_A_NUMBER * len(self._updated)

    def rank(self, connection: SqlConnection, updated: dict[int, int], text: str) -> list[int]:
        """Return the numbers of what shares words with a text, best first; ties by change, then by number.

        `updated` has the time of change of everything that lies there, by number, as the connection's snapshot has it.
        """
        with self._lock:
            if updated != self._updated:
                self._follow(connection, updated)
            found = self._index.rank(Query(text=text), limit=max(len(self._index), 1))
        return [hit.key for hit in found]

    def _follow(self, connection: SqlConnection, updated: dict[int, int]) -> None:
        fresh = sorted(number for number, _ in updated.items() - self._updated.items())
        gone = [number for number, _ in self._updated.items() - updated.items()]
        self._updated = {}  # a failure half-way makes the next call read everything
        if len(fresh) == len(updated):
            self._index = RankingIndex(MEMORY_WEIGHTS)
        self._index.remove(np.array(gone, np.int64))
        for start in range(0, len(fresh), _SOME):
            self._extend(dict(_packed(connection, fresh[start : start + _SOME])), updated)
        self._updated = updated

    def _extend(self, packed: dict[int, bytes], updated: dict[int, int]) -> None:
        numbers = np.array(list(packed), np.int64)
        times = np.array([updated[number] / 1e6 for number in packed])
        self._index.extend(plain_rows(numbers, list(packed.values()), times))


class ItemWords(RecentlyUsed[Place, WordIndex]):
    """The indexes in use, up to a number of bytes."""

    def __init__(self, limit_bytes: int) -> None:
        """Start empty."""
        super().__init__(lambda _: WordIndex(), limit_bytes)

    def rank(self, connection: SqlConnection, place: Place, updated: dict[int, int], text: str) -> list[int]:
        """Return the numbers of what shares words with a text; see `WordIndex.rank`."""
        index = self.get(place)
        found = index.rank(connection, updated, text)
        self.measured(place, index.nbytes)
        return found


def _packed(connection: SqlConnection, numbers: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Return the packed terms of items and memories, of those that may be ranked."""
    rows = connection.execute(
        "SELECT item, value, terms, ranked FROM items LEFT JOIN memories ON memories.row = memory_row"
        " WHERE item IN (SELECT value FROM json_each(?))",
        (str([number for number in numbers if number < MEMORIES]),),
    )
    for item, value, words, ranked in rows:
        if words is None:
            yield item, pack_terms(terms("\n".join(_texts(read_value(value)))))
        elif ranked:
            yield item, words
    memories = connection.execute(
        "SELECT row, terms FROM memories WHERE ranked AND row IN (SELECT value FROM json_each(?))",
        (str([number - MEMORIES for number in numbers if number >= MEMORIES]),),
    )
    for row, words in memories:
        yield row + MEMORIES, words


def _texts(value: JsonValue) -> Iterator[str]:
    """Return what a value says: keys, texts and numbers."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield key
            yield from _texts(child)
    elif isinstance(value, list):
        for child in value:
            yield from _texts(child)
    elif isinstance(value, str) or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        yield str(value)


_FIRST_CHUNK = 10
_LARGEST_CHUNK = 1_000
_FIRST_RANKED = 150
_MORE_IF_CONDITIONS = 12
_NEEDLES = 8
_MERGED = 32
"""As many namespaces are read side by side, each along its index; of more, all rows are sorted."""


@dataclass(frozen=True, slots=True)
class FoundItems:
    """A page, and the numbers of its items whose time to live is not over."""

    items: list[Item]
    living: list[int]


_Candidate: TypeAlias = tuple[int, float | None]
"""The number of an item, or of a memory plus `MEMORIES`, and its score."""


def check_search(search: SearchItems) -> tuple[str, Vector | None]:
    """Return the prefix as a path, and the vector as the file has them (InvalidInputError)."""
    for name, value in (("limit", search.limit), ("offset", search.offset)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            msg = f"{name}: {value!r:.40} was given, a number of 0 or more is wanted"
            raise InvalidInputError(msg)
    path = namespace_path(search.prefix, what="prefix")
    return path, None if search.vector is None else check_vector(search.vector, "the query's vector")


def search_items(
    connection: SqlConnection, memory_space: str, search: SearchItems, held: ItemVectors, words: ItemWords
) -> FoundItems:
    """Return a page; see `Store.search_items`."""
    path, vector = check_search(search)
    namespaces = namespaces_under(connection, memory_space, path)
    sources = [
        MemorySource(scope, memory_type) for scope, memory_type in record_groups(connection, search.records).values()
    ]
    if vector is not None:
        check_embedding(connection, memory_space, vector, search.embedded_by, "the query's vector")
    if not search.limit:
        return FoundItems([], [])
    with ExitStack() as cursors:
        if vector is not None:
            candidates = _ranked(connection, cursors, list(namespaces), sources, held, vector)
        else:
            candidates = _by_change(connection, cursors, list(namespaces), sources, held, bare=False)
            if search.text.strip():
                place = memory_space, path, tuple(sources)
                updated = _times_of_change(connection, list(namespaces), sources, held)
                candidates = _by_words(words.rank(connection, place, updated, search.text), candidates)
        offset, end = (min(place, sys.maxsize) for place in (search.offset, search.offset + search.limit))
        page = islice(_wanted(connection, candidates, search), offset, end)
        found = list(page)
    items = [make_item(row, read or value_of_row(connection, row), namespaces, score) for row, read, score in found]
    at = microseconds(search.at)
    return FoundItems(items, [row.item for row, _, _ in found if row.item is not None and row.lives(at)])


def record_groups(connection: SqlConnection, places: Iterable[RecordPlace]) -> dict[tuple[Scope, str], tuple[int, str]]:
    """Return the number of each scope that places cover, with the types, each pair once."""
    groups: dict[tuple[Scope, str], tuple[int, str]] = {}
    for place in places:
        if place.user_id is not None:
            scope = Scope(memory_space=place.memory_space, user_id=place.user_id)
            number = find_scope(connection, scope)
            scopes = [] if number is None else [(number, scope)]
        else:
            scopes = [
                (number, Scope(memory_space=place.memory_space, user_id=user_id))
                for number, user_id in connection.execute(
                    "SELECT scope, user_id FROM scopes WHERE memory_space = ?", (place.memory_space,)
                )
            ]
        for number, scope in scopes:
            for memory_type in place.memory_types:
                if memory_type not in NOT_ITEMS:
                    groups[scope, memory_type] = (number, memory_type.value)
    return groups


def _wanted(
    connection: SqlConnection, candidates: Iterator[_Candidate], search: SearchItems
) -> Iterator[tuple[ItemRow, tuple[ItemValue, Memory | None] | None, float | None]]:
    """Read candidates, more and more at a time, and pass on those that are wanted."""
    at = microseconds(search.at)
    size = max(_FIRST_CHUNK, search.offset + search.limit) * (_MORE_IF_CONDITIONS if search.conditions else 1)
    size = min(size, _LARGEST_CHUNK)
    needles = [text for condition in search.conditions[:_NEEDLES] if (text := needle(condition)) is not None]
    while some := list(islice(candidates, size)):
        size = min(2 * size, _LARGEST_CHUNK)
        items = rows_by_items(connection, [number for number, _ in some if number < MEMORIES], needles)
        memories = rows_by_memories(connection, [number - MEMORIES for number, _ in some if number >= MEMORIES])
        for number, score in some:
            row = items.get(number) if number < MEMORIES else memories.get(number - MEMORIES)
            if row is None or row.is_closed or (search.omit_expired and row.is_over(at)):
                continue
            read = value_of_row(connection, row) if search.conditions else None  # what is passed over needn't be read
            if read is None or meets(read[0], search.conditions):
                yield row, read, score


def _by_change(
    connection: SqlConnection,
    cursors: ExitStack,
    namespaces: list[int],
    sources: Sequence[MemorySource],
    held: ItemVectors,
    *,
    bare: bool,
) -> Iterator[_Candidate]:
    """Return what lies in namespaces and memories, last change first; with `bare` what has no vectors."""
    # An open cursor would keep the snapshot beyond the end of the transaction.
    ordered: list[Iterable[tuple[int, int]]] = []
    without = " AND NOT EXISTS (SELECT 1 FROM item_vectors WHERE item_vectors.item = items.item)" if bare else ""
    order = f"{without} ORDER BY updated DESC, item"
    if len(namespaces) <= _MERGED:
        for ns in namespaces:
            query = f"SELECT -updated, item FROM items WHERE ns = ?{order}"  # noqa: S608
            cursor = connection.dialect.stream(connection, query, (ns,))
            cursors.callback(cursor.close)
            ordered.append(cursor)
    else:
        query = f"SELECT -updated, item FROM items WHERE ns IN (SELECT value FROM json_each(?)){order}"  # noqa: S608
        cursor = connection.dialect.stream(connection, query, (json.dumps(namespaces),))
        cursors.callback(cursor.close)
        ordered.append(cursor)
    for source in sources:
        keys, updated = held.groups(connection, source).all(bare=bare)
        by_change = np.lexsort((keys, -updated))
        ordered.append(zip((-updated[by_change]).tolist(), (keys[by_change] + MEMORIES).tolist(), strict=True))
    return ((number, None) for _, number in heapq.merge(*ordered))


def _ranked(
    connection: SqlConnection,
    cursors: ExitStack,
    namespaces: list[int],
    sources: Sequence[MemorySource],
    held: ItemVectors,
    vector: Vector,
) -> Iterator[_Candidate]:
    """Return what has vectors, best first, then what has none, last change first."""
    parts = [held.groups(connection, ItemSource(ns)).best(vector) for ns in namespaces]
    for source in sources:
        keys, updated, scores = held.groups(connection, source).best(vector)
        parts.append((keys + MEMORIES, updated, scores))
    if parts:
        one = len(parts) == 1
        numbers, updated, scores = parts[0] if one else tuple(np.concatenate(part) for part in zip(*parts, strict=True))
        for chosen in _falling(scores, updated, numbers):
            yield from zip(numbers[chosen].tolist(), scores[chosen].tolist(), strict=True)
    yield from _by_change(connection, cursors, namespaces, sources, held, bare=True)


def _by_words(ranked: list[int], everything: Iterator[_Candidate]) -> Iterator[_Candidate]:
    """Return what shares words with a query, best first, then the rest as it comes."""
    known = set(ranked)
    yield from ((number, None) for number in ranked)
    yield from (candidate for candidate in everything if candidate[0] not in known)


def _times_of_change(
    connection: SqlConnection, namespaces: list[int], sources: Sequence[MemorySource], held: ItemVectors
) -> dict[int, int]:
    """Return when everything in namespaces and memories was last changed, by its number."""
    updated = dict(
        connection.execute(
            "SELECT item, updated FROM items WHERE ns IN (SELECT value FROM json_each(?))", (json.dumps(namespaces),)
        )
    )
    for source in sources:
        keys, times = held.groups(connection, source).all(bare=False)
        updated |= zip((keys + MEMORIES).tolist(), times.tolist(), strict=True)
    return updated


def _falling(scores: Scores, updated: IntArray, numbers: IntArray) -> Iterator[IntArray]:
    """Return the places of scores from the highest down, some at a time; ties by change, then by number."""
    size, above = _FIRST_RANKED, math.inf
    while True:
        floor = -math.inf if size >= len(scores) else float(np.partition(scores, len(scores) - size)[-size])
        # With all that equal the last one, so that ties are never cut in two.
        chosen = np.flatnonzero((scores >= floor) & (scores < above))
        yield chosen[np.lexsort((numbers[chosen], -updated[chosen], -scores[chosen]))]
        if size >= len(scores):
            return
        size, above = 8 * size, floor
