"""reme for LangChain and LangGraph, under the name of LangChain's integrations: the names of `reme_langchain`.

```python
from langchain_reme import ReMeMiddleware, ReMeSaver, ReMeStore
```

Names are loaded on first use, as they are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import reme_langchain

if TYPE_CHECKING:
    from reme_langchain import (
        Capture,
        Compact,
        MemoryHistory,
        NamespaceRule,
        Offload,
        Recall,
        ReMeByteStore,
        ReMeMiddleware,
        ReMeRetriever,
        ReMeSaver,
        ReMeStore,
        as_chat_model,
        as_embedder,
        create_memory_tools,
        decode_label,
        encode_label,
        from_langchain,
        memory_namespace,
        open_saver,
        open_store,
        to_langchain,
    )

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

if not TYPE_CHECKING:  # for a type checker, a name that isn't there is an error

    def __getattr__(name: str) -> object:
        """Load a public name on first use."""
        if name not in __all__:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        return getattr(reme_langchain, name)

    def __dir__() -> list[str]:
        """Name what can be loaded, as a notebook asks before it completes a name."""
        return sorted({*globals(), *__all__})
