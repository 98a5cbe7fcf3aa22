"""One SQLite file: a thread that writes, a few that read, one that reads ahead, and nothing on the event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from io import FileIO
from pathlib import Path
from typing import TypeAlias, TypeVar

from reme_core.errors import ConfigurationError, StoreAccessError, StoreClosedError
from reme_core.schema import Scope
from reme_core.schema.checks import is_path
from reme_core.stores.local.file.connection_threads import ConnectionThreads, MappedErrors, OpenedFiles
from reme_core.stores.local.file.copies import keep_before_migration, remove_safety_copies
from reme_core.stores.local.file.dialect import FileConnection
from reme_core.stores.local.file.digests import keep_digests
from reme_core.stores.local.file.file_location import (
    FileSettings,
    bare_connection,
    bound_size,
    check_place,
    check_unused,
    is_read_only,
    mark_used,
    private_file,
    use_log,
)
from reme_core.stores.local.file.log_room import LogRoom
from reme_core.stores.local.file.purging import Purge, is_purge_due, note_file
from reme_core.stores.local.file.tables import check_sqlite, check_version, has_fts5, prepare
from reme_core.stores.local.file.words import has_word_tables
from reme_core.stores.sql.bookkeeping import make_scope_number
from reme_core.stores.sql.connection import Boundary, Statements
from reme_core.text import terms

T = TypeVar("T")
R = TypeVar("R")
W = TypeVar("W")
Work: TypeAlias = Callable[[FileConnection], T]

_PURGE_WAIT_MS = 200
_PURGE_PATIENCE_S = 30.0
# Source: https://sqlite.org/limits.html, the largest number of pages of a file.
_ALL_PAGES = 4_294_967_294
_LOG = logging.getLogger("reme")


class Database:
    """Runs work on connections of its own threads. Opens with the first call; usable from any loop and thread.

    Adapters may have tables of their own in the file. A row of such a table that has the number of a scope in a column
    `erased_with` is removed together with that scope, and so are files that were noted (`note_file`).
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
        self.mapped_errors = MappedErrors(self._path)
        """Turns errors within `with` into what `write` raises: for work that catches some of its own."""
        self._gate = threading.Lock()
        self._threads: ConnectionThreads | None = None
        self._ending: ConnectionThreads | None = None  # until their connections are closed, and the file handed on
        self._ends = threading.Lock()
        self._closed = False

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._path

    async def write(self, work: Work[T], *, within: Boundary = None, settled: bool = True, frees: bool = False) -> T:
        """Run work in a transaction of the writing thread; it is on disk when this returns. A file has no boundaries.

        Cancelling the await does not stop work that has begun: it then completes. With `settled=False` a power cut,
        though not a kill, may undo it: for what can be made again and says nothing that was acknowledged. With
        `frees=True` it may go beyond `max_bytes`: what removes rows needs some room before it leaves more.
        """
        if frees and self._settings.max_bytes is not None:
            return await asyncio.wrap_future(self._submit(self._transact_freeing, work, lambda threads: threads.writer))
        return await asyncio.wrap_future(self.submit_write(work, settled=settled))

    @staticmethod
    def number_of(connection: Statements, scope: Scope) -> int:
        """Return the number of a scope, a new one for a new scope, within a `write`."""
        return make_scope_number(connection, scope)

    @staticmethod
    def note_file(connection: Statements, scope: Scope, path: Path) -> None:
        """Note, within a `write`, a file or folder outside that is removed together with a scope."""
        note_file(connection, make_scope_number(connection, scope), path)

    async def read(self, work: Work[T], *, within: Boundary = None) -> T:
        """Run work on a reading thread, in one snapshot of the file."""
        return await asyncio.wrap_future(self.submit_read(work))

    def submit_write(self, work: Work[T], *, within: Boundary = None, settled: bool = True) -> Future[T]:
        """Begin what `write` does, for callers without an event loop; the future's result waits for it."""
        run = self._transact if settled else self._transact_unsettled
        return self._submit(run, work, lambda threads: threads.writer)

    def submit_read(self, work: Work[T], *, within: Boundary = None) -> Future[T]:
        """Begin what `read` does, for callers without an event loop."""
        counted: list[ConnectionThreads] = []

        def reader(threads: ConnectionThreads) -> ThreadPoolExecutor:
            counted.append(threads)
            return threads.begin_reading()

        future = self._submit(self._read, work, reader)
        future.add_done_callback(lambda done: counted[0].end_reading() if done.cancelled() else None)
        return future

    def submit_repeated(self, work: Work[bool], *, within: Boundary = None) -> Future[None]:
        """Begin to run work on a thread of its own, each time in another snapshot, until it returns False.

        It also ends when it fails, or when the connections are closed, before a fork too: then it is to be begun anew.
        Several such works take turns.
        """
        ended: Future[None] = Future()

        def repeat(threads: ConnectionThreads, work: Work[bool]) -> None:
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

    async def purge(self) -> None:
        """Clear what erased scopes have left in the file; others write meanwhile; see `Purge`.

        Raises:
            StoreUnavailableError: Others keep the file in use; the next start goes on.
        """
        await asyncio.wrap_future(self._submit(self._purge, None, lambda threads: threads.purger))

    def begin_purge(self) -> None:
        """Begin what `purge` does in the background, once a minute at most: what is left then is the next start's."""
        with self._gate:
            if self._threads is not None and self._threads.is_time_to_purge():
                self._go_on_purging(self._threads)

    async def close(self) -> None:
        """Finish what was begun, then close every connection."""
        with self._gate:
            self._begin_end()
            self._closed = True
        if self._ending is not None:
            await asyncio.to_thread(self._end)

    def _submit(
        self, run: Callable[[ConnectionThreads, W], R], work: W, pool: Callable[[ConnectionThreads], ThreadPoolExecutor]
    ) -> Future[R]:
        with self._gate:
            if self._closed:
                msg = f"the store {self._path!r} was closed: open a new one"
                raise StoreClosedError(msg)
            if self._threads is None:
                with _HANDING_ON:
                    self._threads = ConnectionThreads()
                    _OPENED.add(self)
            return pool(self._threads).submit(run, self._threads, work)

    def before_fork(self) -> None:
        """Finish what was begun and close every connection; calls wait until `after_fork`, and then open anew.

        SQLite forbids to carry a connection over a fork: parent and child would take each other's locks for their own,
        and the one that closes first could remove the log that the other one writes (https://sqlite.org/howtocorrupt.html,
        section 2.7).
        """
        self._gate.acquire()
        self._begin_end()
        if self._ending is not None:  # since now, or since a close() that is under way
            self._end()

    def after_fork(self) -> None:
        """Let calls go on, in the parent as in the child."""
        self._gate.release()

    def _transact(self, threads: ConnectionThreads, work: Work[T]) -> T:
        with self.mapped_errors:
            connection = self._writing(threads)
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                threads.files.check()
                threads.room.make()
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result

    def _transact_unsettled(self, threads: ConnectionThreads, work: Work[T]) -> T:
        with self.mapped_errors:
            connection = self._writing(threads)
            connection.execute("PRAGMA synchronous = NORMAL")
        try:
            return self._transact(threads, work)
        finally:
            connection.execute(f"PRAGMA synchronous = {self._settings.synchronous}")

    def _transact_freeing(self, threads: ConnectionThreads, work: Work[T]) -> T:
        with self.mapped_errors:
            connection = self._writing(threads)
            connection.execute(f"PRAGMA max_page_count = {_ALL_PAGES}")
        try:
            return self._transact(threads, work)
        finally:
            bound_size(connection, self._settings)

    def _look(self, threads: ConnectionThreads, work: Work[T]) -> T:
        with self.mapped_errors:
            connection = self._reading(threads)
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                if connection.in_transaction:  # SQLite ends it itself after some failures
                    connection.execute("COMMIT")

    def _read(self, threads: ConnectionThreads, work: Work[T]) -> T:
        try:
            return self._look(threads, work)
        finally:
            threads.end_reading()

    def _purge(self, threads: ConnectionThreads, _: None = None) -> None:
        with self.mapped_errors:
            threads.prepare_once(lambda: self._create(threads))
            with closing(bare_connection(self._settings)) as connection:
                keep_digests(connection)
                connection.execute("PRAGMA cache_size = -8000")
                connection.execute(f"PRAGMA max_page_count = {_ALL_PAGES}")
                connection.execute(f"PRAGMA busy_timeout = {_PURGE_WAIT_MS}")
                connection.execute("PRAGMA synchronous = NORMAL")  # what a power cut takes back is done again
                Purge(
                    connection=connection,
                    raw=threads.open_raw(self._path),
                    path=self._path,
                    patience_s=max(self._settings.busy_timeout_s, _PURGE_PATIENCE_S),
                    is_closing=lambda: threads.closing,
                    check=threads.files.check,
                ).run()
            remove_safety_copies(self._settings.path)

    def _go_on_purging(self, threads: ConnectionThreads) -> None:
        """Clear what a process that ended has left to clear, in the background."""

        def purge() -> None:
            try:
                self._purge(threads)
            except Exception as exc:  # the edge of a background task: nobody waits for it  # noqa: BLE001
                _LOG.error("%r still holds pages of what was erased, the next start tries again: %s", self._path, exc)

        threads.purger.submit(purge)

    def _begin_end(self) -> None:
        """Take no more work for the threads that there are. Held: the gate."""
        if self._threads is not None:
            self._ending = self._threads  # first: there is no moment at which `_inherit` finds neither
            self._threads = None

    def _end(self) -> None:
        """Finish what was begun and close the connections, or wait until somebody else has."""
        with self._ends:
            threads = self._ending
            if threads is None:
                return
            threads.close()
            with _HANDING_ON:
                self._ending = None
                self._hand_on(threads.raw)

    def _hand_on(self, raw: list[FileIO]) -> None:
        # POSIX: whoever closes a file loses all locks that this process has on it, so that the last one here does it.
        for other in list(_OPENED):
            if raw and other is not self and other._inherit(self._settings.path, raw):  # noqa: SLF001
                return
        for file in raw:
            os.close(file.fileno())

    def _inherit(self, path: Path, raw: list[FileIO]) -> bool:
        threads = self._threads or self._ending
        if threads is None or self._settings.path.resolve() != path.resolve():
            return False
        threads.raw.extend(raw)
        return True

    def _writing(self, threads: ConnectionThreads) -> FileConnection:
        if threads.writing is None:
            threads.prepare_once(lambda: self._create(threads))
            threads.writing = self._to_write(threads)
        return threads.writing

    def _reading(self, threads: ConnectionThreads) -> FileConnection:
        connection = threads.of_this_thread()
        if connection is None:
            threads.prepare_once(lambda: self._create(threads))
            connection = self._connect(threads)
            connection.execute("PRAGMA query_only = ON")
            threads.keep_for_this_thread(connection)
        return connection

    def _create(self, threads: ConnectionThreads) -> None:
        path = self._settings.path
        check_place(path)
        threads.read_only = is_read_only(path)
        if threads.read_only:
            with closing(bare_connection(self._settings)) as connection:
                check_sqlite(connection)
                prepare(connection, self._path, fts5=has_fts5(connection), can_write=False)
            return
        with private_file(path):
            connection = bare_connection(self._settings)
            try:
                check_sqlite(connection)
                # Before anything is written: what isn't ours stays as it is.
                if check_version(connection, self._path) == 0:
                    check_unused(path, lambda: check_version(connection, self._path) == 0)
                    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of an empty file alone
                use_log(connection, self._settings)
                prepare(connection, self._path, fts5=has_fts5(connection), keep=partial(keep_before_migration, path))
                due = is_purge_due(connection)
                if not has_word_tables(connection):
                    _LOG.warning(
                        "%r was made without SQLite's FTS5: keywords are found by scanning, slower", self._path
                    )
            finally:
                connection.close()
            mark_used(path)
        threads.files, threads.room = OpenedFiles(path), LogRoom(path)
        if due:
            self._go_on_purging(threads)
        terms("opened")  # loads the stemmer now: no first append is to wait for that

    def _to_write(self, threads: ConnectionThreads) -> FileConnection:
        if threads.read_only:
            msg = f"{self._path!r}, or its folder, can only be read: copy it to a place that can be written"
            raise StoreAccessError(msg)
        connection = self._connect(threads)
        keep_digests(connection)
        return connection

    def _connect(self, threads: ConnectionThreads) -> FileConnection:
        connection = bare_connection(self._settings)
        threads.opened.append(connection)
        connection.execute(f"PRAGMA synchronous = {self._settings.synchronous}")
        connection.execute("PRAGMA cache_size = -8000")
        bound_size(connection, self._settings)
        return connection


# The one state of a module here: what is to be done at a fork is told to the interpreter once and for all.
_OPENED: weakref.WeakSet[Database] = weakref.WeakSet()
_PAUSED: list[Database] = []
# Held where one begins to use a file, and where one that ends hands it on: no other begins or ends meanwhile.
_HANDING_ON = threading.Lock()


def _before_fork() -> None:
    with _HANDING_ON:
        opened = list(_OPENED)
    try:
        for database in opened:
            database.before_fork()
            _PAUSED.append(database)
    finally:
        _HANDING_ON.acquire()  # no thread that the child has not may hold it


def _after_fork() -> None:
    _HANDING_ON.release()
    while _PAUSED:
        _PAUSED.pop().after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
