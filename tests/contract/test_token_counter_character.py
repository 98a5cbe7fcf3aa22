"""The counter by characters keeps the contract."""

from __future__ import annotations

import pytest

from reme_core.models import CharacterTokenCounter
from reme_core.testing.token_counter_contract import TokenCounterContract


class TestCharacterTokenCounter(TokenCounterContract):
    @pytest.fixture
    def counter(self) -> CharacterTokenCounter:
        return CharacterTokenCounter()
