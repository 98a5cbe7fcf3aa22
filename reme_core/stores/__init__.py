"""Implementations of the store and of the index; each library behind one is loaded when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.lazy_names import lazy_names
from reme_core.stores.local import (
    Database,
    FileFacts,
    HeldScope,
    LocalStore,
    check_file,
    check_unused,
    copy_file,
    file_facts,
    fill_digests,
    has_fts5,
    is_read_only,
    list_scopes,
    restore_file,
)

if TYPE_CHECKING:
    from reme_core.stores.indexed import IndexedStore
    from reme_core.stores.qdrant import QdrantIndex, QdrantLayout

__all__ = [
    "Database",
    "FileFacts",
    "HeldScope",
    "IndexedStore",
    "LocalStore",
    "QdrantIndex",
    "QdrantLayout",
    "check_file",
    "check_unused",
    "copy_file",
    "file_facts",
    "fill_digests",
    "has_fts5",
    "is_read_only",
    "list_scopes",
    "restore_file",
]


if not TYPE_CHECKING:  # for a type checker, a name that isn't there is an error
    __getattr__, __dir__ = lazy_names(
        __name__,
        {"indexed": "IndexedStore", "qdrant": "QdrantIndex QdrantLayout"},
        extras={"qdrant_client": "qdrant"},
    )
