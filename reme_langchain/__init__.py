"""reme for LangChain 1.x and LangGraph 1.x: store, checkpointer, middleware, tools, retriever and conversions.

```python
from reme_langchain import ReMeSaver, ReMeStore

agent = create_agent(model, store=ReMeStore(), checkpointer=ReMeSaver())
```

Names are loaded on first use: importing this package loads neither LangChain nor LangGraph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.lazy_names import lazy_names

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

if not TYPE_CHECKING:  # for a type checker, a name that isn't there is an error
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "kv": "ReMeByteStore",
            "messages": "from_langchain to_langchain",
            "middleware": "Capture Compact Offload Recall ReMeMiddleware",
            "models": "as_chat_model as_embedder",
            "retriever": "ReMeRetriever",
            "saver": "MemoryHistory ReMeSaver open_saver",
            "store": "NamespaceRule ReMeStore decode_label encode_label memory_namespace open_store",
            "tools": "create_memory_tools",
        },
        extras={
            "langchain": "langchain",
            "langchain_core": "langgraph",
            "langgraph": "langgraph",
            "ormsgpack": "langgraph",
        },
    )
