"""Array types of the package, and an array that grows at its end."""

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
