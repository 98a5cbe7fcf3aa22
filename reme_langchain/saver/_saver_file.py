"""The file of a saver and of its clones: opened once, its tables prepared once, closed once."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from sqlite3 import Connection
from typing import Any, Literal, TypeVar, cast

from reme_core import Database, ReMe
from reme_core.errors import ReMeError, SchemaVersionError
from reme_core.schema import Scope
from reme_langchain._opening import MemoryOrPath, open_memory
from reme_langchain.saver._former_tables import begin_move, finish_move
from reme_langchain.saver._message_blobs import KnownDigests

T = TypeVar("T")


# Of the tables. 3 had a table of values, to which checkpoints referred; 2 a number for each checkpoint as well; 1 more
# indexes besides, and deflated nothing.
VERSION = 4
HISTORY = "langgraph history"  # the name of messages that wait for a history sink

_TABLES = (
    "CREATE TABLE IF NOT EXISTS langgraph_meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    # `erased_with`: the scope of the user whose thread it is, if a run named one; all of it ends with that scope.
    """CREATE TABLE IF NOT EXISTS langgraph_threads (
        id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, erased_with INTEGER
    )""",
    # `entries` is {channel: [form, type, data] or nil}, as msgpack. A hidden row is no checkpoint any more: a later one
    # of the thread still rebuilds a delta channel from its writes or values. One tree: one page less in each commit.
    """CREATE TABLE IF NOT EXISTS langgraph_checkpoints (
        thread INTEGER NOT NULL,
        ns TEXT NOT NULL,
        checkpoint_id TEXT NOT NULL,
        parent TEXT,
        run TEXT,
        hidden INTEGER NOT NULL DEFAULT 0,
        type TEXT NOT NULL,
        body BLOB NOT NULL,
        metadata TEXT NOT NULL,
        entries BLOB NOT NULL,
        PRIMARY KEY (thread, ns, checkpoint_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS langgraph_runs ON langgraph_checkpoints (run) WHERE run IS NOT NULL",
    """CREATE TABLE IF NOT EXISTS langgraph_writes (
        thread INTEGER NOT NULL,
        ns TEXT NOT NULL,
        checkpoint_id TEXT NOT NULL,
        task_id TEXT NOT NULL,
        idx INTEGER NOT NULL,
        task_path TEXT NOT NULL,
        channel TEXT NOT NULL,
        form INTEGER NOT NULL,
        type TEXT NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (thread, ns, checkpoint_id, task_id, idx)
    ) WITHOUT ROWID""",
    # Messages, long values, and chunks of lists of messages (their type is NULL). `offered`: the history sink gets it.
    """CREATE TABLE IF NOT EXISTS langgraph_blobs (
        id INTEGER PRIMARY KEY,
        thread INTEGER NOT NULL,
        digest BLOB NOT NULL,
        type TEXT,
        data BLOB NOT NULL,
        offered INTEGER NOT NULL DEFAULT 0,
        UNIQUE (thread, digest)
    )""",
    # Messages that wait for the history sink, of a thread (queue) in the order of their places; payload: NULL once the
    # sink has them; holder: who hands them over, held: until. An earlier release had other uses for this table.
    """CREATE TABLE IF NOT EXISTS langchain_journal (
        place INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, queue TEXT NOT NULL, entry_id TEXT NOT NULL,
        tries INTEGER NOT NULL DEFAULT 0, due REAL NOT NULL DEFAULT 0, holder TEXT, held REAL NOT NULL DEFAULT 0,
        erased_with INTEGER, payload BLOB, UNIQUE (name, queue, entry_id)
    )""",
    """CREATE INDEX IF NOT EXISTS langchain_journal_waiting ON langchain_journal (name, queue, place)
        WHERE payload IS NOT NULL""",
    # What an erasure counts beside the threads themselves.
    """CREATE VIEW IF NOT EXISTS langgraph_thread_checkpoints AS
        SELECT erased_with FROM langgraph_threads JOIN langgraph_checkpoints ON thread = langgraph_threads.id""",
    # Whoever removes a thread removes all of it; those that remember rows see the counter: `KnownDigests`.
    """CREATE TRIGGER IF NOT EXISTS langgraph_thread_ends AFTER DELETE ON langgraph_threads BEGIN
        DELETE FROM langgraph_checkpoints WHERE thread = OLD.id;
        DELETE FROM langgraph_writes WHERE thread = OLD.id;
        DELETE FROM langgraph_blobs WHERE thread = OLD.id;
        DELETE FROM langchain_journal WHERE name = 'langgraph history' AND queue = OLD.name AND payload IS NOT NULL;
        UPDATE langgraph_meta SET value = value + 1 WHERE name = 'removals';
    END""",
)


def prepare(connection: sqlite3.Connection) -> bytes:
    """Make what tables are missing, and return the key of this file's digests.

    Raises:
        SchemaVersionError: A newer release wrote the tables.
    """
    connection.execute(_TABLES[0])
    connection.execute("INSERT OR IGNORE INTO langgraph_meta VALUES ('version', ?)", (VERSION,))
    (version,) = connection.execute("SELECT value FROM langgraph_meta WHERE name = 'version'").fetchone()
    if version not in range(1, VERSION + 1):
        msg = f"the checkpoints of this file have version {version!r}, this release knows {VERSION}: upgrade reme"
        raise SchemaVersionError(msg)
    connection.execute("INSERT OR IGNORE INTO langgraph_meta VALUES ('removals', 0)")
    connection.execute("INSERT OR IGNORE INTO langgraph_meta VALUES ('digest_key', ?)", (secrets.token_bytes(32),))
    (key,) = connection.execute("SELECT value FROM langgraph_meta WHERE name = 'digest_key'").fetchone()
    if version < VERSION:
        begin_move(connection, version)
    for table in _TABLES:
        connection.execute(table)
    if version < VERSION:
        finish_move(connection, version, KnownDigests(key))
        connection.execute("UPDATE langgraph_meta SET value = ? WHERE name = 'version'", (VERSION,))
    return cast(bytes, key)


def find_thread(connection: sqlite3.Connection, name: str) -> int | None:
    """Return the number of a thread, None if nothing of it is kept."""
    row = connection.execute("SELECT id FROM langgraph_threads WHERE name = ?", (name,)).fetchone()
    return None if row is None else int(row[0])


def make_thread(connection: sqlite3.Connection, known: KnownDigests, name: str, owner: Scope | None = None) -> int:
    """Return the number of a thread, a new one if nothing of it is kept; it stays that of the first user it had."""
    found = known.threads.get((name, owner))
    if found is not None:
        return found
    found = find_thread(connection, name)
    if found is None:
        (found,) = connection.execute(
            "INSERT INTO langgraph_threads (name) VALUES (?) RETURNING id", (name,)
        ).fetchone()
    number = cast(int, found)
    known.threads.note((name, None), number)
    if owner is not None:
        known.threads.note((name, owner), number)
        connection.execute(
            "UPDATE langgraph_threads SET erased_with = ? WHERE id = ? AND erased_with IS NULL",
            (Database.number_of(connection, owner), number),
        )
    return number


class SaverFile:
    """Runs work on the file, after its tables were made."""

    def __init__(self, store: MemoryOrPath) -> None:
        """Keep the memory, or make one of the path; nothing is opened."""
        self._store = store
        self.memory: ReMe
        self.be_synchronous("FULL")
        self._known: KnownDigests | None = None
        self._gate = threading.Lock()
        self._waiting: list[_Write] = []
        self._submitting = threading.Lock()
        self._last: Future[None] | None = None
        self.when_opened: Callable[[], None] | None = None  # called when the first call has opened it

    def be_synchronous(self, synchronous: Literal["FULL", "NORMAL"]) -> None:
        """Say how safe a file is to be that is opened by path; before it is used."""
        self.memory, self._is_own = open_memory(self._store, what="store", synchronous=synchronous, with_models=False)

    @cached_property
    def database(self) -> Database:
        """The file."""
        return self.memory.database

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run work in one snapshot of the file."""
        if self._known is None:
            self._prepare()
        return self.database.submit_read(work).result()

    async def aread(self, work: Callable[[Connection], T]) -> T:
        """Do what `read` does, without blocking the event loop."""
        if self._known is None:
            await self._aprepare()
        return await self.database.read(work)

    def write(self, work: Callable[[Connection, KnownDigests], T]) -> T:
        """Run work, which also gets what is known of the file, in a transaction; it is on disk when this returns."""
        if self._known is None:
            self._prepare()
        return self._begin(work).result()

    async def awrite(self, work: Callable[[Connection, KnownDigests], T]) -> T:
        """Do what `write` does, without blocking the event loop."""
        if self._known is None:
            await self._aprepare()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._add(_Write(work, partial(_tell_loop, loop, done)))
        return await done

    def close(self) -> None:
        """Close the file, if it was opened by path. Closing twice does nothing."""
        if self._is_own:
            # The loop that may run in this thread can't be waited for.
            with ThreadPoolExecutor(1) as pool:
                pool.submit(asyncio.run, self.memory.close()).result()

    async def aclose(self) -> None:
        """Do what `close` does, without blocking the event loop."""
        if self._is_own:
            await self.memory.close()

    def _begin(self, work: Callable[[Connection, KnownDigests], T]) -> Future[T]:
        done: Future[T] = Future()
        done.set_running_or_notify_cancel()  # what was asked for is done, also where nobody waits any more
        self._add(_Write(work, partial(_tell, done)))
        return done

    def _add(self, write: _Write) -> None:
        """Begin a write. What comes while the file is busy with a commit shares the next transaction."""
        with self._gate:
            self._waiting.append(write)
            is_first = len(self._waiting) == 1
        if is_first:
            self._submit()

    def _taken(self) -> list[_Write]:
        with self._gate:
            taken, self._waiting = self._waiting, []
        return taken

    def _submit(self) -> None:
        taken: list[_Write] = []
        before: Future[None] | None = None

        def run(connection: Connection) -> None:
            taken.extend(self._taken())
            self._run(connection, taken, last_was_kept=before is None or before.exception() is None)

        def answer(committed: Future[None]) -> None:  # whoever submits work here waits for a fork that waits for this
            failure = committed.exception()
            for write in taken or self._taken():
                write.answer(failure)

        try:
            with self._submitting:  # so the transaction before is known when this one runs
                before, self._last = self._last, None
                self._last = committed = self.database.submit_write(run)
        except ReMeError as exc:  # closed; it is raised where each of them waits
            for write in self._taken():
                write.answer(exc)
        else:
            committed.add_done_callback(answer)

    def _run(self, connection: Connection, writes: list[_Write], *, last_was_kept: bool) -> None:
        """Run the works in one transaction: begun anew without one that fails, as SQLite may have ended it."""
        known = cast(KnownDigests, self._known)
        going = writes
        while True:
            for write in going:
                known.begin(connection, last_was_kept=last_was_kept)
                last_was_kept = True
                try:
                    with self.database.mapped_errors:
                        write.result = write.work(connection, known)
                except Exception as exc:  # noqa: BLE001  # it is raised where its caller waits
                    write.error = exc
                    break
            else:
                return
            going = [other for other in going if other.error is None]
            known.forget()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")

    def _prepare(self) -> None:
        self._opened(self.database.submit_write(prepare).result())

    async def _aprepare(self) -> None:
        self._opened(await self.database.write(prepare))

    def _opened(self, key: bytes) -> None:
        self._known = KnownDigests(key)
        if self.when_opened is not None:
            self.when_opened()


@dataclass(eq=False, slots=True)
class _Write:
    """A work of one caller, and what came of it."""

    work: Callable[[Connection, KnownDigests], Any]
    tell: Callable[[Any, BaseException | None], None]
    result: Any = None
    error: Exception | None = None

    def answer(self, failure: BaseException | None) -> None:
        """Tell the caller; failure: that of the whole transaction, if it failed."""
        self.tell(self.result, failure if self.error is None else self.error)


def _tell(done: Future[T] | asyncio.Future[T], result: T, error: BaseException | None) -> None:
    if done.cancelled():  # nobody waits any more
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)


def _tell_loop(
    loop: asyncio.AbstractEventLoop, done: asyncio.Future[T], result: T, error: BaseException | None
) -> None:
    with suppress(RuntimeError):  # the loop has ended, with all that waited there
        loop.call_soon_threadsafe(_tell, done, result, error)
