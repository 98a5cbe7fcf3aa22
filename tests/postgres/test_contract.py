"""PostgreSQL keeps the contracts of stores, as the local store does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest

from reme_core.ports import Store
from reme_core.stores import PostgresStore
from reme_core.testing.store_contract import StoreContract
from reme_core.testing.store_values import Opener, StoreCapabilities
from tests.contract.suites.item_contract import ItemContract
from tests.contract.suites.job_contract import JobContract
from tests.contract.suites.offload_contract import OffloadContract
from tests.contract.suites.tool_call_contract import ToolCallContract
from tests.contract.suites.transcript_contract import TranscriptContract, TranscriptIndexContract

pytestmark = pytest.mark.postgres  # 777 tests

CAPABILITIES = StoreCapabilities(persistent=True, shared=True)


@pytest.fixture
def opener(shared_url: str) -> Opener[Store]:
    return partial(PostgresStore, shared_url)


@pytest.fixture
async def store(shared_url: str) -> AsyncIterator[Store]:
    store = PostgresStore(shared_url)
    yield store
    await store.close()


class TestPostgresAsMemoryStore(StoreContract):
    capabilities = CAPABILITIES

    @pytest.fixture
    async def store(self, store: Store) -> Store:
        return store

    @pytest.fixture
    def opener(self, opener: Opener[Store]) -> Opener[Store]:
        return opener


class TestPostgresAsTranscript(TranscriptContract, TranscriptIndexContract):
    capabilities = CAPABILITIES

    @pytest.fixture
    async def store(self, store: Store) -> Store:
        return store

    @pytest.fixture
    def opener(self, opener: Opener[Store]) -> Opener[Store]:
        return opener


class TestPostgresAsItemStore(ItemContract):
    capabilities = CAPABILITIES

    @pytest.fixture
    async def store(self, store: Store) -> Store:
        return store

    @pytest.fixture
    def opener(self, opener: Opener[Store]) -> Opener[Store]:
        return opener


class TestPostgresAsOffloadStore(OffloadContract):
    capabilities = CAPABILITIES

    @pytest.fixture
    async def store(self, store: Store) -> Store:
        return store

    @pytest.fixture
    def opener(self, opener: Opener[Store]) -> Opener[Store]:
        return opener


class TestPostgresAsToolCallStore(ToolCallContract):
    capabilities = CAPABILITIES

    @pytest.fixture
    async def store(self, store: Store) -> Store:
        return store

    @pytest.fixture
    def opener(self, opener: Opener[Store]) -> Opener[Store]:
        return opener


class TestPostgresAsJobQueue(JobContract):
    capabilities = CAPABILITIES

    @pytest.fixture
    async def store(self, store: Store) -> Store:
        return store

    @pytest.fixture
    def opener(self, opener: Opener[Store]) -> Opener[Store]:
        return opener
