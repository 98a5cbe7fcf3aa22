"""reme and baselines over the same conversations, for the bars: by words alone, and with the vectors of MiniLM."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from reme_bench.conversations import Conversation, Turn
from reme_bench.evidence import Row
from reme_bench.minilm import MiniLM, NoVectorError
from reme_bench.systems import COSINE, VECTORS, WORDS, MakeRanking, Ranking, baseline, bm25, cosine, reme

FILES, FILES_VECTORS = "as files, words alone", "as files, with vectors"
_CHECKED, _AGREEMENT = 200, 0.99


@dataclass(frozen=True)
class Run:
    """Rows of all systems; why those with vectors are missing; how near made vectors are to the file's, if any were."""

    rows: list[Row]
    failure: str = ""
    agreement: float | None = None


def compare(conversations: Sequence[Conversation], embedder: MiniLM | None, plain: Mapping[str, MakeRanking]) -> Run:
    """Measure reme and the baselines; a text without a vector fails what needs vectors, and nothing else."""
    rows = measure(conversations, None, WORDS)
    for name, make in plain.items():
        rows += baseline(conversations, make, name)
    if embedder is None:
        return Run(rows)
    try:
        with_vectors = measure(conversations, embedder, VECTORS)
        with_vectors += baseline(conversations, cosine(embedder.vectors), COSINE)
        texts = [turn.text for conversation in conversations for turn in conversation.turns]
        near = agreement(embedder, texts) if embedder.has_made else None
    except NoVectorError as exc:
        return Run(rows, str(exc))
    return Run(rows + with_vectors, agreement=near)


def measure(
    conversations: Sequence[Conversation], embedder: MiniLM | None, system: str, *, one_scope: bool = False
) -> list[Row]:
    """Measure reme, by words alone where there is no embedder.

    Raises:
        NoVectorError: A text got no vector, even where reme went on by words.
    """
    try:
        return asyncio.run(reme(conversations, embedder, system, one_scope=one_scope)).rows
    finally:
        if embedder is not None and embedder.failure is not None:
            raise embedder.failure


def bm25_of_users(turns: Sequence[Turn]) -> Ranking:
    """BM25 over the user's turns alone."""
    return bm25([turn for turn in turns if turn.role == "user"])


def agreement(embedder: MiniLM, texts: Sequence[str]) -> float:
    """Lowest cosine of stored and newly made vectors, over 200 texts spread evenly over those given.

    Raises:
        NoVectorError: They can't be made.
    """
    picked = [texts[place] for place in np.linspace(0, len(texts) - 1, min(_CHECKED, len(texts))).astype(int)]
    lowest = float((embedder.vectors(picked) * embedder.vectors(picked, stored=False)).sum(axis=1).min())
    if lowest <= _AGREEMENT:
        message = f"vectors made here and those of the file have a cosine of {lowest:.4f}: another model?"
        raise NoVectorError(message)
    return lowest
