"""Implementations of the model ports: OpenAI-compatible endpoints, a cache of vectors, counters and clocks.

Names are loaded on first use, so that importing this package loads no client library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from reme_core.models.cached_embedder import CachedEmbedder
    from reme_core.models.defaults import CharacterTokenCounter, Metered, SystemClock
    from reme_core.models.openai_chat import OpenAIChat
    from reme_core.models.openai_embedder import OpenAIEmbedder
    from reme_core.models.tiktoken_counter import TiktokenCounter
    from reme_core.schema.openai_messages import wire_messages as wire_messages

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
            "defaults": "CharacterTokenCounter Metered SystemClock",
            "openai_chat": "OpenAIChat wire_messages",
            "openai_embedder": "OpenAIEmbedder",
            "tiktoken_counter": "TiktokenCounter",
        },
        extras={"openai": "openai", "tiktoken": "tiktoken"},
    )
