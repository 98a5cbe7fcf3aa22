"""Items by words: indexes that follow other writers, stay within their bytes, and forget what is erased."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from reme_core.stores import LocalStore
from reme_core.stores.sql.items.search_items import ItemWords, WordIndex
from reme_core.testing.store_values import ALICE
from tests.contract.suites.item_values import SPACE, asked, keys, of_alice, put, write

ZEBRA = replace(asked(), text="zebra")


async def test_what_another_store_writes_is_found_by_its_words(tmp_path: Path) -> None:
    one, other = (LocalStore(tmp_path / "memory.db", synchronous="NORMAL") for _ in range(2))
    await write(one, put("a", {"text": "horse"}), put("b", {"text": "zebra"}))
    assert await keys(other, ZEBRA) == ["b", "a"]
    await write(one, put("a", {"text": "zebra zebra"}))
    assert (await keys(other, ZEBRA))[0] == "a"
    await write(other, put("c", {"text": "a zebra"}))
    assert len(await keys(one, ZEBRA)) == 3
    for store in (one, other):
        await store.close()


async def test_what_is_erased_is_kept_in_no_index(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    await write(store, put(of_alice("a"), {"content": "zebra"}))
    await keys(store, replace(asked(("memories",)), text="zebra"))
    await store.erase(ALICE)
    assert not store._item_words._held
    assert await keys(store, replace(asked(("memories",)), text="zebra")) == []
    await store.close()


def _file() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE items (item INTEGER PRIMARY KEY, value TEXT, memory_row INTEGER)")
    connection.execute("CREATE TABLE memories (row INTEGER PRIMARY KEY, terms BLOB, ranked INTEGER)")
    rows = [(number, f'{{"n": {number}, "deep": [{{"word": "zebra"}}, true, null]}}') for number in range(20)]
    connection.executemany("INSERT INTO items VALUES (?, ?, NULL)", rows)
    return connection


def test_the_least_recently_used_index_goes_and_one_stays() -> None:
    connection, words = _file(), ItemWords(limit_bytes=1)
    for path in ("a.", "b."):
        found = words.rank(connection, (SPACE, path, ()), dict.fromkeys(range(20), 7), "zebra 3")
        assert (found[0], len(found)) == (3, 20)
    assert [path for _, path, _ in words._held] == ["b."]


def test_a_failure_half_way_leaves_nothing_half() -> None:
    connection, index = _file(), WordIndex()
    updated = dict.fromkeys(range(20), 7)
    connection.execute("UPDATE items SET value = 'no json' WHERE item = 9")
    with pytest.raises(ValueError, match="Expecting"):
        index.rank(connection, updated, "zebra")
    connection.execute("UPDATE items SET value = '{}' WHERE item = 9")
    assert len(index.rank(connection, updated, "zebra")) == 19
    assert index.rank(connection, {}, "zebra") == []
