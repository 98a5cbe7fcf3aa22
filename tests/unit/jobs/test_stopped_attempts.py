"""Attempts that are stopped count for nothing, and a job that is given up says truly why."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reme_core import JobState, ReMe, RetryPolicy
from reme_core.errors import ModelUnavailableError, PartialFailureError
from reme_core.ports import ClaimJob, SettleJob
from reme_core.schema import Scope
from reme_core.stores import LocalStore
from reme_core.testing import FixedClock

U: dict[str, Any] = {"user_id": "u"}
SAID = {"role": "user", "content": "Alice lives in Berlin"}


class Out:
    """A model that is out."""

    async def chat(self, request: object) -> Any:
        raise ModelUnavailableError("the model is out")

    async def close(self) -> None:
        """Do nothing."""


class SlowStore(LocalStore):
    """A store whose failures of jobs wait to be written."""

    waits: asyncio.Event | None = None

    async def settle_job(self, scope: Scope, settle: SettleJob) -> None:
        if settle.outcome in {"retry", "dead"} and self.waits is not None:
            self.waits.set()
            await asyncio.Event().wait()
        await super().settle_job(scope, settle)


@pytest.mark.parametrize("max_attempts", [1, 5], ids=["dead", "retry"])
async def test_who_is_cancelled_while_a_failure_waits_gives_the_job_back(tmp_path: Path, max_attempts: int) -> None:
    store = SlowStore(tmp_path / "memory.db")
    options: dict[str, Any] = {"llm": Out(), "embedding": None, "vector_store": store}
    async with ReMe("space", tmp_path, retry=RetryPolicy(max_attempts=max_attempts), **options) as memory:
        store.waits = asyncio.Event()
        running = asyncio.create_task(memory.summary([SAID], **U))
        await store.waits.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        store.waits = None
        [job] = await memory.list_jobs(**U)
        assert (job.state, job.attempts, job.owner, job.error) == (JobState.PENDING, 0, None, "")
        await memory.drop_job(job.job_id, **U)
    await store.close()


async def test_a_job_whose_last_try_never_ended_tells_the_failure_before_it(tmp_path: Path) -> None:
    clock = FixedClock()
    async with ReMe(
        "space", tmp_path, llm=Out(), embedding=None, clock=clock, retry=RetryPolicy(max_attempts=2)
    ) as memory:
        with pytest.raises(PartialFailureError):
            await memory.summary([SAID], **U)
        scope = Scope(memory_space="space", user_id="u")
        [job] = await memory.list_jobs(**U)
        hold, kinds = timedelta(minutes=1), (job.kind,)
        claim = ClaimJob(owner="gone", now=clock.now(), hold=hold, is_gone=lambda _: True, kinds=kinds, waiting=True)
        assert await memory.store.claim_job(scope, claim)
        clock.advance(seconds=3600)
        with pytest.raises(PartialFailureError):
            await memory.flush()
        [job] = await memory.list_jobs(**U)
    assert job.state is JobState.DEAD
    assert "begun 2 times, and its last try did not end" in job.error
    assert "the model is out" in job.error
