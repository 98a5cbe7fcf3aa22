"""The jobs that write guidelines for tools."""

from __future__ import annotations

from dataclasses import dataclass

from reme_core.errors import RunError
from reme_core.ports import ChatModel, Clock, Embedder, Store, WriteBatch
from reme_core.schema import Job, Scope
from reme_core.steps.ask_json import MeteredChatModel
from reme_core.steps.distillation import Distilled, UsageCounter
from reme_core.steps.flow_context import FlowContext
from reme_core.text import Language
from reme_core.toolstats.guideline_flow import guideline_batch, guideline_flow
from reme_core.toolstats.tool_guideline import find_guideline, written_from

GUIDELINE = "guideline"
"""The kind of job that writes the guideline of one tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidelineWorker:
    """A `Worker` that has a model write the guideline of a tool, unless there is nothing new to write it from.

    Attributes:
        store: Calls, the messages that they were taken from, and guidelines.
        tool_calls: The calls.
        embedder: Gives vectors to guidelines; None leaves them to their words.
        model: Writes them.
        clock: Tells the time.
        language: Of the prompts; None follows the calls.
    """

    store: Store
    embedder: Embedder | None
    model: ChatModel
    clock: Clock
    language: Language | None = None

    async def work(self, scope: Scope, job: Job, meter: UsageCounter) -> Distilled:
        """Work out the guideline that a job asks for; see `Worker.work`."""
        name = job.payload.get("tool_name")
        if not isinstance(name, str):
            msg = f"the payload of job {job.job_id!r} names no tool: drop the job, the calls stay"
            raise RunError(msg)
        [statistics] = await self.store.tool_statistics(scope, [name])
        before = await find_guideline(self.store, scope, name)
        if not statistics.calls or (before is not None and written_from(before) == statistics.calls):
            return Distilled(batch=WriteBatch(run_id=job.run_id, at=self.clock.now()))
        calls = UsageCounter()
        context = FlowContext(
            scope=scope,
            memory_target=name,
            store=self.store,
            embedder=self.embedder,
            model=MeteredChatModel(self.model, calls),
            clock=self.clock,
            run_id=job.run_id,
            language=self.language,
        )
        try:
            batch = await guideline_batch(await guideline_flow(name, context), context)
        finally:
            spent = calls.usage + context.trace.usage
            meter.add(spent)
        return Distilled(batch=batch, usage=spent, degraded=tuple(context.trace.degraded))
