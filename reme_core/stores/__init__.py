"""Implementations of the store and of the index; each library behind one is loaded when it is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from reme_core.errors import MissingExtraError
from reme_core.stores.local import Database, LocalStore

if TYPE_CHECKING:
    from reme_core.stores.indexed import IndexedStore
    from reme_core.stores.qdrant import QdrantIndex, QdrantLayout

__all__ = ["Database", "IndexedStore", "LocalStore", "QdrantIndex", "QdrantLayout"]


def __getattr__(name: str) -> object:
    """Load a store or an index on first use.

    Raises:
        AttributeError: There is no such name.
        MissingExtraError: The library of the index is not installed.
    """
    match name:
        case "IndexedStore":
            return importlib.import_module("reme_core.stores.indexed").IndexedStore
        case "QdrantIndex" | "QdrantLayout":
            try:
                return getattr(importlib.import_module("reme_core.stores.qdrant"), name)
            except ModuleNotFoundError as exc:
                if exc.name != "qdrant_client":
                    raise
                raise MissingExtraError(library="qdrant_client", extra="qdrant", wanted_for=name) from exc
        case _:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
