"""Access for adapters to the parts of a memory that they share with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.errors import ConfigurationError
from reme_core.facade.parts import MemoryParts

if TYPE_CHECKING:
    from reme_core.ports import ChatModel, Clock, Embedder, Store
    from reme_core.retrieval.resting_embedder import RestingEmbedder
    from reme_core.stores import Database


class AdapterSupport:
    """The parts of a `ReMe`, read-only. What they are and who closes them is the memory's affair."""

    @property
    def memory_space(self: MemoryParts) -> str:
        """The workspace that nothing crosses."""
        return self._memory_space

    @property
    def embedder(self: MemoryParts) -> Embedder | None:
        """The embedding model, None where texts are found by their words alone."""
        return self._ports.embedder

    @property
    def resting_embedder(self: MemoryParts) -> RestingEmbedder | None:
        """The embedding model as the memory asks it: at rest for a while after each failure."""
        return self._embedder

    @property
    def llm(self: MemoryParts) -> ChatModel | None:
        """The chat model, None in verbatim mode."""
        return self._ports.llm

    @property
    def clock(self: MemoryParts) -> Clock:
        """What tells the time."""
        return self._clock

    @property
    def store(self: MemoryParts) -> Store:
        """Where everything is kept."""
        return self._ports.store

    @property
    def database(self: MemoryParts) -> Database:
        """The local file, for tables of adapters; it is open as long as the memory.

        Raises:
            ConfigurationError: The store that was handed in is no local one.
        """
        if self._ports.file is None:
            msg = f"{self._ports.store!r} is no local store: leave `vector_store` out, or use a memory of its own"
            raise ConfigurationError(msg)
        return self._ports.file.database
