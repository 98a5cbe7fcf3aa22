"""Service for the open work of a memory: missing vectors and jobs, in the background, at the end, or when asked."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from weakref import WeakKeyDictionary

from reme_core.errors import ModelError, ModelUnavailableError, PartialFailureError, ReMeError
from reme_core.jobs.job_outcomes import JobOutcome
from reme_core.jobs.job_runner import JobRunner
from reme_core.jobs.retry_policy import is_gone
from reme_core.ports import Clock, SettleJob, Store
from reme_core.retrieval.embedding import embed_waiting
from reme_core.retrieval.resting_embedder import RestingEmbedder
from reme_core.schema import Job, JobState, Scope, Usage

_LOG = logging.getLogger("reme")


class BackgroundTasks:
    """At most one task a scope and event loop, which works as long as it is told that there is something to do."""

    def __init__(self, work: Callable[[Scope], Awaitable[None]], *, max_scopes: int = 8) -> None:
        """Keep the work, which does what there is to do for a scope; for so many scopes at a time on an event loop."""
        self._work = work
        self._max_scopes = max_scopes
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._gate = threading.Lock()
        self._running: dict[tuple[int, Scope], _RunningTask] = {}

    def start(self, scope: Scope) -> None:
        """See to it that the work is done for a scope, with what was there when this was called."""
        loop = asyncio.get_running_loop()
        key = (id(loop), scope)
        with self._gate:
            running = self._running.get(key)
            if running is not None and running.loop is loop:
                running.again = True
                return
            running = self._running[key] = _RunningTask(loop)
            self._slots.setdefault(loop, asyncio.Semaphore(self._max_scopes))
        running.task = loop.create_task(self._run(key, running))
        running.task.add_done_callback(lambda _: self._end(key, running))  # also of one that never came to run

    async def join(self) -> None:
        """Wait for every task whose event loop still runs."""
        while True:
            with self._gate:
                ended = [running.ended for running in self._running.values() if running.loop.is_running()]
            if not ended:
                return
            for future in ended:
                await asyncio.shield(asyncio.wrap_future(future))  # who is cancelled here must not cancel the future

    async def cancel(self) -> None:
        """Cancel every task whose event loop still runs, and wait until each has given back what it held."""
        with self._gate:
            running = [item for item in self._running.values() if item.task is not None and item.loop.is_running()]
        for item in running:
            if item.task is not None:
                item.loop.call_soon_threadsafe(item.task.cancel)
        await self.join()

    def _end(self, key: tuple[int, Scope], running: _RunningTask) -> None:
        with self._gate:
            if self._running.get(key) is running:
                del self._running[key]
        running.ended.set_result(None)

    async def _run(self, key: tuple[int, Scope], running: _RunningTask) -> None:
        try:
            while True:
                async with self._slots[running.loop]:
                    running.again = False
                    await self._work(key[1])
                with self._gate:
                    if not running.again:
                        del self._running[key]
                        return
        except Exception:  # noqa: BLE001  # the outer edge of a background task; the jobs keep their own reasons
            _LOG.exception("background work has failed; its jobs are still there")


class _RunningTask:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.again = False
        self.ended: Future[None] = Future()
        self.task: asyncio.Task[None] | None = None


class JobService:
    """The open work of one memory space."""

    def __init__(
        self,
        *,
        memory_space: str,
        store: Store,
        embedder: RestingEmbedder | None,
        clock: Clock,
        max_scopes: int,
    ) -> None:
        """Keep the ports.

        Args:
            memory_space: Whose work it is.
            store: What has texts that wait for vectors, and jobs.
            embedder: Gives vectors.
            clock: Tells the time.
            max_scopes: As in `RetryPolicy`.
        """
        self._memory_space = memory_space
        self._store = store
        self._embedder = embedder
        self._clock = clock
        self._background = BackgroundTasks(self._work, max_scopes=max_scopes)
        self._touched = False
        # What failed in the background and still waits: told at the end, unless it was done meanwhile.
        self._failed: dict[str, tuple[Scope, ReMeError]] = {}
        # Where texts wait since the embedder has failed.
        self._late: set[Scope] = set()
        self._spent = Usage()
        self._recovered = False
        self._ending = False
        self._runner: JobRunner | None = None

    @property
    def runner(self) -> JobRunner | None:
        """Who does the jobs; None where nobody can do any."""
        return self._runner if self._runner is not None and self._runner.workers else None

    @runner.setter
    def runner(self, runner: JobRunner | None) -> None:
        self._runner = runner

    def start(self, scope: Scope) -> None:
        """Have the work of a scope done in the background, if there is anything that could do it."""
        if self.runner is None and self._embedder is None:
            return
        self._touched = True
        self._background.start(scope)

    async def recover(self) -> None:
        """Begin, once, what earlier processes have left; in the background."""
        if self._recovered or (self.runner is None and self._embedder is None):
            return
        scopes = [] if self.runner is None else await self._store.job_scopes(self._memory_space)
        self._touched = self._touched or self.runner is not None
        if self._embedder is not None:
            scopes += await self._store.waiting_scopes(self._memory_space)
        for scope in dict.fromkeys(scopes):
            self._background.start(scope)
        self._recovered = True

    def resume(self) -> None:
        """Fill in the vectors that texts wait for since the embedder has failed: it works again."""
        late, self._late = self._late, set()
        for scope in () if self._ending else tuple(late):
            self.start(scope)

    async def flush(self) -> Usage:
        """Do all there is to do in the memory space; return what it cost, the background since the last time included.

        Raises:
            PartialFailureError: Some of it failed and still waits; `failures` says why, `done` what was spent.
        """
        before = set(self._failed)
        await self._background.join()
        just_tried = frozenset(self._failed) - before
        failures = list[ReMeError]()
        usage, self._spent = self._spent, Usage()
        if self._embedder is not None:
            self._embedder.wake()  # who calls this wants to know now
            self._late.clear()
            for scope in await self._store.waiting_scopes(self._memory_space):
                try:
                    usage += await self._fill(scope)
                except ReMeError as exc:
                    failures.append(exc)
        outcomes = await self._drain_all(everything=True, skip=just_tried)
        for outcome in outcomes:
            usage += outcome.usage
        failures += await self._told()
        if failures:
            msg = (
                f"{len(failures)} piece(s) of work failed, the first because of: {failures[0]}; "
                "list_jobs (`reme jobs`) shows which are pending and which were given up"
            )
            raise PartialFailureError(msg, done=usage, failures=failures) from failures[0]
        return usage

    async def end(self) -> list[ReMeError]:
        """Wait for the background and do what is due; return what failed. Nothing is opened for it."""
        self._ending = True  # what others hold is theirs: nobody waits for it now
        try:
            await self._background.join()
            if self._touched:
                await self._drain_all(everything=False)
        finally:
            await self._background.cancel()  # where this was cancelled: afterwards the store is closed
        return await self._told()

    async def stop(self) -> None:
        """Cancel what goes on in the background: its jobs are given back, and wait for the next start."""
        self._ending = True
        await self._background.cancel()

    async def list_jobs(self, scope: Scope) -> list[Job]:
        """Return what waits, runs or was given up."""
        return await self._store.list_jobs(scope)

    async def users_with_jobs(self) -> list[str]:
        """Return the users of the memory space that have jobs."""
        return [scope.user_id for scope in await self._store.job_scopes(self._memory_space)]

    async def retry_job(self, scope: Scope, job_id: str) -> None:
        """Have a job tried again as if it were new (JobNotFoundError; ConflictError: it is being done)."""
        owner, now = await self._abandoned_by(scope, job_id), self._clock.now()
        await self._store.settle_job(scope, SettleJob(job_id=job_id, owner=owner, outcome="revive", due_at=now))
        if self.runner is not None:
            self.start(scope)

    async def drop_job(self, scope: Scope, job_id: str) -> None:
        """Give a job up for good; the messages stay (JobNotFoundError; ConflictError: it is being done)."""
        owner = await self._abandoned_by(scope, job_id)
        await self._store.settle_job(scope, SettleJob(job_id=job_id, owner=owner, outcome="drop"))

    async def _abandoned_by(self, scope: Scope, job_id: str) -> str | None:
        """Return who holds a job, if nobody can be holding it any more."""
        for job in await self._store.list_jobs(scope, (JobState.RUNNING,)):
            over = job.held_until is None or job.held_until <= self._clock.now()
            if job.job_id == job_id and job.owner is not None and (over or is_gone(job.owner)):
                return job.owner
        return None

    async def _drain_all(self, *, everything: bool, skip: frozenset[str] = frozenset()) -> list[JobOutcome]:
        outcomes: list[JobOutcome] = []
        if self.runner is None:
            return outcomes
        for scope in await self._store.job_scopes(self._memory_space):
            outcomes += self._noted(
                scope, await self.runner.drain(scope, everything=everything, is_patient=self._is_patient, skip=skip)
            )
            if outcomes and isinstance(outcomes[-1].failure, ModelUnavailableError):
                break  # it would be out for the others as well
        return outcomes

    async def _work(self, scope: Scope) -> None:
        if self._embedder is not None:
            with suppress(ReMeError):  # they wait on, and are found by their words
                self._spent += await self._fill(scope)
        if self.runner is not None:
            outcomes = self._noted(scope, await self.runner.drain(scope, is_patient=self._is_patient))
            self._spent += sum((outcome.usage for outcome in outcomes), Usage())

    async def _fill(self, scope: Scope) -> Usage:
        """Embed what waits in a scope; a failure is noted, and raised."""
        if self._embedder is None:
            return Usage()
        try:
            return await embed_waiting(self._store, self._embedder, scope)
        except ReMeError as exc:  # the model's, or a vector of another dimension than the file's
            if isinstance(exc, ModelError) and self._embedder.is_resting:
                self._late.add(scope)  # said in the log when it began
            else:
                _LOG.error("texts of one scope are left without vectors: %s", exc)
            raise

    def _is_patient(self) -> bool:
        return not self._ending

    async def _told(self) -> list[ReMeError]:
        """Return what has failed since this was asked last and is still not done, by whomever."""
        failed, self._failed = self._failed, {}
        scopes = {scope for scope, _ in failed.values()}
        left = {job.job_id for scope in scopes for job in await self._store.list_jobs(scope)}
        return [error for job_id, (_, error) in failed.items() if job_id in left]

    def _noted(self, scope: Scope, outcomes: list[JobOutcome]) -> list[JobOutcome]:
        for outcome in outcomes:
            self._failed.pop(outcome.job.job_id, None)
            if outcome.degraded:
                self._late.add(scope)
            if outcome.failure is not None and not outcome.is_lost:
                self._failed[outcome.job.job_id] = (scope, outcome.failure)
        return outcomes


def check_ended(failures: Sequence[ReMeError]) -> None:
    """Raise what failed at the end of a memory, after everything is closed.

    Raises:
        PartialFailureError: It is pending on disk, or given up and listed.
    """
    if failures:
        msg = (
            f"the memory is closed and holds all messages; {len(failures)} job(s) failed, the first because of: "
            f"{failures[0]}; the next start tries again what list_jobs (`reme jobs`) shows as pending"
        )
        raise PartialFailureError(msg, done=None, failures=failures) from failures[0]
