"""The contract of `Store` as a pytest class: whoever writes a store subclasses it.

```python
class TestMyStore(ToolCallContract):
    capabilities = StoreCapabilities(persistent=True)

    @pytest.fixture
    async def store(self, tmp_path): ...

    @pytest.fixture
    def opener(self, tmp_path): ...
```

The store is empty, opened for each test anew, and also has `erase` and `close` of `Store`. Fixtures and
capabilities are those of `StoreContract`.
"""

from __future__ import annotations

import pytest

from tests.contract.suites.tool_call_keeping import ToolCallKeeping
from tests.contract.suites.tool_call_lifetime import ToolCallConcurrency, ToolCallDurability, ToolCallIsolation
from tests.contract.suites.tool_call_listing import ToolCallListing, ToolCallStatistics


@pytest.mark.asyncio
class ToolCallContract(
    ToolCallKeeping,
    ToolCallListing,
    ToolCallStatistics,
    ToolCallIsolation,
    ToolCallConcurrency,
    ToolCallDurability,
):
    """Everything that `reme_core.ports.Store` promises."""
