"""The cached embedder keeps the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from reme_core.models import CachedEmbedder
from reme_core.testing import HashedEmbedder
from reme_core.testing.embedder_contract import EmbedderContract


class TestCachedEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self, tmp_path: Path) -> CachedEmbedder:
        return CachedEmbedder(HashedEmbedder(), tmp_path / "vectors.db")


class TestCachedEmbedderThatHoldsLittle(EmbedderContract):
    @pytest.fixture
    def embedder(self, tmp_path: Path) -> CachedEmbedder:
        return CachedEmbedder(HashedEmbedder(), tmp_path / "vectors.db", max_entries=3)
