"""Work in transactions of PostgreSQL, on threads, off the event loop; tried again where that is right.

Work is a function of the connection alone, so that it can be run again: when another transaction came first, and when
the server was lost. If it was lost while a commit was under way, the next attempt looks, under the same lock, whether
that one has left its signature: so nothing is done twice, and nothing that was done is told as failed.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from reme_core.errors import SchemaVersionError, StoreClosedError, StoreError, StoreUnavailableError
from reme_core.schema import new_id
from reme_core.stores.postgres.connection import Beginning, Kind, PgConnection, ScopeMadeAnewError, lock_number
from reme_core.stores.postgres.erasure import note_file
from reme_core.stores.postgres.failures import is_clash, is_lost, is_overtaken, mapped_errors
from reme_core.stores.postgres.migrate import open_schema
from reme_core.stores.postgres.pool import ConnectionPool
from reme_core.stores.postgres.settings import ServerSettings
from reme_core.stores.sql.connection import ItemsWithin
from reme_core.text import terms

if TYPE_CHECKING:
    from pathlib import Path

    from reme_core.schema import Scope
    from reme_core.stores.sql.connection import Boundary, Dialect, SqlConnection, Work

T = TypeVar("T")

# Two writers that meet take turns after a pause; more than so many meetings in a row are no accident. A key that is
# still taken after a few is a clash with what is stored.
_MEETINGS, _CLASHES = 12, 3
_SCOPES = 10_000  # whose numbers are remembered, a megabyte or two
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.5


def writing_threads(settings: ServerSettings) -> int:
    """Return how many of the connections of a process may write at once."""
    return max(1, settings.max_connections * 2 // 5)


class _LostServerError(Exception):
    """The server was lost while it committed."""


class _LostCommitError(Exception):
    """A commit whose outcome is not known: its signature, and what the work had returned."""

    def __init__(self, signature: int, result: Any) -> None:  # noqa: ANN401  # of whatever work it was
        super().__init__(signature)
        self.signature = signature
        self.result = result


def _last_signature(connection: PgConnection, writer: str, signature: int) -> int | None:
    """Return the signature of a writer's last transaction, and leave a later one, behind which no earlier one ends."""
    row = connection.execute("SELECT signature FROM last_writes WHERE writer = ?", (writer,)).fetchone()
    connection.execute(
        "INSERT INTO last_writes VALUES (?, ?, now())"
        " ON CONFLICT (writer) DO UPDATE SET signature = excluded.signature, at = excluded.at",
        (writer, signature),
    )
    return None if row is None else int(row[0])


class _Threads:
    """The threads of one process, and their connections."""

    def __init__(self, settings: ServerSettings) -> None:
        self.name = new_id()
        self.signatures = count(1)
        self.pool = ConnectionPool(settings)
        writers = writing_threads(settings)
        readers = max(1, settings.max_connections - writers - 1)
        self.writers = [ThreadPoolExecutor(1, thread_name_prefix="reme-write") for _ in range(writers)]
        self.readers = ThreadPoolExecutor(readers, thread_name_prefix="reme-read")
        self.behind = ThreadPoolExecutor(1, thread_name_prefix="reme-load")
        self.closing = threading.Event()
        self.preparing = threading.Lock()
        self.is_prepared = False
        self.outdated: str | None = None
        self.scopes: dict[Boundary, int] = {}

    def keep_scope(self, connection: PgConnection) -> None:
        """Remember the number of a scope, so that its next transaction asks with the first thing it wants."""
        boundary, number = connection.found_scope
        if number is not None and boundary not in self.scopes:
            if len(self.scopes) >= _SCOPES:
                self.scopes.clear()
            self.scopes[boundary] = number

    def close(self) -> None:
        self.closing.set()
        for pool in (self.behind, *self.writers, self.readers):
            pool.shutdown(wait=True)
        self.pool.close()


class PostgresDatabase:
    """The `Database` of shared rows on PostgreSQL. Opens with the first call; usable from any loop and thread.

    Writes of one scope keep the order in which this process began them; those of different scopes go side by side.
    """

    def __init__(self, settings: ServerSettings, dialect: Dialect) -> None:
        """Keep the settings; nothing is opened."""
        self._settings = settings
        self._dialect = dialect
        self._gate = threading.Lock()
        self._threads: _Threads | None = None
        self._closed = False
        _OPENED.add(self)

    def __repr__(self) -> str:
        """Name the place, without password."""
        return f"PostgresDatabase({self._settings.shown!r})"

    @property
    def path(self) -> str:
        """The place, without password."""
        return self._settings.shown

    @staticmethod
    def note_file(connection: SqlConnection, scope: Scope, path: Path) -> None:
        """Note, within a `write`, a file or folder of this machine that is removed together with a scope."""
        connection.dialect.number_of(connection, scope)
        note_file(connection, scope, path)

    async def read(self, work: Work[T], *, within: Boundary) -> T:
        """Run work in one snapshot; it can write nothing."""
        return await asyncio.wrap_future(self.submit_read(work, within=within))

    async def write(self, work: Work[T], *, within: Boundary, settled: bool = True, frees: bool = False) -> T:
        """Run work in a transaction; it is on disk when this returns.

        Cancelling the await does not stop work that has begun: it then completes. With `settled=False` a crash of the
        server may undo it; with `frees=True` its statements may take as long as they need.
        """
        return await asyncio.wrap_future(self.submit_write(work, within=within, settled=settled, frees=frees))

    def submit_read(self, work: Work[T], *, within: Boundary) -> Future[T]:
        """Begin what `read` does, for callers without an event loop; the future's result waits for it."""
        return self._submit(lambda threads: threads.readers, work, "read", within)

    def submit_write(self, work: Work[T], *, within: Boundary, settled: bool = True, frees: bool = False) -> Future[T]:
        """Begin what `write` does, for callers without an event loop."""
        kind: Kind = "freeing" if frees else "write" if settled else "unsettled"
        place = self._place(within)
        return self._submit(lambda threads: threads.writers[place], work, kind, within)

    def submit_repeated(self, work: Work[bool], *, within: Boundary) -> Future[None]:
        """Begin to run work behind all else, each time in another snapshot, until it returns False or fails."""
        ended: Future[None] = Future()

        def repeat(threads: _Threads) -> None:
            try:
                if not threads.closing.is_set() and self._run(threads, work, "read", within):
                    threads.behind.submit(repeat, threads)  # RuntimeError: the interpreter is about to end
                    return
            except BaseException:
                ended.set_result(None)
                raise
            ended.set_result(None)

        threads = self._open_threads()
        threads.behind.submit(repeat, threads)
        return ended

    async def purge(self) -> None:
        """Nothing: what deleted rows leave behind is cleared by PostgreSQL's own VACUUM."""

    def begin_purge(self) -> None:
        """Nothing, as `purge`."""

    async def close(self) -> None:
        """Finish what was begun, then close every connection."""
        with self._gate:
            self._closed = True
            threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.to_thread(threads.close)

    def after_fork_in_child(self) -> None:
        """Forget the parent's threads and connections: they are the parent's, which goes on using them."""
        self._gate = threading.Lock()
        if self._threads is not None:
            _OF_PARENTS.append(self._threads)  # never closed here: that would end the parent's session
            self._threads = None

    def _place(self, within: Boundary) -> int:
        """Return which of the writing threads writes within a boundary."""
        first = (within.memory_space, *within.paths[:1]) if isinstance(within, ItemsWithin) else (str(within),)
        return lock_number(*first) % writing_threads(self._settings)

    def _open_threads(self) -> _Threads:
        with self._gate:
            if self._closed:
                msg = f"the store {self.path!r} was closed: open a new one"
                raise StoreClosedError(msg)
            if self._threads is None:
                self._threads = _Threads(self._settings)
            return self._threads

    def _submit(
        self, pool: Callable[[_Threads], ThreadPoolExecutor], work: Work[T], kind: Kind, within: Boundary
    ) -> Future[T]:
        threads = self._open_threads()
        try:
            return pool(threads).submit(self._run, threads, work, kind, within)
        except RuntimeError as exc:  # closed meanwhile by another thread, or the interpreter ends
            msg = f"the store {self.path!r} was closed: open a new one"
            raise StoreClosedError(msg) from exc

    def _run(self, threads: _Threads, work: Work[T], kind: Kind, within: Boundary) -> T:
        """Run work in a transaction, again and again where that is right."""
        beginning = Beginning(self._settings, kind, within)
        deadline = time.monotonic() + self._settings.retry_s
        pause, meetings = _FIRST_PAUSE_S, 0
        lost = dict[int, Any]()
        with mapped_errors(self._settings):
            while True:
                try:
                    self._prepare(threads, kind)
                    return self._attempt(threads, work, beginning, lost)
                except _LostCommitError as exc:
                    lost[exc.signature] = exc.result
                    threads.pool.drop_idle()
                    if time.monotonic() >= deadline:
                        raise self._unknown_commit() from None
                except ScopeMadeAnewError:
                    threads.scopes.pop(within, None)
                    continue
                except psycopg.Error as exc:
                    # A server that never was there, or refuses a role, is told at once: the URL may be wrong.
                    is_known = threads.is_prepared or exc.sqlstate is not None
                    if is_lost(exc, writes=kind != "read") and is_known and time.monotonic() < deadline:
                        threads.pool.drop_idle()
                    elif is_overtaken(exc) and meetings < (_CLASHES if is_clash(exc) else _MEETINGS):
                        meetings += 1
                    elif lost:
                        raise self._unknown_commit() from None
                    else:
                        raise
                if threads.closing.wait(random.uniform(pause / 2, pause)):  # noqa: S311  # a pause, no secret
                    deadline = 0.0  # one more attempt, none after it
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _unknown_commit(self) -> StoreUnavailableError:
        msg = f"{self.path} was lost during a commit: whether it was written is not known, look first"
        return StoreUnavailableError(msg)

    def _attempt(self, threads: _Threads, work: Work[T], beginning: Beginning, lost: Mapping[int, Any]) -> T:
        """Run work in a transaction; `lost` are earlier attempts whose outcome is not known, and what they returned."""
        writer = "" if beginning.kind == "read" else f"{threads.name}-{self._place(beginning.within)}"
        with threads.pool.connection() as pipeline:
            known = threads.scopes.get(beginning.within)
            connection = PgConnection(pipeline, beginning, self._dialect, scope=known)
            signature = next(threads.signatures)
            try:
                # Behind the lock of all of them, a lost attempt was done, or never will be.
                done = _last_signature(connection, writer, signature) if lost else None
                result: T = lost[done] if done is not None and done in lost else work(connection)
                if not writer:
                    connection.end_reading()
                    threads.keep_scope(connection)
                    return result
                try:
                    self._commit(connection, writer, signature)
                except _LostServerError as exc:
                    raise _LostCommitError(signature, result) from exc
            except BaseException:
                raw = pipeline.raw
                if raw.info.transaction_status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}:
                    with suppress(psycopg.Error):
                        raw.execute(b"ROLLBACK")
                raise
            finally:
                connection.close()
            threads.keep_scope(connection)
            return result

    def _commit(self, connection: PgConnection, writer: str, signature: int) -> None:
        try:
            done = connection.commit(writer, signature)
        except psycopg.errors.InFailedSqlTransaction:
            done = "ROLLBACK"
        except psycopg.Error as exc:
            if connection.is_lost or is_lost(exc):
                raise _LostServerError from exc
            raise
        if done != "COMMIT":
            msg = f"{self.path} took the transaction back, as a statement of it had failed: nothing was written"
            raise StoreError(msg)

    def _prepare(self, threads: _Threads, kind: Kind) -> None:
        """Look at role and tables once, and make the tables in an empty database."""
        with threads.preparing:
            if not threads.is_prepared:
                with threads.pool.connection() as pipeline:
                    threads.outdated = open_schema(pipeline.raw, self._settings)
                terms("opened")  # loads the stemmer now: no first append is to wait for that
                threads.is_prepared = True
        if kind != "read" and threads.outdated is not None:
            raise SchemaVersionError(threads.outdated)


# The one state of a module here: what is to be done at a fork is told to the interpreter once and for all.
_OPENED: weakref.WeakSet[PostgresDatabase] = weakref.WeakSet()
_OF_PARENTS: list[_Threads] = []


def _after_fork_in_child() -> None:
    for database in list(_OPENED):
        database.after_fork_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork_in_child)
