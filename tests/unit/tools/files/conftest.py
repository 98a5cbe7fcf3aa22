"""A folder with a few files, something outside of it, and a context."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reme_core.ports import ToolContext
from reme_core.stores import LocalStore
from tests.support.toolbox import context_over


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Lasting\n- Emma surfs\n- Emma lives in Porto\n")
    (folder / "memory" / "2026-11-22.md").write_text("## 10:42\nEmma bought a board.\n")
    return folder


@pytest.fixture
async def context(tmp_path: Path) -> AsyncIterator[ToolContext]:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    yield context_over(store)
    await store.close()
