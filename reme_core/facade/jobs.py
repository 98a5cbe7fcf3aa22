"""Jobs on the facade: what is still to be done, and what could not be done."""

from __future__ import annotations

from reme_core.facade.parts import MemoryParts
from reme_core.schema import Job, Usage
from reme_core.steps import user_input as inputs


class JobMethods:
    """The methods of `ReMe` on jobs."""

    async def flush(self: MemoryParts) -> Usage:
        """Finish what is left to do in this memory space: jobs, and vectors of messages that wait for one.

        Jobs that failed before are tried again now, each once; those that others are at are waited for.

        Raises:
            PartialFailureError: Some of it still waits; `failures` says why, `done` what was spent.
        """
        return await self._work.flush()

    async def list_jobs(self: MemoryParts, *, user_id: str) -> list[Job]:
        """Return a user's jobs, oldest first: pending, running, and dead ones with the reason."""
        return await self._work.list_jobs(self._scope(user_id))

    async def users_with_jobs(self: MemoryParts) -> list[str]:
        """Return the users of this memory space that have jobs."""
        return await self._work.users_with_jobs()

    async def retry_job(self: MemoryParts, job_id: str, *, user_id: str) -> None:
        """Have a job tried again as if it were new, a dead one too.

        Raises:
            JobNotFoundError: This user has no such job.
            ConflictError: It is being done.
        """
        await self._work.retry_job(self._scope(user_id), inputs.read_id(job_id, "job_id"))

    async def drop_job(self: MemoryParts, job_id: str, *, user_id: str) -> None:
        """Give a job up for good; its messages stay.

        Raises:
            JobNotFoundError: This user has no such job.
            ConflictError: It is being done.
        """
        await self._work.drop_job(self._scope(user_id), inputs.read_id(job_id, "job_id"))
