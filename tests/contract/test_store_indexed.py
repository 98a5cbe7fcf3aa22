"""A local store that is searched in Qdrant keeps the contract of stores, in both local modes of Qdrant's client.

What is written, listed and counted is the local store's, whatever lies beside it: with a folder, the parts of the
contract are shown in which the index answers or is opened again.
"""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from reme_core.ports import Store
from reme_core.testing._memory_isolation import MemoryIsolation
from reme_core.testing._memory_lifetime import MemoryConcurrency, MemoryDurability
from reme_core.testing._memory_search import MemoryFilters, MemoryRanking
from reme_core.testing._memory_uses import MemoryUsesDurability
from reme_core.testing._memory_waiting import MemoryWaiting
from reme_core.testing.store_contract import StoreContract
from reme_core.testing.store_values import Opener, StoreCapabilities
from tests.support.indexed import in_folder, in_memory


class TestIndexedInMemory(StoreContract):
    """The index is made anew from the file in every process."""

    capabilities = StoreCapabilities(persistent=True, shared=True)

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = in_memory(tmp_path)
        yield store
        await store.close()

    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener[Store]:
        return partial(in_memory, tmp_path)


class TestIndexedInAFolder(
    MemoryRanking,
    MemoryFilters,
    MemoryWaiting,
    MemoryIsolation,
    MemoryConcurrency,
    MemoryDurability,
    MemoryUsesDurability,
):
    capabilities = StoreCapabilities(persistent=True)

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = in_folder(tmp_path)
        yield store
        await store.close()

    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener[Store]:
        return partial(in_folder, tmp_path)
