"""Implementations of the model ports: OpenAI-compatible endpoints, a cache of vectors, counters and clocks.

Names are loaded on first use, so that importing this package loads no client library.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from reme_core.errors import MissingExtraError

if TYPE_CHECKING:
    from reme_core.models.cached_embedder import CachedEmbedder
    from reme_core.models.character_counter import CharacterTokenCounter
    from reme_core.models.openai.back_off import BackOff
    from reme_core.models.openai.chat_body import wire_messages
    from reme_core.models.openai.openai_chat import OpenAIChat
    from reme_core.models.openai.openai_embedder import OpenAIEmbedder
    from reme_core.models.system_clock import SystemClock
    from reme_core.models.tiktoken_counter import TiktokenCounter
    from reme_core.models.usage_meter import Metered

__all__ = [
    "BackOff",
    "CachedEmbedder",
    "CharacterTokenCounter",
    "Metered",
    "OpenAIChat",
    "OpenAIEmbedder",
    "SystemClock",
    "TiktokenCounter",
    "wire_messages",
]

_MODULES: Mapping[str, str] = MappingProxyType(
    {
        "BackOff": "reme_core.models.openai.back_off",
        "CachedEmbedder": "reme_core.models.cached_embedder",
        "CharacterTokenCounter": "reme_core.models.character_counter",
        "Metered": "reme_core.models.usage_meter",
        "OpenAIChat": "reme_core.models.openai.openai_chat",
        "OpenAIEmbedder": "reme_core.models.openai.openai_embedder",
        "SystemClock": "reme_core.models.system_clock",
        "TiktokenCounter": "reme_core.models.tiktoken_counter",
        "wire_messages": "reme_core.models.openai.chat_body",
    }
)

_LIBRARIES: Mapping[str, str] = MappingProxyType(
    {"OpenAIChat": "openai", "OpenAIEmbedder": "openai", "TiktokenCounter": "tiktoken"}
)
"""Which of them need a library. `openai` comes with every installation, so its extra is the plain distribution."""


def __getattr__(name: str) -> object:
    """Load the module of a public name on first use.

    Raises:
        AttributeError: There is no such name.
        MissingExtraError: Its library is not installed.
    """
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    try:
        module = importlib.import_module(_MODULES[name])
    except ModuleNotFoundError as exc:
        library = _LIBRARIES.get(name)
        if library is None or exc.name != library:
            raise
        raise MissingExtraError(library=library, extra=library, wanted_for=name) from exc
    return getattr(module, name)


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
