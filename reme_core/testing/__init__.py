"""Test doubles and contract suites, for users of reme and for those who write a store or a model of their own.

Names are loaded on first use; the suites need pytest and pytest-asyncio, the test doubles need nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from reme_core.errors import MissingExtraError

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

_MODULES: Mapping[str, str] = MappingProxyType(
    {
        "Answer": "reme_core.testing.chat_model_contract",
        "ChatModelContract": "reme_core.testing.chat_model_contract",
        "EmbedderContract": "reme_core.testing.embedder_contract",
        "FixedClock": "reme_core.testing.clock",
        "HashedEmbedder": "reme_core.testing.hashed_embedder",
        "MemoryIndexContract": "reme_core.testing.memory_index_contract",
        "StoreContract": "reme_core.testing.store_contract",
        "ScriptedChatModel": "reme_core.testing.scripted_model",
        "SequentialIds": "reme_core.testing.ids",
        "StoreCapabilities": "reme_core.testing.store_values",
        "TokenCounterContract": "reme_core.testing.token_counter_contract",
    }
)


def __getattr__(name: str) -> object:
    """Load the module of a public name on first use.

    Raises:
        AttributeError: There is no such name.
        MissingExtraError: It is a contract suite, and pytest is not installed.
    """
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    try:
        module = importlib.import_module(_MODULES[name])
    except ModuleNotFoundError as exc:
        if exc.name != "pytest":
            raise
        raise MissingExtraError(library="pytest", extra="dev", wanted_for=name) from exc
    return getattr(module, name)


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
