"""A memory behind `reme serve`: the methods of `ReMe`, sent over HTTP.

```python
memory = ReMeClient("http://127.0.0.1:2334", api_key="reme_...")  # in place of ReMe(...)
```
"""

from reme_core.client.memory import ReMeClient

__all__ = ["ReMeClient"]
