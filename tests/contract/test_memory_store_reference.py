"""The reference store keeps the contract."""

from collections.abc import AsyncIterator

import pytest

from reme_core.ports import MemoryStore
from reme_core.stores.memory_reference import InMemoryStore
from reme_core.testing.memory_store_contract import MemoryStoreContract


class TestInMemoryStore(MemoryStoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[MemoryStore]:
        store = InMemoryStore()
        yield store
        await store.close()
