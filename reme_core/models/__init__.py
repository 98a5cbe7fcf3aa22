"""Implementations of the model ports: OpenAI-compatible endpoints, a cache of vectors, counters and clocks.

Names are loaded on first use, so that importing this package loads no client library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from reme_core.models.cached_embedder import CachedEmbedder
    from reme_core.models.character_counter import CharacterTokenCounter
    from reme_core.models.openai.chat_body import wire_messages
    from reme_core.models.openai.openai_chat import OpenAIChat
    from reme_core.models.openai.openai_embedder import OpenAIEmbedder
    from reme_core.models.system_clock import SystemClock
    from reme_core.models.tiktoken_counter import TiktokenCounter
    from reme_core.models.usage_meter import Metered

__all__ = [
    "CachedEmbedder",
    "CharacterTokenCounter",
    "Metered",
    "OpenAIChat",
    "OpenAIEmbedder",
    "SystemClock",
    "TiktokenCounter",
    "wire_messages",
]

if not TYPE_CHECKING:  # for a type checker, a name that isn't there is an error
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "cached_embedder": "CachedEmbedder",
            "character_counter": "CharacterTokenCounter",
            "openai.chat_body": "wire_messages",
            "openai.openai_chat": "OpenAIChat",
            "openai.openai_embedder": "OpenAIEmbedder",
            "system_clock": "SystemClock",
            "tiktoken_counter": "TiktokenCounter",
            "usage_meter": "Metered",
        },
        extras={"openai": "openai", "tiktoken": "tiktoken"},
    )
