"""Access for adapters to the parts of a memory that they share with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.errors import ConfigurationError
from reme_core.facade.parts import MemoryParts

if TYPE_CHECKING:
    from reme_core.ports import ChatModel, Clock, Embedder, ItemStore
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
    def items(self: MemoryParts) -> ItemStore:
        """Items beside the memories, written with them in one transaction.

        Raises:
            ConfigurationError: The memory store is not one that keeps items.
        """
        from reme_core.ports import ItemStore

        if isinstance(self._ports.memories, ItemStore):
            return self._ports.memories
        msg = (
            f"{self._ports.memories!r} keeps no items, which must be written together with memories: "
            "use vector_store={'backend': 'local_file'}"
        )
        raise ConfigurationError(msg)

    @property
    def database(self: MemoryParts) -> Database:
        """The local file, for tables of adapters; it is open as long as the memory.

        Raises:
            ConfigurationError: Nothing of this memory lies in a local file.
        """
        from reme_core.stores import LocalStore

        for part in (self._ports.transcript, self._ports.memories):
            if isinstance(part, LocalStore):
                return part.database
        msg = "neither messages nor memories lie in a local file: leave `transcript` out, or use a memory of its own"
        raise ConfigurationError(msg)
