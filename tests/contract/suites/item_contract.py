"""The contract of `Store` as a pytest class: whoever writes a store subclasses it.

```python
class TestMyStore(ItemContract):
    capabilities = StoreCapabilities(persistent=True)

    @pytest.fixture
    async def store(self, tmp_path): ...

    @pytest.fixture
    def opener(self, tmp_path): ...
```

The store is empty, opened for each test anew, and is a `Store` as well. Fixtures and capabilities are those of
`StoreContract`.
"""

from __future__ import annotations

import pytest

from tests.contract.suites.item_keeping import ItemBatches, ItemKeeping, ItemTimesToLive
from tests.contract.suites.item_lifetime import ItemConcurrency, ItemDurability
from tests.contract.suites.item_memories import ItemMemories, MemoryItems
from tests.contract.suites.item_search import ItemConditions, ItemOrder, ItemPrefixes, ItemRanking


@pytest.mark.asyncio
class ItemContract(
    ItemKeeping,
    ItemBatches,
    ItemTimesToLive,
    ItemPrefixes,
    ItemConditions,
    ItemOrder,
    ItemRanking,
    ItemMemories,
    MemoryItems,
    ItemConcurrency,
    ItemDurability,
):
    """Everything that `reme_core.ports.Store` promises."""
