"""Implementations of the store ports; each library behind one is loaded when its store is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.lazy_names import lazy_names
from reme_core.stores.local import Database, LocalStore

if TYPE_CHECKING:
    from reme_core.stores.memory_reference import InMemoryStore
    from reme_core.stores.qdrant import QdrantLayout, QdrantStore

__all__ = ["Database", "InMemoryStore", "LocalStore", "QdrantLayout", "QdrantStore"]


if not TYPE_CHECKING:  # for a type checker, a name that isn't there is an error
    __getattr__, __dir__ = lazy_names(
        __name__,
        {"memory_reference": "InMemoryStore", "qdrant": "QdrantLayout QdrantStore"},
        extras={"qdrant_client": "qdrant"},
    )
