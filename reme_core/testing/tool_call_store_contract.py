"""The contract of `ToolCallStore` as a pytest class: whoever writes a store subclasses it.

```python
class TestMyStore(ToolCallStoreContract):
    capabilities = StoreCapabilities(persistent=True)

    @pytest.fixture
    async def store(self, tmp_path): ...

    @pytest.fixture
    def opener(self, tmp_path): ...
```

The store is empty, opened for each test anew, and also has `erase` and `close` of `MemoryStore`. Fixtures and
capabilities are those of `MemoryStoreContract`.
"""

from __future__ import annotations

import pytest

from reme_core.testing._tool_call_keeping import ToolCallKeeping
from reme_core.testing._tool_call_lifetime import ToolCallConcurrency, ToolCallDurability, ToolCallIsolation
from reme_core.testing._tool_call_listing import ToolCallListing, ToolCallStatistics


@pytest.mark.asyncio
class ToolCallStoreContract(
    ToolCallKeeping,
    ToolCallListing,
    ToolCallStatistics,
    ToolCallIsolation,
    ToolCallConcurrency,
    ToolCallDurability,
):
    """Everything that `reme_core.ports.ToolCallStore` promises."""
