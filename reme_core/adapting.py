"""Parts that adapters of agent frameworks share: the names of tools, and appends no reply waits for."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401  # what is registered first is called last: its pools end after us
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from reme_core.errors import InvalidInputError, PartialFailureError, ReMeError, StoreClosedError

__all__ = ["BLOCK_TOOLS", "PATIENCE_S", "RELOAD_DESCRIPTION", "RELOAD_TOOL", "Append", "Appends"]

RELOAD_TOOL: Final = "reload_context"
"""The name of the tool that loads again what left a context."""

RELOAD_DESCRIPTION: Final = (
    "Load again what was left out of this conversation: a long tool result or earlier messages. `handle` is named "
    "where it was left out. Without `pattern`, `limit` characters from `offset` on; with it, the places where those "
    "words stand."
)

BLOCK_TOOLS: Final = ("memory_insert", "memory_replace", "memory_rethink")
"""The names of the tools that edit memory blocks."""

Append: TypeAlias = Callable[[], Awaitable[object]]

PATIENCE_S: Final = 0.08
"""Seconds that one reply waits for appends in all. An append takes about 1.4 ms; replies have a tenth of a second."""

# Of one session: what can't be written lies in memory only, and a broken store must not fill that. Some days of a talk.
_MOST_WAITING = 1_000
_MOST_ERRORS = 100  # that nobody has asked for; each holds what it was about
_LOOK_AGAIN_S = 0.25  # a loop that was stopped without a word is noticed after this time


@dataclass(slots=True, eq=False)
class _Session:
    """The appends of one session that are not done, and the task that does them, one after the other."""

    name: str
    waiting: deque[Append] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None
    ended: Future[None] = field(default_factory=Future)  # of that task
    left_s: float = field(default_factory=lambda: PATIENCE_S)
    error: Exception | None = None

    @property
    def is_served(self) -> bool:
        return self.task is not None and not self.task.done() and self.task.get_loop().is_running()


class Appends:
    """Does durable appends, in order within a session, for hooks that wait for them a bounded time.

    An append is a function that makes the coroutine, and doing it twice has to change nothing: one that fails is done
    again by the next wait for its session, and so is one whose event loop has ended in its midst. What is refused for
    good (InvalidInputError) is given up; what is on disk and has failed only afterwards (PartialFailureError) is done.
    Errors are logged, without words of the talk, and kept.

    They run as tasks of the loop of whoever waits. Any method may be called from any loop and thread. The end of the
    process waits for what is left, for a bounded time, and logs how many are lost. The child of a fork begins with
    none: what waited is its parent's.
    """

    def __init__(self, name: str, *, end_s: float = 5.0, log: logging.Logger | None = None) -> None:
        """Name whose appends they are, for the log; `end_s`: seconds that the end of the process waits for them.

        A thread that is in the midst of a write then is waited for by Python itself.
        """
        self._name = name
        self._log = log or logging.getLogger("reme")
        self._end_s = end_s
        self._gate = threading.Lock()
        self._sessions: dict[str, _Session] = {}
        self._errors: list[Exception] = []
        self._is_ending = False
        with _GATE:
            _ALL.add(self)

    @property
    def pending(self) -> int:
        """How many are not done."""
        with self._gate:
            return sum(len(session.waiting) for session in self._sessions.values())

    @property
    def last_error(self) -> Exception | None:
        """Why a session waits since its last append has failed; None while all is well."""
        with self._gate:
            errors = [session.error for session in self._sessions.values() if session.error is not None]
        return errors[-1] if errors else None

    def error_of(self, session: str) -> Exception | None:
        """Return why the appends of a session wait, None while nothing has failed."""
        with self._gate:
            found = self._sessions.get(session)
            return None if found is None else found.error

    def take_errors(self) -> list[Exception]:
        """Return the errors since the last time, and forget them."""
        with self._gate:
            errors, self._errors = self._errors, []
        return errors

    def put(self, session: str, append: Append) -> None:
        """Have an append done behind the others of its session, by the next `wait` or `flush`; returns at once."""
        with self._gate:
            found = self._sessions.setdefault(session, _Session(session))
            found.waiting.append(append)
            if len(found.waiting) > _MOST_WAITING:
                del found.waiting[1 if found.is_served else 0]  # the first one may be under way
                self._log.error("%s: an append of session %r was given up: %d wait", self._name, session, _MOST_WAITING)

    def drop(self, session: str) -> None:
        """Give up the appends of a session that nobody is at, such as where the caller is told that they failed."""
        with self._gate:
            found = self._sessions.get(session)
            if found is not None and not found.is_served:
                del self._sessions[session]

    async def wait(self, session: str, *, begins_reply: bool = False) -> bool:
        """Wait for the appends of a session, for what its reply has left of `PATIENCE_S`; raises none of their errors.

        They are not cancelled when that time is up, nor when the wait is.

        Args:
            session: Which one.
            begins_reply: A new reply begins, with all of its time.

        Returns:
            Whether all are done. False: they go on; or one has failed, which the next wait does again.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        with self._gate:
            found = self._sessions.get(session)
            if found is None:
                return True
            if begins_reply:
                found.left_s = PATIENCE_S
            self._serve(found)
        await self._end_of([found], begun + found.left_s)
        found.left_s = max(0.0, found.left_s - (loop.time() - begun))
        with self._gate:
            return not found.waiting

    async def flush(self, timeout_s: float | None = None) -> bool:
        """Wait for all appends, in full or for so many seconds; those that have failed are done once more.

        Returns:
            Whether all are done; `take_errors` tells why not, and the next wait or flush does the rest.
        """
        ends_at = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        with self._gate:
            under_way = [session for session in self._sessions.values() if session.is_served]
        await self._end_of(under_way, ends_at)
        with self._gate:
            left = list(self._sessions.values())
            for session in left:
                self._serve(session)
        await self._end_of(left, ends_at)
        return self.pending == 0

    def _serve(self, session: _Session) -> None:
        """Begin to do the appends of a session, unless somebody does. Held: the gate."""
        if session.is_served:
            return
        earlier = session.task
        if earlier is not None and not earlier.done() and not earlier.get_loop().is_closed():
            earlier.get_loop().call_soon_threadsafe(earlier.cancel)  # should its loop run again: it is done here
        session.ended = Future()
        session.task = asyncio.get_running_loop().create_task(
            self._do_all(session, session.ended), name=f"{self._name}: appends of {session.name}"
        )

    async def _do_all(self, session: _Session, ended: Future[None]) -> None:
        try:
            while (append := self._next(session, ended)) is not None:
                try:
                    await append()
                except PartialFailureError as exc:
                    self._log.error(
                        "%s: what follows from messages that are kept is still to be done: %s", self._name, exc
                    )
                except Exception as exc:  # noqa: BLE001  # the outer edge of a background task: kept, logged, done again
                    self._failed(session, exc)
                    if not isinstance(exc, InvalidInputError):
                        return
                self._done(session, ended)
        finally:
            ended.set_result(None)

    def _next(self, session: _Session, ended: Future[None]) -> Append | None:
        with self._gate:
            if session.ended is not ended:
                return None  # another loop has taken over
            if not session.waiting:
                if self._sessions.get(session.name) is session:  # it may have been dropped, and begun anew
                    del self._sessions[session.name]
                return None
            return session.waiting[0]

    def _done(self, session: _Session, ended: Future[None]) -> None:
        with self._gate:
            if session.ended is ended:
                session.waiting.popleft()
                session.error = None

    def _failed(self, session: _Session, error: Exception) -> None:
        with self._gate:
            is_new = repr(session.error) != repr(error)  # the same one is told once
            if is_new:
                self._errors.append(error)
                del self._errors[:-_MOST_ERRORS]
            session.error = error
            waiting = len(session.waiting)
        if is_new and not (self._is_ending and isinstance(error, StoreClosedError)):  # the end counts these itself
            # Only our own messages are known to hold no words of the talk.
            told = str(error) if isinstance(error, ReMeError) else "its text is left out, as it may quote the talk"
            text = "%s: an append of session %r failed, %d turn(s) wait: %s: %s"
            self._log.error(text, self._name, session.name, waiting, type(error).__name__, told)

    async def _end_of(self, sessions: Iterable[_Session], ends_at: float | None) -> None:
        """Wait until nobody does anything of these sessions any more, or it is `ends_at`."""
        loop = asyncio.get_running_loop()
        while served := [session for session in sessions if not session.ended.done()]:
            left_s = _LOOK_AGAIN_S if ends_at is None else min(_LOOK_AGAIN_S, ends_at - loop.time())
            if left_s <= 0:
                return
            await asyncio.wait({asyncio.wrap_future(session.ended) for session in served}, timeout=left_s)
            with self._gate:
                for session in served:  # those whose loop has ended
                    if not session.ended.done():
                        self._serve(session)

    def begin_anew(self) -> None:
        """Forget what waits, in the child of a fork: it is the parent's."""
        self._gate, self._sessions, self._errors = threading.Lock(), {}, []

    def flush_at_exit(self) -> None:
        """Do what is left at the end of the process, for a bounded time, and log how many are lost."""
        self._is_ending = True
        if not self.pending:
            return
        # A thread, as asyncio.run would wait without a bound for an append that does not let itself be cancelled.
        last = threading.Thread(target=lambda: asyncio.run(self.flush(self._end_s)), name=self._name, daemon=True)
        last.start()
        last.join(self._end_s)
        if lost := self.pending:
            why = self.last_error
            reason = f"not done within {self._end_s:g} s" if why is None else type(why).__name__
            self._log.error("%s: %d turn(s) are lost at the end of the process: %s", self._name, lost, reason)


# The one state of a module here: what is to be done at a fork and at the end is told to the interpreter once.
_ALL: weakref.WeakSet[Appends] = weakref.WeakSet()
_GATE = threading.Lock()


def _begin_anew() -> None:
    global _GATE  # a thread that the child has not may have held it
    _GATE = threading.Lock()
    for appends in list(_ALL):
        appends.begin_anew()


def _flush_at_exit() -> None:
    with _GATE:
        every = list(_ALL)
    for appends in every:
        appends.flush_at_exit()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_begin_anew)
# While the threads of the process still work. `atexit` comes too late: by then the pools of threads take no more work.
# Python has an earlier hook for them.
if (_register := getattr(threading, "_register_atexit", None)) is not None:
    with suppress(RuntimeError):  # the process is ending already
        _register(_flush_at_exit)
