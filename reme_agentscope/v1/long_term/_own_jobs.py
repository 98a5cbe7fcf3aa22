"""Jobs and vectors that this process has begun, and waits for before it searches what they make."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

import reme_core
from reme_agentscope.v1.long_term._memory_kind import CallScope
from reme_core.errors import ReMeError, RunError

if TYPE_CHECKING:
    from reme_core import ReMe

_LOOK_AGAIN_S = 0.02


class OpenJobs:
    """Ids of jobs. Usable from several loops."""

    def __init__(self) -> None:
        """None yet."""
        self._ids: dict[str, None] = {}
        self._has_new = False
        self._failures: list[ReMeError] = []

    def add(self, job_ids: Iterable[str]) -> None:
        """Wait for these from now on, and for vectors of what was kept with them."""
        self._has_new = True
        self._ids.update(dict.fromkeys(job_ids))

    def clear(self) -> None:
        """Wait for none: all were tried, and what failed was told."""
        self._has_new = False
        self._ids.clear()

    def take_failures(self) -> list[ReMeError]:
        """Return why jobs failed, since the last time."""
        failures, self._failures = self._failures, []
        return failures

    async def done(self, place: CallScope) -> None:
        """Wait until each is done, or has failed, which another start or `flush` tries again.

        The core has no call that waits for some jobs without trying those again that failed before.
        """
        if place.memory.llm is None:
            await self._vectors(place.memory)
            return
        is_begun = False
        while self._ids:
            open_jobs = {job.job_id: job for job in await place.memory.list_jobs(user_id=place.user_id)}
            for job_id in list(self._ids):
                job = open_jobs.get(job_id)
                if job is None:
                    self._ids.pop(job_id, None)
                elif job.error or job.state is reme_core.JobState.DEAD:
                    self._ids.pop(job_id, None)
                    msg = f"the talk is kept, but no memories were made of it yet: {job.error}"
                    self._failures.append(RunError(msg))
            if self._ids and not is_begun:
                is_begun = True
                # The loop in which they were begun may have ended; this begins them again.
                await place.memory.summary([], user_id=place.user_id, session_id=place.session_id, background=True)
            if self._ids:
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def _vectors(self, memory: ReMe) -> None:
        """Wait until what was kept has vectors; without a chat model there is nothing else to do.

        While the embedding model fails nobody waits: words are found, and vectors follow.
        """
        embedder = memory.resting_embedder
        if not self._has_new or embedder is None or embedder.is_resting:
            return
        self._has_new = False
        try:
            await memory.flush()
        except ReMeError as exc:  # what has none is found by its words
            self._failures.append(exc)
        except asyncio.CancelledError:  # the time is up: the next search waits again
            self._has_new = True
            raise
