"""Files that can't be used, and files of other versions: a typed error, and the file stays as it was."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
import multiprocessing
import os
import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from reme_core.errors import (
    ConfigurationError,
    CorruptDataError,
    ReMeError,
    SchemaVersionError,
    StorageFullError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from reme_core.ports import (
    AppendMessages,
    FindMessages,
    ListMemories,
    MemoryFilter,
    MemorySearch,
    PutMemory,
)
from reme_core.stores import LocalStore
from reme_core.stores.local.file import database
from reme_core.stores.local.file import tables as schema
from reme_core.stores.local.file.file_location import check_place
from reme_core.testing.store_values import ALICE, axis, batch, memory, message
from tests.contract.suites.job_values import job
from tests.contract.suites.offload_values import clean, put, search, text_of
from tests.support.file_checks import problems_of_file

VERSION_9 = Path(__file__).resolve().parents[3] / "data" / "memory_v9.db.gz"
"""A file of the oldest version that is brought up to date, with a little of everything in it."""


async def fill(path: Path, count: int = 3) -> None:
    store = LocalStore(path, synchronous="NORMAL")
    await put(store, *(text_of(f"offloaded {n}\n" + f"line of {n}\n" * 200) for n in range(count)))
    await store.put(ALICE, batch(*(PutMemory(memory=memory(f"fact {n}"), vector=axis(n % 8)) for n in range(count))))
    await store.append(
        ALICE, AppendMessages(session_id="s", messages=[message(f"said {n} " + "x" * 200) for n in range(count)])
    )
    await store.close()


async def contents(path: Path) -> list[str]:
    store = LocalStore(path)
    try:
        page = await store.list_memories(ALICE, ListMemories(limit=10_000))
        said = await store.find_messages(ALICE, FindMessages(limit=10_000))
        return sorted(item.content for item in page.memories) + [item.message.text for item in said.messages]
    finally:
        await store.close()


async def use(path: Path) -> None:
    store = LocalStore(path, busy_timeout_s=0.05)
    try:
        await store.put(ALICE, batch(memory("written")))
    finally:
        await store.close()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


async def test_a_file_of_garbage_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(random.Random(1).randbytes(20_000))
    before = digest(path)
    with pytest.raises(CorruptDataError, match=r"memory.db.*restore a copy"):
        await use(path)
    assert digest(path) == before


@pytest.mark.parametrize("journal_mode", ["DELETE", "WAL"])
async def test_a_sqlite_file_of_something_else_is_refused_and_left_alone(tmp_path: Path, journal_mode: str) -> None:
    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal_mode}")
        connection.execute("CREATE TABLE recipes (name TEXT)")
        connection.commit()
    before = digest(path)
    with pytest.raises(SchemaVersionError, match="something else: give another path"):
        await use(path)
    assert digest(path) == before


async def test_a_truncated_file_is_an_error_that_says_damaged(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path, 200)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CorruptDataError, match="damaged"):
        await contents(path)


async def test_any_page_of_zeros_is_a_typed_error_or_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path, 60)
    whole = path.read_bytes()
    wanted = await contents(path)
    refused = 0
    for page in range(1, len(whole) // 4096):
        path.write_bytes(whole[: page * 4096] + bytes(4096) + whole[(page + 1) * 4096 :])
        store = LocalStore(path)
        try:
            found = await store.list_memories(ALICE, ListMemories(filter=MemoryFilter(keyword="fact"), limit=1000))
            assert {item.content for item in found.memories} <= set(wanted)
            await store.search(ALICE, MemorySearch(text="fact", vector=axis(1)))
            await store.find_messages(ALICE, FindMessages(keyword="said", limit=1000))
            await search(store, "offloaded")
            await store.put(ALICE, batch(memory("one more")))
        except StoreError:
            refused += 1
        finally:
            await store.close()
    assert refused > 5


async def test_a_stored_value_that_cannot_be_read_is_named_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE memories SET body = '{}'")
        connection.execute("UPDATE memory_vectors SET vector = x'00'")
        connection.commit()
    store = LocalStore(path)
    with pytest.raises(CorruptDataError, match=r"memory.db"):
        await store.list_memories(ALICE, ListMemories())
    with pytest.raises(CorruptDataError, match=r"8 dimensions"):
        await store.search(ALICE, MemorySearch(text="fact"))
    await store.close()


async def test_a_newer_schema_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = digest(path)
    with pytest.raises(SchemaVersionError, match="schema version 99, this release reads up to 14: install a newer"):
        await use(path)
    assert digest(path) == before


async def test_words_of_a_newer_release_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'terms'")
        connection.commit()
    with pytest.raises(SchemaVersionError, match="words of version 99"):
        await use(path)


async def test_words_of_an_older_release_are_cut_anew(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE meta SET value = '0' WHERE key = 'terms'")
        connection.execute("UPDATE memories SET terms = x''")
        connection.execute("UPDATE messages SET terms = x''")
        connection.execute("DELETE FROM memory_words")
        connection.execute("UPDATE message_words SET words = 'old'")
        connection.execute("UPDATE offload_words SET words = 'old'")
        connection.commit()
    store = LocalStore(path)
    assert len((await store.list_memories(ALICE, ListMemories(filter=MemoryFilter(keyword="fact")))).memories) == 3
    assert len((await store.find_messages(ALICE, FindMessages(keyword="said"))).messages) == 3
    assert not (await store.find_messages(ALICE, FindMessages(keyword="old"))).messages
    assert len(await store.search(ALICE, MemorySearch(text="fact"))) == 3
    assert len(await search(store, "offloaded")) == 3
    assert not await search(store, "old")
    await store.close()
    assert problems_of_file(path) == []


def migrated(path: Path, *steps: schema.Migration) -> None:
    """Open a file as a later release would, whose steps come after those there are."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        schema.prepare(connection, str(path), migrations=(*schema.MIGRATIONS, *steps), fts5=True)


def add_colour(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE memories ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'")


def add_taste(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE memories ADD COLUMN taste TEXT NOT NULL DEFAULT 'sweet'")
    connection.execute("DELETE FROM memories WHERE content_that_is_no_column = 1")


async def test_an_older_file_is_migrated_with_everything_in_it(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    before = await contents(path)
    migrated(path, add_colour)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (schema.SCHEMA_VERSION + 1,)
        assert connection.execute("SELECT count(*) FROM memories WHERE colour = 'red'").fetchone() == (3,)
        connection.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION}")
    assert await contents(path) == before


async def test_a_migration_that_fails_half_way_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    before = await contents(path)
    with pytest.raises(sqlite3.OperationalError, match="content_that_is_no_column"):
        migrated(path, add_colour, add_taste)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (schema.SCHEMA_VERSION,)
        columns = [row[1] for row in connection.execute("PRAGMA table_info(memories)")]
    assert "colour" not in columns
    assert "taste" not in columns
    assert await contents(path) == before


async def test_a_fresh_file_needs_no_migration(tmp_path: Path) -> None:
    migrated(tmp_path / "memory.db", add_taste)
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (schema.SCHEMA_VERSION + 1,)


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


async def test_an_older_file_without_word_tables_gains_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(gzip.decompress(VERSION_9.read_bytes()))
    with closing(sqlite3.connect(path)) as connection:
        for table in ("message_words", "memory_words", "offload_words"):
            connection.execute(f"DROP TABLE {table}")
    store = LocalStore(path)
    await put(store, text_of("what a tool said of 海象"))
    assert len(await search(store, "海象 tools")) == 1
    await store.close()
    monkeypatch.setattr(database, "has_fts5", lambda _: False)
    without = LocalStore(tmp_path / "fresh.db")
    await without.count(ALICE)
    await without.close()
    assert tables(path) >= tables(tmp_path / "fresh.db")
    assert not any("words" in name for name in tables(path))


async def test_of_many_that_open_an_older_file_at_once_all_succeed(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(gzip.decompress(VERSION_9.read_bytes()))
    stores = [LocalStore(path) for _ in range(8)]
    await asyncio.gather(*(store.add_jobs(ALICE, [job(f"{n}")]) for n, store in enumerate(stores)))
    assert len(await stores[0].list_jobs(ALICE)) == 8
    for store in stores:
        await store.close()
    assert problems_of_file(path) == []


async def test_a_file_from_before_the_first_release_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 8")
    before = digest(path)
    with pytest.raises(SchemaVersionError, match="schema version 8, of before the first release: begin with a new"):
        await use(path)
    assert digest(path) == before


TEXTS = ["The cat sat on the mat.", "Katzen sitzen 猫が好きです", "no animals here", "cats and mats", "我喜欢喝乌龙茶"]
KEYWORDS = ["cat", "mat cat", "猫が", "乌龙茶", "animals", "the", "!!", "sitzen KATZEN", "nothing of it"]


async def found_by_keyword(path: Path) -> list[tuple[list[str], list[str], list[tuple[str, float]]]]:
    store = LocalStore(path)
    for number, text in enumerate(TEXTS):
        await store.put(ALICE, batch(memory(text, memory_id=str(number))))
        said = message(text, message_id=str(number))
        await store.append(ALICE, AppendMessages(session_id="s", messages=[said]))
        await put(store, text_of(text, reference=f"{number}"))
    await clean(store, max_bytes=sum(len(text.encode()) for text in TEXTS[1:]))
    await store.put(ALICE, batch(memory("a dog now", memory_id="0")))
    answers = []
    for keyword in KEYWORDS:
        messages = await store.find_messages(ALICE, FindMessages(keyword=keyword))
        try:
            page = await store.list_memories(ALICE, ListMemories(filter=MemoryFilter(keyword=keyword)))
            memories = sorted(item.memory_id for item in page.memories)
        except ReMeError as exc:
            memories = [type(exc).__name__]
        passages = [(hit.info.reference, hit.score) for hit in await search(store, keyword)]
        answers.append((memories, [item.message.message_id for item in messages.messages], passages))
    await store.erase(ALICE)
    await store.close()
    return answers


async def test_a_build_without_full_text_search_gives_the_same_answers_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = await found_by_keyword(tmp_path / "with.db")
    monkeypatch.setattr(database, "has_fts5", lambda _: False)
    with caplog.at_level(logging.WARNING):
        assert await found_by_keyword(tmp_path / "without.db") == wanted
    assert "without SQLite's FTS5" in caplog.text
    assert wanted[0][:2] == (["3"], ["0", "3"])
    assert [reference for reference, _ in wanted[0][2]] == ["3"]
    with pytest.raises(SchemaVersionError, match="lacks FTS5"):
        await contents(tmp_path / "with.db")


async def test_a_network_file_system_is_refused(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    shared = tmp_path / "team folder"
    shared.mkdir()
    point = str(shared).replace(" ", "\\040")
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/export {point} nfs4 rw 0 0\n", encoding="utf-8")
    check_place(tmp_path / "memory.db", mounts=mounts)
    with pytest.raises(ConfigurationError, match=r"network file system \(nfs4\).*local disk"):
        check_place(shared / "deep" / "memory.db", mounts=mounts)
    check_place(shared / "memory.db", mounts=tmp_path / "none such")


async def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("I am a file", encoding="utf-8")
    with pytest.raises(StoreAccessError, match="can't be made or read"):
        await use(tmp_path / "file" / "memory.db")
    with pytest.raises(StoreAccessError, match="is a folder"):
        await use(tmp_path)


def as_nobody(folder: Path, results: multiprocessing.Queue[str]) -> None:
    os.setgid(65534)
    os.setuid(65534)
    for path in (folder / "memory.db", folder / "new.db", folder / "deeper" / "memory.db"):
        try:
            asyncio.run(use(path))
        except ReMeError as exc:
            results.put(f"{type(exc).__name__}: {exc}")
        else:
            results.put("written")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become another user")
async def test_a_folder_that_may_only_be_read_is_refused_and_left_alone(tmp_path: Path) -> None:
    await fill(tmp_path / "memory.db")
    before = digest(tmp_path / "memory.db")
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    (tmp_path / "memory.db").chmod(0o644)
    context = multiprocessing.get_context("fork")
    results: multiprocessing.Queue[str] = context.Queue()
    child = context.Process(target=as_nobody, args=(tmp_path, results))
    child.start()
    told = [results.get(timeout=20) for _ in range(3)]
    child.join()
    assert all(text.startswith("StoreAccessError") for text in told), told
    assert digest(tmp_path / "memory.db") == before


async def test_a_full_disk_is_an_error_and_what_was_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path, max_bytes=400_000, synchronous="NORMAL")
    kept = []
    with pytest.raises(StorageFullError, match="free some space") as caught:  # noqa: PT012
        for number in range(1000):
            written = memory(f"fact {number} " + "x" * 5000, memory_id=str(number))
            await store.put(ALICE, batch(written))
            kept.append(written.memory_id)
    assert caught.value.retryable
    page = await store.list_memories(ALICE, ListMemories(limit=10_000))
    assert sorted(item.memory_id for item in page.memories) == sorted(kept)
    with pytest.raises(StorageFullError):
        await store.append(ALICE, AppendMessages(session_id="s", messages=[message("y" * 500_000)]))
    assert await store.search(ALICE, MemorySearch(text="fact"))
    await store.erase(ALICE)
    await store.put(ALICE, batch(memory("there is room again")))
    await store.close()
    assert problems_of_file(path) == []


@pytest.fixture
async def locked(tmp_path: Path) -> AsyncIterator[Path]:
    path = tmp_path / "memory.db"
    await fill(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield path
        connection.execute("ROLLBACK")


async def test_a_locked_file_is_an_error_that_may_pass_and_can_still_be_read(locked: Path) -> None:
    store = LocalStore(locked, busy_timeout_s=0.05)
    with pytest.raises(StoreUnavailableError, match="locked by another process: try again") as caught:
        await store.put(ALICE, batch(memory("refused")))
    assert caught.value.retryable
    assert len((await store.list_memories(ALICE, ListMemories())).memories) == 3
    await store.close()


async def test_a_file_that_another_program_keeps_to_itself_is_an_error_that_may_pass(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        store = LocalStore(path, busy_timeout_s=0.05)
        with pytest.raises(StoreUnavailableError, match="locked"):
            await store.list_memories(ALICE, ListMemories())
        connection.execute("COMMIT")
    assert len((await store.list_memories(ALICE, ListMemories())).memories) == 3
    await store.close()


async def test_a_deletion_that_a_reader_holds_up_says_so_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_PURGE_PATIENCE_S", 0.1)
    path = tmp_path / "memory.db"
    await fill(path)
    store = LocalStore(path, busy_timeout_s=0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM memories").fetchone()
        with pytest.raises(StoreUnavailableError, match="call again"):
            await store.erase(ALICE)
        reader.execute("COMMIT")
    assert not (await store.list_memories(ALICE, ListMemories())).memories
    await store.erase(ALICE)
    await store.close()
    assert problems_of_file(path) == []


def test_a_setting_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="FULL or NORMAL"):
        LocalStore(tmp_path / "memory.db", synchronous="OFF")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ConfigurationError, match="can't be the path"):
        LocalStore("a\0b")
