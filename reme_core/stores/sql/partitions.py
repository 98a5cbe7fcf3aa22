"""Ranking indexes in memory, one for each layer of each scope, kept in step with the file.

Each partition knows the number of the last change it has seen. Before a search it reads the changes after that one and
applies them; one that is behind the oldest change kept is loaded anew. So it does not matter which connection, thread
or process wrote. The least recently used partitions go when all together exceed a number of bytes.

A partition is loaded in chunks, its newest rows first, each in whatever snapshot is read at the time: what is loaded is
always every row from some row on, in the state of one snapshot. `background_loading.py` says who loads the next chunk,
and when.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar, cast

import numpy as np

from reme_core.errors import CorruptDataError
from reme_core.ports import MemoryFilter
from reme_core.retrieval import (
    MEMORY_WEIGHTS,
    MESSAGE_WEIGHTS,
    SUMMARY_WEIGHTS,
    BoolArray,
    IntArray,
    Matrix,
    RankingIndex,
    Rows,
)
from reme_core.rules import RelationGraph
from reme_core.schema import NO_STATEMENTS, STATEMENTS, MemoryType
from reme_core.stores._cursors import Row
from reme_core.stores.sql.bookkeeping import Layer, changed_since, newest_change
from reme_core.stores.sql.connection import SqlConnection, reading_rows
from reme_core.stores.sql.embedding_record import dimension_of_scope
from reme_core.stores.sql.related_rows import read_relations
from reme_core.stores.sql.row_conditions import conditions

_COLUMNS = {
    Layer.MESSAGES: (
        "SELECT seq, terms, session, speaker, said_at, asks, by_user, wishes, passages FROM messages WHERE scope = ?"
    ),
    Layer.BLOCKS: "SELECT block, terms, started_at FROM blocks WHERE scope = ?",
    Layer.MEMORIES: "SELECT row, terms, created FROM memories WHERE scope = ? AND ranked",
}
_KEYS = {Layer.MESSAGES: "seq", Layer.BLOCKS: "block", Layer.MEMORIES: "row"}
# CROSS JOIN makes SQLite read the scope's rows first, in their order, and look each vector up.
_VECTORS = {
    Layer.MESSAGES: "SELECT seq, vector FROM messages CROSS JOIN message_vectors USING (seq) WHERE messages.scope = ?",
    Layer.MEMORIES: (
        "SELECT row, vector FROM memories CROSS JOIN memory_vectors USING (row) WHERE memories.scope = ? AND ranked"
    ),
}
_SOME = 500
# One chunk takes some 30 ms with vectors of 384 dimensions, so that whoever waits for it waits for a moment; a scope of
# fewer messages is loaded at once. Texts above 64 terms fill one with their terms.
_CHUNK_ROWS = 4_000
_CHUNK_BYTES = 1 << 21
_MASKS = 16
# A relation with its names and its places in the graph.
_RELATION_BYTES = 900
_NOTHING_LOADED = 1 << 62
# Each found along an index; nothing ever replaces a passage.
_NO_STATEMENTS = tuple(
    MemoryFilter(types=(kind,), include_superseded=kind is MemoryType.META) for kind in NO_STATEMENTS
)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_Row: TypeAlias = tuple[int, bytes, int, str, float, bool, bool, bool, bytes]


def _whole_row(layer: Layer, row: Row) -> _Row:
    """Return a row with what its layer has no column for."""
    match layer:
        case Layer.MESSAGES:
            return cast("_Row", row)
        case Layer.BLOCKS:
            key, terms, started_at = row
            return key, terms, -1, "", started_at, False, False, False, b""
        case Layer.MEMORIES:
            key, terms, created = row
            return key, terms, -1, "", created / 1e6, False, False, False, b""


def holds_any(connection: SqlConnection, scope: int, layer: Layer) -> bool:
    """Tell whether a layer of a scope has any rows: most users have messages alone, or memories alone."""
    return connection.execute(f"{_COLUMNS[layer]} LIMIT 1", (scope,)).fetchone() is not None


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Vectors (m, d) of rows and of their passages; `passages` is None where each is the vector of a whole text."""

    keys: IntArray
    matrix: Matrix
    passages: IntArray | None = None


def _read_vectors(rows: Sequence[tuple[int, bytes]], dimension: int) -> _Vectors:
    """Read the vectors of rows, several of a text with passages; zeros stand for a passage that has none.

    Raises:
        CorruptDataError: Bytes that are no vectors of this dimension.
    """
    sizes = np.fromiter((len(blob) for _, blob in rows), np.int64, len(rows))
    if (sizes % (4 * dimension)).any() or not sizes.all():
        msg = f"the file holds a vector that has not {dimension} dimensions: restore a copy"
        raise CorruptDataError(msg)
    keys = np.fromiter((key for key, _ in rows), np.int64, len(rows))
    matrix = np.frombuffer(b"".join(blob for _, blob in rows), "<f4").reshape(-1, dimension)
    counts = sizes // (4 * dimension)
    if len(matrix) == len(rows):
        return _Vectors(keys, matrix)
    passages = np.arange(len(matrix)) - np.repeat(np.cumsum(counts) - counts, counts)
    there = matrix.any(axis=1)
    return _Vectors(np.repeat(keys, counts)[there], matrix[there], passages[there])


class Partition:
    """One layer of one scope. Everything is done under its lock."""

    def __init__(self, layer: Layer) -> None:
        """Start empty; `follow` fills it."""
        self.lock = threading.Lock()
        self.layer = layer
        self.index = self._new_index()
        self.relations = RelationGraph[int]()
        self.loading: Future[None] | None = None
        self._seen = -1
        self._loaded_from = _NOTHING_LOADED
        self._masks: OrderedDict[str, BoolArray] = OrderedDict()
        self._admitted: dict[str, frozenset[int]] = {}

    def _new_index(self) -> RankingIndex:
        match self.layer:
            case Layer.MESSAGES:
                return RankingIndex(MESSAGE_WEIGHTS)
            case Layer.BLOCKS:
                return RankingIndex(SUMMARY_WEIGHTS)
            case Layer.MEMORIES:
                return RankingIndex(MEMORY_WEIGHTS)

    @property
    def is_complete(self) -> bool:
        """Whether all rows are loaded."""
        return self._loaded_from == 0

    @property
    def nbytes(self) -> int:
        """The bytes held."""
        return self.index.nbytes + _RELATION_BYTES * len(self.relations)

    def is_beyond(self, newest: int) -> bool:
        """Whether it has been brought beyond a snapshot, by the number of the newest change there."""
        return self._seen > newest

    def follow(self, connection: SqlConnection, scope: int, newest: int | None = None) -> None:
        """Bring what is loaded to the state of the snapshot that the connection reads; where nothing is, begin.

        `newest` is the number of the newest change, where the caller has read it.
        """
        if newest is None:
            newest = newest_change(connection, scope, self.layer)
        if newest == self._seen:
            return
        logged = None if self._seen < 0 else changed_since(connection, scope, self.layer, self._seen)
        changed = None if logged is None else [row for row in logged if row >= self._loaded_from]
        self._seen = -1  # a failure half-way makes the next call load anew
        self._forget_masks()
        if changed is None or len(changed) > max(_SOME, len(self.index) // 4):
            self.index, self._loaded_from = self._new_index(), _NOTHING_LOADED
            self.relations = RelationGraph()
            self._load_chunk(connection, scope)
        else:
            self._apply(connection, scope, np.array(changed, np.int64))
        self._seen = newest

    def _forget_masks(self) -> None:
        self._masks.clear()
        self._admitted.clear()

    def load_more(self, connection: SqlConnection, scope: int) -> None:
        """Load the next chunk, if any, in a snapshot in which `follow` was called before."""
        if not self.is_complete:
            seen, self._seen = self._seen, -1  # as above
            self._forget_masks()
            self._load_chunk(connection, scope)
            self._seen = seen

    def _load_chunk(self, connection: SqlConnection, scope: int) -> None:
        key, end = _KEYS[self.layer], self._loaded_from
        rows: list[_Row] = []
        size = 0
        query = f"{_COLUMNS[self.layer]} AND {key} < ? ORDER BY {key} DESC LIMIT ?"
        older = connection.dialect.stream(connection, query, (scope, end, _CHUNK_ROWS + 1))
        while len(rows) < _CHUNK_ROWS and size < _CHUNK_BYTES and (some := older.fetchmany(min(_SOME, _CHUNK_ROWS))):
            rows += [_whole_row(self.layer, row) for row in some]
            size += sum(len(row[1]) for row in some)
        start = 0 if older.fetchone() is None else rows[-1][0]
        older.close()
        rows.reverse()
        vectors = self._vectors(connection, scope, f"{key} >= ? AND {key} < ?", (start, end))
        # A text with passages may have one vector, of its whole, from a release that knew no passages.
        are_short = not any(passages for *_, passages in rows)
        if vectors is not None and are_short and vectors.keys.tolist() == [row[0] for row in rows]:
            self._extend(rows, vectors.matrix)  # short texts that all have vectors: the usual case
        else:
            self._extend(rows)
            if vectors is not None:
                self.index.set_vectors(vectors.keys, vectors.matrix, vectors.passages)
        if self.layer is Layer.MEMORIES:
            read_relations(connection, self.relations, scope, f"{key} >= ? AND {key} < ?", (start, end))
        self._loaded_from = start

    def _apply(self, connection: SqlConnection, scope: int, rows: IntArray) -> None:
        """Take over the state of some rows: added, changed or gone."""
        key = _KEYS[self.layer]
        known = rows[np.isin(rows, self.index.keys[self.index.alive])]
        # The text of messages never changes: one that is known has got its vector, or is gone.
        replaced = known[:0] if self.layer is Layer.MESSAGES else known
        for start in range(0, len(rows), _SOME):
            some = rows[start : start + _SOME].tolist()
            among = f"{key} IN ({', '.join('?' * len(some))})"
            found = connection.execute(f"{_COLUMNS[self.layer]} AND {among} ORDER BY {key}", (scope, *some))
            columns = [_whole_row(self.layer, row) for row in found]
            present = np.fromiter((row[0] for row in columns), np.int64)
            gone = np.setdiff1d(np.intersect1d(known, some), present)
            self.index.remove(np.union1d(gone, np.intersect1d(replaced, some)))
            fresh = set(present.tolist()) - set(known.tolist()) | set(replaced.tolist())
            self._extend([row for row in columns if row[0] in fresh])
            vectors = self._vectors(connection, scope, among, some)
            if vectors is not None:
                self.index.set_vectors(vectors.keys, vectors.matrix, vectors.passages)
            if self.layer is Layer.MEMORIES:
                self.relations.remove(some)
                read_relations(connection, self.relations, scope, among, some)

    @reading_rows()
    def _extend(self, rows: Sequence[_Row], vectors: Matrix | None = None) -> None:
        if not rows:
            return
        keys, packed, sessions, speakers, times, asks, by_user, wishes, passages = zip(*rows, strict=True)
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
                by_user=np.fromiter(by_user, np.bool_, n),
                wishes=np.fromiter(wishes, np.bool_, n),
                passages=passages,
            ),
            vectors,
        )

    def _vectors(self, connection: SqlConnection, scope: int, among: str, values: Sequence[int]) -> _Vectors | None:
        """Read vectors with the rows they belong to, in order; None where there are none (CorruptDataError)."""
        if self.layer not in _VECTORS:
            return None
        dimension = dimension_of_scope(connection, scope)
        if not dimension:
            return None
        query = f"{_VECTORS[self.layer]} AND {among} ORDER BY {_KEYS[self.layer]}"
        rows = connection.execute(query, (scope, *values)).fetchall()
        return _read_vectors(rows, dimension) if rows else None

    def allowed(self, connection: SqlConnection, scope: int, wanted: MemoryFilter) -> BoolArray:
        """Return which slots of a partition of memories a filter admits, aligned with `index.keys`."""
        name = repr(wanted)
        mask = self._masks.get(name)
        if mask is None:
            if wanted.types is not None and set(wanted.types) == set(STATEMENTS):
                # Most searches: taking the few others out costs less than reading the type of every row.
                mask = self._meeting(connection, scope, replace(wanted, types=None))
                for others in _NO_STATEMENTS:
                    mask &= ~self._meeting(connection, scope, others)
            else:
                mask = self._meeting(connection, scope, wanted)
            self._masks[name] = mask
            while len(self._masks) > _MASKS:
                self._masks.popitem(last=False)
        return mask

    def admitted(self, connection: SqlConnection, scope: int, wanted: MemoryFilter) -> frozenset[int]:
        """Return which rows a filter admits."""
        name = repr(wanted)
        if name not in self._admitted:
            mask = self.allowed(connection, scope, wanted)
            self._admitted = {name: frozenset(self.index.keys[mask].tolist())}
        return self._admitted[name]

    def _meeting(self, connection: SqlConnection, scope: int, wanted: MemoryFilter) -> BoolArray:
        where, values = conditions(connection, scope, wanted)
        # That index alone answers the usual question; SQLite prefers another, and reads every row (1.8 x the time).
        usual = wanted == MemoryFilter(targets=wanted.targets)
        index = connection.dialect.along("memories_current") if usual else ""
        rows = connection.execute(f"SELECT row FROM memories{index} WHERE {where}", values).fetchall()  # noqa: S608
        mask: BoolArray = np.isin(self.index.keys, np.fromiter((row for (row,) in rows), np.int64, len(rows)))
        return mask


class RecentlyUsed(Generic[K, V]):
    """Parts in memory, up to a number of bytes: those that were used least recently go first. For several threads."""

    def __init__(self, make: Callable[[K], V], limit_bytes: int) -> None:
        """Start empty; `make` makes what is not held. `limit_bytes` counts arrays, and one part may always stay."""
        self._make = make
        self._limit = limit_bytes
        self._gate = threading.Lock()
        self._held: OrderedDict[K, V] = OrderedDict()
        self._sizes: dict[K, int] = {}
        self._total = 0

    def get(self, name: K) -> V:
        """Return the part of this name, a new one if it isn't held."""
        with self._gate:
            part = self._held.get(name)
            if part is None:
                part = self._held[name] = self._make(name)
            self._held.move_to_end(name)
            return part

    def keeps(self, name: K, part: V) -> bool:
        """Tell whether a part is still the one that searches are given; if so, this is a use of it."""
        with self._gate:
            kept = self._held.get(name) is part
            if kept:
                self._held.move_to_end(name)
            return kept

    def measured(self, name: K, size_bytes: int) -> None:
        """Note the size of a part, and let the least recently used ones go if all are too large."""
        with self._gate:
            if name not in self._held:
                return
            self._total += size_bytes - self._sizes.get(name, 0)
            self._sizes[name] = size_bytes
            while self._total > self._limit and len(self._held) > 1:
                self._drop(next(iter(self._held)))

    def forget(self, names: Iterable[K] | None = None) -> None:
        """Let parts go, all of them where none are named."""
        with self._gate:
            for name in list(self._held) if names is None else names:
                self._drop(name)

    def _drop(self, name: K) -> None:
        self._held.pop(name, None)
        self._total -= self._sizes.pop(name, 0)


Partitions: TypeAlias = RecentlyUsed[tuple[int, Layer], Partition]
"""The partitions in use, by the number of their scope and their layer."""


def partitions_of(limit_bytes: int) -> Partitions:
    """Hold partitions up to a number of bytes."""
    return RecentlyUsed(lambda name: Partition(name[1]), limit_bytes)
