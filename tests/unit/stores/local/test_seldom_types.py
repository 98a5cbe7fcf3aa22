"""Memory blocks and records are read along the index of types, however many other memories there are."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reme_core.ports import ListMemories, MemoryFilter
from reme_core.schema import MemoryType
from reme_core.stores import LocalStore
from reme_core.stores.local.file.dialect import FileConnection
from reme_core.stores.sql.memory_rows import list_page
from reme_core.testing.store_values import ALICE, batch, memory


@pytest.mark.parametrize("kind", [MemoryType.BLOCK, MemoryType.RECORD])
@pytest.mark.parametrize("targets", [None, ("human",)])
async def test_few_among_many_are_found_along_the_index_of_types(
    tmp_path: Path, kind: MemoryType, targets: tuple[str, ...] | None
) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path, synchronous="NORMAL")
    await store.put(ALICE, batch(memory("one", memory_type=kind, target="human")))
    await store.close()
    asked: list[str] = []
    with closing(sqlite3.connect(path, isolation_level=None, factory=FileConnection)) as connection:
        connection.set_trace_callback(asked.append)
        page = list_page(connection, ALICE, ListMemories(filter=MemoryFilter(types=(kind,), targets=targets)))
        connection.set_trace_callback(None)
        [query] = [text for text in asked if "FROM memories" in text]
        steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert [item.content for item in page.memories] == ["one"]
    assert steps[0].startswith("SEARCH memories USING INDEX memories_current (scope=? AND memory_type=?")
