"""Whoever waits for a job is told how it ended, whatever is still written down about it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from reme_core.errors import ModelOutputError, ReMeError
from reme_core.jobs.job_runner import JobRunner
from reme_core.ports import SettleJob, WriteBatch, WriteItems
from reme_core.schema import Job, JobState, Memory, Scope, Usage
from reme_core.steps.distillation import Distilled, UsageCounter
from reme_core.stores import LocalStore
from reme_core.testing import FixedClock
from reme_core.testing.store_values import ALICE, NOW
from tests.contract.suites.job_values import job


class SlowNotes(LocalStore):
    """A store that takes notes of costs when it is told to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.noting, self.noted = asyncio.Event(), asyncio.Event()

    async def write_items(self, memory_space: str, write: WriteItems) -> None:
        self.noting.set()
        await self.noted.wait()
        await super().write_items(memory_space, write)


class SlowAnswers(LocalStore):
    """A store that has ended a job before it says so, and tells when the jobs were looked at meanwhile."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.settled, self.looked, self.answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def put_and_settle(self, scope: Scope, batch: WriteBatch, settle: SettleJob) -> list[Memory]:
        written = await super().put_and_settle(scope, batch, settle)
        self.settled.set()
        await self.answered.wait()
        return written

    async def list_jobs(self, scope: Scope, states: tuple[JobState, ...] | None = None) -> list[Job]:
        found = await super().list_jobs(scope, states)
        self.looked.set()
        return found


class Work:
    """Work that asks a model once, when it is told to, and fails if it is to."""

    def __init__(self, failure: ReMeError | None) -> None:
        self.begun, self.goes_on, self.failure = asyncio.Event(), asyncio.Event(), failure

    async def work(self, scope: Scope, job: Job, meter: UsageCounter) -> Distilled:
        self.begun.set()
        await self.goes_on.wait()
        meter.usage += Usage(model_calls=1)
        if self.failure is not None:
            raise self.failure
        return Distilled(batch=WriteBatch(actor="test", at=NOW))


@pytest.mark.parametrize("failure", [None, ModelOutputError("no JSON", raw="x")], ids=["done", "failed"])
async def test_who_waits_is_told_before_the_cost_is_written_down(tmp_path: Path, failure: ReMeError | None) -> None:
    store, work = SlowNotes(tmp_path / "memory.db"), Work(failure)
    runner = JobRunner(store=store, clock=FixedClock(NOW))
    runner.set_worker("work", work)
    await store.add_jobs(ALICE, [job("a")])
    [added] = await store.list_jobs(ALICE)
    doing = asyncio.create_task(runner.run_next(ALICE))
    await work.begun.wait()
    waiting = asyncio.create_task(runner.finish(ALICE, [added]))
    await asyncio.sleep(0)  # it waits from now on
    work.goes_on.set()
    await store.noting.wait()
    [told] = await waiting
    assert (told.failure, told.usage.model_calls) == (failure, 1)
    store.noted.set()
    assert await doing == told
    await store.close()


async def test_who_finds_a_job_gone_that_is_just_being_ended_is_told_its_end(tmp_path: Path) -> None:
    store, work = SlowAnswers(tmp_path / "memory.db"), Work(None)
    runner = JobRunner(store=store, clock=FixedClock(NOW))
    runner.set_worker("work", work)
    work.goes_on.set()
    await store.add_jobs(ALICE, [job("a")])
    [added] = await store.list_jobs(ALICE)
    doing = asyncio.create_task(runner.run_next(ALICE))
    await store.settled.wait()
    store.looked.clear()
    waiting = asyncio.create_task(runner.finish(ALICE, [added]))
    await store.looked.wait()
    store.answered.set()
    [told] = await waiting
    assert told.usage.model_calls == 1
    assert await doing == told
    await store.close()
