"""Vectors on their way into and out of the file: float32, little endian, all of one dimension."""

from __future__ import annotations

import sqlite3

import numpy as np
import numpy.typing as npt

from reme_core.errors import DimensionMismatchError, InvalidInputError
from reme_core.ports import Vector

# Embedders normalise in float32 or float16; what is further from 1 was not normalised at all.
_NORM_TOLERANCE = 1e-2


def check_vector(vector: npt.NDArray[np.generic], what: str) -> Vector:
    """Return a vector as contiguous float32, if it is one of unit norm.

    Raises:
        InvalidInputError: It is not a float32 array of shape (d,), not finite, or not of unit norm.
    """
    if not isinstance(vector, np.ndarray) or vector.ndim != 1 or vector.dtype != np.float32 or not len(vector):
        found = f"{vector.dtype} of shape {vector.shape}" if isinstance(vector, np.ndarray) else type(vector).__name__
        msg = f"{what}: wanted a float32 array of shape (d,), found {found}"
        raise InvalidInputError(msg)
    checked = np.ascontiguousarray(vector, dtype="<f4")
    norm = float(np.linalg.norm(checked))
    if not np.isfinite(norm):
        msg = f"{what}: holds NaN or infinity; check the embedding model's answer"
        raise InvalidInputError(msg)
    if abs(norm - 1.0) > _NORM_TOLERANCE:
        msg = f"{what}: has norm {norm:.4g}, wanted 1: divide it by its norm (a vector of zeros can't be searched)"
        raise InvalidInputError(msg)
    return checked


def stored_dimension(connection: sqlite3.Connection) -> int | None:
    """Return the dimension of the vectors in the file, None while there are none."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'dimension'").fetchone()
    return None if row is None else int(row[0])


def claim_dimension(connection: sqlite3.Connection, dimension: int, what: str) -> None:
    """Make this the dimension of the file, if it has none yet.

    Raises:
        DimensionMismatchError: It has another one.
    """
    expected = stored_dimension(connection)
    if expected is None:
        connection.execute("INSERT INTO meta VALUES ('dimension', ?)", (str(dimension),))
    elif expected != dimension:
        raise DimensionMismatchError(expected=expected, found=dimension, what=what)


def check_dimension(connection: sqlite3.Connection, vector: Vector | None, what: str) -> None:
    """Refuse a query's vector of another dimension than that of the file (DimensionMismatchError)."""
    expected = stored_dimension(connection)
    if vector is not None and expected is not None and len(vector) != expected:
        raise DimensionMismatchError(expected=expected, found=len(vector), what=what)
