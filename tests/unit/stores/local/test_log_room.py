"""Room in the log ahead of what is written: when it is made, how much, and that it is never taken for a commit."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from reme_core.stores.local.file.database import Database
from reme_core.stores.local.file.dialect import FileConnection
from reme_core.stores.local.file.file_location import FileSettings
from reme_core.stores.local.file.log_room import LogRoom

pytestmark = pytest.mark.skipif(os.name != "posix", reason="room is made on POSIX alone")

_FRAME = 24 + 4096
_MOST = 4 << 20


def open_file(folder: Path) -> Database:
    return Database(FileSettings(path=folder / "m.db", synchronous="NORMAL"))


async def note(database: Database, text: str) -> None:
    def write(connection: FileConnection) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS notes (text TEXT)")
        connection.execute("INSERT INTO notes VALUES (?)", (text,))

    await database.write(write)


def notes_in(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = [text for (text,) in connection.execute("SELECT text FROM notes")]
    connection.close()
    return found


async def test_most_commits_do_not_make_the_log_longer(tmp_path: Path) -> None:
    database, log, sizes = open_file(tmp_path), tmp_path / "m.db-wal", []
    for number in range(60):
        await note(database, f"{number} {'x' * 3000}")
        sizes.append(log.stat().st_size)
    await database.close()
    grown = [number for number in range(10, 60) if sizes[number] != sizes[number - 1]]
    assert len(grown) <= 4
    assert sizes[-1] <= _MOST


async def test_a_log_is_given_no_room_beyond_what_it_mostly_needs(tmp_path: Path) -> None:
    database, log = open_file(tmp_path), tmp_path / "m.db-wal"
    for number in range(25):
        await note(database, f"{number}" * 200_000)
    assert _MOST - 2 * 400_000 < log.stat().st_size <= _MOST + 3 * 400_000
    await database.close()


async def test_who_writes_little_gets_no_room(tmp_path: Path) -> None:
    database, log = open_file(tmp_path), tmp_path / "m.db-wal"
    for number in range(4):
        await note(database, f"{number}")
    with log.open("rb") as file:
        file.seek(-_FRAME, os.SEEK_END)
        assert file.read(4) != bytes(4)  # the number of a page
    await database.close()


async def test_room_is_not_taken_for_commits_after_a_kill(tmp_path: Path) -> None:
    database, copy = open_file(tmp_path), tmp_path / "copy"
    for number in range(12):
        await note(database, f"{number}")
    assert (tmp_path / "m.db-wal").read_bytes().endswith(bytes(_FRAME))
    copy.mkdir()
    for ending in ("", "-wal"):
        shutil.copy(tmp_path / f"m.db{ending}", copy / f"m.db{ending}")  # as a process that was killed leaves them
    await database.close()
    assert notes_in(copy / "m.db") == [f"{number}" for number in range(12)]


async def test_two_that_write_to_one_log_leave_each_others_commits(tmp_path: Path) -> None:
    one, two = open_file(tmp_path), open_file(tmp_path)
    for number in range(40):
        await note(one if number % 3 else two, f"{number} {'x' * 2000}")
    await one.close()
    await two.close()
    assert [text.split()[0] for text in notes_in(tmp_path / "m.db")] == [f"{number}" for number in range(40)]


def test_a_log_that_nobody_lets_go_of_is_closed_with_its_owner(tmp_path: Path) -> None:
    (tmp_path / "m.db-wal").write_bytes(bytes(_FRAME))
    room = LogRoom(tmp_path / "m.db")
    room.make()
    opened = room._opened
    assert os.path.samestat(os.fstat(opened), (tmp_path / "m.db-wal").stat())
    del room
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened)


async def test_a_disk_without_room_fails_no_commit_that_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    database = open_file(tmp_path)
    for number in range(12):
        await note(database, f"{number}")
    await database.close()
    assert len(notes_in(tmp_path / "m.db")) == 12


async def test_a_log_that_cannot_be_opened_for_room_fails_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def none_left(path: str, flags: int, *args: int, **options: int) -> int:
        if str(path).endswith("-wal"):
            raise OSError(errno.EMFILE, "Too many open files")
        return opened(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", none_left)
    database = open_file(tmp_path)
    await note(database, "kept")
    await database.close()
    assert notes_in(tmp_path / "m.db") == ["kept"]
