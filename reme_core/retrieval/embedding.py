"""Vectors of texts, checked before they reach a store: of questions, of what is written, and of what waits for one."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from reme_core.errors import ModelError, ModelOutputError
from reme_core.ports import WAITING, Embedder, EmbedsQueries, Matrix, MessageVector, PendingText, Store, Vector
from reme_core.retrieval.resting_embedder import RestingEmbedder, checked_rows, unusable_vectors
from reme_core.schema import Scope, Usage, bounded_query

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


class EmbeddingTrace(Protocol):
    """What a run has cost so far, and what it did without."""

    usage: Usage
    degraded: dict[str, None]


async def vectors_or_none(
    embedder: Embedder | None, texts: Sequence[str], trace: EmbeddingTrace | None = None
) -> Sequence[Vector | None]:
    """Return the vectors of texts; None for each without an embedder, or where it fails, which the trace tells."""
    if embedder is None or not texts:
        return [None] * len(texts)
    rows = await try_embedding(embedder, texts)
    if isinstance(rows, str):
        if trace is not None:
            trace.degraded[rows] = None
        return [None] * len(texts)
    if trace is not None:
        trace.usage += Usage(embedding_calls=1)
    return list(rows)


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


# Texts tried one by one before a refusal may be about all of them, and what no model has a reason to refuse.
_PROBES, _PLAIN = 3, "hello"


async def embed_waiting(
    store: Store, embedder: Embedder, scope: Scope, *, first: Sequence[PendingText] | None = None
) -> Usage:
    """Embed the messages and memories of a scope that wait for it, batch by batch; each is stored before the next.

    `first` is the first batch, where an append has just handed it back. An embedder that can rest does so after a
    failure that is not about some texts.

    Raises:
        ModelError: What the embedder raises; batches before are kept. Where it refused or spoilt some texts and took
            others, these have their vectors now, and those are left to their words for good.
    """
    calls, refused = 0, list[ModelError]()
    waiting = await store.pending_texts(scope, WAITING) if first is None else first
    while waiting:
        vectors, spent, refusal = await embed_each(embedder, [item.text for item in waiting])
        calls += spent
        # A text that the model refuses while it takes others waits no longer, or it would be in the way of all later
        # ones: it is found by its words, and the error says so.
        pairs = zip(waiting, vectors, strict=True)
        await store.put_vectors(scope, [MessageVector(pending=item, vector=vector) for item, vector in pairs])
        if refusal is not None:
            refused.append(refusal)
        waiting = [] if len(waiting) < WAITING else await store.pending_texts(scope, WAITING)
    if refused:
        raise refused[0]
    return Usage(embedding_calls=calls)


async def embed_each(
    embedder: Embedder, texts: Sequence[str]
) -> tuple[Sequence[Vector | None], int, ModelError | None]:
    """Embed a batch; return the vectors, None for a text that is refused, the number of calls, and the refusal.

    Raises:
        ModelError: What the embedder raises, unless it takes some of the texts.
    """
    calls, refusal = 1, None
    try:
        matrix = await embed_texts(embedder, texts)
    except ModelError as exc:
        if exc.retryable:
            raise
        matrix, calls = await _embed_singly(embedder, texts, exc)
        refusal = exc
    bad = sum(not row.any() for row in matrix)
    if not bad:
        return list(matrix), calls, None
    if refusal is None:
        refusal = ModelOutputError(unusable_vectors(bad), raw="")
        if bad == len(texts):
            raise refusal
    return [row if row.any() else None for row in matrix], calls, refusal


async def _embed_singly(embedder: Embedder, texts: Sequence[str], refusal: ModelError) -> tuple[Matrix, int]:
    """Embed texts one by one after a batch was refused; rows of those that are refused alone too are zeros.

    If none of the first is taken, nor anything else, the refusal is not about a text (a wrong key, say), and is raised.
    """
    rows, taken = np.zeros((len(texts), embedder.dimension), np.float32), 0
    for place, text in enumerate(texts):
        try:
            rows[place] = (await embed_texts(embedder, [text]))[0]
            taken += 1
        except ModelError as exc:
            if exc.retryable:
                raise refusal from exc
        if not taken and place + 1 >= min(_PROBES, len(texts)):
            await _check_takes_any(embedder, refusal)
            taken += 1
    return rows, len(texts)


async def _check_takes_any(embedder: Embedder, refusal: ModelError) -> None:
    """Raise a refusal, unless the embedder takes a plain word; one that can rest does then."""
    try:
        await embed_texts(embedder, [_PLAIN])
    except ModelError as exc:
        if not exc.retryable:
            rest(embedder, refusal)
        raise refusal from exc
