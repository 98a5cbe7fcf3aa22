"""Runner of jobs: each has one holder at a time, is written at most once, and is tried a bounded number of times."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

from pydantic import JsonValue

from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    JobNotFoundError,
    ModelOutputError,
    ModelUnavailableError,
    ReMeError,
    RunError,
    StoreError,
)
from reme_core.jobs.job_outcomes import JobOutcome, distinct, outcome_of
from reme_core.jobs.retry_policy import RetryPolicy, holder, is_gone
from reme_core.ports import (
    ClaimJob,
    Clock,
    SettleJob,
    Store,
)
from reme_core.schema import Job, JobState, Scope
from reme_core.steps.costs import CostBook
from reme_core.steps.distillation import Distilled, UsageCounter, Worker, run_events

_LOG = logging.getLogger("reme")
T = TypeVar("T")


# Waiting for another holder: it may be in another process, so there is nothing to be told by.
_FIRST_LOOK_S, _LAST_LOOK_S = 0.005, 0.25
# How often a result is worked out anew because somebody has changed a memory that it changes.
_TIMES_OVERTAKEN = 3


class _LostError(ConflictError):
    """The job is another's now."""


class JobRunner:
    """Does the jobs of a memory: takes one, has it worked out, and writes what it came to and its end together."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        retry: RetryPolicy | None = None,
    ) -> None:
        """Keep what it works on; which jobs it does is told by `set_worker`."""
        self._store = store
        self.workers: dict[str, Worker] = {}
        self._clock = clock
        self._retry = retry or RetryPolicy()
        self._costs = CostBook(store, clock)
        # Outcomes that somebody in this process waits for, of jobs that somebody else in it has done.
        self._awaited: dict[str, JobOutcome | None] = {}
        self._attempted: set[str] = set()  # by this object, now: how they end is told when they have ended

    def set_worker(self, kind: str, worker: Worker | None) -> None:
        """Say who works out the jobs of a kind; None: nobody does, and they wait."""
        if worker is None:
            self.workers.pop(kind, None)
        else:
            self.workers[kind] = worker

    async def finish(self, scope: Scope, jobs: Sequence[Job]) -> list[JobOutcome]:
        """Wait until each of these jobs is done or has failed, doing those that come before them where nobody does."""
        outcomes: dict[str, JobOutcome] = {}
        wanted = {job.job_id: job for job in jobs}
        self._awaited.update(dict.fromkeys(wanted))
        pause = _FIRST_LOOK_S
        given_back = set[str]()
        try:
            while len(outcomes) < len(wanted):
                done = await self.run_next(scope, skip=frozenset(given_back))
                if done is not None and isinstance(done.failure, ConfigurationError):
                    given_back.add(done.job.job_id)  # it is due again at once, for somebody else
                if done is not None and done.job.job_id in wanted and not done.is_lost:
                    outcomes[done.job.job_id] = done
                left = [job for job_id, job in wanted.items() if job_id not in outcomes]
                if done is not None and isinstance(done.failure, ModelUnavailableError):
                    # It is out for the others as well, and each try would wait for it anew: they stay pending.
                    outcomes |= {job.job_id: JobOutcome(job=job, failure=done.failure) for job in left}
                elif done is None:
                    undone = [job for job in left if job.kind not in self.workers]
                    outcomes |= {job.job_id: JobOutcome(job=job, failure=_nobody(job)) for job in undone}
                    left = [job for job in left if job.job_id not in outcomes]
                    outcomes |= {item.job.job_id: item for item in await self._done_elsewhere(scope, left)}
                    if len(outcomes) < len(wanted):
                        await asyncio.sleep(pause)
                        pause = min(pause * 1.5, _LAST_LOOK_S)
        finally:
            for job_id in wanted:
                self._awaited.pop(job_id, None)
        return [outcomes[job_id] for job_id in wanted]

    async def drain(
        self,
        scope: Scope,
        *,
        everything: bool = False,
        is_patient: Callable[[], bool] = lambda: True,
        skip: frozenset[str] = frozenset(),
    ) -> list[JobOutcome]:
        """Do each job once that is due; stop where the model can't be reached.

        Args:
            scope: Whose jobs.
            everything: Also those that wait for their time after a failure, and wait for those that others hold.
            is_patient: Whether to wait while somebody else holds a job that due ones stand behind.
            skip: Not these jobs.
        """
        outcomes: list[JobOutcome] = []
        pause = _FIRST_LOOK_S
        while True:
            tried = skip | {outcome.job.job_id for outcome in outcomes}
            outcome = await self.run_next(scope, waiting=everything, skip=tried)
            if outcome is not None:
                outcomes.append(outcome)
                if isinstance(outcome.failure, ModelUnavailableError):
                    return outcomes
                continue
            if not (is_patient() and await self._is_left(scope, tried, everything=everything)):
                return outcomes
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LAST_LOOK_S)

    async def _is_left(self, scope: Scope, tried: frozenset[str], *, everything: bool) -> bool:
        """Tell whether there is something to do that could not be begun."""
        jobs = await self._store.list_jobs(scope, (JobState.PENDING, JobState.RUNNING))
        now = self._clock.now()
        return any(
            job.kind in self.workers
            and job.job_id not in tried
            and (everything or (job.state is JobState.PENDING and job.due_at <= now))
            for job in jobs
        )

    async def run_next(
        self, scope: Scope, *, waiting: bool = False, skip: frozenset[str] = frozenset()
    ) -> JobOutcome | None:
        """Take the oldest job that may be begun and do it; None if there is none, or somebody is at one.

        A failure is in the outcome; the job is pending or dead then.

        Raises:
            StoreError: The queue itself can't be read or written.
        """
        with holder() as owner:
            claim = ClaimJob(
                owner=owner,
                now=self._clock.now(),
                hold=timedelta(seconds=self._retry.hold_s),
                is_gone=is_gone,
                kinds=tuple(self.workers),
                waiting=waiting,
                skip=skip,
            )
            job = await self._claim(scope, claim)
            if job is None:
                return None
            worker = self.workers.get(job.kind)
            if worker is None:  # taken away since the claim
                await self._give_back(scope, job, owner)
                return JobOutcome(job=job, failure=_nobody(job))
            self._attempted.add(job.job_id)
            try:
                outcome = await self._attempt(scope, job, owner, worker)
            finally:
                self._attempted.discard(job.job_id)
        if job.job_id in self._awaited and not outcome.is_lost:
            self._awaited[job.job_id] = outcome
        # After that: whoever waits for the job finds it settled meanwhile, and is to be told how it ended.
        await self._costs.add(scope, job.kind, outcome.usage, run_id=job.run_id)
        return outcome

    async def _claim(self, scope: Scope, claim: ClaimJob) -> Job | None:
        """Take a job. A store completes what it has begun: what it took while this was cancelled is given back."""
        claiming = asyncio.ensure_future(self._store.claim_job(scope, claim))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            with suppress(ReMeError):
                await _ended(claiming)
                job = claiming.result()
                if job is not None:
                    await self._give_back(scope, job, claim.owner)
            raise

    async def _give_back(self, scope: Scope, job: Job, owner: str) -> None:
        release = SettleJob(job_id=job.job_id, owner=owner, outcome="release", due_at=self._clock.now())
        settling = asyncio.ensure_future(self._settle_unless_taken(scope, release))
        is_cancelled = await _ended(settling)
        settling.result()
        if is_cancelled:
            raise asyncio.CancelledError

    async def _attempt(self, scope: Scope, job: Job, owner: str, worker: Worker) -> JobOutcome:
        meter = UsageCounter()
        if job.attempts > self._retry.max_attempts:
            return await self._failed(scope, job, owner, _never_ended(job), meter)
        try:
            return await self._held(scope, job, owner, self._do(scope, job, owner, worker, meter))
        except JobNotFoundError as exc:  # done by somebody who took it over, dropped, or the scope was erased
            done = await self._done_before(scope, job)
            return done if done.has_written else JobOutcome(job=job, failure=exc)
        except _LostError as exc:
            _LOG.info("job %s was taken over meanwhile", job.job_id)
            return JobOutcome(job=job, usage=meter.usage, failure=exc, is_lost=True)
        except ConfigurationError as exc:  # no attempt at the work: it waits for who can do it
            _LOG.error("job %s can't be done as things are set, and waits: %s", job.job_id, exc)
            await self._give_back(scope, job, owner)
            return JobOutcome(job=job, usage=meter.usage, failure=exc)
        except ReMeError as exc:
            return await self._failed(scope, job, owner, exc, meter)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                await self._give_back(scope, job, owner)
                raise
            # By a stage of somebody's; nobody asked us to stop.
            return await self._failed(scope, job, owner, RunError("the work was cancelled from within"), meter)
        except Exception as exc:  # noqa: BLE001  # the outer edge of a strategy, which may be somebody else's
            _LOG.exception("job %s met an error that is none of ours", job.job_id)
            failure = RunError(f"{type(exc).__name__}: {exc}")
            failure.__cause__ = exc
            return await self._failed(scope, job, owner, failure, meter)

    async def _failed(self, scope: Scope, job: Job, owner: str, failure: ReMeError, meter: UsageCounter) -> JobOutcome:
        try:
            await self._settle_unless_taken(scope, self._after(job, owner, failure))
        except asyncio.CancelledError:  # what waited to be written is not: the attempt doesn't count
            await self._give_back(scope, job, owner)
            raise
        return JobOutcome(job=job, usage=meter.usage, failure=failure)

    async def _held(self, scope: Scope, job: Job, owner: str, work: Coroutine[None, None, T]) -> T:
        """Do work while the job is held; losing it cancels the work."""
        try:
            async with asyncio.TaskGroup() as group:
                holding = group.create_task(self._hold(scope, job, owner))
                working = group.create_task(work)
                working.add_done_callback(lambda _: holding.cancel())
        except BaseExceptionGroup as failures:
            first: BaseException = failures
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            raise first from None
        return working.result()

    async def _hold(self, scope: Scope, job: Job, owner: str) -> None:
        """Renew in time. Whether the job was lost is for the write to find out, so that what is written stays so."""
        while True:
            await asyncio.sleep(self._retry.hold_s / 3)
            try:
                await self._renew(scope, job, owner)
            except (JobNotFoundError, ConflictError):
                return
            except StoreError as exc:
                _LOG.warning("job %s could not be renewed, and is tried again: %s", job.job_id, exc)

    async def _renew(self, scope: Scope, job: Job, owner: str) -> None:
        until = self._clock.now() + timedelta(seconds=self._retry.hold_s)
        renewed = SettleJob(job_id=job.job_id, owner=owner, outcome="renew", held_until=until)
        await self._store.settle_job(scope, renewed)

    async def _keep(self, scope: Scope, job: Job, owner: str) -> None:
        """Renew, or find out that the job is another's now (JobNotFoundError, _LostError)."""
        try:
            await self._renew(scope, job, owner)
        except ConflictError as exc:
            raise _LostError(str(exc)) from exc

    async def _do(self, scope: Scope, job: Job, owner: str, worker: Worker, meter: UsageCounter) -> JobOutcome:
        for left in reversed(range(_TIMES_OVERTAKEN)):
            distilled = await worker.work(scope, job, meter)
            try:
                written = await self._store.put_and_settle(scope, distilled.batch, self._end(job, owner, distilled))
            except ConflictError:
                # Somebody has changed a memory meanwhile: look again. If it is the job that was taken, this raises.
                await self._keep(scope, job, owner)
                if not left:
                    raise
            else:
                return outcome_of(job, distilled, tuple(written), meter.usage)
        raise AssertionError  # the last round returns or raises

    def _end(self, job: Job, owner: str, distilled: Distilled) -> SettleJob:
        summaries = distilled.summaries
        if not distilled.failures:
            return SettleJob(job_id=job.job_id, owner=owner, outcome="done", summaries=summaries)
        left: list[JsonValue] = [[str(kind), name] for (kind, name), _ in distilled.failures]
        _, failure = distilled.failures[0]
        return replace(self._after(job, owner, failure), payload={**job.payload, "targets": left}, summaries=summaries)

    async def _done_before(self, scope: Scope, job: Job) -> JobOutcome:
        """Return what a job's run has written, as the events tell."""
        events = await run_events(self._store, scope, job.run_id)
        memories = distinct(tuple(event.after for event in events if event.after is not None))
        return JobOutcome(job=job, memories=memories, has_written=bool(events))

    async def _done_elsewhere(self, scope: Scope, jobs: Sequence[Job]) -> list[JobOutcome]:
        """Return what became of jobs that somebody else has ended, in this process or in another."""
        there = {job.job_id: job for job in await self._store.list_jobs(scope)}
        outcomes: list[JobOutcome] = []
        for job in jobs:
            told, now = self._awaited.get(job.job_id), there.get(job.job_id)
            if told is not None:
                outcomes.append(told)
            elif job.job_id in self._attempted:
                continue  # settled in the store, perhaps, and about to be told
            elif now is None:
                outcomes.append(await self._done_before(scope, job))
            elif now.state is JobState.PENDING and not now.attempts and now.due_at > self._clock.now():
                # The clock was set back after it was promised; a new job waits for nothing.
                due = SettleJob(job_id=job.job_id, owner=None, outcome="revive", due_at=self._clock.now())
                await self._settle_unless_taken(scope, due)
            elif now.state is JobState.DEAD or (now.state is JobState.PENDING and now.attempts):
                failure = RunError(f"another process has tried and failed: {now.error}")
                outcomes.append(JobOutcome(job=now, failure=failure))
        return outcomes

    def _after(self, job: Job, owner: str, failure: ReMeError) -> SettleJob:
        raw = failure.raw if isinstance(failure, ModelOutputError) else ""
        error = f"{type(failure).__name__}: {failure}"
        if job.attempts >= self._retry.max_attempts:
            return SettleJob(job_id=job.job_id, owner=owner, outcome="dead", error=error, raw=raw)
        due = self._clock.now() + timedelta(seconds=self._retry.delay_s(job.attempts))
        return SettleJob(job_id=job.job_id, owner=owner, outcome="retry", due_at=due, error=error, raw=raw)

    async def _settle_unless_taken(self, scope: Scope, settle: SettleJob) -> None:
        if settle.outcome in {"retry", "dead"}:
            state = "given up" if settle.outcome == "dead" else "pending"
            _LOG.error("job %s failed and is %s: %s", settle.job_id, state, settle.error)
        try:
            await self._store.settle_job(scope, settle)
        except (JobNotFoundError, ConflictError):
            _LOG.info("job %s was taken over or dropped meanwhile", settle.job_id)


async def _ended(task: asyncio.Future[T]) -> bool:
    """Wait for a task to end, however often this is cancelled meanwhile, and return whether it was.

    Ctrl-C cancels a job, and what closes the memory cancels it once more: what the job took is given back all the same.
    """
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            is_cancelled = True
    return is_cancelled


def _never_ended(job: Job) -> RunError:
    told = f"; the failure that was last told is {job.error}" if job.error else ""
    return RunError(
        f"begun {job.attempts - 1} times, and its last try did not end: the process died or was stopped{told}"
    )


def _nobody(job: Job) -> ConfigurationError:
    return ConfigurationError(f"nobody does jobs of kind {job.kind!r} here any more: job {job.job_id!r} waits")
