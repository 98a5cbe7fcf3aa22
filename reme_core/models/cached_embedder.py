"""An embedder that remembers, in a file, what it has embedded."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from reme_core.errors import ConfigurationError, ModelOutputError
from reme_core.models.usage_meter import Metered
from reme_core.models.vector_cache_file import CacheFile
from reme_core.ports import Embedder, Matrix, NamedEmbedder
from reme_core.schema import Usage

MAX_ENTRIES = 200_000
"""About 800 MB at 1,024 dimensions, 4 bytes each."""


class CachedEmbedder:
    """Holds an embedder, and is one: texts that it has embedded before come from a SQLite file.

    The file is kept by (model, dimension, text), may be shared by threads and processes and by several models, and
    holds no text: digests alone. Deleting it is harmless. Equal texts of one call are embedded once. The file is read
    and written in threads; a cancelled call leaves it as it was, or with the whole of what it had to add.

    The embedder inside stays its owner's, who closes it. There is nothing else to close.
    """

    def __init__(
        self,
        embedder: Embedder,
        path: str | Path,
        *,
        model: str | None = None,
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        """Keep the embedder and the path; the file is made by the first call.

        Args:
            embedder: Embeds what the cache doesn't know.
            path: The file.
            model: The name that vectors are kept under; needed where the embedder has no `model`.
            max_entries: Beyond this, the oldest vectors are dropped.

        Raises:
            ConfigurationError: No name for the model, or a limit below 1.
        """
        name = model or (embedder.model if isinstance(embedder, NamedEmbedder) else "")
        if not name:
            msg = f"{type(embedder).__name__} does not say which model it is: pass `model`, so that vectors never mix"
            raise ConfigurationError(msg)
        if max_entries < 1:
            msg = f"max_entries is {max_entries}: wanted 1 or more"
            raise ConfigurationError(msg)
        self._embedder = embedder
        self._model = name
        self._file = CacheFile(Path(path), dimension=embedder.dimension, max_entries=max_entries)

    @property
    def model(self) -> str:
        """The name that vectors are kept under."""
        return self._model

    @property
    def dimension(self) -> int:
        """The length of every vector."""
        return self._embedder.dimension

    @property
    def usage(self) -> Usage:
        """What the embedder inside has cost so far; nothing, where it doesn't say."""
        return self._embedder.usage if isinstance(self._embedder, Metered) else Usage()

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """Return float32 of shape (len(texts), dimension), rows of unit norm.

        Raises:
            ModelError: As the embedder inside.
            CorruptDataError: The file is damaged; the message names it. Deleting it is harmless.
            StoreError: The file can't be read or written; see the subclasses.
        """
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        keys = [_key(self._model, self.dimension, text) for text in texts]
        distinct = dict(zip(keys, texts, strict=True))
        known = await asyncio.to_thread(self._file.get, list(distinct))
        missing = [key for key in distinct if key not in known]
        if missing:
            vectors = await self._embedder.embed([distinct[key] for key in missing])
            if vectors.shape != (len(missing), self.dimension):
                msg = f"wanted vectors of shape {(len(missing), self.dimension)}, found {vectors.shape}"
                raise ModelOutputError(msg, raw="")
            fresh = dict(zip(missing, vectors, strict=True))
            await asyncio.to_thread(self._file.put, fresh)
            known |= fresh
        return np.stack([known[key] for key in keys]).astype(np.float32, copy=False)


def _key(model: str, dimension: int, text: str) -> bytes:
    """Return the digest of all that decides a vector, each part with its length."""
    digest = hashlib.blake2b(digest_size=32)
    for part in (model, str(dimension), text):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()
