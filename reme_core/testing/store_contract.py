"""The contract of `Store` as a pytest class: whoever writes a store subclasses it.

```python
class TestMyStore(StoreContract):
    capabilities = StoreCapabilities(persistent=True)

    @pytest.fixture
    async def store(self, tmp_path):
        store = MyStore(tmp_path / "memories")
        yield store
        await store.close()

    @pytest.fixture
    def opener(self, tmp_path):
        return functools.partial(MyStore, tmp_path / "memories")
```

The store is empty, takes vectors of `DIMENSION`, and is opened for each test anew. `opener` is needed where a
capability is declared; it is pickled and called in a new process, after `store` was closed (`persistent`) or while it
is open (`shared`). Without pytest-asyncio's automatic mode, the fixture is declared with `pytest_asyncio.fixture`.
"""

from __future__ import annotations

import pytest

from reme_core.testing._memory_events import MemoryEventQueries
from reme_core.testing._memory_isolation import MemoryIsolation
from reme_core.testing._memory_lifetime import MemoryConcurrency, MemoryDurability
from reme_core.testing._memory_reembedding import MemoryReembedding
from reme_core.testing._memory_relations import MemoryRelations
from reme_core.testing._memory_search import MemoryFilters, MemoryPages, MemoryRanking
from reme_core.testing._memory_targets import MemoryTargets
from reme_core.testing._memory_trust import MemoryTrust
from reme_core.testing._memory_uses import MemoryCounts, MemoryUses, MemoryUsesDurability
from reme_core.testing._memory_waiting import MemoryWaiting
from reme_core.testing._memory_writes import MemoryDuplicates, MemoryEvents, MemoryRevisions, MemoryWrites


@pytest.mark.asyncio
class StoreContract(
    MemoryWrites,
    MemoryRevisions,
    MemoryDuplicates,
    MemoryEvents,
    MemoryEventQueries,
    MemoryRanking,
    MemoryFilters,
    MemoryPages,
    MemoryTargets,
    MemoryTrust,
    MemoryRelations,
    MemoryCounts,
    MemoryUses,
    MemoryWaiting,
    MemoryReembedding,
    MemoryIsolation,
    MemoryConcurrency,
    MemoryDurability,
    MemoryUsesDurability,
):
    """Everything that `reme_core.ports.Store` promises.

    Of a store that is one, `Store`, `Store` and `Store` as well.
    """
