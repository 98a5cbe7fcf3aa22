"""The local store keeps the contracts of transcripts and of their index."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from reme_core.stores import LocalStore
from reme_core.testing.store_values import StoreCapabilities
from tests.contract.suites.transcript_contract import TranscriptContract, TranscriptIndexContract


class TestLocalStoreAsTranscript(TranscriptContract, TranscriptIndexContract):
    capabilities = StoreCapabilities(persistent=True, shared=True)

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[LocalStore]:
        store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
        yield store
        await store.close()

    @pytest.fixture
    def opener(self, tmp_path: Path) -> partial[LocalStore]:
        return partial(LocalStore, tmp_path / "memory.db")
