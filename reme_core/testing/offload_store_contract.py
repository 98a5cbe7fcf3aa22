"""The contract of `OffloadStore` as a pytest class: whoever keeps what left a context subclasses it.

A backend gives the fixture `store`, as with `reme_core.testing.memory_store_contract`, and the fixture `opener` where
it declares a capability. The store is a `Transcript` too: some offloads point at messages, and erasing a scope takes
its offloads along.
"""

from __future__ import annotations

import pytest

from reme_core.testing._offload_holds import OffloadCleaning, OffloadHolding
from reme_core.testing._offload_keeping import OffloadKeeping, OffloadListing
from reme_core.testing._offload_lifetime import OffloadConcurrency, OffloadDurability, OffloadIsolation
from reme_core.testing._offload_search import OffloadSearching


@pytest.mark.asyncio
class OffloadStoreContract(
    OffloadKeeping,
    OffloadListing,
    OffloadSearching,
    OffloadCleaning,
    OffloadHolding,
    OffloadIsolation,
    OffloadConcurrency,
    OffloadDurability,
):
    """Everything that `reme_core.ports.OffloadStore` promises."""
