"""A store that is searched in Qdrant keeps the contract on a real server.

REME_TEST_QDRANT_URL names it (and REME_TEST_QDRANT_API_KEY its key).

Each test has a collection of its own, which is removed afterwards.
"""

import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from qdrant_client import AsyncQdrantClient

from reme_core.ports import Store
from reme_core.schema import new_id
from reme_core.stores import IndexedStore, LocalStore, QdrantIndex
from reme_core.testing.store_contract import StoreContract
from reme_core.testing.store_values import DIMENSION, Opener, StoreCapabilities

URL = os.environ.get("REME_TEST_QDRANT_URL", "")
KEY = os.environ.get("REME_TEST_QDRANT_API_KEY") or None

if not URL:  # as a whole: 664 tests that skip themselves take longer to collect than many that run
    pytest.skip("REME_TEST_QDRANT_URL names no Qdrant server, as http://localhost:6333 would", allow_module_level=True)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection"),
]


def opened(folder: Path, collection: str, *, prefer_grpc: bool) -> IndexedStore:
    index = QdrantIndex(url=URL, api_key=KEY, prefer_grpc=prefer_grpc, collection=collection, dimension=DIMENSION)
    return IndexedStore(LocalStore(folder / "memory.db"), index)


class _OnServer(StoreContract):
    capabilities = StoreCapabilities(persistent=True, shared=True)
    prefer_grpc = False

    @pytest.fixture
    async def collection(self) -> AsyncIterator[str]:
        name = f"reme_test_{new_id()}"
        yield name
        client = AsyncQdrantClient(url=URL, api_key=KEY, check_compatibility=False)
        await client.delete_collection(name)
        await client.close()

    @pytest.fixture
    def opener(self, collection: str, tmp_path: Path) -> Opener[Store]:
        return partial(opened, tmp_path, collection, prefer_grpc=self.prefer_grpc)

    @pytest.fixture
    async def store(self, collection: str, tmp_path: Path) -> AsyncIterator[Store]:
        store = opened(tmp_path, collection, prefer_grpc=self.prefer_grpc)
        yield store
        await store.close()


class TestQdrantServerOverRest(_OnServer):
    pass


class TestQdrantServerOverGrpc(_OnServer):
    prefer_grpc = True
