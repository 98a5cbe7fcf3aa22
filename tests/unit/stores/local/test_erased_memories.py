"""Erasing one memory, erasing on a full disk, files beside the store, and what is told of it."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.errors import MemoryNotFoundError, StorageFullError
from reme_core.ports import ItemAddress, PutItem, WriteItems
from reme_core.schema import Scope
from reme_core.stores import LocalStore
from reme_core.testing import FixedClock, HashedEmbedder
from tests.support.file_checks import bytes_on_disk, problems_of_file

ALICE: dict[str, Any] = {"user_id": "alice"}
SCOPE = Scope(memory_space="space", user_id="alice")


def open_memory(folder: Path, **options: Any) -> ReMe:
    return ReMe("space", folder, **{"llm": None, "embedding": HashedEmbedder(16), **options})


@pytest.mark.parametrize("is_deleted", [False, True], ids=["kept", "deleted before"])
async def test_an_erased_memory_leaves_neither_text_nor_history(tmp_path: Path, *, is_deleted: bool) -> None:
    async with open_memory(tmp_path) as memory:
        for number in range(200):  # so that rows move between pages
            await memory.add_memory(f"filler {number} {'x' * number}", **ALICE)
        secret = await memory.add_memory("the code is xyzzy", **ALICE, metadata={"where": "xyzzy"}, reason="xyzzy")
        await memory.update_memory(secret.memory_id, **ALICE, content="the code was xyzzy")
        if is_deleted:
            await memory.delete_memory(secret.memory_id, **ALICE)
        assert b"xyzzy" in bytes_on_disk(tmp_path / "memory.db")
        await memory.delete_memory(secret.memory_id, **ALICE, erase=True)
        assert b"xyzzy" not in bytes_on_disk(tmp_path / "memory.db")
        with pytest.raises(MemoryNotFoundError):
            await memory.history(secret.memory_id, **ALICE)
        with pytest.raises(MemoryNotFoundError):
            await memory.delete_memory(secret.memory_id, **ALICE, erase=True)
        assert (await memory.stats(**ALICE)).memories == 200
    assert problems_of_file(tmp_path / "memory.db") == []


@pytest.mark.parametrize("expires", [True, False])
async def test_an_item_that_ends_is_cleared_from_the_pages(tmp_path: Path, *, expires: bool) -> None:
    clock, path = FixedClock(), tmp_path / "memory.db"
    store = LocalStore(path)
    address = ItemAddress(namespace=("notes",), key="xyzzy")
    for number in range(200):
        other = PutItem(address=ItemAddress(namespace=("notes",), key=f"k{number}"), value={"text": "y" * number})
        await store.write_items("space", WriteItems(writes=[other], at=clock.now()))
    put = PutItem(address=address, value={"text": "xyzzy"}, ttl_s=60)
    await store.write_items("space", WriteItems(writes=[put], at=clock.now()))
    if expires:
        clock.advance(seconds=120)
        assert await store.sweep_items("space", clock.now()) == 1
    else:
        await store.write_items("space", WriteItems(writes=[address], at=clock.now()))
    await store.close()
    assert b"xyzzy" not in bytes_on_disk(path)


async def test_a_full_file_can_be_deleted_from(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db", max_bytes=600_000, synchronous="NORMAL")
    async with open_memory(tmp_path, vector_store=store) as memory:
        ids = list[str]()
        with pytest.raises(StorageFullError):  # noqa: PT012
            while True:
                kept = await memory.add_memory(f"xyzzy {len(ids)} {'word ' * 200}", **ALICE)
                ids.append(kept.memory_id)
        await memory.delete_memory(ids[0], **ALICE)
        await memory.delete_memory(ids[1], **ALICE, erase=True)
        assert (await memory.delete_all_memories(**ALICE)).memories == len(ids) - 2
        assert b"xyzzy" not in bytes_on_disk(tmp_path / "memory.db")
        await memory.add_memory("there is room again", **ALICE)
    await store.close()


async def test_the_log_is_cut_when_a_long_reader_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    log = path.with_name("memory.db-wal")
    async with open_memory(tmp_path) as memory:
        await memory.add_memory("tea", **ALICE)
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM memories").fetchone()
        for number in range(14):
            await memory.add_memory(f"{number} {'x' * 1000}", **ALICE, metadata={"text": f"{number}" * 400_000})
        grown = log.stat().st_size
        reader.close()
        for number in range(4):
            await memory.add_memory(f"cup {number}", **ALICE)
        assert grown > 10_000_000 > 9_000_000 > log.stat().st_size


async def test_a_draft_of_an_export_that_was_killed_goes_with_the_user(tmp_path: Path) -> None:
    exports = tmp_path / "exports"
    exports.mkdir()
    async with open_memory(tmp_path / "folder") as memory:
        await memory.add_memory("the code is xyzzy", **ALICE)
        draft, made = exports / ".killed.part", exports / "made"
        draft.write_text("the code is xyzzy")
        made.mkdir()
        (made / "one").write_text("xyzzy")
        store = LocalStore(tmp_path / "folder" / "memory.db")
        for left in (draft, made):
            await store.note_file(SCOPE, left)
        await store.close()
        await memory.export(exports / "alice.jsonl", **ALICE)
        erased = await memory.delete_all_memories(**ALICE)
    assert [path.name for path in exports.iterdir()] == ["alice.jsonl"]
    assert (erased.files, erased.memories, erased.pages_cleared, erased.index_cleared) == (2, 1, True, None)


async def test_an_export_notes_its_draft_while_it_writes(tmp_path: Path) -> None:
    noted = list[Path]()

    class Store(LocalStore):
        async def note_file(self, scope: Scope, path: Path) -> None:
            noted.append(path)
            await super().note_file(scope, path)
            raise asyncio.CancelledError

    store = Store(tmp_path / "memory.db")
    async with open_memory(tmp_path, vector_store=store) as memory:
        await memory.add_memory("the code is xyzzy", **ALICE)
        with pytest.raises(asyncio.CancelledError):
            await memory.export(tmp_path / "alice.jsonl", **ALICE)
        noted[0].write_text("what a killed process has left")
        await memory.delete_all_memories(**ALICE)
    await store.close()
    assert not noted[0].exists()
