from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reme_core.stores import LocalStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    yield store
    await store.close()
