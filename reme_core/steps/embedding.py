"""Vectors for the messages and memories that wait for one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reme_core.errors import ModelError, ModelOutputError
from reme_core.ports import WAITING, Embedder, Matrix, MessageVector, PendingText, Store
from reme_core.retrieval.embedding import (
    degraded_by,
    embed_one,
    embed_strictly,
    embed_texts,
    rest,
    try_embedding,
    try_question,
)
from reme_core.retrieval.resting_embedder import unusable_vectors
from reme_core.schema import Scope, Usage

__all__ = [
    "degraded_by",
    "embed_one",
    "embed_strictly",
    "embed_texts",
    "embed_waiting",
    "try_embedding",
    "try_question",
]


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
        try:
            matrix = await embed_texts(embedder, [item.text for item in waiting])
            calls += 1
        except ModelError as exc:
            if exc.retryable:
                raise
            matrix, spent = await _embed_singly(embedder, [item.text for item in waiting], exc)
            calls += spent
            if not all(row.any() for row in matrix):
                refused.append(exc)
        bad = sum(not row.any() for row in matrix)
        if bad == len(waiting) and not refused:
            raise ModelOutputError(unusable_vectors(bad), raw="")
        # A text that the model refuses while it takes others waits no longer, or it would be in the way of all later
        # ones: it is found by its words, and the error says so.
        vectors = [row if row.any() else None for row in matrix]
        pairs = zip(waiting, vectors, strict=True)
        await store.put_vectors(scope, [MessageVector(pending=item, vector=vector) for item, vector in pairs])
        if bad and not refused:
            refused.append(ModelOutputError(unusable_vectors(bad), raw=""))
        waiting = [] if len(waiting) < WAITING else await store.pending_texts(scope, WAITING)
    if refused:
        raise refused[0]
    return Usage(embedding_calls=calls)


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
