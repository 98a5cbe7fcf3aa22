"""reme's store, where LangGraph's own lie: the names of `reme_langchain` that keep and find items.

```python
from langgraph.store.reme import ReMeStore
```

One class for calls with and without `await`.
"""

from reme_langchain import NamespaceRule, ReMeStore, decode_label, encode_label, memory_namespace, open_store

__all__ = ["NamespaceRule", "ReMeStore", "decode_label", "encode_label", "memory_namespace", "open_store"]
