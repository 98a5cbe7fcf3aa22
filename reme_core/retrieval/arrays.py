"""Arrays of the package: types, one that grows at its end, and BM25's formulas over them.

Source: Robertson and Zaragoza 2009, The Probabilistic Relevance Framework: BM25 and Beyond, section 3; the inverse
document frequency is kept above zero by adding one inside the logarithm, as Lucene does.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from reme_core.text.segment import query_terms

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
NumberArray: TypeAlias = npt.NDArray[np.int32]
HashArray: TypeAlias = npt.NDArray[np.uint64]
Matrix: TypeAlias = npt.NDArray[np.float32]

_Scalar = TypeVar("_Scalar", bound=np.generic)


class GrowingArray(Generic[_Scalar]):
    """A one-dimensional array with room at its end; appending costs a constant time on average."""

    __slots__ = ("_array", "_length")

    def __init__(self, array: npt.NDArray[_Scalar]) -> None:
        """Start with the values of an array, which is taken over."""
        self._array = array
        self._length = len(array)

    def __len__(self) -> int:
        """The number of values."""
        return self._length

    @property
    def view(self) -> npt.NDArray[_Scalar]:
        """The values, (n,). Writing to it changes the array; it is stale after the next `extend`."""
        return self._array[: self._length]

    @property
    def nbytes(self) -> int:
        """The bytes held, room at the end included."""
        return self._array.nbytes

    def extend(self, values: npt.NDArray[_Scalar]) -> None:
        """Append values; they are converted to the type of the array."""
        end = self._length + len(values)
        if end > len(self._array):
            grown = np.empty(max(end, self._length + self._length // 4 + 16), dtype=self._array.dtype)
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


def bm25_order(query: str, texts: Sequence[str]) -> list[int]:
    """Rank texts for a query by BM25 alone: all indices, best first, ties in the order given.

    The baseline that the ranking of this package is compared with; it builds its index anew on each call.
    """
    bags = [Counter(query_terms(text)) for text in texts]
    lengths = [sum(bag.values()) for bag in bags]
    mean = sum(lengths) / max(len(lengths), 1) or 1.0
    scores = [0.0] * len(texts)
    for term in dict.fromkeys(query_terms(query)):
        holding = [i for i, bag in enumerate(bags) if term in bag]
        weight = math.log1p((len(texts) - len(holding) + 0.5) / (len(holding) + 0.5))
        for i in holding:
            count = bags[i][term]
            scores[i] += weight * count / (count + K1 * (1 - B + B * lengths[i] / mean))
    return sorted(range(len(texts)), key=lambda i: -scores[i])
