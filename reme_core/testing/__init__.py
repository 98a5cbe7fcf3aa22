"""Test doubles and contract suites, for users of reme and for those who write a store or a model of their own.

Names are loaded on first use; the suites need pytest and pytest-asyncio, the test doubles need nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from reme_core.testing.chat_model_contract import Answer, ChatModelContract
    from reme_core.testing.clock import FixedClock
    from reme_core.testing.embedder_contract import EmbedderContract
    from reme_core.testing.hashed_embedder import HashedEmbedder
    from reme_core.testing.ids import SequentialIds
    from reme_core.testing.memory_index_contract import MemoryIndexContract
    from reme_core.testing.scripted_model import ScriptedChatModel
    from reme_core.testing.store_contract import StoreContract
    from reme_core.testing.store_values import StoreCapabilities
    from reme_core.testing.token_counter_contract import TokenCounterContract

__all__ = [
    "Answer",
    "ChatModelContract",
    "EmbedderContract",
    "FixedClock",
    "HashedEmbedder",
    "MemoryIndexContract",
    "ScriptedChatModel",
    "SequentialIds",
    "StoreCapabilities",
    "StoreContract",
    "TokenCounterContract",
]

if not TYPE_CHECKING:  # for a type checker, a name that isn't there is an error
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "chat_model_contract": "Answer ChatModelContract",
            "clock": "FixedClock",
            "embedder_contract": "EmbedderContract",
            "hashed_embedder": "HashedEmbedder",
            "ids": "SequentialIds",
            "memory_index_contract": "MemoryIndexContract",
            "scripted_model": "ScriptedChatModel",
            "store_contract": "StoreContract",
            "store_values": "StoreCapabilities",
            "token_counter_contract": "TokenCounterContract",
        },
        extras={"pytest": "dev"},
    )
