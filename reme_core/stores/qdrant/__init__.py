"""Memories in Qdrant: in this process, in a folder, on a server or on a cluster. See docs/qdrant.md."""

from reme_core.stores.qdrant.collection import QdrantLayout
from reme_core.stores.qdrant.store import QdrantStore

__all__ = ["QdrantLayout", "QdrantStore"]
