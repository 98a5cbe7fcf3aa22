"""The ports of an embedding model, a token counter and a clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from reme_core.ports.memory_store import Matrix, Vector


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def dimension(self) -> int:
        """The length of every vector."""
        ...

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """Return float32 of shape (len(texts), dimension), rows of unit norm, in the order of the texts.

        No texts: shape (0, dimension), and no call of the model.

        Raises:
            ModelUnavailableError: No answer after the retries; it may pass.
            ModelRejectedError: The endpoint refuses the request as it is.
            ModelOutputError: A wrong number of vectors, a wrong dimension, or values that are not finite.
        """
        ...


@runtime_checkable
class NamedEmbedder(Protocol):
    """An embedder that says which model it is, so that vectors of two models are never mixed."""

    @property
    def model(self) -> str:
        """The name of the model."""
        ...


@runtime_checkable
class EmbedsQueries(Protocol):
    """An embedder whose model treats a query otherwise than a text that is stored."""

    async def embed_query(self, text: str) -> Vector:
        """Return the vector of a query, shape (dimension,), as `Embedder.embed` does for texts; raises as that."""
        ...


class TokenCounter(Protocol):
    """Counts tokens as a model would, or near enough; it may be called from any thread, from several at a time."""

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, 0 for an empty one; adding text never lowers it."""
        ...


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the time, aware, in UTC."""
        ...
