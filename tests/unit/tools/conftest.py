"""A filled store for tests of tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reme_core.stores import LocalStore
from reme_core.testing.store_values import ALICE, BOB
from tests.support.toolbox import fill


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    await fill(store, ALICE)
    await fill(store, BOB, mark=" zqxsecret")
    yield store
    await store.close()
