"""Arrays of the package: types, one that grows at its end, and BM25's formulas over them.

Source: Robertson and Zaragoza 2009, The Probabilistic Relevance Framework: BM25 and Beyond, section 3; the inverse
document frequency is kept above zero by adding one inside the logarithm, as Lucene does.
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
