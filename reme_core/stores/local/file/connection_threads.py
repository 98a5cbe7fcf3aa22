"""Threads of one process that work on a file, the connections that are theirs, and the meaning of SQLite's errors."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import TracebackType

from pydantic import ValidationError

from reme_core.errors import (
    CorruptDataError,
    InvalidInputError,
    StorageFullError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from reme_core.schema import describe
from reme_core.stores.local.file.dialect import FileConnection
from reme_core.stores.local.file.log_room import LogRoom

_READERS = 4
_PURGE_EVERY_S = 60.0


class ConnectionThreads:
    """The threads of one process and their connections."""

    def __init__(self) -> None:
        """Begin with no thread: each is made when there is work for it."""
        self.writer = ThreadPoolExecutor(1, thread_name_prefix="reme-write")
        self.reader = ThreadPoolExecutor(1, thread_name_prefix="reme-read")
        self.more_readers = ThreadPoolExecutor(_READERS - 1, thread_name_prefix="reme-read-more")
        self.purger = ThreadPoolExecutor(1, thread_name_prefix="reme-purge")
        self.behind = ThreadPoolExecutor(1, thread_name_prefix="reme-load")  # a thread is made when there is work
        self.closing = False
        self.read_only = False
        self.writing: FileConnection | None = None
        self.opened: list[sqlite3.Connection] = []
        self.files = OpenedFiles(None)
        self.room = LogRoom(None)
        self.raw: list[FileIO] = []
        self._local = threading.local()
        self._counting = threading.Lock()
        self._reading = 0
        self._purged = float("-inf")
        self._preparing = threading.Lock()
        self._prepared = False

    def is_time_to_purge(self) -> bool:
        """Tell whether the last time that this said so is long ago."""
        now = time.monotonic()
        if now - self._purged < _PURGE_EVERY_S:
            return False
        self._purged = now
        return True

    def begin_reading(self) -> ThreadPoolExecutor:
        """Count a read, and return where it is done: a process that reads one thing at a time has one thread for it."""
        with self._counting:
            self._reading += 1
            return self.reader if self._reading == 1 else self.more_readers

    def end_reading(self) -> None:
        """Count a read as done."""
        with self._counting:
            self._reading -= 1

    def prepare_once(self, create: Callable[[], None]) -> None:
        """Make the file ready, unless a thread has done so; one that fails leaves it to the next."""
        with self._preparing:
            if not self._prepared:
                create()
                self._prepared = True

    def of_this_thread(self) -> FileConnection | None:
        """Return the connection of the thread that calls, None where it has none yet."""
        connection: FileConnection | None = getattr(self._local, "connection", None)
        return connection

    def keep_for_this_thread(self, connection: FileConnection) -> None:
        """Keep the connection for later calls of this thread."""
        self._local.connection = connection

    def open_raw(self, path: str) -> FileIO:
        """Open the file itself, once; called by the purging thread alone."""
        for raw in self.raw:
            if os.path.samestat(os.fstat(raw.fileno()), os.stat(path)):  # noqa: PTH116
                return raw
        # Of a memory that nobody closes it stays open, as the connections do.
        self.raw.append(FileIO(os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0)), "r+", closefd=False))
        return self.raw[-1]

    def close(self) -> None:
        """Wait for what was begun, then close the connections; the file itself stays open."""
        self.closing = True
        for pool in (self.purger, self.behind, self.writer, self.reader, self.more_readers):
            pool.shutdown(wait=True)
        self.room.close()
        for connection in self.opened:
            connection.close()


class OpenedFiles:
    """The file and its log as they were when they were opened."""

    def __init__(self, path: Path | None) -> None:
        """Remember the file; `None` checks nothing."""
        self._path = path
        absolute = "" if path is None else str(path.absolute())
        self._folder, self._paths = os.path.dirname(absolute), [absolute + end for end in ("", "-wal", "-shm")]  # noqa: PTH120
        self._seen: list[tuple[int, int]] = []
        self._folder_seen: tuple[int, ...] = ()
        self._bytes = 0 if path is None else path.stat().st_size

    def check(self) -> None:
        """Compare what is there with what was there at the first call, which a writer makes (StoreAccessError).

        The log is looked at where its folder has changed since, and only then: each look has the file system write the
        log's time of change anew at the next commit, which takes longer than all of this.
        """
        if self._path is None:
            return
        try:  # before each commit
            folder, file = os.stat(self._folder), os.stat(self._paths[0])  # noqa: PTH116
            if file.st_size < self._bytes:
                self._bytes = _bytes_left(self._path)
            stamp = (folder.st_dev, folder.st_ino, folder.st_mtime_ns, folder.st_ctime_ns, file.st_dev, file.st_ino)
            if stamp == self._folder_seen:
                return
            now = [(one.st_dev, one.st_ino) for one in (file, *map(os.stat, self._paths[1:]))]
        except FileNotFoundError as exc:
            raise StoreAccessError(_what_happened(f"{exc.filename!r} was removed", self._path)) from exc
        if now != (self._seen or now):
            raise StoreAccessError(_what_happened(f"{str(self._path)!r}, or its log, was replaced", self._path))
        self._seen = now
        self._folder_seen = stamp if _tells_changes(folder) else ()


_LOOKS, _LOOK_AGAIN_S = 10, 0.01


def _bytes_left(path: Path) -> int:
    """Return the size of a file that an erasure has made smaller (StoreAccessError: it lacks pages).

    A log on its way into the file brings the first page, which counts the others, before these: hence the other looks.
    """
    for _ in range(_LOOKS):
        size = path.stat().st_size
        # As it is without its log. SQLite itself closes no file that it has locks on.
        with (
            suppress(sqlite3.DatabaseError),  # a page lies behind the end
            closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection,
        ):
            (page,), (pages,) = (connection.execute(f"PRAGMA page_{what}").fetchone() for what in ("size", "count"))
            if 0 < page * pages <= size:
                return size
        time.sleep(_LOOK_AGAIN_S)
    raise StoreAccessError(_what_happened(f"{str(path)!r} was cut short", path))


# Of a folder's time of change. Linux counts it in ticks of its clock, of 10 ms at most; others more finely, or in whole
# seconds, as old disks do, or in hundredths.
_SETTLED_NS = 100_000_000
_COARSE_NS = 1_000_000


def _tells_changes(folder: os.stat_result) -> bool:
    """Return whether any later change in a folder will give it another time of change than it has."""
    return bool(folder.st_ctime_ns % _COARSE_NS) and time.time_ns() - folder.st_ctime_ns > _SETTLED_NS


def _what_happened(what: str, path: Path | None) -> str:
    return (
        f"{what} while it was open; nothing of this call was written: stop all processes that use {str(path)!r}, "
        "put the file back (a copy, say), and open it again"
    )


@dataclass(frozen=True, slots=True)
class MappedErrors:
    """Turns errors of SQLite and the system into ours, each with what to do; no message holds words of a stored text.

    Used in `with`, again and again, also one in the other: each write goes through it, so it is not made anew.
    Source: https://sqlite.org/rescode.html
    """

    path: str

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise what an error means (StoreError, InvalidInputError); others go on as they are."""
        match exc:
            case None:
                return
            case sqlite3.Error() if str(exc).startswith("Could not decode to UTF-8"):  # what Python adds is the text
                raise _damaged(self.path, "a text is no UTF-8") from None
            case sqlite3.Error():
                raise _mapped(exc, self.path) from exc
            case OSError():  # of what is done beside SQLite: the marker, and gaps that are cleared
                raise _mapped_by_system(exc, self.path) from exc
            case ValidationError():
                raise _damaged(self.path, describe(exc, "it", with_values=False)) from exc
            case OverflowError() | UnicodeEncodeError():
                msg = f"a value can't be stored or looked for: {exc}"
                raise InvalidInputError(msg) from exc


def _mapped_by_system(exc: OSError, path: str) -> StoreError:
    if exc.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StorageFullError(f"no space left for {path!r}; what was begun was not finished: free some space")
    if isinstance(exc, PermissionError | FileNotFoundError) or exc.errno == errno.EROFS:
        return StoreAccessError(f"{path!r} can't be opened for writing ({exc}): check permissions and the path")
    return StoreUnavailableError(f"reading or writing {path!r} failed ({exc}): check the disk, then try again")


def _mapped(exc: sqlite3.Error, path: str) -> StoreError:
    code = (getattr(exc, "sqlite_errorcode", None) or 0) & 0xFF
    match code:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreUnavailableError(f"{path!r} is locked by another process: try again, or raise busy_timeout_s")
        case sqlite3.SQLITE_FULL:
            return StorageFullError(f"no space left for {path!r}; nothing of this call was written: free some space")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return StoreAccessError(f"{path!r} can't be opened for writing ({exc}): check permissions and the path")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_FORMAT:
            return CorruptDataError(f"{path!r} is damaged or no SQLite file ({exc}): restore a copy, or move it away")
        case sqlite3.SQLITE_IOERR:
            return StoreUnavailableError(f"reading or writing {path!r} failed ({exc}): check the disk, then try again")
        case _:
            return StoreError(f"SQLite failed on {path!r}: {exc}")


def _damaged(path: str, how: str) -> CorruptDataError:
    return CorruptDataError(
        f"{path!r} holds a value that can't be what was written ({how}): see `reme check`, and restore a copy"
    )
