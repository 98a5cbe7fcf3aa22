"""Databases of one process that end, be it at a fork: no lock is lost and no connection carried over."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from reme_core.stores.local.file.database import Database
from reme_core.stores.local.file.file_location import FileSettings

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="locks and forks of POSIX")

TAKE_ALONE = """
import sqlite3, sys
print(sqlite3.connect(sys.argv[1], timeout=0).execute("PRAGMA journal_mode = DELETE").fetchone())
"""


class Held:
    """A write that has begun and does not end before it may."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS held (row INTEGER)")
        connection.execute("INSERT INTO held VALUES (1)")
        self.begun.set()
        assert self.may_end.wait(20)


def rows(connection: sqlite3.Connection) -> int:
    (count,) = connection.execute("SELECT count(*) FROM held").fetchone()
    return int(count)


async def begin_to_close(database: Database) -> asyncio.Task[None]:
    closing = asyncio.create_task(database.close())
    while not database._closed:  # noqa: ASYNC110  # it says so to nobody
        await asyncio.sleep(0)
    return closing


def files_open(path: Path) -> int:
    """Return how many descriptors of this process lead to a file."""
    wanted, count = path.stat(), 0
    for descriptor in range(256):
        try:
            count += os.path.samestat(os.fstat(descriptor), wanted)
        except OSError:
            continue
    return count


async def test_one_that_is_about_to_close_keeps_its_locks_when_another_one_ends(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    ending, other = Database(FileSettings(path=path)), Database(FileSettings(path=path))
    await other.purge()  # it holds the file itself
    held = Held()
    written = ending.submit_write(held)
    await asyncio.to_thread(held.begun.wait, 20)
    closing = await begin_to_close(ending)
    await other.close()
    command = [sys.executable, "-c", TAKE_ALONE, str(path)]
    tried = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    held.may_end.set()
    await closing
    assert "database is locked" in tried.stderr, tried
    written.result(0)
    assert files_open(path) == 0
    again = Database(FileSettings(path=path))
    assert await again.read(rows) == 1
    await again.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_a_fork_waits_for_a_close_that_is_under_way(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    database, held, statuses = Database(FileSettings(path=path)), Held(), list[int]()
    database.submit_write(held)
    await asyncio.to_thread(held.begun.wait, 20)
    threads = database._threads
    assert threads is not None
    closing = await begin_to_close(database)

    def fork() -> None:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                threads.opened[0].total_changes  # noqa: B018  # refused by a connection that is closed
            except sqlite3.ProgrammingError:
                os._exit(0)
            os._exit(1)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    forking = threading.Thread(target=fork)
    forking.start()
    while forking.is_alive() and not database._gate.locked():  # noqa: ASYNC110  # the fork has begun
        await asyncio.sleep(0)
    held.may_end.set()
    await asyncio.to_thread(forking.join, 20)
    await closing
    assert statuses == [0]
    again = Database(FileSettings(path=path))
    assert await again.read(rows) == 1
    await again.close()


async def test_a_close_that_was_given_up_is_done_by_the_next_one(tmp_path: Path) -> None:
    database = Database(FileSettings(path=tmp_path / "memory.db"))
    await database.purge()
    with database._gate:
        database._begin_end()
        database._closed = True
    await database.close()
    await database.close()
    assert files_open(tmp_path / "memory.db") == 0


async def test_what_is_handed_on_while_the_heir_ends_is_closed_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    enders = list[threading.Thread]()

    class Slow(type(path)):  # type: ignore[misc]
        """A path at whose look-up the one that it belongs to ends."""

        def resolve(self, strict: bool = False) -> Path:
            if not enders:
                enders.append(threading.Thread(target=lambda: asyncio.run(heir.close())))
                enders[0].start()
                enders[0].join(0.3)  # it waits for the one that hands on
            return Path(str(self)).resolve(strict)

    heir, ending = Database(FileSettings(path=path)), Database(FileSettings(path=path))
    await ending.purge()
    await heir.write(lambda connection: None)
    object.__setattr__(heir._settings, "path", Slow(path))
    await ending.close()
    await asyncio.to_thread(enders[0].join, 20)
    assert files_open(path) == 0
