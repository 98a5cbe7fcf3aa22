"""reme for LangChain 1.x and LangGraph 1.x: store, checkpointer, middleware, tools, retriever and conversions.

```python
from reme_langchain import ReMeSaver, ReMeStore

agent = create_agent(model, store=ReMeStore(), checkpointer=ReMeSaver())
```

Names are loaded on first use: importing this package loads neither LangChain nor LangGraph.
"""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING

from reme_core.errors import MissingExtraError

if TYPE_CHECKING:
    from reme_langchain.kv import ReMeByteStore
    from reme_langchain.messages import from_langchain, to_langchain
    from reme_langchain.middleware import Capture, Compact, Offload, Recall, ReMeMiddleware
    from reme_langchain.models import as_chat_model, as_embedder
    from reme_langchain.retriever import ReMeRetriever
    from reme_langchain.saver import MemoryHistory, ReMeSaver, open_saver
    from reme_langchain.store import (
        NamespaceRule,
        ReMeStore,
        decode_label,
        encode_label,
        memory_namespace,
        open_store,
    )
    from reme_langchain.tools import create_memory_tools

__all__ = [
    "Capture",
    "Compact",
    "MemoryHistory",
    "NamespaceRule",
    "Offload",
    "ReMeByteStore",
    "ReMeMiddleware",
    "ReMeRetriever",
    "ReMeSaver",
    "ReMeStore",
    "Recall",
    "as_chat_model",
    "as_embedder",
    "create_memory_tools",
    "decode_label",
    "encode_label",
    "from_langchain",
    "memory_namespace",
    "open_saver",
    "open_store",
    "to_langchain",
]

_MODULES = MappingProxyType(
    {
        "Capture": "middleware",
        "Compact": "middleware",
        "NamespaceRule": "store",
        "Offload": "middleware",
        "ReMeByteStore": "kv",
        "ReMeMiddleware": "middleware",
        "ReMeRetriever": "retriever",
        "MemoryHistory": "saver",
        "ReMeSaver": "saver",
        "ReMeStore": "store",
        "Recall": "middleware",
        "as_chat_model": "models",
        "as_embedder": "models",
        "create_memory_tools": "tools",
        "decode_label": "store",
        "encode_label": "store",
        "from_langchain": "messages",
        "memory_namespace": "store",
        "open_saver": "saver",
        "open_store": "store",
        "to_langchain": "messages",
    }
)
# What each module imports at its top, and which extra brings it.
_EXTRAS = MappingProxyType({"middleware": "langchain", "tools": "langchain"})
_LIBRARIES = frozenset({"langchain", "langchain_core", "langgraph"})


def __getattr__(name: str) -> object:
    """Load a public name on first use.

    Raises:
        AttributeError: There is no such name.
        MissingExtraError: LangChain or LangGraph is not installed; names the extra.
    """
    module = _MODULES.get(name)
    if module is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    try:
        return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as exc:
        library = (exc.name or "").partition(".")[0]
        if library not in _LIBRARIES:
            raise
        raise MissingExtraError(library=library, extra=_EXTRAS.get(module, "langgraph"), wanted_for=name) from exc


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
