"""The Qdrant store keeps the contract in both local modes of its client."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from reme_core.ports import MemoryStore
from reme_core.stores.qdrant import QdrantStore
from reme_core.testing.memory_store_contract import MemoryStoreContract
from reme_core.testing.store_values import DIMENSION, Opener, StoreCapabilities


class TestQdrantInMemory(MemoryStoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[MemoryStore]:
        store = QdrantStore(location=":memory:", dimension=DIMENSION)
        yield store
        await store.close()


class TestQdrantInAFolder(MemoryStoreContract):
    capabilities = StoreCapabilities(persistent=True)

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[MemoryStore]:
        store = QdrantStore(path=tmp_path / "qdrant", dimension=DIMENSION)
        yield store
        await store.close()

    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener[MemoryStore]:
        return partial(QdrantStore, path=tmp_path / "qdrant", dimension=DIMENSION)
