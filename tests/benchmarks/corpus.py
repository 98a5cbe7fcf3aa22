"""Made-up conversations whose words are as unevenly common as real ones, and an embedder that costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from reme_core import ReMe

DIMENSION = 384
_START = datetime(2024, 1, 1, tzinfo=UTC)
_SESSION = 20


class PoolEmbedder:
    """Hands out vectors of a fixed pool in turn: what is timed is then ours, not a model's."""

    def __init__(self, size: int = 8192) -> None:
        rng = np.random.default_rng(7)
        self._pool = unit(rng.normal(size=(size, DIMENSION)).astype(np.float32))
        self._next = 0

    @property
    def dimension(self) -> int:
        return DIMENSION

    async def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        places = (np.arange(len(texts)) + self._next) % len(self._pool)
        self._next += len(texts)
        return self._pool[places]


def unit(matrix: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


class Corpus:
    """Texts of 4 to 24 words, or as asked for; word n of 8,000 is drawn in proportion to 1 / (n + 10) ** 1.2 (Zipf).

    So 1,000 texts have 2,900 distinct words and 3,000 have 5,000, a little more than real talk (LoCoMo: 2,500, 4,500).
    """

    def __init__(self, seed: int = 1, *, words: tuple[int, int] = (4, 24)) -> None:
        self._rng = np.random.default_rng(seed)
        self._lengths = words
        letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
        self._words = ["".join(self._rng.choice(letters, size)) for size in self._rng.integers(4, 10, 8_000)]
        weights = 1.0 / (np.arange(len(self._words)) + 10) ** 1.2
        self._sums = np.cumsum(weights / weights.sum())

    def text(self, low: int | None = None, high: int | None = None) -> str:
        size = int(self._rng.integers(low or self._lengths[0], (high or self._lengths[1]) + 1))
        return " ".join(self._words[place] for place in np.searchsorted(self._sums, self._rng.random(size)))

    def messages(self, count: int, start: int = 0) -> list[dict[str, object]]:
        return [
            {
                "role": "user" if n % 2 else "assistant",
                "name": "Ann" if n % 2 else "Bob",
                "content": self.text(),
                "created_at": _START + timedelta(minutes=start + n),
            }
            for n in range(count)
        ]

    def question(self) -> str:
        return f"What did Ann say about {self.text(3, 6)}?"


async def fill(memory: ReMe, user: str, corpus: Corpus, count: int) -> None:
    """Store messages in sessions of twenty."""
    for start in range(0, count, _SESSION):
        size = min(_SESSION, count - start)
        await memory.summary(corpus.messages(size, start), user_id=user, session_id=f"session-{start // _SESSION}")
