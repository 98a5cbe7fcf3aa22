"""Commits of a saver to a file: works that come while the file is busy share the next transaction."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from reme_core import Database, SqlConnection
from reme_core.errors import ReMeError
from reme_langchain.saver._known_blobs import removals_of
from reme_langchain.saver._message_blobs import KnownDigests

T = TypeVar("T")


class _Transaction(SqlConnection, Protocol):
    @property
    def in_transaction(self) -> bool: ...


class SharedCommits:
    """Runs works in turn in the one thread that writes to a file."""

    def __init__(self, database: Database, key: bytes) -> None:
        """Take the file, whose tables are made, and the key of its digests."""
        self._database = database
        self._key = key
        self.begin_anew()
        _ALL.add(self)

    def begin_anew(self) -> None:
        """Begin with nothing under way: also in the child of a fork, where no other thread goes on."""
        self._known = KnownDigests(self._key)
        self._gate = threading.Lock()
        self._waiting: list[_Write] = []
        self._submitting = threading.Lock()
        self._last: Future[None] | None = None

    def begin(self, work: Callable[[SqlConnection, KnownDigests], T], thread: str | None) -> Future[T]:
        """Begin a work; what came of it is on disk when the future has its result."""
        del thread  # a transaction is alone with the file
        done: Future[T] = Future()
        done.set_running_or_notify_cancel()  # what was asked for is done, also where nobody waits any more
        self._add(_Write(work, done))
        return done

    def abegin(self, work: Callable[[SqlConnection, KnownDigests], T]) -> asyncio.Future[T]:
        """Do what `begin` does; the future is one of the loop that runs here, without another one between them."""
        answer = _LoopAnswer()
        self._add(_Write(work, answer))
        return answer.future

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
        is_begun = True

        def run(connection: _Transaction) -> None:
            if is_begun:
                taken.extend(self._taken())
            self._run(connection, taken, last_was_kept=before is None or before.exception() is None)

        def answer(committed: Future[None]) -> None:  # whoever submits work here waits for a fork that waits for this
            failure = committed.exception()
            for write in taken or self._taken():
                write.answer(failure)

        try:
            with self._submitting:  # so the transaction before is known when this one runs
                before = self._last
                self._last = committed = self._database.submit_write(run)
        except (ReMeError, RuntimeError) as exc:  # closed, or no thread begins; it is raised where each of them waits
            is_begun = False  # a later thread may run it
            for write in self._taken():
                write.answer(exc)
        else:
            committed.add_done_callback(answer)

    def _run(self, connection: _Transaction, writes: list[_Write], *, last_was_kept: bool) -> None:
        """Run the works in one transaction: begun anew without one that fails, as SQLite may have ended it."""
        known, going = self._known, writes
        while True:
            for write in going:
                known.begin(removals_of(connection), last_was_kept=last_was_kept)
                last_was_kept = True
                try:
                    with self._database.mapped_errors:
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


class _LoopAnswer:
    """The future of an event loop, to be answered from another thread."""

    __slots__ = ("_loop", "future")

    def __init__(self) -> None:
        """Make it for the loop that runs here."""
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()

    def set_result(self, result: object) -> None:
        """Answer, unless nobody waits any more."""
        self._call(self.future.set_result, result)

    def set_exception(self, error: BaseException) -> None:
        """Answer with an error, unless nobody waits any more."""
        self._call(self.future.set_exception, error)

    def _call(self, answer: Callable[[Any], None], value: object) -> None:
        with suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(lambda: None if self.future.done() else answer(value))


@dataclass(eq=False, slots=True)
class _Write:
    """A work of one caller, and what came of it."""

    work: Callable[[SqlConnection, KnownDigests], Any]
    done: Future[Any] | _LoopAnswer
    result: Any = None
    error: Exception | None = None

    def answer(self, failure: BaseException | None) -> None:
        """Tell the caller; failure: that of the whole transaction, if it failed."""
        error = failure if self.error is None else self.error
        if error is None:
            self.done.set_result(self.result)
        else:
            self.done.set_exception(error)


# The one state of a module here: what is to be done at a fork is told to the interpreter once and for all.
_ALL: weakref.WeakSet[SharedCommits] = weakref.WeakSet()


def _begin_anew() -> None:
    for commits in list(_ALL):
        commits.begin_anew()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_begin_anew)
