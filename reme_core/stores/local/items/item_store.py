"""The part of `LocalStore` that keeps items."""

from __future__ import annotations

import asyncio
from datetime import datetime

from reme_core.ports import (
    GetItems,
    IndexedBy,
    Item,
    ItemNamespaces,
    ListItemNamespaces,
    SearchItems,
    WriteItems,
)
from reme_core.stores.local.file.database import Database, Work
from reme_core.stores.local.file.tables import has_word_tables
from reme_core.stores.local.items.checked_writes import check_space, prepare_writes
from reme_core.stores.local.items.embedding_model import claim_index, find_index
from reme_core.stores.local.items.read_items import get_items, list_namespaces
from reme_core.stores.local.items.search_items import search_items
from reme_core.stores.local.items.vectors_in_memory import ItemVectors
from reme_core.stores.local.items.word_ranking import ItemWords
from reme_core.stores.local.items.write_items import refresh_items, sweep_items, sweepable, write_items
from reme_core.stores.local.memories.memory_rows import microseconds


class ItemCalls:
    """The part of `LocalStore` that keeps items."""

    _database: Database
    _item_vectors: ItemVectors
    _item_words: ItemWords

    async def get_items(self, memory_space: str, get: GetItems) -> list[Item | None]:
        """Return items by address; see `Store.get_items`."""
        check_space(memory_space)
        items, living = await self._database.read(lambda c: get_items(c, memory_space, get))
        await self._refresh(living, get.at)
        return items

    async def search_items(self, memory_space: str, search: SearchItems) -> list[Item]:
        """Return a page of items; see `Store.search_items`."""
        check_space(memory_space)
        found = await self._database.read(
            lambda c: search_items(c, memory_space, search, self._item_vectors, self._item_words)
        )
        if search.refresh:
            await self._refresh(found.living, search.at)
        return found.items

    async def list_item_namespaces(self, memory_space: str, query: ListItemNamespaces) -> ItemNamespaces:
        """Return where there are items; see `Store.list_item_namespaces`."""
        check_space(memory_space)
        return await self._database.read(lambda c: list_namespaces(c, memory_space, query))

    async def write_items(self, memory_space: str, write: WriteItems) -> None:
        """Write items, all or nothing; see `Store.write_items`."""
        check_space(memory_space)
        batch = await asyncio.to_thread(prepare_writes, write)
        if batch.writes:
            await self._database.write(lambda c: write_items(c, memory_space, batch, fts5=has_word_tables(c)))

    async def sweep_items(self, memory_space: str, at: datetime) -> int:
        """Remove items whose time is over; see `Store.sweep_items`."""
        check_space(memory_space)
        moment = microseconds(at)
        if not await self._database.read(lambda c: sweepable(c, moment)):
            return 0
        return await self._database.write(lambda c: sweep_items(c, memory_space, moment, fts5=has_word_tables(c)))

    async def find_index(self) -> IndexedBy | None:
        """Return what makes the vectors of items; see `Store.find_index`."""
        find: Work[IndexedBy | None] = find_index
        return await self._database.read(find)

    async def claim_index(self, indexed: IndexedBy) -> IndexedBy:
        """Record what makes the vectors of items; see `Store.claim_index`."""
        found = await self.find_index()
        return await self._database.write(lambda c: claim_index(c, indexed)) if found is None else found

    async def _refresh(self, items: list[int], at: datetime) -> None:
        if items:
            # A power cut that takes this back shortens the life of an item by the time since it was read before.
            moment = microseconds(at)
            await self._database.write(lambda c: refresh_items(c, items, moment), settled=False)
