"""reme for AgentScope: long-term and working memory for 1.x, middleware, tools and offloader for 2.x.

```python
from reme_agentscope import ReMePersonalLongTermMemory  # AgentScope 1.x
from reme_agentscope import ReMeMiddleware  # AgentScope 2.x
```

Names are loaded on first use: importing this package imports nothing of AgentScope. Its generations cannot share an
environment; importing a name of the other one is an `ImportError` that says what to use.
"""

from __future__ import annotations

import importlib
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING

from reme_agentscope._compat import agentscope_version, require
from reme_core.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from reme_agentscope.v1.long_term.long_term_memory import (
        ReMePersonalLongTermMemory,
        ReMeTaskLongTermMemory,
        ReMeToolLongTermMemory,
    )
    from reme_agentscope.v1.session import ReMeSession
    from reme_agentscope.v1.working_memory.memory import ReMeMemory
    from reme_agentscope.v2.middleware import ReMeMiddleware
    from reme_agentscope.v2.offloader import ReMeOffloader
    from reme_agentscope.v2.service import ReMeMiddlewares
    from reme_agentscope.v2.tools import create_memory_tools
    from reme_core.ports import ChatModel, Embedder
    from reme_core.schema import Message

    # Of whichever generation is installed, so in no class of either; see the modules of v1 and v2 for their types.
    def as_chat_model(model: object) -> ChatModel: ...  # noqa: D103
    def as_embedder(model: object) -> Embedder: ...  # noqa: D103
    def from_agentscope(msgs: object) -> list[Message]: ...  # noqa: D103
    def to_agentscope(messages: Iterable[Message]) -> list[Any]: ...  # noqa: D103

    __all__ = [
        "ReMeMemory",
        "ReMeMiddleware",
        "ReMeMiddlewares",
        "ReMeOffloader",
        "ReMePersonalLongTermMemory",
        "ReMeSession",
        "ReMeTaskLongTermMemory",
        "ReMeToolLongTermMemory",
        "as_chat_model",
        "as_embedder",
        "create_memory_tools",
        "from_agentscope",
        "to_agentscope",
    ]

# Public name: generation (None: of the one that is installed) and module in v1 or v2.
_PLACES = MappingProxyType(
    {
        "ReMeMemory": (1, "working_memory.memory"),
        "ReMePersonalLongTermMemory": (1, "long_term.long_term_memory"),
        "ReMeSession": (1, "session"),
        "ReMeTaskLongTermMemory": (1, "long_term.long_term_memory"),
        "ReMeToolLongTermMemory": (1, "long_term.long_term_memory"),
        "ReMeMiddleware": (2, "middleware"),
        "ReMeMiddlewares": (2, "service"),
        "ReMeOffloader": (2, "offloader"),
        "create_memory_tools": (2, "tools"),
        "as_chat_model": (None, "models"),
        "as_embedder": (None, "models"),
        "from_agentscope": (None, "messages"),
        "to_agentscope": (None, "messages"),
    }
)


def __getattr__(name: str) -> object:
    """Load a public name on first use; `__all__` are those that can be had.

    Raises:
        AttributeError: There is no such name, or it can't be had, as `hasattr` wants to be told.
        MissingExtraError: It is imported, and AgentScope is not installed, too old, or of the other generation.
    """
    if name == "__all__":
        return _had(agentscope_version())
    place = _PLACES.get(name)
    if place is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    major, module = place
    try:
        generation = require(major, name)
    except MissingExtraError as exc:
        # What `from ... import` calls is a part of Python's import system: it would drop the words of another error.
        if sys._getframe(1).f_globals.get("__name__") == "importlib._bootstrap":  # noqa: SLF001  # of Python, for this
            raise
        raise AttributeError(str(exc)) from exc
    return getattr(importlib.import_module(f"{__name__}.v{generation}.{module}"), name)


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *_PLACES})


def _had(version: str | None) -> list[str]:
    """Return the names of the generation that is installed; without one all, so that importing them says what to do."""
    generation = None if version is None else version.partition(".")[0]
    return [name for name, (major, _) in _PLACES.items() if generation in {None, str(major or generation)}]
