"""Vectors of items in memory: those of a namespace together, and those of a user's memories of a type.

A group is an item, or a memory that was not written as one, with its vectors: rows of one matrix, next to each other. A
search gets a view, which nothing changes any more, so that it needs no lock while it computes: what is new goes behind
the end of the arrays, what is gone is marked in a copy. Each part knows the number of the last change that it has seen
in a log of the file, and reads on from there, as `partitions.py` does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from reme_core.errors import CorruptDataError
from reme_core.ports import Matrix, Vector
from reme_core.retrieval import BoolArray, IntArray
from reme_core.retrieval.arrays import GrowingArray
from reme_core.schema import parse_time
from reme_core.stores.sql.bookkeeping import ITEMS, Layer, changed_since, newest_change
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.memory_rows import microseconds
from reme_core.stores.sql.partitions import RecentlyUsed

_SOME = 500
_BLOCK = 1_000
Scores: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class VectorGroups:
    """Groups and their vectors.

    Attributes:
        keys: Numbers of the items or memories, (g,).
        updated: When they were last changed, microseconds since 1970, (g,).
        counts: How many vectors each has, (g,).
        matrix: The vectors one after the other, (n, d).
        alive: Which groups are still there, (g,).
    """

    keys: IntArray
    updated: IntArray
    counts: IntArray
    matrix: Matrix
    alive: BoolArray

    @property
    def nbytes(self) -> int:
        """The bytes held."""
        return sum(part.nbytes for part in (self.keys, self.updated, self.counts, self.matrix, self.alive))

    def best(self, query: Vector) -> tuple[IntArray, IntArray, Scores]:
        """Return keys, times and best cosines of the groups that have vectors, in no order."""
        if not len(self.matrix):
            return self.keys[:0], self.updated[:0], np.empty(0, np.float32)
        # Row by row, so that equal vectors have equal scores wherever they stand; a product of BLAS needn't.
        scores: Scores = np.einsum("ij,j->i", self.matrix, query)
        having = self.counts > 0
        if len(scores) != np.count_nonzero(having):
            starts = (np.cumsum(self.counts) - self.counts)[having]
            scores = np.maximum.reduceat(scores, starts)
        wanted = self.alive[having]
        keys, updated = self.keys[having], self.updated[having]
        return (keys, updated, scores) if wanted.all() else (keys[wanted], updated[wanted], scores[wanted])

    def all(self, *, bare: bool) -> tuple[IntArray, IntArray]:
        """Return keys and times of all groups, or of those without vectors, in no order."""
        wanted = self.alive & (self.counts == 0) if bare else self.alive
        return self.keys[wanted], self.updated[wanted]


_Row: TypeAlias = tuple[int, int, bytes | None]


class VectorSource(Protocol):
    """Where the groups of a part come from."""

    @property
    def log(self) -> tuple[int, int]:
        """Owner and layer under which their changes are logged; see `bookkeeping.py`."""
        ...

    def rows(self, connection: SqlConnection, keys: list[int] | None) -> Iterator[_Row]:
        """Return (key, updated, vector or None) of some keys, or of all; those of a key one after the other."""
        ...


@dataclass(frozen=True, slots=True)
class ItemSource:
    """The items of a namespace that have vectors."""

    ns: int

    @property
    def log(self) -> tuple[int, int]:
        """See `VectorSource`."""
        return self.ns, ITEMS

    def rows(self, connection: SqlConnection, keys: list[int] | None) -> Iterator[_Row]:
        """See `VectorSource`."""
        # Nested loops in this order: the vectors of an item come one after the other, in the order of their numbers.
        if keys is None:
            index = connection.dialect.along("items_by_update")
            found = connection.execute(
                f"SELECT item, updated, data FROM items{index} CROSS JOIN item_vectors USING (item)"  # noqa: S608
                " WHERE ns = ? ORDER BY updated DESC, item, item_vectors.vector",
                (self.ns,),
            )
            return iter(found)
        found = connection.execute(
            # Not along an index of the namespace, which may be large.
            "SELECT item, updated, data FROM items CROSS JOIN item_vectors USING (item)"
            " WHERE item IN (SELECT value FROM json_each(?)) AND +ns = ? ORDER BY item, item_vectors.vector",
            (str(keys), self.ns),
        )
        return iter(found)


@dataclass(frozen=True, slots=True)
class MemorySource:
    """The current memories of a scope and a type that were not written as items, with and without vectors."""

    scope: int
    memory_type: str

    @property
    def log(self) -> tuple[int, int]:
        """See `VectorSource`."""
        return self.scope, Layer.MEMORIES

    def rows(self, connection: SqlConnection, keys: list[int] | None) -> Iterator[_Row]:
        """See `VectorSource`."""
        among = "" if keys is None else " AND row IN (SELECT value FROM json_each(?))"
        values: list[object] = [self.scope, self.memory_type, *([] if keys is None else [str(keys)])]
        updated_at = connection.dialect.json_text("body", "updated_at")
        found = connection.execute(
            f"SELECT row, {updated_at}, vector"  # noqa: S608  # fixed texts
            " FROM memories LEFT JOIN memory_vectors USING (row)"
            f" WHERE memories.scope = ? AND memory_type = ?{among} AND superseded_by IS NULL"
            " AND NOT EXISTS (SELECT 1 FROM items WHERE memory_row = memories.row)",
            values,
        )
        return ((row, microseconds(parse_time(updated)), vector) for row, updated, vector in found)


class VectorPart:
    """The groups of one source, kept in step with the file."""

    def __init__(self, source: VectorSource) -> None:
        """Start empty; `follow` fills it."""
        self._source = source
        self._lock = threading.Lock()
        self._seen = -1
        self._groups = _GrowingArrays().view()
        self._room = _GrowingArrays()

    def follow(self, connection: SqlConnection) -> VectorGroups:
        """Bring the groups to the state of the snapshot that the connection reads, or a later one; return them."""
        owner, layer = self._source.log
        newest = newest_change(connection, owner, layer)
        with self._lock:
            if 0 <= newest <= self._seen:
                return self._groups
            changed = None if self._seen < 0 else changed_since(connection, owner, layer, self._seen)
            if changed is None or len(changed) > max(_SOME, len(self._groups.keys) // 4):
                changed = None
            seen, self._seen = self._seen, -1  # a failure half-way makes the next call load anew
            if seen < 0 or changed is None or self._is_mostly_dead():
                self._room = _GrowingArrays()
                self._groups = self._room.extend(self._source.rows(connection, None))
            elif changed:
                self._room.bury(changed)
                self._groups = self._room.extend(self._source.rows(connection, changed))
            self._seen = newest
            return self._groups

    def _is_mostly_dead(self) -> bool:
        alive = int(np.count_nonzero(self._groups.alive))
        return len(self._groups.keys) - alive > max(_SOME, alive)


class _GrowingArrays:
    """Arrays that grow at their ends; what was handed out of them stays as it was."""

    def __init__(self) -> None:
        self._keys = GrowingArray(np.empty(0, np.int64))
        self._updated = GrowingArray(np.empty(0, np.int64))
        self._counts = GrowingArray(np.empty(0, np.int64))
        self._alive = np.empty(0, np.bool_)
        self._matrix = GrowingArray(np.empty((0, 0), np.float32))

    def view(self) -> VectorGroups:
        return VectorGroups(
            keys=self._keys.view,
            updated=self._updated.view,
            counts=self._counts.view,
            matrix=self._matrix.view,
            alive=self._alive,
        )

    def bury(self, keys: list[int]) -> None:
        self._alive = self._alive & ~np.isin(self._keys.view, np.array(keys, np.int64))

    def extend(self, rows: Iterator[_Row]) -> VectorGroups:
        """Append groups; those whose rows a block cuts in two are put together again."""
        last: int | None = None
        while some := list(islice(rows, _BLOCK)):
            vectors = [row[2] for row in some if row[2] is not None]
            keys: list[int] = []
            times: list[int] = []
            counts: list[int] = []
            for key, updated, vector in some:
                if key == last:
                    if counts:
                        counts[-1] += 1
                    else:
                        self._counts.view[-1] += 1  # nobody has been given that one yet
                    continue
                last = key
                keys.append(key)
                times.append(updated)
                counts.append(0 if vector is None else 1)
            for array, values in ((self._keys, keys), (self._updated, times), (self._counts, counts)):
                array.extend(np.array(values, np.int64))
            self._append(vectors)
        self._alive = np.concatenate([self._alive, np.ones(len(self._keys) - len(self._alive), np.bool_)])
        return self.view()

    def _append(self, vectors: list[bytes]) -> None:
        if not vectors:
            return
        if not len(self._matrix):
            self._matrix = GrowingArray(np.empty((0, len(vectors[0]) // 4), np.float32))
        dimension = self._matrix.view.shape[1]
        if any(len(vector) != 4 * dimension for vector in vectors):
            msg = f"the file holds a vector that has not {dimension} dimensions: restore a copy"
            raise CorruptDataError(msg)
        self._matrix.extend(np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), dimension))


class ItemVectors(RecentlyUsed[ItemSource | MemorySource, VectorPart]):
    """The parts in use, up to a number of bytes."""

    def __init__(self, limit_bytes: int) -> None:
        """Start empty."""
        super().__init__(VectorPart, limit_bytes)

    def groups(self, connection: SqlConnection, source: ItemSource | MemorySource) -> VectorGroups:
        """Return the groups of a source as the file has them now."""
        groups = self.get(source).follow(connection)
        self.measured(source, groups.nbytes)
        return groups
