"""Local stores with an index of Qdrant beside them, as functions that survive pickling."""

from __future__ import annotations

from pathlib import Path

from reme_core.stores import IndexedStore, LocalStore, QdrantIndex
from reme_core.testing.store_values import DIMENSION


def in_memory(folder: Path) -> IndexedStore:
    """Open a file whose index is lost with the process."""
    return _indexed(folder, QdrantIndex(location=":memory:", dimension=DIMENSION))


def in_folder(folder: Path) -> IndexedStore:
    """Open a file and the folder of its index."""
    return _indexed(folder, QdrantIndex(path=folder / "qdrant", dimension=DIMENSION))


def on_server(folder: Path, url: str, key: str | None) -> IndexedStore:
    """Open a file whose index lies on a server."""
    return _indexed(folder, QdrantIndex(url=url, api_key=key, dimension=DIMENSION))


def _indexed(folder: Path, index: QdrantIndex) -> IndexedStore:
    return IndexedStore(LocalStore(folder / "memory.db", synchronous="NORMAL"), index, pause_s=0)
