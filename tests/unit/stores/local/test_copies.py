"""Copies of the file, and its check: one changed byte is found, and what is not a good copy is not put in place."""

from __future__ import annotations

import asyncio
import errno
import gzip
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.errors import (
    ConfigurationError,
    CorruptDataError,
    InvalidInputError,
    SchemaVersionError,
    StoreAccessError,
    StoreUnavailableError,
)
from reme_core.stores import check_file, copy_file, restore_file
from reme_core.stores.local.file.copies import keep_before_migration, remove_safety_copies
from reme_core.stores.local.file.tables import SCHEMA_VERSION, check_sqlite
from tests.support.file_checks import leave_free_pages

VERSION_9 = Path(__file__).resolve().parents[3] / "data" / "memory_v9.db.gz"
SAID = "violet-umbrella"
NOBODY = 65534


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def found(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern))


async def fill(folder: Path) -> Path:
    async with ReMe("remy", folder, llm=None, embedding=None) as memory:
        await memory.summary([("user", f"I lost my {SAID}"), ("assistant", "noted")], user_id="ana", session_id="s")
        held = await memory.add_memory(f"Ana owns a {SAID}", user_id="ana")
        await memory.update_memory(held.memory_id, content=f"Ana lost a {SAID}", user_id="ana")
        await memory.offload_text(f"log of the {SAID}\n" * 50, user_id="ana", session_id="s", name="log")
        calls = [{"tool_name": "find", "input": SAID, "output": "nothing"}]
        await memory.add_tool_call_results(calls, user_id="ana")
    return folder / "memory.db"


async def test_a_copy_has_no_free_pages_and_is_cut_by_erasures_also_where_the_file_is_not(tmp_path: Path) -> None:
    file = await fill(tmp_path)
    leave_free_pages(file)
    before = file.read_bytes()
    assert copy_file(file, tmp_path / "copy.db").file_bytes < len(before) - 900_000
    assert file.read_bytes() == before
    with raw(tmp_path / "copy.db") as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)


TEXTS = (
    ("messages", "body"),
    ("blocks", "body"),
    ("memories", "body"),
    ("events", "after"),
    ("offloads", "text"),
    ("offloads", "info"),
    ("tool_calls", "body"),
)


@pytest.mark.parametrize(("table", "column"), TEXTS)
async def test_a_changed_text_of_any_table_is_found_and_not_repeated(tmp_path: Path, table: str, column: str) -> None:
    path = await fill(tmp_path)
    assert check_file(path).problems == ()
    with raw(path) as connection:
        connection.execute(f"UPDATE {table} SET {column} = replace({column}, 'o', 'a')")  # noqa: S608  # our names
    problems = check_file(path).problems
    assert problems
    assert all(problem.startswith(f"{table}, row ") for problem in problems)
    assert "umbrella" not in str(problems)


async def test_one_flipped_byte_of_the_file_is_found_where_sqlites_own_check_finds_none(tmp_path: Path) -> None:
    path = await fill(tmp_path)
    data = bytearray(path.read_bytes())
    places = [at for at in range(len(data)) if data.startswith(SAID.encode(), at)]
    assert len(places) > 5
    unseen = []
    for at in places:
        changed = data.copy()
        changed[at] ^= 1
        damaged = tmp_path / "damaged.db"
        damaged.write_bytes(changed)
        with raw(damaged) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if not check_file(damaged).problems:
            unseen.append(at)
    # Words are no stored text: the index keeps them once more.
    with raw(path) as connection:
        words = connection.execute("SELECT count(*) FROM message_words WHERE words MATCH 'violet'").fetchone()[0]
    assert len(unseen) <= words


async def test_a_column_that_says_something_else_than_its_text_is_found(tmp_path: Path) -> None:
    path = await fill(tmp_path)
    with raw(path) as connection:
        connection.execute("UPDATE memories SET memory_target = 'somebody else'")
    assert check_file(path).problems == ("memories, row 1: the column memory_target and its text differ",)


async def test_a_row_that_is_gone_and_one_that_came_from_elsewhere_are_found(tmp_path: Path) -> None:
    path = await fill(tmp_path)
    with raw(path) as connection:
        connection.execute("DELETE FROM tool_calls")
        connection.execute("DELETE FROM row_digests WHERE kind = 2")
    strange, gone = check_file(path).problems
    assert strange.startswith("memories, row 1: it has no digest")
    assert gone.startswith("tool_calls, row 1: the row is gone")


async def test_digests_written_anew_take_the_texts_for_right(tmp_path: Path) -> None:
    path = await fill(tmp_path)
    with raw(path) as connection:
        connection.execute("UPDATE memories SET body = replace(body, 'violet', 'purple')")
    async with ReMe("remy", tmp_path, llm=None, embedding=None) as memory:
        assert len((await memory.check(repair_digests=True)).problems) == 1
        assert (await memory.check()).problems == ()


async def test_what_is_changed_and_deleted_and_erased_leaves_no_wrong_digest(tmp_path: Path) -> None:
    path = await fill(tmp_path)
    async with ReMe("remy", tmp_path, llm=None, embedding=None) as memory:
        page = await memory.list_memories(user_id="ana")
        await memory.delete_memory(page.memories[0].memory_id, user_id="ana")
        await memory.add_memory("Ben has a boat", user_id="ben")
        assert (await memory.check()).problems == ()
        await memory.delete_all_memories(user_id="ana")
        assert (await memory.check()).problems == ()
    with raw(path) as connection:
        assert connection.execute("SELECT count(*) FROM row_digests").fetchone() == (2,)


async def test_a_backup_beside_a_writer_is_whole_and_its_owners_alone(tmp_path: Path) -> None:
    async with ReMe("remy", tmp_path / "one", llm=None, embedding=None) as memory:
        await memory.add_memory("fact 0", user_id="ana")

        async def write() -> None:
            for number in range(1, 30):
                await memory.add_memory(f"fact {number}", user_id="ana")

        writing = asyncio.create_task(write())
        made = await memory.backup(tmp_path / "copy.db")
        await writing
        await memory.add_memory("said later", user_id="ana")
    assert made.problems == ()
    assert mode(tmp_path / "copy.db") == 0o600
    assert found(tmp_path, "*copy*") == [tmp_path / "copy.db"]
    (tmp_path / "two").mkdir()
    restore_file(tmp_path / "copy.db", tmp_path / "two" / "memory.db")
    async with ReMe("remy", tmp_path / "two", llm=None, embedding=None) as memory:
        held = {item.content for item in (await memory.list_memories(user_id="ana", limit=100)).memories}
    assert "fact 0" in held
    assert "said later" not in held


async def test_a_backup_over_a_file_is_refused_unless_it_is_said(tmp_path: Path) -> None:
    path = await fill(tmp_path)
    (tmp_path / "copy.db").write_text("mine")
    with pytest.raises(StoreAccessError, match="exists"):
        copy_file(path, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_text() == "mine"
    with pytest.raises(StoreAccessError, match="exists"):
        copy_file(path, path, overwrite=True)
    assert copy_file(path, tmp_path / "copy.db", overwrite=True).problems == ()
    async with ReMe("remy", tmp_path, llm=None, embedding=None) as memory:
        with pytest.raises(InvalidInputError):
            await memory.backup("")


async def test_no_backup_is_made_of_a_damaged_file(tmp_path: Path) -> None:
    path = await fill(tmp_path)
    with raw(path) as connection:
        connection.execute("UPDATE memories SET body = replace(body, 'violet', 'purple')")
    with pytest.raises(CorruptDataError, match="memories, row 1"):
        copy_file(path, tmp_path / "copy.db")
    assert found(tmp_path, "*copy*") + found(tmp_path, ".reme*") == []


async def test_a_restored_file_stands_where_the_other_one_did_which_is_kept(tmp_path: Path) -> None:
    path = await fill(tmp_path)
    copy_file(path, tmp_path / "copy.db")
    async with ReMe("remy", tmp_path, llm=None, embedding=None) as memory:
        await memory.add_memory("said later", user_id="ana")
        with pytest.raises(StoreUnavailableError, match="in use"):
            restore_file(tmp_path / "copy.db", path)
        assert len((await memory.list_memories(user_id="ana")).memories) == 2
    kept = restore_file(tmp_path / "copy.db", path)
    async with ReMe("remy", tmp_path, llm=None, embedding=None) as memory:
        assert len((await memory.list_memories(user_id="ana")).memories) == 1
    assert kept is not None
    assert check_file(kept).rows == check_file(path).rows + 2
    assert mode(path) == mode(kept) == 0o600


async def test_a_file_that_is_gone_or_unreadable_is_restored_and_its_old_log_put_aside(tmp_path: Path) -> None:
    path = await fill(tmp_path)
    copy_file(path, tmp_path / "copy.db")
    path.unlink()
    path.with_name("memory.db-wal").write_bytes(b"of the file that is gone")
    assert restore_file(tmp_path / "copy.db", path) is None
    assert check_file(path).problems == ()
    path.write_bytes(b"no database at all" * 100)
    assert restore_file(tmp_path / "copy.db", path) is not None
    async with ReMe("remy", tmp_path, llm=None, embedding=None) as memory:
        assert (await memory.check()).problems == ()


async def test_a_newer_or_a_damaged_copy_is_not_restored(tmp_path: Path) -> None:
    path = await fill(tmp_path)
    copy_file(path, tmp_path / "copy.db")
    before = path.read_bytes()
    with raw(tmp_path / "copy.db") as connection:
        connection.execute("UPDATE memories SET body = replace(body, 'violet', 'purple')")
    with pytest.raises(CorruptDataError, match="nothing was restored"):
        restore_file(tmp_path / "copy.db", path)
    with raw(tmp_path / "copy.db") as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(SchemaVersionError):
        restore_file(tmp_path / "copy.db", path)
    for nothing in (tmp_path / "nowhere.db", path):
        with pytest.raises(StoreAccessError):
            restore_file(nothing, path)
    assert path.read_bytes() == before


async def test_a_migration_keeps_one_copy_of_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(gzip.decompress(VERSION_9.read_bytes()))
    (tmp_path / "memory.db-before-version-7").write_text("of an earlier migration")
    async with ReMe("fixture", tmp_path, llm=None, embedding=None) as memory:
        assert (await memory.check()).problems == ()
        (kept,) = found(tmp_path, "memory.db-before-version-*")
        assert (kept.name, mode(kept)) == ("memory.db-before-version-10", 0o600)
        with raw(kept) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (9,)
            assert connection.execute("SELECT count(*) FROM memories").fetchone() != (0,)
        # It holds what users said: the first who is erased takes it along.
        await memory.delete_all_memories(user_id="alice")
    assert found(tmp_path, "memory.db-before-version-*") == []


async def test_a_copy_of_an_older_version_is_restored_and_brought_up_to_date(tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_bytes(gzip.decompress(VERSION_9.read_bytes()))
    assert restore_file(tmp_path / "copy.db", tmp_path / "memory.db") is None
    async with ReMe("fixture", tmp_path, llm=None, embedding=None) as memory:
        assert (await memory.list_memories(user_id="alice")).memories
        assert (await memory.check()).schema_version == SCHEMA_VERSION


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let a folder be read alone. To root all is permitted, so the process is nobody meanwhile."""
    for path in (*folder.iterdir(), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    above = [path for path in folder.parents if not path.stat().st_mode & 0o001 and path != Path("/")]
    before = [(path, mode(path)) for path in above]
    is_root = os.geteuid() == 0
    if is_root:
        for path, held in before:
            path.chmod(held | 0o011)
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
            for path, held in before:
                path.chmod(held)
        folder.chmod(0o700)


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
async def test_a_copy_that_cannot_be_written_can_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    await fill(folder)
    (folder / "memory.db-used").unlink()
    with read_only(folder):
        with pytest.raises(PermissionError):
            (folder / "new").touch()
        async with ReMe("remy", folder, llm=None, embedding=None) as memory:
            answer = await memory.retrieve("Which umbrella was lost?", user_id="ana")
            assert SAID in answer.text
            assert (await memory.check()).problems == ()
            with pytest.raises(StoreAccessError, match="can only be read"):
                await memory.add_memory("something new", user_id="ana")
        assert found(folder, "*") == [folder / "memory.db"]


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
async def test_a_copy_of_an_older_version_that_cannot_be_written_is_told_with_its_version_and_the_cure(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / "memory.db").write_bytes(gzip.decompress(VERSION_9.read_bytes()))
    with read_only(folder):
        async with ReMe("fixture", folder, llm=None, embedding=None) as memory:
            told = rf"schema version 9, this release reads {SCHEMA_VERSION}, .*copy it to a folder that can be written"
            with pytest.raises(SchemaVersionError, match=told):
                await memory.list_memories(user_id="alice")
        assert found(folder, "*") == [folder / "memory.db"]


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
async def test_a_copy_that_cannot_be_written_can_be_exported(tmp_path: Path) -> None:
    await fill(tmp_path / "copy")
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(0o777)
    with read_only(tmp_path / "copy"):
        async with ReMe("remy", tmp_path / "copy", llm=None, embedding=None) as memory:
            assert (await memory.export(tmp_path / "out" / "all.jsonl", user_id="ana")).messages == 2
            assert (await memory.dump(tmp_path / "out" / "library.jsonl", user_id="ana")).memories == 1


def test_an_sqlite_that_is_too_old_is_refused_by_its_version() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        check_sqlite(connection)
        with pytest.raises(ConfigurationError, match=r"wanted SQLite 3\.35\.0 .*found 3\.34\.1: use a newer Python"):
            check_sqlite(connection, version=(3, 34, 1))


DAMAGES = (
    "UPDATE messages SET body = CAST(x'7b2276696f6c65742dff' AS TEXT)",
    'UPDATE messages SET body = \'{"content": "violet-umbrella"\'',
    "UPDATE messages SET body = x'80'",
    "UPDATE messages SET terms = x'010203'",
    "UPDATE messages SET passages = x'ff01'",
    "UPDATE memories SET body = '[\"violet-umbrella\"]'",
    "UPDATE memories SET body = substr(body, 1, 40)",
    "UPDATE memories SET terms = x'010203'",
    "UPDATE memories SET memory_type = 'violet-umbrella'",
    "UPDATE blocks SET body = 'violet-umbrella'",
    "UPDATE events SET after = 'violet-umbrella'",
    "UPDATE events SET at = 'violet-umbrella'",
    "UPDATE events SET operation = 'violet-umbrella'",
    "UPDATE offloads SET info = 'violet-umbrella'",
    "UPDATE offloads SET text = CAST(x'76696f6c6574ff' AS TEXT)",
    "UPDATE tool_calls SET body = 'violet-umbrella'",
    "UPDATE tool_calls SET created = 'violet-umbrella'",
    "UPDATE meta SET value = 'violet-umbrella'",
)


@pytest.mark.parametrize("damage", DAMAGES)
async def test_damaged_rows_are_told_as_such_without_what_they_hold(tmp_path: Path, damage: str) -> None:
    path = await fill(tmp_path)
    with raw(path) as connection:
        item = connection.execute("SELECT memory_id FROM memories").fetchone()[0]
        reference = connection.execute("SELECT reference FROM offloads").fetchone()[0]
        connection.execute(damage)
    memory = ReMe("remy", tmp_path, llm=None, embedding=None)
    calls = (
        lambda: memory.retrieve("umbrella", user_id="ana"),
        lambda: memory.list_memories(user_id="ana"),
        lambda: memory.get_memory(item, user_id="ana"),
        lambda: memory.history(item, user_id="ana"),
        lambda: memory.find_messages(user_id="ana"),
        lambda: memory.export(tmp_path / "all", user_id="ana"),
        lambda: memory.reload_context(reference=reference, user_id="ana"),
        lambda: memory.reload_context(query="log", user_id="ana"),
        lambda: memory.retrieve_tool_memory(["find"], user_id="ana"),
        lambda: memory.stats(user_id="ana"),
        lambda: memory.check(),
        lambda: memory.update_memory(item, content="else", user_id="ana"),
    )
    told = []
    try:
        for call in calls:
            try:
                await call()
            except CorruptDataError as exc:
                told.append(str(exc))
    finally:
        await memory.close()
    assert "violet" not in str(told)
    assert told


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """Note what each folder that is synced holds at that moment, but for drafts."""
    seen: list[set[str]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            seen.append({name for name in os.listdir(descriptor) if not name.endswith(".part")})

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


@pytest.mark.skipif(os.name == "nt", reason="folders can't be opened there")
async def test_the_names_of_copies_are_on_disk_before_anything_relies_on_them(
    tmp_path: Path, synced: list[set[str]]
) -> None:
    path = await fill(tmp_path)
    synced.clear()
    copy_file(path, tmp_path / "copy.db")
    assert [("copy.db" in names) for names in synced] == [True]
    synced.clear()
    kept = restore_file(tmp_path / "copy.db", path)
    assert kept is not None
    assert [(path.name in names, kept.name in names) for names in synced] == [(False, True), (True, True)]
    synced.clear()
    old = tmp_path / "memory.db-before-version-7"
    old.write_text("of an earlier migration")
    keep_before_migration(path, 8)
    assert [{old.name, "memory.db-before-version-9"} <= names for names in synced] == [True]
    assert found(tmp_path, "memory.db-before-version-*") == [tmp_path / "memory.db-before-version-9"]


@pytest.mark.parametrize("refused", [errno.EINVAL, errno.EIO])
async def test_a_folder_that_cannot_be_synced_costs_no_copy_but_a_failing_disk_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    path = await fill(tmp_path)
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(refused, os.strerror(refused))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    if refused == errno.EINVAL:
        assert copy_file(path, tmp_path / "copy.db").problems == ()
    else:
        with pytest.raises(StoreAccessError, match="can't be written"):
            copy_file(path, tmp_path / "copy.db")


def test_safety_copies_of_a_file_with_brackets_in_its_name_are_its_own(tmp_path: Path) -> None:
    for name in ("memory[1].db", "memory1.db"):
        (tmp_path / f"{name}-before-version-9").touch()
    remove_safety_copies(tmp_path / "memory[1].db")
    assert [path.name for path in tmp_path.iterdir()] == ["memory1.db-before-version-9"]
