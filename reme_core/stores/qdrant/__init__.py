"""An index of memories in Qdrant: in this process, in a folder, on a server or on a cluster. See docs/qdrant.md."""

from reme_core.stores.qdrant.index import QdrantIndex
from reme_core.stores.qdrant.points import QdrantLayout

__all__ = ["QdrantIndex", "QdrantLayout"]
