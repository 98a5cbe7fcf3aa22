"""The jobs that distil blocks into memories."""

from __future__ import annotations

from dataclasses import dataclass

from reme_core.ports import IndexedTranscript, MemoryStore
from reme_core.runtime.distil import Distilled, Distiller, DistilTask, Spent, run_events
from reme_core.runtime.payload import SummaryPayload
from reme_core.schema import Job, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryWorker:
    """A `Worker` that hands the blocks of a job to a distiller.

    Attributes:
        memories: Where earlier attempts have written.
        transcript: Where the blocks are.
        distiller: Makes memories of them.
    """

    memories: MemoryStore
    transcript: IndexedTranscript
    distiller: Distiller

    async def work(self, scope: Scope, job: Job, meter: Spent) -> Distilled:
        """Work out what a job changes; see `Worker.work`."""
        return await self.distiller.distil(scope, await self._task(scope, job, meter))

    async def _task(self, scope: Scope, job: Job, meter: Spent) -> DistilTask:
        payload = SummaryPayload.read(job)
        targets = payload.targets
        if payload.earlier_run is not None and not await run_events(self.memories, scope, payload.earlier_run):
            targets = payload.earlier_targets  # that run was noted, and never written
        blocks = await self.transcript.get_blocks(scope, payload.block_ids)
        ids = [message_id for block in blocks for message_id in block.message_ids[block.repeats :]]
        return DistilTask(
            run_id=job.run_id,
            session_id=payload.session_id,
            blocks=tuple(blocks),
            messages=tuple(item.message for item in await self.transcript.get_messages(scope, ids)),
            memory_type=payload.memory_type,
            targets=targets,
            meter=meter,
        )
