"""reme's checkpointer, where LangGraph's own lie: the names of `reme_langchain` that keep and read threads.

```python
from langgraph.checkpoint.reme import ReMeSaver
```

One class for calls with and without `await`.
"""

from reme_langchain import MemoryHistory, ReMeSaver, open_saver

__all__ = ["MemoryHistory", "ReMeSaver", "open_saver"]
