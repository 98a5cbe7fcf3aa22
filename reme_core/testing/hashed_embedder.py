"""An embedder without a model, for tests: hashed words and character n-grams."""

from __future__ import annotations

import hashlib
import math
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from reme_core.errors import ConfigurationError, ReMeError
from reme_core.ports import Matrix, Vector
from reme_core.schema import Usage
from reme_core.text import estimate_tokens

_WORD = re.compile(r"\w+|[^\w\s]")
_WORD_WEIGHT, _GRAM_WEIGHT = 1.0, 0.4
"""A common word counts more than the letters that it shares with another; chosen so that inflections stay near."""


class HashedEmbedder:
    """Turns texts into vectors by their words and characters: the same in every process, nearer the more they share.

    An `Embedder` for tests, also of Chinese, Japanese and Korean texts. It knows no meaning: synonyms are far apart.

    Attributes:
        calls: The texts of each call, in order.
    """

    def __init__(self, dimension: int = 256, *, failures: Sequence[ReMeError | None] = ()) -> None:
        """Make vectors of this length, at least 8.

        Args:
            dimension: The length of every vector.
            failures: What the first calls raise, one each; None lets a call pass. Later calls all pass.

        Raises:
            ConfigurationError: A dimension below 8, in which texts can't be told apart.
        """
        if dimension < 8:
            msg = f"dimension is {dimension}: wanted 8 or more"
            raise ConfigurationError(msg)
        self._dimension = dimension
        self._failures = list(failures)
        self._lock = threading.Lock()
        self._usage = Usage()
        self.calls: list[tuple[str, ...]] = []

    @property
    def model(self) -> str:
        """The name, with the dimension."""
        return f"hashed-{self._dimension}"

    @property
    def dimension(self) -> int:
        """The length of every vector."""
        return self._dimension

    @property
    def usage(self) -> Usage:
        """The calls so far, and their estimated tokens."""
        with self._lock:
            return self._usage

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """Return float32 of shape (len(texts), dimension), rows of unit norm. No texts: no call."""
        if not texts:
            return np.zeros((0, self._dimension), dtype=np.float32)
        with self._lock:
            self.calls.append(tuple(texts))
            self._usage += Usage(embedding_calls=1, prompt_tokens=sum(map(estimate_tokens, texts)))
            failure = self._failures.pop(0) if self._failures else None
        if failure is not None:
            raise failure
        return np.stack([hashed_vector(text, self._dimension) for text in texts])


def hashed_vector(text: str, dimension: int) -> Vector:
    """Return the vector of a text, of unit norm; the same in every process."""
    vector = np.zeros(dimension, dtype=np.float64)
    for feature, count in Counter(_features(text)).items():
        digest = hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        number = int.from_bytes(digest, "little")
        weight = _WORD_WEIGHT if feature[0] == "w" else _GRAM_WEIGHT
        vector[(number >> 1) % dimension] += (1.0 if number & 1 else -1.0) * weight * math.sqrt(count)
    norm = float(np.linalg.norm(vector))
    if norm < 1e-9:  # an empty text, or features that cancel each other out
        vector[:] = 0.0
        vector[0] = norm = 1.0
    unit: Vector = (vector / norm).astype(np.float32)
    return unit


def _features(text: str) -> Iterator[str]:
    for word in _WORD.findall(text.lower()):
        if word.isascii():
            yield f"w{word}"
            marked = f"<{word}>"
            yield from (f"g{marked[at : at + 3]}" for at in range(len(marked) - 2))
        else:  # scripts without blanks between words: characters and pairs of them
            yield from (f"w{char}" for char in word)
            yield from (f"g{word[at : at + 2]}" for at in range(len(word) - 1))
