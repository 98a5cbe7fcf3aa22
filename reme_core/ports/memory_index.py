"""The port of an index of memories: a vector engine beside the store, which can be built anew from it at any time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from reme_core.ports.memory_store import MemorySearch, Vector
from reme_core.schema import Memory, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """A memory as an index takes it.

    Attributes:
        key: The store's own, unique in the scope, and never used again for another memory.
        memory: The memory; what it says need not be kept in readable form.
        vector: The vector of its `index_text`, if it has one.
    """

    key: str
    memory: Memory
    vector: Vector | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesQuery:
    """Which changes of a scope: those after `position`, from the beginning for None; about `limit` entries a page."""

    position: str | None = None
    limit: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesPage:
    """A page of changes.

    Attributes:
        entries: Memories that are new or say something else, as they are now.
        gone: Keys of those that are no more, or not searched any more.
        position: Where the next page begins.
        starts_over: What the index holds of the scope has to go first: the position asked for is of another file, of
            a scope that was erased since, or too old.
        is_last: Nothing follows by now.
    """

    entries: Sequence[IndexEntry]
    gone: Sequence[str]
    position: str
    starts_over: bool
    is_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertEntries:
    """Entries to be added or replaced by key, and the position of the store that the index then has reached."""

    entries: Sequence[IndexEntry]
    position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteEntries:
    """Entries to be removed by key; None: all of the scope, its position first."""

    keys: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexHit:
    """A memory found, by its id, its score (at most 1.0, higher is better), and its cosine with the query, if known."""

    memory_id: str
    score: float
    similarity: float | None = None


class MemoryIndex(Protocol):
    """Memories of many scopes, for searching alone: the store keeps them, and what it does not hold is no hit.

    Every call sees and touches one scope alone, and raises `StoreUnavailableError` where the engine can't be reached.
    """

    async def find_position(self, scope: Scope) -> str | None:
        """Return the position that the last `upsert` brought the scope to; None: it holds nothing that counts."""
        ...

    async def upsert(self, scope: Scope, upsert: UpsertEntries) -> None:
        """Write entries, and then the position; both are durable and searchable when this returns.

        Raises:
            DimensionMismatchError: A vector of another length than those of the index.
        """
        ...

    async def delete(self, scope: Scope, delete: DeleteEntries) -> None:
        """Remove entries; keys that aren't there are passed over."""
        ...

    async def search(self, scope: Scope, search: MemorySearch) -> list[IndexHit]:
        """Return the best memories, highest score first; ties: newest first, then by id. Scores as in `MemorySearch`.

        Raises:
            InvalidInputError: There is neither text nor vector.
            UnsupportedFilterError: The index can't honour the filter.
            DimensionMismatchError: The query's vector has another length than those of the index.
        """
        ...

    async def close(self) -> None:
        """Release what is held; later calls raise `StoreClosedError`. Closing twice is harmless."""
        ...
