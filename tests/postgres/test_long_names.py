"""Texts by which rows are found may be longer than an index of PostgreSQL takes: they work, as in the local file."""

from __future__ import annotations

import random

import pytest

from reme_core.ports import (
    AppendMessages,
    EventQuery,
    FindMessages,
    GetItems,
    ItemAddress,
    ListItemNamespaces,
    PutItem,
    SearchItems,
    WriteBatch,
    WriteItems,
)
from reme_core.schema import Scope
from reme_core.stores import PostgresStore
from reme_core.testing.store_values import ALICE, NOW, batch, memory, message

LENGTHS = (600, 2_000, 3_000, 50_000)


def text(length: int, seed: int) -> str:
    """Return a text that can't be compressed, of signs that take four bytes each."""
    return "".join(map(chr, random.Random(seed).choices(range(0x20000, 0x2A000), k=length)))


@pytest.mark.parametrize("length", LENGTHS)
async def test_items_of_long_keys_in_long_namespaces_are_kept_apart_and_found(shared_url: str, length: int) -> None:
    store, label = PostgresStore(shared_url), text(length, 1)
    addresses = [
        ItemAddress(namespace=namespace, key=key)
        for namespace in (("a", label), ("a", label[:-1]), ("a", label, "b"), ("c",))
        for key in (text(length, 2), text(length, 2) + "x", "x", "")
    ]
    puts = [PutItem(address=address, value={"n": n}) for n, address in enumerate(addresses)]
    for _ in range(2):  # the second time they are replaced
        await store.write_items("space", WriteItems(writes=puts, at=NOW))
    found = await store.get_items("space", GetItems(addresses=addresses, at=NOW))
    assert [item and item.value for item in found] == [put.value for put in puts]
    below = await store.search_items("space", SearchItems(prefix=("a", label), limit=100, at=NOW))
    assert {item.value["n"] for item in below} == {*range(4), *range(8, 12)}
    listed = await store.list_item_namespaces("space", ListItemNamespaces(prefix=("a",), at=NOW))
    assert len(listed.namespaces) == 3
    await store.write_items("space", WriteItems(writes=addresses[:1], at=NOW))
    assert await store.get_items("space", GetItems(addresses=addresses[:1], at=NOW)) == [None]
    await store.close()


async def test_scopes_of_the_longest_names_are_kept_apart(shared_url: str) -> None:
    store, long = PostgresStore(shared_url), text(512, 3)
    scopes = [Scope(memory_space=long, user_id=user) for user in (long, long[:-1], "")]
    for scope in scopes:
        await store.put(scope, batch(memory("walrus", scope=scope, memory_id=long, target=long)))
        put = PutItem(address=ItemAddress(namespace=(long,), key=long), value={}, owner=scope)
        await store.write_items(long, WriteItems(writes=[put], at=NOW))
        await store.append(scope, AppendMessages(session_id=long, messages=[message("walrus", message_id=long)]))
    for scope in scopes:
        assert [item.user_id for item in await store.get(scope, [long])] == [scope.user_id]
        assert len((await store.find_messages(scope, FindMessages(session_id=long))).messages) == 1
    assert (await store.erase(scopes[0])).memories == 1
    assert [(await store.count(scope)).memories for scope in scopes] == [0, 1, 1]
    await store.close()


@pytest.mark.parametrize("length", LENGTHS)
async def test_events_of_a_run_of_a_long_name_are_found(shared_url: str, length: int) -> None:
    store = PostgresStore(shared_url)
    runs = [text(length, 4), text(length, 4)[:-1]]
    for run in runs:
        await store.put(ALICE, WriteBatch(puts=batch(memory(f"walrus {len(run)}")).puts, run_id=run, at=NOW))
    for run in runs:
        assert [event.run_id for event in await store.events(ALICE, EventQuery(run_id=run))] == [run]
    await store.close()
