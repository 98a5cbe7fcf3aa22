"""The part of `LocalStore` that keeps items, with reading by address and lists of namespaces."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from datetime import datetime

from reme_core.ports import (
    GetItems,
    IndexedBy,
    Item,
    ItemAddress,
    ItemNamespaces,
    ListItemNamespaces,
    SearchItems,
    WriteItems,
)
from reme_core.rules import namespace_path, split_path
from reme_core.schema import MemoryType
from reme_core.stores.local.file.database import Database, Work
from reme_core.stores.sql.items.checked_writes import address_path, check_space, prepare_writes
from reme_core.stores.sql.items.item_rows import (
    ItemRow,
    claim_index,
    find_index,
    find_namespace,
    find_unlinked,
    make_item,
    namespaces_under,
    rows_by_keys,
    value_of_row,
)
from reme_core.stores.sql.items.search_items import ItemWords, record_groups, search_items
from reme_core.stores.sql.items.vectors_in_memory import ItemVectors
from reme_core.stores.sql.items.write_items import refresh_items, sweep_items, sweepable, write_items
from reme_core.stores.sql.memory_rows import microseconds


def get_items(connection: sqlite3.Connection, memory_space: str, get: GetItems) -> tuple[list[Item | None], list[int]]:
    """Return items by address, and the numbers of those whose time to live begins anew."""
    paths = [address_path(address) for address in get.addresses]
    at = microseconds(get.at)
    keys: dict[str, list[str]] = {}
    for path, address in zip(paths, get.addresses, strict=True):
        keys.setdefault(path, []).append(address.key)
    numbers = {path: find_namespace(connection, memory_space, path) for path in keys}
    rows = {
        (path, key): row
        for path, ns in numbers.items()
        if ns is not None
        for key, row in rows_by_keys(connection, ns, keys[path]).items()
    }
    of_numbers = {ns: path for path, ns in numbers.items() if ns is not None}
    items: list[Item | None] = []
    living: list[int] = []
    for path, address in zip(paths, get.addresses, strict=True):
        row = _visible(connection, rows.get((path, address.key)), address, at if get.omit_expired else None)
        # Read for each address anew: what is returned is the caller's.
        items.append(None if row is None else make_item(row, value_of_row(row), of_numbers))
        if row is not None and row.item is not None and address.refresh and row.lives(at):
            living.append(row.item)
    return items, living


def _visible(
    connection: sqlite3.Connection, row: ItemRow | None, address: ItemAddress, at: int | None
) -> ItemRow | None:
    if row is not None and not row.is_closed and (at is None or not row.is_over(at)):
        return row
    return None if address.record is None else find_unlinked(connection, address.record, address.key)


def list_namespaces(connection: sqlite3.Connection, memory_space: str, query: ListItemNamespaces) -> ItemNamespaces:
    """Return where there are items; see `Store.list_item_namespaces`."""
    numbers = namespaces_under(connection, memory_space, namespace_path(query.prefix, what="prefix"))
    at = microseconds(query.at) if query.omit_expired else None
    groups = record_groups(connection, query.records)
    return ItemNamespaces(
        namespaces=[split_path(path) for path in _holding(connection, numbers, at)],
        records=[
            (scope, MemoryType(memory_type))
            for (scope, memory_type), group in groups.items()
            if _holds_unlinked(connection, *group)
        ],
    )


def _holding(connection: sqlite3.Connection, numbers: dict[int, str], at: int | None) -> Sequence[str]:
    """Return the paths of namespaces that hold a visible item: neither superseded nor, at a time given, over."""
    over = "" if at is None else " AND (expires IS NULL OR expires > ?)"
    values = [] if at is None else [at]
    rows = connection.execute(
        "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM items LEFT JOIN memories ON row = memory_row"  # noqa: S608
        f" WHERE ns = json_each.value AND superseded_by IS NULL{over})",
        (str(list(numbers)), *values),
    )
    return [numbers[ns] for (ns,) in rows]


def _holds_unlinked(connection: sqlite3.Connection, scope: int, memory_type: str) -> bool:
    found = connection.execute(
        "SELECT 1 FROM memories INDEXED BY memories_current WHERE scope = ? AND memory_type = ?"
        " AND superseded_by IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM items WHERE memory_row = row) LIMIT 1",
        (scope, memory_type),
    ).fetchone()
    return found is not None


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
            removes = all(write.put is None for write in batch.writes)
            await self._database.write(lambda c: write_items(c, memory_space, batch), frees=removes)
        if any(write.put is None for write in batch.writes):
            self._database.begin_purge()

    async def sweep_items(self, memory_space: str, at: datetime) -> int:
        """Remove items whose time is over; see `Store.sweep_items`."""
        check_space(memory_space)
        moment = microseconds(at)
        if not await self._database.read(lambda c: sweepable(c, moment)):
            return 0
        swept = await self._database.write(lambda c: sweep_items(c, memory_space, moment), frees=True)
        self._database.begin_purge()
        return swept

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
