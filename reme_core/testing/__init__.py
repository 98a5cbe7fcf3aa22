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
    from reme_core.testing.item_store_contract import ItemStoreContract
    from reme_core.testing.job_queue_contract import JobQueueContract
    from reme_core.testing.memory_store_contract import MemoryStoreContract
    from reme_core.testing.offload_store_contract import OffloadStoreContract
    from reme_core.testing.scripted_model import ScriptedChatModel
    from reme_core.testing.store_values import StoreCapabilities
    from reme_core.testing.token_counter_contract import TokenCounterContract
    from reme_core.testing.tool_call_store_contract import ToolCallStoreContract
    from reme_core.testing.transcript_contract import TranscriptContract, TranscriptIndexContract

__all__ = [
    "Answer",
    "ChatModelContract",
    "EmbedderContract",
    "FixedClock",
    "HashedEmbedder",
    "ItemStoreContract",
    "JobQueueContract",
    "MemoryStoreContract",
    "OffloadStoreContract",
    "ScriptedChatModel",
    "SequentialIds",
    "StoreCapabilities",
    "TokenCounterContract",
    "ToolCallStoreContract",
    "TranscriptContract",
    "TranscriptIndexContract",
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
            "item_store_contract": "ItemStoreContract",
            "job_queue_contract": "JobQueueContract",
            "memory_store_contract": "MemoryStoreContract",
            "offload_store_contract": "OffloadStoreContract",
            "scripted_model": "ScriptedChatModel",
            "store_values": "StoreCapabilities",
            "token_counter_contract": "TokenCounterContract",
            "tool_call_store_contract": "ToolCallStoreContract",
            "transcript_contract": "TranscriptContract TranscriptIndexContract",
        },
        extras={"pytest": "dev"},
    )
