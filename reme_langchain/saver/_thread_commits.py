"""Commits of a saver to a server: a transaction for each work, those of one thread in turn, others side by side."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from reme_core import SpacePart, SqlConnection, SqlDatabase
from reme_langchain.saver._message_blobs import KnownDigests

T = TypeVar("T")

_MOST_THREADS = 64  # whose rows are remembered
_MOST_BYTES = 1 << 21  # of the newest messages of each


class ThreadCommits:
    """Runs works in transactions of a database that others write to as well.

    A transaction that writes to a thread holds its row, so that what was looked up in it stays true until it ends.
    """

    def __init__(self, database: SqlDatabase, memory_space: str, key: bytes, *, settled: bool) -> None:
        """Take the database, and the key of the space's digests; `settled`: a power cut undoes no write."""
        self._database = database
        self._space = memory_space
        self._key = key
        self._settled = settled
        self._gate = threading.Lock()
        self._known: OrderedDict[str, _KnownThread] = OrderedDict()

    def begin(self, work: Callable[[SqlConnection, KnownDigests], T], thread: str | None) -> Future[T]:
        """Begin a work that writes to a thread, or to any of them; it is on disk when the future has its result."""
        known = None if thread is None else self._known_of(thread)

        def run(connection: SqlConnection) -> T:
            return work(connection, KnownDigests(self._key) if known is None else known.begin(connection))

        part = "langgraph threads" if thread is None else f"langgraph thread {thread}"
        within = SpacePart(self._space, part)
        done = self._database.submit_write(run, within=within, settled=self._settled)
        if known is not None:
            done.add_done_callback(known.end)
        return done

    def _known_of(self, thread: str) -> _KnownThread:
        with self._gate:
            known = self._known.setdefault(thread, _KnownThread(thread, self._key))
            self._known.move_to_end(thread)
            while len(self._known) > _MOST_THREADS:
                self._known.popitem(last=False)
            return known


class _KnownThread:
    """What is known of one thread; used by the one thread of this process that writes to it."""

    def __init__(self, name: str, key: bytes) -> None:
        self._name = name
        self._digests = KnownDigests(key, most_bytes=_MOST_BYTES)
        self._was_kept = False
        self._row: tuple[int, int] | None = None

    def begin(self, connection: SqlConnection) -> KnownDigests:
        """Hold the thread, if there is one, and forget what is not certain any more.

        The work may be run again: what the first try has noted is then not certain.
        """
        row = self._row
        if row is not None and self._was_kept:
            connection.execute(_HOLD_AS_IT_WAS, (self._name, *row))
        else:
            row = self._row = connection.execute(_HOLD, (self._name,)).fetchone()
        # Without a row nothing is certain: a thread that this process made may have come and gone.
        stays = self._digests.begin(row, last_was_kept=self._was_kept and row is not None)
        self._was_kept = False
        if row is not None and not stays:
            self._digests.threads.note((self._name, None), row[0])
            for digest, id_ in connection.execute(_HELD, (row[0],)):  # so that no message is asked for by itself
                self._digests.ids.note((row[0], digest), id_)
        return self._digests

    def end(self, done: Future[T]) -> None:
        """Note whether what was noted is certain."""
        self._was_kept = not done.cancelled() and done.exception() is None


# One that is not as it was divides by zero, whereupon the work is run again: so nobody has to wait for the answer.
_HOLD_AS_IT_WAS = """SELECT 1 / count(*) FROM
    (SELECT 1 FROM langgraph_threads WHERE name = ? AND id = ? AND removals = ? FOR UPDATE) AS held"""
_HOLD = "SELECT id, removals FROM langgraph_threads WHERE name = ? FOR UPDATE"
_HELD = "SELECT digest, id FROM langgraph_blobs WHERE thread = ?"
