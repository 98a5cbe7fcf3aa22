"""The scripted chat model keeps the contract of the real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from reme_core.testing import ScriptedChatModel
from reme_core.testing.chat_model_contract import Answer, ChatModelContract


class TestScriptedChatModel(ChatModelContract):
    @pytest.fixture
    def answering(self) -> Callable[[Sequence[Answer]], ScriptedChatModel]:
        return ScriptedChatModel
