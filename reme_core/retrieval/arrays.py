"""Arrays of the package: types, one that grows at its end, a matrix of vectors, and BM25's formulas over them.

Source: Robertson and Zaragoza 2009, The Probabilistic Relevance Framework: BM25 and Beyond, section 3; the inverse
document frequency is kept above zero by adding one inside the logarithm, as Lucene does.

Products of vectors use `einsum`, which at 384 dimensions reads a float32 matrix 1.7 to 1.9 times as fast as
`matrix @ query` does (docs/design, stores).
"""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
NumberArray: TypeAlias = npt.NDArray[np.int32]
HashArray: TypeAlias = npt.NDArray[np.uint64]
Matrix: TypeAlias = npt.NDArray[np.float32]

_Scalar = TypeVar("_Scalar", bound=np.generic)


class GrowingArray(Generic[_Scalar]):
    """An array with room at its end: values, or rows of values; appending costs a constant time on average."""

    __slots__ = ("_array", "_length")

    def __init__(self, array: npt.NDArray[_Scalar]) -> None:
        """Start with the values of an array, which is taken over."""
        self._array = array
        self._length = len(array)

    def __len__(self) -> int:
        """The number of values, or rows."""
        return self._length

    @property
    def view(self) -> npt.NDArray[_Scalar]:
        """The values, (n, ...). Writing to it changes the array; it is stale after the next `extend`."""
        return self._array[: self._length]

    @property
    def nbytes(self) -> int:
        """The bytes held, room at the end included."""
        return self._array.nbytes

    def extend(self, values: npt.NDArray[_Scalar]) -> None:
        """Append values; they are converted to the type of the array."""
        end = self._length + len(values)
        if end > len(self._array):
            room = max(end, self._length + self._length // 4 + 16)
            grown = np.empty((room, *self._array.shape[1:]), dtype=self._array.dtype)
            grown[: self._length] = self.view
            self._array = grown
        self._array[self._length : end] = values
        self._length = end


def sums(places: IntArray, values: FloatArray, n: int) -> FloatArray:
    """Add up values (m,) by their places in 0 .. n - 1: (n,)."""
    added: FloatArray = np.bincount(places, values, n).astype(np.float64, copy=False)
    return added


K1 = 1.2
B = 0.75


def inverse_frequency(frequencies: IntArray | FloatArray, n: int) -> FloatArray:
    """Weigh terms by their rareness: frequencies (q,) are the numbers of the n texts that hold each."""
    counts = np.asarray(frequencies, np.float64)
    weights: FloatArray = np.log1p((n - counts + 0.5) / (counts + 0.5))
    return weights


def length_norm(lengths: NumberArray | FloatArray, mean: float) -> FloatArray:
    """Half-saturation count of a term in texts of given lengths (n,): k1 * (1 - b + b * length / mean)."""
    return K1 * ((1.0 - B) + (B / max(mean, 1e-9)) * np.asarray(lengths, np.float64))


# 8,192 x 384 float32 are 12 MB: the most that growing the last block copies, and a piece that fits the cache badly
# enough that the cost of the Python loop over blocks does not show.
BLOCK_ROWS = 8192


def best_rows(scores: npt.NDArray[np.floating], k: int) -> IntArray:
    """Find the rows of the `k` highest scores and all that tie with the last of them, in no order."""
    if len(scores) <= k:
        return np.arange(len(scores))
    cut = len(scores) - k
    threshold = np.partition(scores, cut)[cut]
    return np.flatnonzero(scores >= threshold)


class VectorColumn:
    """One float32 vector a row, or none; rows without one read as zeros.

    Blocks are allocated when a row in them gets its first vector, so growing never copies more than one block.
    """

    def __init__(self) -> None:
        """Start without vectors; the first ones set the dimension."""
        self._blocks: dict[int, Matrix] = {}
        self._present: dict[int, BoolArray] = {}
        self._dimension = 0
        self._count = 0

    def __len__(self) -> int:
        """The number of rows that have a vector."""
        return self._count

    @property
    def nbytes(self) -> int:
        """The bytes of all blocks, room at their end included."""
        return sum(block.nbytes for block in self._blocks.values())

    def put(self, rows: IntArray, vectors: Matrix) -> None:
        """Set the vectors (m, d) of rows (m,), replacing earlier ones.

        Raises:
            ValueError: The shapes disagree with each other or with the vectors before.
        """
        if vectors.ndim != 2 or len(vectors) != len(rows) or self._dimension not in (0, vectors.shape[1]):
            want = f"({len(rows)}, {self._dimension or 'd'})"
            msg = f"vectors must have the shape {want}, not {vectors.shape}"
            raise ValueError(msg)
        if not len(rows):
            return
        self._dimension = vectors.shape[1]
        numbers = rows // BLOCK_ROWS
        touched = np.unique(numbers).tolist()
        for number in touched:
            chosen = numbers == number if len(touched) > 1 else slice(None)  # the usual case, without a copy
            inside = rows[chosen] - number * BLOCK_ROWS
            self._grow(number, int(inside.max()) + 1)
            self._blocks[number][_span(inside)] = vectors[chosen]
            self._present[number][_span(inside)] = True
        self._count = sum(int(p.sum()) for p in self._present.values())

    def products(self, query: Matrix, n: int) -> Matrix:
        """Multiply rows 0 to n - 1 with a query (d,): (n,) float32, 0 for a row without a vector.

        Raises:
            ValueError: The query has another dimension than the vectors.
        """
        out = np.zeros(n, np.float32)
        if self._blocks and query.shape != (self._dimension,):
            msg = f"the query vector must have the shape ({self._dimension},), not {query.shape}"
            raise ValueError(msg)
        for number, block in self._blocks.items():
            start = number * BLOCK_ROWS
            end = min(n, start + len(block))
            np.einsum("ij,j->i", block[: end - start], query, out=out[start:end])
        return out

    def present(self, n: int) -> BoolArray:
        """Tell which of rows 0 to n - 1 have a vector: (n,)."""
        out = np.zeros(n, np.bool_)
        for number, present in self._present.items():
            start = number * BLOCK_ROWS
            end = min(n, start + len(present))
            out[start:end] = present[: end - start]
        return out

    def renumber(self, mapping: IntArray) -> None:
        """Give row i the number `mapping[i]`, increasing with i; rows mapped to -1 are dropped.

        Each old block is freed as soon as it is copied, so the vectors are never held twice.
        """
        blocks, present = self._blocks, self._present
        self._blocks, self._present, self._count = {}, {}, 0
        for number in sorted(blocks):
            start = number * BLOCK_ROWS
            old, has = blocks.pop(number), present.pop(number)
            rows = mapping[start : start + len(old)]
            keep = np.flatnonzero((rows >= 0) & has[: len(rows)])
            if len(keep):
                self.put(rows[keep], old[keep])

    def _grow(self, number: int, length: int) -> None:
        old = self._blocks.get(number)
        if old is not None and length <= len(old):
            return
        capacity = min(BLOCK_ROWS, max(length, length + length // 4))
        block = np.zeros((capacity, self._dimension), np.float32)
        present = np.zeros(capacity, np.bool_)
        if old is not None:
            block[: len(old)] = old
            present[: len(old)] = self._present[number]
        self._blocks[number], self._present[number] = block, present


def _span(rows: IntArray) -> IntArray | slice:
    """Return rising consecutive rows as a slice, which numpy assigns to several times as fast."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first == len(rows) - 1 and bool((np.diff(rows) == 1).all()) else rows
