"""What goes along when a scope is exported and imported, and what stays behind."""

from __future__ import annotations

from pathlib import Path

from reme_core.ports import ListMemories, MemoryFilter, MemorySearch, PutMemory
from reme_core.runtime.portable import Moved, export_scope, import_scope
from reme_core.schema import MemoryType
from reme_core.stores import LocalStore
from reme_core.testing import HashedEmbedder
from reme_core.testing._job_values import job
from reme_core.testing.store_values import ALICE, BOB, DIMENSION, axis, batch, memory

ENTRIES = MemoryFilter(types=(MemoryType.META,))


async def test_the_routing_table_goes_along_without_vectors_and_jobs_stay(tmp_path: Path) -> None:
    store, embedder, file = LocalStore(tmp_path / "memory.db"), HashedEmbedder(DIMENSION), tmp_path / "alice.jsonl"
    entry = memory("personal memories about Ann", memory_type=MemoryType.META, target="personal/Ann")
    await store.put(ALICE, batch(entry, PutMemory(memory=memory("Ann rows", target="Ann"), vector=axis(0))))
    await store.add_jobs(ALICE, [job("a", payload={"of": "Alice"})])
    assert await export_scope(store, store, ALICE, file) == Moved(memories=2, events=2)
    assert "job" not in file.read_text(encoding="utf-8")
    assert await import_scope(store, store, embedder, BOB, file) == Moved(memories=2)
    [copied] = (await store.list_memories(BOB, ListMemories(filter=ENTRIES))).memories
    assert (copied.content, copied.memory_target) == (entry.content, entry.memory_target)
    [query] = await embedder.embed(["Ann"])
    found = await store.search(BOB, MemorySearch(vector=query))
    assert [item.memory.content for item in found] == ["Ann rows"]
    assert await store.list_jobs(BOB) == []
    assert len(await store.list_jobs(ALICE)) == 1
    await store.close()
