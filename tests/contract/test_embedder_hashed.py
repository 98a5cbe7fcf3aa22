"""The test embedder keeps the contract of the real ones."""

from __future__ import annotations

import pytest

from reme_core.testing import HashedEmbedder
from reme_core.testing.embedder_contract import EmbedderContract


class TestHashedEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> HashedEmbedder:
        return HashedEmbedder()
