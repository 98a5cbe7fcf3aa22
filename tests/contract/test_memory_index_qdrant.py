"""The index in Qdrant keeps the contract in both local modes of its client."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reme_core.ports import MemoryIndex
from reme_core.stores import QdrantIndex
from reme_core.testing import MemoryIndexContract
from reme_core.testing.store_values import DIMENSION


class TestQdrantInMemory(MemoryIndexContract):
    @pytest.fixture
    async def index(self) -> AsyncIterator[MemoryIndex]:
        index = QdrantIndex(location=":memory:", dimension=DIMENSION)
        yield index
        await index.close()


class TestQdrantInAFolder(MemoryIndexContract):
    @pytest.fixture
    async def index(self, tmp_path: Path) -> AsyncIterator[MemoryIndex]:
        index = QdrantIndex(path=tmp_path / "qdrant", dimension=DIMENSION)
        yield index
        await index.close()
