"""Vectors of texts, checked before they reach a store."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reme_core.errors import ModelOutputError
from reme_core.ports import Embedder, EmbedsQueries, Matrix, Vector
from reme_core.schema import bounded_query


async def embed_texts(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Embed texts and bring the rows to float32 of unit norm; a row that can't be is left as zeros.

    Raises:
        ModelOutputError: The answer is not a matrix of the right shape.
        ModelError: What the embedder raises.
    """
    return _unit_rows(embedder, len(texts), await embedder.embed(list(texts)))


def _unit_rows(embedder: Embedder, count: int, answer: object) -> Matrix:
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


async def embed_one(embedder: Embedder, text: str) -> Vector:
    """Embed a query, as a query where the embedder tells queries from what is stored; of a pasted text, its beginning.

    Raises:
        ModelOutputError: Its vector is zero or not finite.
    """
    text = bounded_query(text)
    if isinstance(embedder, EmbedsQueries):
        matrix = _unit_rows(embedder, 1, [await embedder.embed_query(text)])
        if not matrix.any():
            raise ModelOutputError(unusable_vectors(1), raw="")
    else:
        matrix = await embed_strictly(embedder, [text])
    vector: Vector = matrix[0]
    return vector


async def embed_strictly(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Embed texts, none of which may fail (ModelOutputError)."""
    matrix = await embed_texts(embedder, texts)
    bad = sum(not row.any() for row in matrix)
    if bad:
        raise ModelOutputError(unusable_vectors(bad), raw="")
    return matrix


def unusable_vectors(count: int) -> str:
    """Say that the vectors of so many texts can't be used."""
    return f"the embedder gave zeros or values that are not finite for {count} text(s): check the model"
