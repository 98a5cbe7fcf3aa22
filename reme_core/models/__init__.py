"""Implementations of the model ports: OpenAI-compatible endpoints, a cache of vectors, counters and clocks.

Names are loaded on first use, so that importing this package loads no client library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from reme_core.models.cached_embedder import CachedEmbedder as CachedEmbedder
    from reme_core.models.defaults import CharacterTokenCounter as CharacterTokenCounter
    from reme_core.models.defaults import Metered as Metered
    from reme_core.models.defaults import SystemClock as SystemClock
    from reme_core.models.openai_chat import OpenAIChat as OpenAIChat
    from reme_core.models.openai_embedder import OpenAIEmbedder as OpenAIEmbedder
    from reme_core.models.tiktoken_counter import TiktokenCounter as TiktokenCounter
    from reme_core.schema.openai_messages import wire_messages as wire_messages

if not TYPE_CHECKING:  # for a type checker, a name that isn't there is an error
    _NAMES = {
        "cached_embedder": "CachedEmbedder",
        "defaults": "CharacterTokenCounter Metered SystemClock",
        "openai_chat": "OpenAIChat wire_messages",
        "openai_embedder": "OpenAIEmbedder",
        "tiktoken_counter": "TiktokenCounter",
    }
    __getattr__, __dir__ = lazy_names(__name__, _NAMES, extras={"openai": "openai", "tiktoken": "tiktoken"})
    __all__ = [*" ".join(_NAMES.values()).split()]
