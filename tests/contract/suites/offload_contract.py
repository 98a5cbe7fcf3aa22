"""The contract of `Store` as a pytest class: whoever keeps what left a context subclasses it.

A backend gives the fixture `store`, as with `reme_core.testing.store_contract`, and the fixture `opener` where
it declares a capability. The store is a `Transcript` too: some offloads point at messages, and erasing a scope takes
its offloads along.
"""

from __future__ import annotations

import pytest

from tests.contract.suites.offload_holds import OffloadCleaning, OffloadHolding
from tests.contract.suites.offload_keeping import OffloadKeeping, OffloadListing
from tests.contract.suites.offload_lifetime import OffloadConcurrency, OffloadDurability, OffloadIsolation
from tests.contract.suites.offload_search import OffloadSearching


@pytest.mark.asyncio
class OffloadContract(
    OffloadKeeping,
    OffloadListing,
    OffloadSearching,
    OffloadCleaning,
    OffloadHolding,
    OffloadIsolation,
    OffloadConcurrency,
    OffloadDurability,
):
    """Everything that `reme_core.ports.Store` promises."""
