"""Writes off the reply path: in order within a session, side by side across sessions, whatever loop is running."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeAlias

from reme_core.errors import ReMeError

Write: TypeAlias = Callable[[], Awaitable[None]]

_LOG = logging.getLogger("reme_agentscope")
_LOOK_AGAIN_S = 0.25  # a loop that was stopped without a word is noticed after this time


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFailure:
    """A write that failed in the background."""

    session: str
    error: Exception


@dataclass(slots=True, eq=False)
class _Job:
    write: Write
    on_failure: Callable[[Exception], None] | None
    is_awaited: bool
    done: Future[None] = field(default_factory=Future)


@dataclass(slots=True, eq=False)
class _Lane:
    """The writes of one session, and the task that does them on one loop."""

    session: str
    jobs: deque[_Job] = field(default_factory=deque)
    loop: asyncio.AbstractEventLoop | None = None
    task: asyncio.Task[None] | None = None


class BackgroundWrites:
    """Does writes as tasks of the caller's loop, since models belong to it; holds them, and their errors.

    A write is a function that makes the coroutine. One that is cut off because its loop ends stays first in its
    session, and is done again on the next loop that calls anything here: writes have to be repeatable. Any method may
    be called from any loop or thread; after `close()` it starts again by itself.
    """

    def __init__(self, name: str) -> None:
        """Name whose writes they are, for the log; nothing is started."""
        self._name = name
        self._gate = threading.Lock()
        self._lanes: dict[str, _Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[WriteFailure] = []

    @property
    def pending(self) -> int:
        """How many writes are not done."""
        with self._gate:
            return sum(len(lane.jobs) for lane in self._lanes.values())

    def submit(self, session: str, write: Write, *, on_failure: Callable[[Exception], None] | None = None) -> None:
        """Put a write behind the others of its session and return at once; needs a running loop.

        Args:
            session: Writes of one are done in order.
            write: Makes the coroutine; called again where a loop ended in its midst.
            on_failure: Told of its error at once, such as to release ids. The error is also logged, and kept for
                `take_failures`.
        """
        self._put(session, _Job(write, on_failure, is_awaited=False))

    async def run(self, session: str, write: Write, *, on_failure: Callable[[Exception], None] | None = None) -> None:
        """Put a write behind the others of its session and wait for it; raises its error, which is not kept.

        Cancelling the wait does not cancel the write.
        """
        job = _Job(write, on_failure, is_awaited=True)
        self._put(session, job)
        try:
            await self._wait((job,), None)
        except asyncio.CancelledError:
            job.is_awaited = False  # nobody waits any more: its error is to be kept
            raise
        job.done.result()

    def take_failures(self) -> list[WriteFailure]:
        """Return the errors since the last time, and forget them."""
        with self._gate:
            failures, self._failures = self._failures, []
        return failures

    async def flush(self, session: str | None = None, *, timeout_s: float | None = None) -> bool:
        """Wait for the writes handed in so far, of one session or all. It raises none of their errors.

        Called within a write, it does not wait for the session of that write.

        Returns:
            Whether all are done; False: the time was up, they go on.
        """
        own = asyncio.current_task()
        with self._gate:
            lanes = [lane for lane in self._lanes.values() if session in (None, lane.session) and lane.task is not own]
            jobs = [job for lane in lanes for job in lane.jobs]
        return await self._wait(jobs, timeout_s)

    async def close(self) -> None:
        """Wait for all writes, later ones too; afterwards no task is left on this loop."""
        own = asyncio.current_task()
        while True:
            await self.flush()
            with self._gate:
                loop = asyncio.get_running_loop()
                tasks = [task for task in self._tasks if task.get_loop() is loop and task is not own]
            if not tasks:
                return
            await asyncio.wait(tasks)

    def _put(self, session: str, job: _Job) -> None:
        loop = asyncio.get_running_loop()
        with self._gate:
            lane = self._lanes.setdefault(session, _Lane(session))
            lane.jobs.append(job)
            self._serve(lane, loop)

    def _serve(self, lane: _Lane, loop: asyncio.AbstractEventLoop) -> None:
        """Start a task for the lane where it has none that can go on. Held: the gate."""
        task = lane.task
        if task is not None and lane.loop is not None and not task.done() and lane.loop.is_running():
            return
        if task is not None and lane.loop is not None and not task.done() and not lane.loop.is_closed():
            lane.loop.call_soon_threadsafe(task.cancel)  # should its loop run again: this one does the work now
        lane.loop = loop
        lane.task = loop.create_task(self._work(lane), name=f"{self._name}: writes of {lane.session}")
        # A loop that ended tells none of its tasks that it is done.
        self._tasks -= {one for one in self._tasks if one.get_loop().is_closed()}
        self._tasks.add(lane.task)
        lane.task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        with self._gate:
            self._tasks.discard(task)

    async def _work(self, lane: _Lane) -> None:
        me = asyncio.current_task()
        try:
            while (job := self._first(lane, me)) is not None:
                error = await self._do(job)
                with self._gate:
                    if lane.task is not me:
                        return  # taken over by another loop, which does the job again
                    lane.jobs.popleft()
                    if not lane.jobs:
                        self._lanes.pop(lane.session, None)
                self._settle(lane.session, job, error)
        except asyncio.CancelledError:
            _LOG.error(
                "%s: the event loop ended with %d writes of session %r undone: await flush() or close() before it ends",
                self._name,
                len(lane.jobs),
                lane.session,
            )
            raise

    def _first(self, lane: _Lane, me: asyncio.Task[None] | None) -> _Job | None:
        with self._gate:
            return lane.jobs[0] if lane.jobs and lane.task is me else None

    async def _do(self, job: _Job) -> Exception | None:
        try:
            await job.write()
        except asyncio.CancelledError as exc:
            me = asyncio.current_task()
            if me is not None and me.cancelling():
                raise
            error = ReMeError("the write was cancelled from within, as by a model that was interrupted")
            error.__cause__ = exc
            return error
        except Exception as exc:  # noqa: BLE001  # the outer edge of a background task: kept and logged
            return exc
        return None

    def _settle(self, session: str, job: _Job, error: Exception | None) -> None:
        if error is None:
            job.done.set_result(None)
            return
        # Only our own messages are known to hold no words of the talk.
        told = str(error) if isinstance(error, ReMeError) else "its text is left out, as it may quote the talk"
        _LOG.error("%s: a write of session %r failed: %s: %s", self._name, session, type(error).__name__, told)
        if not job.is_awaited:
            with self._gate:
                self._failures.append(WriteFailure(session=session, error=error))
        try:
            if job.on_failure is not None:
                job.on_failure(error)
        finally:
            job.done.set_exception(error)

    async def _wait(self, jobs: Collection[_Job], timeout_s: float | None) -> bool:
        loop = asyncio.get_running_loop()
        ends_at = None if timeout_s is None else loop.time() + timeout_s
        waiters = {_waiter(job, loop) for job in jobs}
        while waiters := {waiter for waiter in waiters if not waiter.done()}:
            left = _LOOK_AGAIN_S if ends_at is None else min(_LOOK_AGAIN_S, ends_at - loop.time())
            if left <= 0:
                return False
            self._take_over(loop, jobs)
            await asyncio.wait(waiters, timeout=left)
        return True

    def _take_over(self, loop: asyncio.AbstractEventLoop, jobs: Iterable[_Job]) -> None:
        """Go on with sessions whose loop has ended."""
        wanted = set(map(id, jobs))
        with self._gate:
            for lane in self._lanes.values():
                if any(id(job) in wanted for job in lane.jobs):
                    self._serve(lane, loop)


def _waiter(job: _Job, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
    """Return a future of this loop that is done when the job is. Cancelling it does not touch the job."""
    waiter: asyncio.Future[None] = loop.create_future()

    def wake(_: Future[None]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(_finish, waiter)

    job.done.add_done_callback(wake)
    return waiter


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
