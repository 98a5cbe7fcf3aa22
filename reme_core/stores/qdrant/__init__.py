"""An index of memories in Qdrant: in this process, in a folder, on a server or on a cluster. See docs/qdrant.md."""

from reme_core.stores.qdrant.collection import QdrantLayout
from reme_core.stores.qdrant.index import QdrantIndex

__all__ = ["QdrantIndex", "QdrantLayout"]
