"""Implementations of the store ports; each library behind one is loaded when its store is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from reme_core.errors import MissingExtraError
from reme_core.stores.local import Database, LocalStore

if TYPE_CHECKING:
    from reme_core.stores.memory_reference import InMemoryStore
    from reme_core.stores.qdrant import QdrantLayout, QdrantStore

__all__ = ["Database", "InMemoryStore", "LocalStore", "QdrantLayout", "QdrantStore"]


def __getattr__(name: str) -> object:
    """Load a store on first use.

    Raises:
        AttributeError: There is no such name.
        MissingExtraError: The library of the store is not installed.
    """
    match name:
        case "InMemoryStore":
            return importlib.import_module("reme_core.stores.memory_reference").InMemoryStore
        case "QdrantLayout" | "QdrantStore":
            try:
                return getattr(importlib.import_module("reme_core.stores.qdrant"), name)
            except ModuleNotFoundError as exc:
                if exc.name != "qdrant_client":
                    raise
                raise MissingExtraError(library="qdrant_client", extra="qdrant", wanted_for=name) from exc
        case _:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
