"""Answers of embedders, brought to one form."""

from __future__ import annotations

import numpy as np

from reme_core.errors import ModelOutputError
from reme_core.ports import Embedder, Matrix


def checked_rows(embedder: Embedder, count: int, answer: object) -> Matrix:
    """Return an answer as float32 of shape (count, dimension), rows of unit norm; one that can't be so is zeros.

    Raises:
        ModelOutputError: It is not a matrix of that shape.
    """
    try:
        matrix = np.asarray(answer)
    except ValueError as exc:
        msg = f"the embedder answered {count} texts with rows of several lengths: check the model"
        raise ModelOutputError(msg, raw="") from exc
    if matrix.shape != (count, embedder.dimension) or matrix.dtype.kind not in "fiu":
        msg = (
            f"the embedder answered {count} texts with an array of {matrix.dtype} of shape {matrix.shape}, "
            f"wanted numbers of shape {(count, embedder.dimension)}: check its dimension"
        )
        raise ModelOutputError(msg, raw="")
    rows = matrix.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows has no finite norm, and so is left as zeros
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        usable = np.isfinite(norms) & (norms > 0)
        unit: Matrix = np.where(usable, rows / np.where(usable, norms, 1.0), 0.0).astype(np.float32)
    return unit


def unusable_vectors(count: int) -> str:
    """Say that the vectors of so many texts can't be used."""
    return f"the embedder gave zeros or values that are not finite for {count} text(s): check the model"
