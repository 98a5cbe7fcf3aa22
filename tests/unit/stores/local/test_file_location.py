"""A file that is gone, replaced, empty where a store was, or readable by others."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.errors import StorageFullError, StoreAccessError, StoreError, StoreUnavailableError
from reme_core.stores.local.file.connection_threads import MappedErrors
from reme_core.stores.local.file.file_location import check_unused, mark_used
from tests.support import processes
from tests.support.new_processes import NEW_PROCESSES


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _open(folder: Path) -> ReMe:
    return ReMe("space", folder, llm=None, embedding=None)


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
@pytest.mark.parametrize("replaced", [False, True])
async def test_a_write_after_the_file_or_its_log_is_gone_is_refused(
    tmp_path: Path, ending: str, *, replaced: bool
) -> None:
    async with _open(tmp_path) as memory:
        await memory.add_memory("was written", user_id="alice")
        path = tmp_path / f"memory.db{ending}"
        if replaced:
            shutil.copy(path, tmp_path / "copy")
            (tmp_path / "copy").replace(path)
        else:
            path.unlink()
        with pytest.raises(
            StoreAccessError, match=r"was (removed|replaced) while it was open|or its log, was replaced"
        ):
            await memory.add_memory("is lost", user_id="alice")


@pytest.mark.parametrize("ending", ["-wal", "-shm", ""])
@pytest.mark.parametrize("how", ["removed", "replaced", "moved", "folder moved"])
async def test_what_happens_to_a_file_that_was_left_alone_for_long_is_noticed(
    tmp_path: Path, ending: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "memory"
    path = folder / f"memory.db{ending}"
    looked: list[str] = []
    stat = os.stat
    async with _open(folder) as memory:
        await memory.add_memory("was written", user_id="alice")
        changed = folder.stat().st_ctime_ns
        number = 0
        while time.time_ns() - changed < 300_000_000:  # its folder's time of change then tells any later change
            await memory.add_memory(f"number {number} is written", user_id="alice")
            number += 1
        monkeypatch.setattr(os, "stat", lambda path, **more: (looked.append(str(path)), stat(path, **more))[1])
        await memory.add_memory("goes quickly", user_id="alice")
        monkeypatch.undo()
        assert not [name for name in looked if name.endswith(("-wal", "-shm"))]  # a look makes the commit slower
        if how == "removed":
            path.unlink()
        elif how == "replaced":
            shutil.copy(path, folder / "copy")
            (folder / "copy").replace(path)
        elif how == "moved":
            path.rename(folder / "other")
        else:
            shutil.copytree(folder, tmp_path / "copy")
            folder.rename(tmp_path / "other")
            (tmp_path / "copy").rename(folder)
        with pytest.raises(StoreAccessError, match="nothing of this call was written"):
            await memory.add_memory("is lost", user_id="alice")


async def test_no_empty_file_is_made_where_the_folder_was_removed(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    async with _open(folder) as memory:
        await memory.add_memory("was written", user_id="alice")
        shutil.rmtree(folder)
        folder.mkdir()
        with pytest.raises(StoreAccessError):
            await memory.add_memory("is lost", user_id="alice")
        assert not (folder / "memory.db").exists()


@pytest.mark.parametrize("emptied", [False, True])
async def test_an_empty_place_where_a_store_was_is_not_taken_for_a_new_one(tmp_path: Path, *, emptied: bool) -> None:
    async with _open(tmp_path) as memory:
        await memory.add_memory("was written", user_id="alice")
    path = tmp_path / "memory.db"
    path.write_bytes(b"") if emptied else path.unlink()
    with pytest.raises(StoreAccessError, match="is gone or empty now"):
        async with _open(tmp_path) as memory:
            await memory.list_memories(user_id="alice")
    (tmp_path / "memory.db-used").unlink()
    async with _open(tmp_path) as memory:
        assert not (await memory.list_memories(user_id="alice")).memories


def test_a_store_that_another_has_made_meanwhile_is_no_place_where_one_was(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"

    def is_gone() -> bool:
        return not path.exists()  # asked again behind the look at the marker, which is made last

    mark_used(path)
    with pytest.raises(StoreAccessError, match="is gone or empty now"):
        check_unused(path, is_gone)
    path.touch()
    check_unused(path, is_gone)


async def test_what_is_made_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with _open(tmp_path / "memory") as memory:
            await memory.add_memory("was written", user_id="alice")
            modes = {item.name: _mode(item) for item in (tmp_path / "memory").iterdir()}
    finally:
        os.umask(before)
    assert set(modes) == {"memory.db", "memory.db-wal", "memory.db-shm", "memory.db-used"}
    assert set(modes.values()) == {0o600}
    assert _mode(tmp_path / "memory") == 0o700


async def test_a_wider_file_is_narrowed_once_with_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "memory"
    async with _open(folder) as memory:
        await memory.add_memory("was written", user_id="alice")
    folder.chmod(0o755)
    (folder / "memory.db").chmod(0o644)
    for _ in range(2):
        async with _open(folder) as memory:
            await memory.list_memories(user_id="alice")
    assert _mode(folder / "memory.db") == 0o600
    assert _mode(folder) == 0o700
    assert len([record for record in caplog.records if "could be read by others" in record.message]) == 2


def test_a_folder_that_holds_other_things_keeps_its_rights(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    tmp_path.chmod(0o755)
    with ReMe.sync("space", tmp_path, llm=None, embedding=None) as memory:
        memory.add_memory("was written", user_id="alice")
    assert _mode(tmp_path) == 0o755


@pytest.mark.parametrize(
    ("number", "wanted"),
    [
        (errno.EIO, StoreUnavailableError),
        (errno.ENOSPC, StorageFullError),
        (errno.EROFS, StoreAccessError),
        (errno.EACCES, StoreAccessError),
    ],
)
def test_an_error_of_the_system_beside_sqlite_is_ours(number: int, wanted: type[StoreError]) -> None:
    with pytest.raises(wanted, match=r"memory\.db"), MappedErrors("memory.db"):
        raise OSError(number, "something")


@pytest.mark.parametrize("left", [0, 4096, 20_000])
async def test_a_file_that_was_cut_short_while_open_is_not_written_to(tmp_path: Path, left: int) -> None:
    async with _open(tmp_path) as memory:
        await memory.add_memory("was written", user_id="alice")
    async with _open(tmp_path) as memory:
        await memory.add_memory("was written as well", user_id="alice")
        os.truncate(tmp_path / "memory.db", left)
        with pytest.raises(StoreAccessError, match="was cut short"):
            await memory.add_memory("is lost", user_id="alice")


@pytest.mark.parametrize("name", ["memory.db-wal", "memory.db-used", "pipe"])
async def test_a_backup_replaces_no_part_of_the_store_and_nothing_that_is_no_file(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    async with _open(tmp_path) as memory:
        await memory.add_memory("was written", user_id="alice")
        with pytest.raises(StoreAccessError, match="no file that may be replaced"):
            await memory.backup(tmp_path / name, overwrite=True)
        await memory.add_memory("was written, too", user_id="alice")


async def test_a_database_given_as_an_export_by_mistake_keeps_its_locks(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with _open(tmp_path) as memory:
        await memory.add_memory("was written", user_id="alice")
        for call in (memory.export, memory.import_):
            with pytest.raises(StoreAccessError, match="SQLite database"):
                await call(path, user_id="alice")
        with ProcessPoolExecutor(1, mp_context=NEW_PROCESSES) as pool:
            pool.submit(processes.write_one, tmp_path, "other").result()  # the last to close removes the log
        assert (tmp_path / "memory.db-wal").exists()
        await memory.add_memory("was written, too", user_id="alice")


async def test_a_link_is_followed_to_the_file_and_its_log(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "memory.db"
    link.symlink_to(tmp_path / "real" / "kept.db")
    for number in range(2):
        async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
            await memory.summary([("user", f"word {number}")], user_id="alice")
            assert (await memory.stats(user_id="alice")).messages == number + 1
    assert link.is_symlink()
    assert (tmp_path / "real" / "kept.db").stat().st_size
