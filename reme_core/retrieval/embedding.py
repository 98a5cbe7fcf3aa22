"""Vectors of texts, checked before they reach a store, and the text that is embedded for a message."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from reme_core.errors import ModelError, ModelOutputError
from reme_core.ports import Embedder, EmbedsQueries, Matrix, Vector
from reme_core.retrieval.resting_embedder import RestingEmbedder, checked_rows, unusable_vectors
from reme_core.schema import bounded_query

T = TypeVar("T")


async def embed_texts(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Embed texts and bring the rows to float32 of unit norm; a row that can't be is left as zeros.

    Raises:
        ModelOutputError: The answer is not a matrix of the right shape.
        ModelError: What the embedder raises.
    """
    return checked_rows(embedder, len(texts), await embedder.embed(list(texts)))


async def embed_one(embedder: Embedder, text: str) -> Vector:
    """Embed a query, as a query where the embedder tells queries from what is stored; of a pasted text, its beginning.

    Raises:
        ModelOutputError: Its vector is zero or not finite.
    """
    text = bounded_query(text)
    answer: object
    if isinstance(embedder, EmbedsQueries):
        answer = [await embedder.embed_query(text)]
    else:
        answer = await embedder.embed([text])
    matrix = checked_rows(embedder, 1, answer)
    if not matrix.any():
        raise ModelOutputError(unusable_vectors(1), raw="")
    vector: Vector = matrix[0]
    return vector


async def embed_strictly(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Embed texts, none of which may fail (ModelOutputError)."""
    matrix = await embed_texts(embedder, texts)
    bad = sum(not row.any() for row in matrix)
    if bad:
        raise ModelOutputError(unusable_vectors(bad), raw="")
    return matrix


async def try_embedding(embedder: Embedder, texts: Sequence[str]) -> Matrix | str:
    """Embed texts, none of which may fail; or say in a short sentence, for `degraded`, what was done without.

    What the embedder is not asked for again for a while is told in the log, once; see `RestingEmbedder`.
    """
    return await _tried(embedder, embed_strictly(embedder, texts))


async def try_question(embedder: Embedder, text: str) -> Vector | str:
    """Embed a query, or say what was done without; as `try_embedding`."""
    return await _tried(embedder, embed_one(embedder, text))


async def _tried(embedder: Embedder, embedding: Awaitable[T]) -> T | str:
    try:
        return await embedding
    except ModelError as exc:
        rest(embedder, exc)
        return degraded_by(exc)


def rest(embedder: Embedder, error: ModelError) -> None:
    """Have an embedder rest, if it is one that can."""
    if isinstance(embedder, RestingEmbedder):
        embedder.rest(error)


def degraded_by(error: ModelError, instead: str = "words alone were compared") -> str:
    """Say for `degraded` that an embedder has failed, why, and what is done instead."""
    return f"embedding: {' '.join(error.message.split())}; {instead}"


def message_text(name: str, text: str) -> str:
    """Write a message as it is embedded: `Name: text`, or the text alone where nobody is named."""
    return f"{name}: {text}" if name else text
