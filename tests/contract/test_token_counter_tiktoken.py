"""The counter of tiktoken keeps the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from reme_core.models import TiktokenCounter
from reme_core.testing.token_counter_contract import TokenCounterContract
from tests.support.vocabulary import write_vocabulary


class TestTiktokenCounter(TokenCounterContract):
    @pytest.fixture
    def counter(self, tmp_path: Path) -> TiktokenCounter:
        return TiktokenCounter(file=write_vocabulary(tmp_path / "small.tiktoken"))
