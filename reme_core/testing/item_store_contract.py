"""The contract of `ItemStore` as a pytest class: whoever writes a store subclasses it.

```python
class TestMyStore(ItemStoreContract):
    capabilities = StoreCapabilities(persistent=True)

    @pytest.fixture
    async def store(self, tmp_path): ...

    @pytest.fixture
    def opener(self, tmp_path): ...
```

The store is empty, opened for each test anew, and is a `MemoryStore` as well. Fixtures and capabilities are those of
`MemoryStoreContract`.
"""

from __future__ import annotations

import pytest

from reme_core.testing._item_keeping import ItemBatches, ItemKeeping, ItemTimesToLive
from reme_core.testing._item_lifetime import ItemConcurrency, ItemDurability
from reme_core.testing._item_memories import ItemMemories, MemoryItems
from reme_core.testing._item_search import ItemConditions, ItemOrder, ItemPrefixes, ItemRanking


@pytest.mark.asyncio
class ItemStoreContract(
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
    """Everything that `reme_core.ports.ItemStore` promises."""
