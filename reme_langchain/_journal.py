"""Journal of deliveries on disk in the memory's file, which survives a kill and the process's end."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from sqlite3 import Connection
from typing import TypeAlias

from reme_core import Database, EventLoopThread, holder, is_gone
from reme_core.errors import StoreClosedError, StoreError
from reme_core.ports import Clock
from reme_core.schema import Scope
from reme_langchain import _journal_rows as rows
from reme_langchain._journal_rows import Entry
from reme_langchain._loop_end import finish_tasks

__all__ = ["Entry", "Journal", "Retrying"]

_LOG = logging.getLogger("reme")

Deliver: TypeAlias = Callable[[Entry], Awaitable[None]]
Pause: TypeAlias = Callable[[asyncio.Event, float | None], Awaitable[None]]

# So many queues are delivered at once; more only wait for the same writing thread.
_AT_ONCE = 8
_STOP_S = 2.0
# Seconds without anything new before a delivery begins, and the most that it is put off by that: the turn that was
# handed in is not over yet, and its reply shares the processor with the delivery.
_QUIET_S, _MOST_QUIET_S = 0.02, 0.5
# Between two looks at what others deliver: while somebody waits for it, and to see that they have ended without a word.
_POLL_S, _LOOK_S = 0.02, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrying:
    """How often a delivery is tried again. It is never given up.

    Attributes:
        first_s: Seconds before the second try; each further pause is twice as long.
        longest_s: The longest pause, in seconds.
        lease_s: A delivery may take so long; no other process tries the same entry in that time, unless it can see that
            the one that holds it has ended.
    """

    first_s: float = 1.0
    longest_s: float = 300.0
    lease_s: float = 60.0

    def pause(self, tries: int) -> float:
        """Return the seconds to wait after so many failed tries."""
        return min(self.longest_s, self.first_s * 2.0 ** min(tries - 1, 60))


async def wait_for_ring(bell: asyncio.Event, seconds: float | None) -> None:
    """Wait until there is something new, or for so many seconds; None: without end."""
    try:
        async with asyncio.timeout(seconds):
            await bell.wait()
    except TimeoutError:
        return


class Journal:
    """Entries on disk, delivered in the background in the order in which each queue got them.

    An entry is known by (name, queue, entry id), and submitting it again while it waits changes nothing; what was
    delivered is forgotten unless `remember` is given. It is delivered at least once: a process that is killed between
    a delivery and the note of it delivers again. A queue that fails is tried again with growing pauses and stops no
    other one. Threads and event loops may share a journal, and processes may share a name.
    """

    def __init__(
        self,
        database: Database,
        *,
        name: str,
        deliver: Deliver,
        clock: Clock,
        retrying: Retrying | None = None,
        remember: bool = False,
        pause: Pause = wait_for_ring,
    ) -> None:
        """Keep the settings; nothing is opened.

        Args:
            database: The file.
            name: What these entries are; journals of one name share them.
            deliver: Hands an entry over; to raise means to be asked again.
            clock: Tells when to try again.
            retrying: How often.
            remember: Keep the ids of what was delivered, so that it is not taken a second time.
            pause: Waits; tests put their own in its place.
        """
        self._database = database
        self._name = name
        self._deliver = deliver
        self._clock = clock
        self._retrying = retrying or Retrying()
        self._remember = remember
        self._pause = pause
        self._holder = ""  # while it serves
        self._loop = EventLoopThread(self, thread_name=f"reme-journal-{name}"[:60])
        self._bell = asyncio.Event()
        self._soon: tuple[float, asyncio.TimerHandle] | None = None
        self._state = threading.Condition()
        self._serving: asyncio.Task[None] | None = None
        self._pid: int | None = None  # where it has begun
        self._ending = False
        self._asked = self._settled = 0
        self._active: set[str] = set()
        self._failures: dict[str, Exception] = {}
        self._is_prepared = False

    def __repr__(self) -> str:
        """Name it."""
        return f"Journal(name={self._name!r}, path={self._database.path!r})"

    @property
    def last_error(self) -> Exception | None:
        """The last failure of a queue that has not succeeded since; None while all is well."""
        with self._state:
            return next(reversed(self._failures.values()), None)

    def submit(
        self, queue: str, entries: Sequence[tuple[str, bytes]], *, scope: Scope | None = None, settled: bool = True
    ) -> Future[None]:
        """Put entries on disk, all in one commit, and begin to deliver them.

        Args:
            queue: Within it the order is kept.
            entries: Id and payload of each.
            scope: Whose they are, if they are to go when that scope is erased.
            settled: False: a kill can't undo it, a power cut could for the half second until its delivery begins.

        Returns:
            A future that is done when they are on disk; its error is a StoreError.
        """
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()
        written = self._database.submit_write(partial(self._insert, queue, tuple(entries), scope), settled=settled)
        self.begin()
        written.add_done_callback(partial(self._written, done))
        return done

    def begin(self) -> None:
        """Begin to deliver what waits, also what earlier processes have left. Again is harmless."""
        with self._state:
            if self._ending or self._has_begun:
                return
            if self._pid is not None:  # a child of a fork, which has none of its parent's threads
                self._bell, self._active, self._soon, self._serving = asyncio.Event(), set(), None, None
            self._pid = os.getpid()
        self._ring()
        _at_exit(self)

    def wake(self) -> None:
        """Begin to deliver what someone else's transaction has put on disk."""
        self.begin()
        self._ring()

    def pending(self) -> int:
        """Return how many entries wait, of all processes; reads the file."""
        return self._database.submit_write(self._prepared(partial(rows.count, name=self._name)), settled=False).result()

    def drain(self, timeout_s: float) -> bool:
        """Try at once all that waits, and return whether nothing is left.

        Returns:
            False after `timeout_s` seconds, or earlier where all that is left has just failed.
        """
        try:
            self._database.submit_write(self._prepared(partial(rows.hasten, name=self._name)), settled=False).result()
        except StoreError as exc:
            self._failed("", exc)
            return False
        self.begin()
        with self._state:
            self._asked += 1
            asked = self._asked
        self._ring()
        with self._state:
            self._state.wait_for(lambda: self._settled >= asked or self._ending, timeout_s)
        try:
            return self.pending() == 0
        except StoreError as exc:
            self._failed("", exc)
            return False

    def close(self, timeout_s: float = 5.0) -> bool:
        """Deliver what waits, for at most so long, and end the thread; what is left is delivered by the next start.

        Returns:
            Whether nothing is left. Closing twice is harmless.
        """
        if self._loop.ended:
            return True
        is_empty = self.drain(timeout_s) if self._has_begun else True
        self._stop(timeout_s)
        return is_empty

    @property
    def _has_begun(self) -> bool:
        return self._pid == os.getpid()

    def _stop(self, timeout_s: float) -> None:
        with self._state:
            self._ending = True
            self._state.notify_all()
        if not self._has_begun:  # not at all, or not in this child of a fork: what waits is the parent's
            return
        with suppress(StoreClosedError):  # another thread closes it too, and was quicker
            self._loop.run(self._wind_up())
        self._loop.end(finish_tasks(timeout_s))

    async def _wind_up(self) -> None:
        serving = self._serving
        if serving is None:
            return
        self._bell.set()
        _, running = await asyncio.wait([serving], timeout=_STOP_S)
        for late in running:  # a delivery that won't be stopped
            late.cancel()

    def _insert(
        self, queue: str, entries: Sequence[tuple[str, bytes]], scope: Scope | None, connection: Connection
    ) -> None:
        self._prepare(connection)
        rows.insert(connection, name=self._name, queue=queue, entries=entries, scope=scope)

    def _prepare(self, connection: Connection) -> None:
        if not self._is_prepared:
            rows.create(connection)

    def _prepared(self, work: Callable[[Connection], int]) -> Callable[[Connection], int]:
        def prepared(connection: Connection) -> int:
            self._prepare(connection)
            return work(connection)

        return prepared

    def _written(self, done: Future[None], written: Future[None]) -> None:
        error = written.exception()
        if error is not None:
            if isinstance(error, Exception):
                with self._state:
                    self._failures[""] = error
            done.set_exception(error)
            return
        self._is_prepared = True
        done.set_result(None)
        self._ring(soon=True)

    def _ring(self, *, soon: bool = False) -> None:
        if self._has_begun and not self._loop.ended:
            try:
                # In a context of its own: that of the caller, a run of a graph, ends long before a delivery does.
                contextvars.Context().run(self._loop.submit, self._ring_soon() if soon else self._rung())
            except StoreClosedError:  # it ended in this moment; the entry is on disk
                return

    async def _rung(self) -> None:
        self._wake_up()

    async def _ring_soon(self) -> None:
        """Ring when nothing new has come for a while."""
        loop = asyncio.get_running_loop()
        now = since = loop.time()
        if self._soon is not None and self._soon[1].when() > now:
            since, timer = self._soon
            timer.cancel()
        self._soon = since, loop.call_at(min(now + _QUIET_S, since + _MOST_QUIET_S), self._wake_up)

    def _wake_up(self) -> None:
        self._bell.set()
        if self._serving is None and not self._ending:
            self._serving = asyncio.get_running_loop().create_task(self._serve())

    async def _serve(self) -> None:
        """Deliver until nothing waits: only then may nobody have the journal any more, and Python throw it away."""
        try:
            with holder() as self._holder:
                await self._deliver_all()
                if self._ending:  # what was under way is let go of
                    await self._database.write(partial(rows.release, holder=self._holder), settled=False)
        except* StoreClosedError:
            _LOG.debug("%r: the memory was closed before it, what waits is on disk", self)
        finally:
            self._serving = None
        if self._bell.is_set():  # since the last look
            self._wake_up()

    async def _deliver_all(self) -> None:
        """Deliver until nothing waits, or the end: every queue by itself, in a task of its own."""
        async with asyncio.TaskGroup() as group:
            tasks = set[asyncio.Task[None]]()
            while not self._ending:
                self._bell.clear()
                with self._state:
                    asked = self._asked
                is_idle = not self._active  # the queues of these are left out of what is claimed
                try:
                    claimed, wait_s, is_held = await self._claim()
                except StoreClosedError:
                    raise
                except Exception as exc:  # noqa: BLE001  # the outer edge of a background task
                    self._failed("", exc)
                    self._settle(asked)
                    await self._pause(self._bell, self._retrying.longest_s)
                    continue
                for entry, tries in claimed:
                    self._active.add(entry.queue)
                    task = group.create_task(self._hand_over(entry, tries))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                if claimed:
                    continue
                if is_idle and not is_held:
                    self._settle(asked)
                if is_idle and wait_s is None and not self._bell.is_set():
                    break
                if is_held:
                    look_s = _POLL_S if self._settled < asked else _LOOK_S
                    wait_s = look_s if wait_s is None else min(look_s, wait_s)
                await self._pause(self._bell, wait_s)
            for task in tasks:
                task.cancel()

    async def _claim(self) -> tuple[list[tuple[Entry, int]], float | None, bool]:
        """Return what is due, held from now on; the seconds until something else will be; and if others hold some."""
        now, active = self._clock.now().timestamp(), frozenset(self._active)
        free = _AT_ONCE - len(active)

        def claim(connection: Connection) -> tuple[list[tuple[Entry, int]], float | None, bool]:
            self._prepare(connection)
            rows.release_gone(connection, name=self._name, now=now, is_gone=is_gone)
            found = rows.claim(
                connection,
                name=self._name,
                holder=self._holder,
                now=now,
                until=now + self._retrying.lease_s,
                but=active,
                limit=free,
            )
            # Where all places are taken, nothing is due before the end of a delivery, which rings.
            due = rows.next_due(connection, name=self._name, but=active) if free else None
            others = rows.is_held(connection, name=self._name, holder=self._holder, now=now)
            return found, None if due is None else max(0.0, due - now), others

        return await self._database.write(claim)  # settled, and with it what was submitted before

    async def _hand_over(self, entry: Entry, tries: int) -> None:
        try:
            # Shorter than the lease: when another process may try it, this one has stopped.
            async with asyncio.timeout(self._retrying.lease_s * 0.9):
                await self._deliver(entry)
            change = partial(rows.finish, place=entry.place, remember=self._remember)
            failure = None
        except Exception as exc:  # noqa: BLE001  # the outer edge of a background task: it is kept, logged and retried
            failure = exc
            due = self._clock.now().timestamp() + self._retrying.pause(tries + 1)
            change = partial(rows.put_off, place=entry.place, due=due)
        try:
            await self._database.write(change, settled=False)
        except Exception as exc:  # noqa: BLE001  # as above; the lease ends by itself
            failure = failure or exc
        if failure is None:
            with self._state:
                self._failures.pop(entry.queue, None)
                self._failures.pop("", None)
        elif not isinstance(failure, StoreClosedError):
            self._failed(entry.queue, failure)
        self._active.discard(entry.queue)
        self._bell.set()

    def _failed(self, queue: str, failure: Exception) -> None:
        with self._state:
            self._failures.pop(queue, None)
            self._failures[queue] = failure
        # A memory that was closed before this is no fault, and what waits is on disk.
        level = logging.DEBUG if isinstance(failure, StoreClosedError) else logging.WARNING
        _LOG.log(level, "journal %s: an entry waits, it could not be delivered: %s", self._name, failure)

    def _settle(self, asked: int) -> None:
        with self._state:
            self._settled = asked
            self._state.notify_all()


def _at_exit(journal: Journal) -> None:
    """Have a journal closed at the end of the process, while its threads still work.

    `atexit` comes too late: by then the pools of threads take no more work. Where Python lacks the earlier hook,
    what waits is delivered by the next start.
    """
    register = getattr(threading, "_register_atexit", None)
    if register is not None:
        try:
            register(partial(_close_at_exit, weakref.ref(journal)))
        except RuntimeError:  # the process is ending already
            return


def _close_at_exit(reference: weakref.ref[Journal]) -> None:
    journal = reference()
    if journal is not None:
        journal.close()
