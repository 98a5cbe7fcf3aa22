# asserts are what a contract suite is made of
"""Values and small helpers for the contract of item stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from reme_core.ports import (
    GetItems,
    Item,
    ItemAddress,
    ItemNamespaces,
    ItemRecord,
    ItemValue,
    ListItemNamespaces,
    ListMemories,
    Matrix,
    Namespace,
    PutItem,
    RecordPlace,
    SearchItems,
    Store,
    Vector,
    WriteItems,
)
from reme_core.schema import MemoryType, Scope
from reme_core.testing.store_values import ALICE, at

SPACE = "space"
PLACE: Namespace = ("docs", "a")
OF_ALICE: Namespace = ("memories", "alice", "personal")
RECORD = ItemRecord(scope=ALICE, memory_type=MemoryType.PERSONAL)
ALICES = RecordPlace(memory_space=SPACE, user_id="alice", memory_types=(MemoryType.PERSONAL,))


def address(
    key: str, namespace: Namespace = PLACE, *, record: ItemRecord | None = None, refresh: bool = False
) -> ItemAddress:
    """Build an address."""
    return ItemAddress(namespace=namespace, key=key, record=record, refresh=refresh)


def of_alice(key: str) -> ItemAddress:
    """Build the address of an item that is a memory of Alice."""
    return address(key, OF_ALICE, record=RECORD)


def stacked(*vectors: Vector) -> Matrix:
    """Return vectors as the matrix of an item."""
    return np.asarray(np.stack(vectors), np.float32)


def put(
    where: str | ItemAddress,
    value: ItemValue | None = None,
    *vectors: Vector,
    ttl_s: float | None = None,
    ranked: bool = True,
) -> PutItem:
    """Build a put; of a key alone in `PLACE`."""
    return PutItem(
        address=address(where) if isinstance(where, str) else where,
        value={"n": 1} if value is None else value,
        vectors=stacked(*vectors) if vectors else None,
        ttl_s=ttl_s,
        ranked=ranked,
    )


async def write(
    store: Store,
    *writes: PutItem | ItemAddress,
    minute: float = 0,
    space: str = SPACE,
    omit_expired: bool = False,
) -> None:
    """Write some items in one go."""
    await store.write_items(space, WriteItems(writes=writes, at=at(minute), omit_expired=omit_expired))


async def find(
    store: Store,
    where: str | ItemAddress,
    *,
    minute: float = 0,
    space: str = SPACE,
    omit_expired: bool = False,
) -> Item | None:
    """Return one item, of a key alone that in `PLACE`."""
    asked = address(where) if isinstance(where, str) else where
    [found] = await store.get_items(space, GetItems(addresses=[asked], at=at(minute), omit_expired=omit_expired))
    return found


async def get(store: Store, where: str | ItemAddress, *, minute: float = 0, space: str = SPACE) -> Item:
    """Return one item that is there."""
    found = await find(store, where, minute=minute, space=space)
    assert found is not None
    return found


def asked(prefix: Namespace = ("docs",), *, minute: float = 0) -> SearchItems:
    """Build a search for what lies under a prefix."""
    return SearchItems(prefix=prefix, at=at(minute), limit=1_000)


async def keys(store: Store, search: SearchItems | None = None, *, space: str = SPACE) -> list[str]:
    """Return the keys of a page."""
    return [item.key for item in await store.search_items(space, search or asked())]


async def paged(store: Store, search: SearchItems, size: int) -> list[Item]:
    """Return the items of all pages of a size."""
    items: list[Item] = []
    while some := await store.search_items(SPACE, replace(search, limit=size, offset=len(items))):
        assert len(some) <= size
        items += some
    return items


async def places(
    store: Store,
    prefix: Namespace = (),
    *,
    records: Sequence[RecordPlace] = (),
    space: str = SPACE,
    minute: float = 0,
    omit_expired: bool = False,
) -> ItemNamespaces:
    """Return where there are items."""
    query = ListItemNamespaces(prefix=prefix, records=records, at=at(minute), omit_expired=omit_expired)
    return await store.list_item_namespaces(space, query)


async def namespaces(store: Store, prefix: Namespace = (), *, space: str = SPACE) -> list[Namespace]:
    """Return the namespaces that hold items, sorted."""
    return sorted((await places(store, prefix, space=space)).namespaces)


async def content_of(store: Store, scope: Scope = ALICE) -> list[str]:
    """Return what the current memories of a scope say, sorted."""
    page = await store.list_memories(scope, ListMemories(limit=1_000))
    return sorted(item.content for item in page.memories)
