"""One SQLite file: a thread that writes, a few that read, one that reads ahead, and nothing on the event loop."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from reme_core.errors import ConfigurationError, StoreClosedError
from reme_core.schema import Scope
from reme_core.schema.checks import is_path
from reme_core.stores.local.file.file_location import check_place, mapped_errors
from reme_core.stores.local.file.scope_numbers import make_scope_number
from reme_core.stores.local.file.tables import check_version, has_fts5, prepare
from reme_core.text import terms

T = TypeVar("T")
R = TypeVar("R")
Work: TypeAlias = Callable[[sqlite3.Connection], T]

_READERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """How a file is opened.

    Attributes:
        path: The file; its folder is made.
        synchronous: FULL: an acknowledged write survives a power cut. NORMAL: it survives a killed process; a power cut
            may take the last writes, never the file's consistency.
        busy_timeout_s: How long to wait for another process that is writing.
        max_bytes: At most this size, if given; then StorageFullError.
    """

    path: Path
    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    busy_timeout_s: float = 10.0
    max_bytes: int | None = None


class Database:
    """Runs work on connections of its own threads. Opens with the first call; usable from any loop and thread.

    Adapters may have tables of their own in the file. A row of such a table that has the number of a scope in a column
    `erased_with` is removed together with that scope.
    """

    def __init__(self, settings: FileSettings) -> None:
        """Keep the settings; nothing is opened."""
        if settings.synchronous not in {"FULL", "NORMAL"}:
            msg = f"synchronous is FULL or NORMAL, not {settings.synchronous!r}"
            raise ConfigurationError(msg)
        if not is_path(str(settings.path)):
            msg = f"path: {str(settings.path)!r:.80} can't be the path of a file"
            raise ConfigurationError(msg)
        self._settings = settings
        self._path = str(settings.path)
        self._gate = threading.Lock()
        self._threads: _Threads | None = None
        self._closed = False

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._path

    async def write(self, work: Work[T], *, settled: bool = True) -> T:
        """Run work in a transaction of the writing thread; it is on disk when this returns.

        Cancelling the await does not stop work that has begun: it then completes. With `settled=False` a power cut,
        though not a kill, may undo it: for what can be made again and says nothing that was acknowledged.
        """
        return await asyncio.wrap_future(self.submit_write(work, settled=settled))

    @staticmethod
    def number_of(connection: sqlite3.Connection, scope: Scope) -> int:
        """Return the number of a scope, a new one for a new scope, within a `write`."""
        return make_scope_number(connection, scope)

    async def read(self, work: Work[T]) -> T:
        """Run work on a reading thread, in one snapshot of the file."""
        return await asyncio.wrap_future(self.submit_read(work))

    def submit_write(self, work: Work[T], *, settled: bool = True) -> Future[T]:
        """Begin what `write` does, for callers without an event loop; the future's result waits for it."""
        run = self._transact if settled else self._transact_unsettled
        return self._submit(run, work, lambda threads: threads.writer)

    def submit_read(self, work: Work[T]) -> Future[T]:
        """Begin what `read` does, for callers without an event loop."""
        counted: list[_Threads] = []

        def reader(threads: _Threads) -> ThreadPoolExecutor:
            counted.append(threads)
            return threads.begin_reading()

        future = self._submit(self._read, work, reader)
        future.add_done_callback(lambda done: counted[0].end_reading() if done.cancelled() else None)
        return future

    def submit_repeated(self, work: Work[bool]) -> Future[None]:
        """Begin to run work on a thread of its own, each time in another snapshot, until it returns False.

        It also ends when it fails, or when the connections are closed, before a fork too: then it is to be begun anew.
        Several such works take turns.
        """
        ended: Future[None] = Future()

        def repeat(threads: _Threads, work: Work[bool]) -> None:
            try:
                if not threads.closing and self._look(threads, work):
                    threads.behind.submit(repeat, threads, work)  # RuntimeError: the interpreter is about to end
                    return
            except BaseException:
                ended.set_result(None)
                raise
            ended.set_result(None)

        self._submit(repeat, work, lambda threads: threads.behind)
        return ended

    async def maintain(self, work: Work[T]) -> T:
        """Run work on the writing thread outside a transaction, as checkpoints need it."""
        return await asyncio.wrap_future(self._submit(self._outside, work, lambda threads: threads.writer))

    async def close(self) -> None:
        """Finish what was begun, then close every connection."""
        with self._gate:
            threads, self._threads, self._closed = self._threads, None, True
        if threads is not None:
            await asyncio.to_thread(threads.close)

    def _submit(
        self, run: Callable[[_Threads, Work[T]], R], work: Work[T], pool: Callable[[_Threads], ThreadPoolExecutor]
    ) -> Future[R]:
        with self._gate:
            if self._closed:
                msg = f"the store {self._path!r} was closed: open a new one"
                raise StoreClosedError(msg)
            if self._threads is None:
                self._threads = _Threads()
                _OPENED.add(self)
            return pool(self._threads).submit(run, self._threads, work)

    def before_fork(self) -> None:
        """Finish what was begun and close every connection; calls wait until `after_fork`, and then open anew.

        SQLite forbids to carry a connection over a fork: parent and child would take each other's locks for their own,
        and the one that closes first could remove the log that the other one writes (https://sqlite.org/howtocorrupt.html,
        section 2.7).
        """
        self._gate.acquire()
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.close()

    def after_fork(self) -> None:
        """Let calls go on, in the parent as in the child."""
        self._gate.release()

    def _transact(self, threads: _Threads, work: Work[T]) -> T:
        with mapped_errors(self._path):
            connection = self._writing(threads)
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result

    def _transact_unsettled(self, threads: _Threads, work: Work[T]) -> T:
        with mapped_errors(self._path):
            connection = self._writing(threads)
            connection.execute("PRAGMA synchronous = NORMAL")
        try:
            return self._transact(threads, work)
        finally:
            connection.execute(f"PRAGMA synchronous = {self._settings.synchronous}")

    def _look(self, threads: _Threads, work: Work[T]) -> T:
        with mapped_errors(self._path):
            connection = self._reading(threads)
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                if connection.in_transaction:  # SQLite ends it itself after some failures
                    connection.execute("COMMIT")

    def _read(self, threads: _Threads, work: Work[T]) -> T:
        try:
            return self._look(threads, work)
        finally:
            threads.end_reading()

    def _outside(self, threads: _Threads, work: Work[T]) -> T:
        with mapped_errors(self._path):
            return work(self._writing(threads))

    def _writing(self, threads: _Threads) -> sqlite3.Connection:
        if threads.writing is None:
            threads.prepare_once(self._create)
            threads.writing = self._connect(threads)
        return threads.writing

    def _reading(self, threads: _Threads) -> sqlite3.Connection:
        connection = threads.of_this_thread()
        if connection is None:
            threads.prepare_once(self._create)
            connection = self._connect(threads)
            connection.execute("PRAGMA query_only = ON")
            threads.keep_for_this_thread(connection)
        return connection

    def _create(self) -> None:
        check_place(self._settings.path)
        connection = self._bare()
        try:
            check_version(connection, self._path)  # before anything is written: what isn't ours stays as it is
            self._use_log(connection)
            prepare(connection, self._path, fts5=has_fts5(connection))
        finally:
            connection.close()
        terms("opened")  # loads the stemmer now: no first append is to wait for that

    def _use_log(self, connection: sqlite3.Connection) -> None:
        """Switch the file to its write-ahead log. SQLite doesn't wait for others that do the same, so this does."""
        deadline = time.monotonic() + self._settings.busy_timeout_s
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as exc:
                if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
            else:
                return

    def _connect(self, threads: _Threads) -> sqlite3.Connection:
        connection = self._bare()
        threads.opened.append(connection)
        connection.execute(f"PRAGMA synchronous = {self._settings.synchronous}")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA cache_size = -8000")
        if self._settings.max_bytes is not None:
            (page,) = connection.execute("PRAGMA page_size").fetchone()
            connection.execute(f"PRAGMA max_page_count = {max(1, self._settings.max_bytes // page)}")
        return connection

    def _bare(self) -> sqlite3.Connection:
        # Connections stay with their thread but for close(), which runs when those threads have ended.
        return sqlite3.connect(
            self._path, timeout=self._settings.busy_timeout_s, isolation_level=None, check_same_thread=False
        )


class _Threads:
    """The threads of one process and their connections."""

    def __init__(self) -> None:
        self.writer = ThreadPoolExecutor(1, thread_name_prefix="reme-write")
        self.reader = ThreadPoolExecutor(1, thread_name_prefix="reme-read")
        self.more_readers = ThreadPoolExecutor(_READERS - 1, thread_name_prefix="reme-read-more")
        self.behind = ThreadPoolExecutor(1, thread_name_prefix="reme-load")  # a thread is made when there is work
        self.closing = False
        self.writing: sqlite3.Connection | None = None
        self.opened: list[sqlite3.Connection] = []
        self._local = threading.local()
        self._counting = threading.Lock()
        self._reading = 0
        self._preparing = threading.Lock()
        self._prepared = False

    def begin_reading(self) -> ThreadPoolExecutor:
        """Count a read, and return where it is done: a process that reads one thing at a time has one thread for it."""
        with self._counting:
            self._reading += 1
            return self.reader if self._reading == 1 else self.more_readers

    def end_reading(self) -> None:
        with self._counting:
            self._reading -= 1

    def prepare_once(self, create: Callable[[], None]) -> None:
        with self._preparing:
            if not self._prepared:
                create()
                self._prepared = True

    def of_this_thread(self) -> sqlite3.Connection | None:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        return connection

    def keep_for_this_thread(self, connection: sqlite3.Connection) -> None:
        self._local.connection = connection

    def close(self) -> None:
        self.closing = True
        for pool in (self.behind, self.writer, self.reader, self.more_readers):
            pool.shutdown(wait=True)
        for connection in self.opened:
            connection.close()


# The one state of a module here: what is to be done at a fork is told to the interpreter once and for all.
_OPENED: weakref.WeakSet[Database] = weakref.WeakSet()
_PAUSED: list[Database] = []


def _before_fork() -> None:
    for database in list(_OPENED):
        database.before_fork()
        _PAUSED.append(database)


def _after_fork() -> None:
    while _PAUSED:
        _PAUSED.pop().after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
