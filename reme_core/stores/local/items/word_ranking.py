"""Items ranked by words, for searches that bring no vector: an index for each prefix that was searched lately.

Words of items stand nowhere in the file, so the first search under a prefix reads its items; later ones read what has
changed. An index tells that by the times of change, which move forward with each put and each edit of a memory.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from pydantic import JsonValue

from reme_core.retrieval import MEMORY_WEIGHTS, Query, RankingIndex, plain_rows
from reme_core.rules import read_value
from reme_core.stores.local.items.vectors_in_memory import MemorySource
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

    def rank(self, connection: sqlite3.Connection, updated: dict[int, int], text: str) -> list[int]:
        """Return the numbers of what shares words with a text, best first; ties by change, then by number.

        `updated` has the time of change of everything that lies there, by number, as the connection's snapshot has it.
        """
        with self._lock:
            if updated != self._updated:
                self._follow(connection, updated)
            found = self._index.rank(Query(text=text), limit=max(len(self._index), 1))
        return [hit.key for hit in found]

    def _follow(self, connection: sqlite3.Connection, updated: dict[int, int]) -> None:
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


class ItemWords:
    """The indexes in use, up to a number of bytes."""

    def __init__(self, limit_bytes: int) -> None:
        """Start empty; one index may always stay."""
        self._limit = limit_bytes
        self._gate = threading.Lock()
        self._held: OrderedDict[Place, WordIndex] = OrderedDict()

    def rank(self, connection: sqlite3.Connection, place: Place, updated: dict[int, int], text: str) -> list[int]:
        """Return the numbers of what shares words with a text; see `WordIndex.rank`."""
        with self._gate:
            index = self._held.setdefault(place, WordIndex())
            self._held.move_to_end(place)
        found = index.rank(connection, updated, text)
        with self._gate:
            while len(self._held) > 1 and sum(held.nbytes for held in self._held.values()) > self._limit:
                self._held.popitem(last=False)
        return found

    def clear(self) -> None:
        """Let everything go."""
        with self._gate:
            self._held.clear()


def _packed(connection: sqlite3.Connection, numbers: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Return the packed terms of items and memories, of those that may be ranked."""
    rows = connection.execute(
        "SELECT item, value, terms, ranked FROM items LEFT JOIN memories ON memories.row = memory_row"
        " WHERE item IN (SELECT json_each.value FROM json_each(?))",
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
