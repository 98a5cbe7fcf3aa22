"""The memory that importers write into."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.testing import FixedClock


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    """A memory in the folder `reme`, after all that was written elsewhere."""
    clock = FixedClock("2027-01-01T00:00:00Z")
    async with ReMe("remy", str(tmp_path / "reme"), llm=None, embedding=None, clock=clock) as opened:
        yield opened
