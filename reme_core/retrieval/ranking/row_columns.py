"""The rows of one partition: what a store hands in, the growing columns kept of it, and the pieces of long texts.

Words and vectors are kept by piece; what a row has of them is that of its best piece. The pieces of one row follow each
other, and rows follow each other as their slots do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reme_core.retrieval.arrays import BoolArray, FloatArray, GrowingArray, IntArray, NumberArray
from reme_core.text.segment import passage_sizes


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A row found.

    Attributes:
        key: Its key.
        score: Comparable within one ranking only.
        passage: The number of the passage that says most, from 0; None for a text that has none.
        similarity: The cosine with the query; None where either has no vector.
        parts: What the parts of the score come to, those that are zero left out; None: nobody asked.
        place: Among all that were found, from 1; None: nobody asked.
    """

    key: int
    score: float
    passage: int | None = None
    similarity: float | None = None
    parts: Mapping[str, float] | None = None
    place: int | None = None

    def scaled(self, scale: float, *, most: float = math.inf) -> ScoredRow:
        """Return it with its score divided by a scale, and its parts; what is above the most is a part of its own."""
        score = min(self.score / scale, most)
        if self.parts is None:
            return replace(self, score=score)
        parts = {name: value / scale for name, value in self.parts.items()}
        if self.score / scale > most:
            parts["at_most"] = most - self.score / scale
        return replace(self, score=score, parts=parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Columns of n texts in the order they were stored.

    Attributes:
        keys: (n,) distinct identifiers, the store's row ids.
        terms: n packed term lists, from `pack_terms(terms(text))`.
        sessions: (n,) session numbers of the store; -1 for a text that has no neighbours.
        positions: (n,) places inside the session; ties stand in storage order.
        speakers: n names of who said it, "" where nobody did.
        times: (n,) seconds since 1970 UTC, NaN where unknown.
        questions: (n,) whether the text asks something.
        by_user: (n,) whether the user said it, as the role of the message tells; empty: nobody knows.
        wishes: (n,) whether it is a standing wish of the user; empty: none is.
        passages: n packed passages, from `segment_passages`, b"" for a short text; empty: all texts are short.
    """

    keys: IntArray
    terms: Sequence[bytes]
    sessions: IntArray
    positions: IntArray
    speakers: Sequence[str]
    times: FloatArray
    questions: BoolArray
    by_user: BoolArray = field(default_factory=lambda: np.empty(0, np.bool_))
    wishes: BoolArray = field(default_factory=lambda: np.empty(0, np.bool_))
    passages: Sequence[bytes] = ()

    def __post_init__(self) -> None:
        """Check that the columns are of one length.

        Raises:
            ValueError: They are not.
        """
        columns = (self.terms, self.sessions, self.positions, self.speakers, self.times, self.questions)
        optional = [column for column in (self.by_user, self.wishes, self.passages) if len(column)]
        if any(len(column) != len(self.keys) for column in (*columns, *optional)):
            msg = f"the columns must have {len(self.keys)} rows like keys, not {[len(c) for c in columns]}"
            raise ValueError(msg)


def plain_rows(keys: IntArray, packed: Sequence[bytes], times: FloatArray | None = None) -> Rows:
    """Make rows of texts that have neither session nor speaker: memories and summaries."""
    n = len(keys)
    return Rows(
        keys=keys,
        terms=packed,
        sessions=np.full(n, -1),
        positions=np.zeros(n, np.int64),
        speakers=[""] * n,
        times=np.full(n, np.nan) if times is None else times,
        questions=np.zeros(n, np.bool_),
    )


_KINDS: Mapping[str, type[np.generic]] = {
    "keys": np.int64,
    "sessions": np.int64,
    "positions": np.int64,
    "speakers": np.int32,
    "times": np.float64,
    "questions": np.bool_,
    "by_user": np.bool_,
    "wishes": np.bool_,
    "lengths": np.int32,
    "alive": np.bool_,
}


class RowColumns:
    """The columns of all slots, living and removed, aligned with each other."""

    def __init__(self) -> None:
        """Start without rows."""
        self._columns: dict[str, GrowingArray[Any]] = {
            name: GrowingArray(np.empty(0, kind)) for name, kind in _KINDS.items()
        }
        self._names: dict[str, int] = {"": 0}
        self.dead = 0
        self._order: IntArray | None = None

    def __len__(self) -> int:
        """The number of slots."""
        return len(self._columns["keys"])

    @property
    def keys(self) -> IntArray:
        """The store's identifiers: (n,)."""
        return self._columns["keys"].view

    @property
    def sessions(self) -> IntArray:
        """Session numbers: (n,), -1 for none."""
        return self._columns["sessions"].view

    @property
    def positions(self) -> IntArray:
        """Places inside the session: (n,)."""
        return self._columns["positions"].view

    @property
    def speakers(self) -> NumberArray:
        """Speaker numbers: (n,); see `names`."""
        return self._columns["speakers"].view

    @property
    def times(self) -> FloatArray:
        """Seconds since 1970 UTC: (n,), NaN where unknown."""
        return self._columns["times"].view

    @property
    def questions(self) -> BoolArray:
        """Whether each text asks something: (n,)."""
        return self._columns["questions"].view

    @property
    def by_user(self) -> BoolArray:
        """Whether each text was said by the user: (n,)."""
        return self._columns["by_user"].view

    @property
    def wishes(self) -> BoolArray:
        """Whether each text is a standing wish of the user: (n,)."""
        return self._columns["wishes"].view

    @property
    def lengths(self) -> NumberArray:
        """Terms of each row, stop words not counted."""
        return self._columns["lengths"].view

    @property
    def alive(self) -> BoolArray:
        """Which slots have not been removed: (n,)."""
        return self._columns["alive"].view

    @property
    def names(self) -> dict[str, int]:
        """Speaker numbers by name; number 0 is the empty name."""
        return self._names

    @property
    def nbytes(self) -> int:
        """The bytes held, room for growth included."""
        return sum(array.nbytes for array in self._columns.values())

    def extend(self, rows: Rows) -> None:
        """Append rows; their keys must be distinct and not those of living rows (ValueError)."""
        self._check_new(rows.keys)
        names = self._names
        numbers = [names.setdefault(name, len(names)) for name in rows.speakers]
        n = len(rows.keys)
        fresh: dict[str, npt.NDArray[Any]] = {
            "keys": rows.keys,
            "sessions": rows.sessions,
            "positions": rows.positions,
            "speakers": np.array(numbers, np.int32),
            "times": rows.times,
            "questions": rows.questions,
            "by_user": rows.by_user if len(rows.by_user) else np.zeros(n, np.bool_),
            "wishes": rows.wishes if len(rows.wishes) else np.zeros(n, np.bool_),
            "lengths": np.fromiter((len(blob) >> 3 for blob in rows.terms), np.int32, n),
            "alive": np.ones(n, np.bool_),
        }
        for name, array in self._columns.items():
            array.extend(fresh[name])
        self._order = None

    def slots(self, keys: IntArray) -> IntArray:
        """Find the slots of keys (m,): (m,), -1 for a key that is unknown or removed."""
        if not len(self):
            return np.full(len(keys), -1)
        if self._order is None:
            # Of two slots with one key the living one must stand last: the removed one is older, and the sort stable.
            self._order = np.argsort(self.keys, kind="stable")
        found = np.searchsorted(self.keys, keys, side="right", sorter=self._order) - 1
        slots = self._order[found]
        known = (found >= 0) & (self.keys[slots] == keys) & self.alive[slots]
        return np.where(known, slots, -1)

    def bury(self, slots: IntArray) -> None:
        """Mark living slots as removed."""
        self.alive[slots] = False
        self.dead += len(slots)

    def compact(self) -> IntArray:
        """Drop removed slots; return the new slot of each old one, -1 for the dropped."""
        alive = self.alive.copy()
        mapping = np.where(alive, np.cumsum(alive) - 1, -1)
        self._columns = {name: GrowingArray(array.view[alive]) for name, array in self._columns.items()}
        self.dead, self._order = 0, None
        return mapping

    def _check_new(self, keys: IntArray) -> None:
        n = len(self)
        if len(keys) and (n == 0 or keys[0] > self.keys[:n].max()) and bool((keys[1:] > keys[:-1]).all()):
            return
        if len(np.unique(keys)) < len(keys) or bool((self.slots(keys) >= 0).any()):
            msg = "keys must be distinct, and not those of rows that are there already"
            raise ValueError(msg)


class RowPieces:
    """The pieces of all slots, living and removed."""

    def __init__(self) -> None:
        """Start without rows."""
        self._first = GrowingArray(np.empty(0, np.int64))
        self._owner = GrowingArray(np.empty(0, np.int32))
        self._lengths = GrowingArray(np.empty(0, np.int32))

    def __len__(self) -> int:
        """The number of pieces."""
        return len(self._owner)

    @property
    def all_whole(self) -> bool:
        """Whether each row is one piece, so that the number of a piece is that of its slot."""
        return len(self._owner) == len(self._first)

    @property
    def first(self) -> IntArray:
        """The first piece of each slot: (n,), rising."""
        return self._first.view

    @property
    def owner(self) -> NumberArray:
        """The slot of each piece: (m,)."""
        return self._owner.view

    @property
    def lengths(self) -> NumberArray:
        """The terms of each piece: (m,)."""
        return self._lengths.view

    @property
    def nbytes(self) -> int:
        """The bytes held, room for growth included."""
        return self._first.nbytes + self._owner.nbytes + self._lengths.nbytes

    def counts(self) -> IntArray:
        """Return the number of pieces of each slot: (n,)."""
        return np.diff(self.first, append=len(self))

    def extend(self, packed: Sequence[bytes], passages: Sequence[bytes]) -> list[bytes]:
        """Append rows with their packed terms and passages; return the packed terms of each piece."""
        blobs: list[bytes] = []
        first: list[int] = []
        for terms, cuts in zip(packed, passages, strict=True):
            first.append(len(blobs))
            blobs.extend(_cut(terms, cuts) if cuts else (terms,))
        row, begin = len(self._first), len(self)
        firsts = np.array(first, np.int64)
        sizes = np.diff(firsts, append=len(blobs))
        self._first.extend(firsts + begin)
        self._owner.extend(np.repeat(np.arange(row, row + len(packed), dtype=np.int32), sizes))
        self._lengths.extend(np.fromiter((len(blob) >> 3 for blob in blobs), np.int32, len(blobs)))
        return blobs

    def best(self, values: FloatArray) -> FloatArray:
        """Return the highest of the values (m,) of each slot's pieces: (n,)."""
        if self.all_whole or not len(values):
            return values
        highest: FloatArray = np.maximum.reduceat(values, self.first)
        return highest

    def any(self, values: BoolArray) -> BoolArray:
        """Tell for which slots (n,) one of the values (m,) of its pieces is true."""
        if self.all_whole or not len(values):
            return values
        found: BoolArray = np.logical_or.reduceat(values, self.first)
        return found

    def compact(self, mapping: IntArray) -> IntArray:
        """Drop the pieces of slots that `mapping` sends to -1; return the new number of each old piece, or -1."""
        kept = mapping[self.owner] >= 0
        numbers = np.where(kept, np.cumsum(kept) - 1, -1)
        self._first = GrowingArray(numbers[self.first[mapping >= 0]])
        self._owner = GrowingArray(mapping[self.owner[kept]].astype(np.int32))
        self._lengths = GrowingArray(self.lengths[kept])
        return numbers


def _cut(terms: bytes, cuts: bytes) -> Iterator[bytes]:
    start = 0
    for size in passage_sizes(cuts):
        yield terms[start : start + 8 * size]
        start += 8 * size


def best_piece(values: FloatArray) -> int | None:
    """Return the place of the highest value; None for a text of one piece, or one of which no piece says anything."""
    best = int(np.argmax(values))
    return best if len(values) > 1 and values[best] > 0.0 else None
