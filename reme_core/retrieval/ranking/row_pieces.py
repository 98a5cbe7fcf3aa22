"""Pieces of the rows of a partition: the passages of a long text, or a short text as a whole.

Words and vectors are kept by piece; what a row has of them is that of its best piece. The pieces of one row follow each
other, and rows follow each other as their slots do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from reme_core.retrieval.arrays import BoolArray, FloatArray, GrowingArray, IntArray, NumberArray
from reme_core.text.passages import passage_sizes


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
