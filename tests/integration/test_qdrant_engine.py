"""The index keeps its contract, and a store searched in it that of stores, in Qdrant's own engine.

It is the engine without its server: filters, scores, sparse vectors and quantisation are Qdrant's, REST is ours.
"""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("qdrant_edge", reason="Qdrant's engine is not installed: pip install qdrant-edge-py")

from reme_core.ports import MemoryIndex, Store
from reme_core.stores import QdrantIndex
from reme_core.testing import MemoryIndexContract, StoreCapabilities
from reme_core.testing._memory_lifetime import MemoryConcurrency, MemoryDurability
from reme_core.testing._memory_search import MemoryFilters, MemoryRanking
from reme_core.testing.store_values import DIMENSION, Opener
from tests.support.indexed import on_server
from tests.support.qdrant_engine import Engine
from tests.support.qdrant_rest import KEY, RestServer, running

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection"),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with running() as server:
        server.local.close()
        server.local = Engine(tmp_path / "engine")
        yield server


class TestIndexInTheEngine(MemoryIndexContract):
    @pytest.fixture
    async def index(self, server: RestServer) -> AsyncIterator[MemoryIndex]:
        index = QdrantIndex(url=server.url, api_key=KEY, dimension=DIMENSION)
        yield index
        await index.close()


class TestIndexedInTheEngine(MemoryRanking, MemoryFilters, MemoryConcurrency, MemoryDurability):
    capabilities = StoreCapabilities(persistent=True, shared=True)

    @pytest.fixture
    async def store(self, server: RestServer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Store]:
        store = on_server(tmp_path, server.url, KEY)
        yield store
        await store.close()
        assert "is left alone" not in caplog.text  # the engine has answered, not the file in its place

    @pytest.fixture
    def opener(self, server: RestServer, tmp_path: Path) -> Opener[Store]:
        return partial(on_server, tmp_path, server.url, KEY)
