"""Ranking indexes in memory, one for each layer of each scope, kept in step with the file.

Each partition knows the number of the last change it has seen. Before a search it reads the changes after that one and
applies them; one that is behind the oldest change kept is loaded anew. So it does not matter which connection, thread
or process wrote. The least recently used partitions go when all together exceed a number of bytes.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from reme_core.errors import CorruptDataError
from reme_core.ports import MemoryFilter
from reme_core.retrieval import (
    BLOCK_ROWS,
    MEMORY_WEIGHTS,
    MESSAGE_WEIGHTS,
    SUMMARY_WEIGHTS,
    BoolArray,
    IntArray,
    Matrix,
    RankingIndex,
    Rows,
)
from reme_core.schema import STATEMENTS, MemoryType
from reme_core.stores.local.filters import conditions
from reme_core.stores.local.scopes import Layer, last_change
from reme_core.stores.local.vectors import stored_dimension

_COLUMNS = {
    Layer.MESSAGES: "SELECT seq, terms, session, speaker, said_at, asks FROM messages WHERE scope = ?",
    Layer.BLOCKS: "SELECT block, terms, -1, '', started_at, 0 FROM blocks WHERE scope = ?",
    Layer.MEMORIES: "SELECT row, terms, -1, '', created / 1e6, 0 FROM memories WHERE scope = ? AND ranked",
}
_KEYS = {Layer.MESSAGES: "seq", Layer.BLOCKS: "block", Layer.MEMORIES: "row"}
# CROSS JOIN makes SQLite read the scope's rows first, in their order, and look each vector up.
_VECTORS = {
    Layer.MESSAGES: "SELECT seq, vector FROM messages CROSS JOIN message_vectors USING (seq) WHERE scope = ?",
    Layer.MEMORIES: "SELECT row, vector FROM memories CROSS JOIN memory_vectors USING (row) WHERE scope = ? AND ranked",
}
_SOME = 500
_MASKS = 16
_ENTRIES = MemoryFilter(types=(MemoryType.META,), include_superseded=True)


def holds_any(connection: sqlite3.Connection, scope: int, layer: Layer) -> bool:
    """Tell whether a layer of a scope has any rows: most users have messages alone, or memories alone."""
    return connection.execute(f"{_COLUMNS[layer]} LIMIT 1", (scope,)).fetchone() is not None


class Partition:
    """One layer of one scope. Everything is done under its lock."""

    def __init__(self, layer: Layer) -> None:
        """Start empty; `follow` fills it."""
        self.lock = threading.Lock()
        self.layer = layer
        self.index = self._new_index()
        self._seen = -1
        self._masks: OrderedDict[str, BoolArray] = OrderedDict()

    def _new_index(self) -> RankingIndex:
        match self.layer:
            case Layer.MESSAGES:
                return RankingIndex(MESSAGE_WEIGHTS)
            case Layer.BLOCKS:
                return RankingIndex(SUMMARY_WEIGHTS)
            case Layer.MEMORIES:
                return RankingIndex(MEMORY_WEIGHTS)

    def follow(self, connection: sqlite3.Connection, scope: int) -> None:
        """Bring the index to the state of the snapshot that the connection reads."""
        newest = last_change(connection)
        if newest == self._seen:
            return
        if self._seen >= 0:
            changed = connection.execute(
                "SELECT row FROM changes WHERE scope = ? AND layer = ? AND change > ?",
                (scope, int(self.layer), self._seen),
            ).fetchall()
            (oldest,) = connection.execute("SELECT min(change) FROM changes").fetchone()
            complete = oldest is not None and oldest <= self._seen + 1
            if complete and not changed:
                self._seen = newest
                return
            if complete and len(changed) <= max(_SOME, len(self.index) // 4):
                self._masks.clear()
                self._apply(connection, scope, np.unique(np.fromiter((row for (row,) in changed), np.int64)))
                self._seen = newest
                return
        self._masks.clear()
        self._load(connection, scope)

    def _load(self, connection: sqlite3.Connection, scope: int) -> None:
        self._seen = -1
        self.index = self._new_index()
        key = _KEYS[self.layer]
        rows = connection.execute(f"{_COLUMNS[self.layer]} ORDER BY {key}", (scope,)).fetchall()
        vectors: Iterator[tuple[IntArray, Matrix]] = iter(())
        if self.layer in _VECTORS:
            vectors = self._vectors(connection, connection.execute(f"{_VECTORS[self.layer]} ORDER BY {key}", (scope,)))
        first = next(vectors, None)
        if first is not None and first[0].tolist() == [row[0] for row in rows]:
            self._extend(rows, first[1])  # a small partition whose rows all have vectors: the usual one
        else:
            self._extend(rows)
            if first is not None:
                self.index.set_vectors(*first)
        for keys, matrix in vectors:
            self.index.set_vectors(keys, matrix)
        self._seen = last_change(connection)

    def _apply(self, connection: sqlite3.Connection, scope: int, rows: IntArray) -> None:
        """Take over the state of some rows: added, changed or gone."""
        seen, self._seen = self._seen, -1  # a failure half-way makes the next call load anew
        key = _KEYS[self.layer]
        known = rows[np.isin(rows, self.index.keys[self.index.alive])]
        # The text of messages never changes: one that is known has got its vector, or is gone.
        replaced = known[:0] if self.layer is Layer.MESSAGES else known
        for start in range(0, len(rows), _SOME):
            some = rows[start : start + _SOME].tolist()
            among = f"{key} IN ({', '.join('?' * len(some))})"
            columns = connection.execute(
                f"{_COLUMNS[self.layer]} AND {among} ORDER BY {key}", (scope, *some)
            ).fetchall()
            present = np.fromiter((row[0] for row in columns), np.int64)
            gone = np.setdiff1d(np.intersect1d(known, some), present)
            self.index.remove(np.union1d(gone, np.intersect1d(replaced, some)))
            fresh = set(present.tolist()) - set(known.tolist()) | set(replaced.tolist())
            self._extend([row for row in columns if row[0] in fresh])
            if self.layer in _VECTORS:
                found = connection.execute(f"{_VECTORS[self.layer]} AND {among} ORDER BY {key}", (scope, *some))
                for keys, matrix in self._vectors(connection, found):
                    self.index.set_vectors(keys, matrix)
        self._seen = seen

    def _extend(self, rows: Sequence[tuple[int, bytes, int, str, float, int]], vectors: Matrix | None = None) -> None:
        if not rows:
            return
        keys, packed, sessions, speakers, times, asks = zip(*rows, strict=True)
        n = len(rows)
        numbers = np.fromiter(keys, np.int64, n)
        self.index.extend(
            Rows(
                keys=numbers,
                terms=packed,
                sessions=np.fromiter(sessions, np.int64, n),
                positions=numbers,
                speakers=speakers,
                times=np.fromiter(times, np.float64, n),
                questions=np.fromiter(asks, np.bool_, n),
            ),
            vectors,
        )

    def _vectors(self, connection: sqlite3.Connection, rows: sqlite3.Cursor) -> Iterator[tuple[IntArray, Matrix]]:
        """Read vectors with the rows they belong to, a block at a time (CorruptDataError)."""
        dimension = stored_dimension(connection)
        while dimension and (some := rows.fetchmany(BLOCK_ROWS)):
            keys = np.fromiter((row[0] for row in some), np.int64, len(some))
            if any(len(row[1]) != 4 * dimension for row in some):
                msg = f"the file holds a vector that has not {dimension} dimensions: restore a copy"
                raise CorruptDataError(msg)
            matrix = np.frombuffer(b"".join(row[1] for row in some), "<f4").reshape(len(some), dimension)
            yield keys, matrix

    def allowed(self, connection: sqlite3.Connection, scope: int, wanted: MemoryFilter) -> BoolArray:
        """Return which slots of a partition of memories a filter admits, aligned with `index.keys`."""
        name = repr(wanted)
        mask = self._masks.get(name)
        if mask is None:
            if wanted.types is not None and set(wanted.types) == set(STATEMENTS):
                # Most searches: taking the few others out costs less than reading the type of every row.
                mask = self._meeting(connection, scope, replace(wanted, types=None))
                mask &= ~self._meeting(connection, scope, _ENTRIES)
            else:
                mask = self._meeting(connection, scope, wanted)
            self._masks[name] = mask
            while len(self._masks) > _MASKS:
                self._masks.popitem(last=False)
        return mask

    def _meeting(self, connection: sqlite3.Connection, scope: int, wanted: MemoryFilter) -> BoolArray:
        where, values = conditions(connection, scope, wanted)
        # That index alone answers the usual question; SQLite prefers another, and reads every row (1.8 x the time).
        index = "INDEXED BY memories_current" if wanted == MemoryFilter(targets=wanted.targets) else ""
        rows = connection.execute(f"SELECT row FROM memories {index} WHERE {where}", values).fetchall()  # noqa: S608
        mask: BoolArray = np.isin(self.index.keys, np.fromiter((row for (row,) in rows), np.int64, len(rows)))
        return mask


class Partitions:
    """The partitions in use, up to a number of bytes."""

    def __init__(self, limit_bytes: int) -> None:
        """Start empty; `limit_bytes` counts arrays, and one partition may always stay."""
        self._limit = limit_bytes
        self._gate = threading.Lock()
        self._held: OrderedDict[tuple[int, Layer], Partition] = OrderedDict()
        self._sizes: dict[tuple[int, Layer], int] = {}
        self._total = 0

    def get(self, scope: int, layer: Layer) -> Partition:
        """Return the partition, a new one if it isn't held."""
        with self._gate:
            partition = self._held.get((scope, layer))
            if partition is None:
                partition = self._held[scope, layer] = Partition(layer)
            self._held.move_to_end((scope, layer))
            return partition

    def measured(self, scope: int, layer: Layer, size_bytes: int) -> None:
        """Note the size of a partition, and let the least recently used ones go if all are too large."""
        with self._gate:
            if (scope, layer) not in self._held:
                return
            self._total += size_bytes - self._sizes.get((scope, layer), 0)
            self._sizes[scope, layer] = size_bytes
            while self._total > self._limit and len(self._held) > 1:
                self._drop(next(iter(self._held)))

    def forget(self, scope: int, layers: Iterable[Layer] = tuple(Layer)) -> None:
        """Let the partitions of a scope go."""
        with self._gate:
            for layer in layers:
                self._drop((scope, layer))

    def _drop(self, name: tuple[int, Layer]) -> None:
        self._held.pop(name, None)
        self._total -= self._sizes.pop(name, 0)
