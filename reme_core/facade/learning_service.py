"""Service of procedural and tool memory, and of consolidation: the flows in use, and the jobs that run them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from reme_core.errors import ConfigurationError, ReMeError
from reme_core.evolve.evolution_write import EvolveWorker
from reme_core.facade.strategies import RuntimePorts
from reme_core.jobs.job_outcomes import JobOutcome, not_all_done, undone, with_outcomes_degraded
from reme_core.jobs.job_runner import JobRunner
from reme_core.ports import Clock, Embedder, Store
from reme_core.remember.summarizer import VerbatimSummarizer, since
from reme_core.schema import Job, Memory, Scope, TaskMemories, ToolSummary, Usage, shown
from reme_core.schema.changes import EVOLVE
from reme_core.steps.costs import CostBook
from reme_core.steps.flow import FlowContext, Stage
from reme_core.tasks.record_attempts import TaskRecorder
from reme_core.tasks.task_values import TASK, RetrievalFlow, TaskFlow, TaskQuestion
from reme_core.tasks.task_worker import TASK_FLOW, TaskWorker
from reme_core.text import Language
from reme_core.toolstats.guideline_flow import GUIDELINE, GuidelineWorker
from reme_core.toolstats.tool_guideline import find_guideline, written_from
from reme_core.toolstats.tool_lookup import retrieve_tool_memories


class LearningService:
    """What attempts at tasks and calls of tools teach, over the ports of one memory."""

    def __init__(
        self,
        *,
        ports: RuntimePorts,
        record: VerbatimSummarizer,
        runner: JobRunner,
        start: Callable[[Scope], None],
        language: Language | None = None,
    ) -> None:
        """Keep the ports, and tell the runner which jobs there are."""
        self._ports = ports
        self._record = record
        self._runner = runner
        self._start = start
        self._language = language
        self.retrieval_flow: RetrievalFlow | None = None
        if ports.model is None:
            return
        runner.set_worker(TASK, self._task_worker(TASK_FLOW))
        guidelines = GuidelineWorker(
            store=ports.store, embedder=ports.embedder, model=ports.model, clock=ports.clock, language=language
        )
        runner.set_worker(GUIDELINE, guidelines)
        runner.set_worker(EVOLVE, EvolveWorker(partial(flow_context, ports, language)))

    @property
    def store(self) -> Store:
        """Where everything is kept."""
        return self._ports.store

    @property
    def embedder(self) -> Embedder | None:
        """Gives vectors to texts."""
        return self._ports.embedder

    @property
    def clock(self) -> Clock:
        """Tells the time."""
        return self._ports.clock

    def set_task_flow(self, flow: TaskFlow) -> None:
        """Exchange the stages by which attempts teach (ConfigurationError: no flow)."""
        _check_flow(flow)
        self._runner.set_worker(TASK, self._task_worker(flow))

    def set_retrieval_flow(self, flow: RetrievalFlow) -> None:
        """Exchange the stages by which a task is answered (ConfigurationError: no flow)."""
        _check_flow(flow)
        self.retrieval_flow = flow

    def recorder(self) -> TaskRecorder:
        """Return what keeps attempts."""
        return TaskRecorder(
            store=self._ports.store,
            record=self._record,
            runner=self._runner if TASK in self._runner.workers else None,
            clock=self._ports.clock,
            start=self._start,
        )

    async def answer(
        self, scope: Scope, task_name: str | None, question: TaskQuestion, flow: RetrievalFlow
    ) -> TaskMemories:
        """Answer what a task asks; see `ReMe.retrieve_task_memory`."""
        begun = time.perf_counter()
        context = flow_context(self._ports, self._language, scope, memory_target=task_name)
        found = await flow(question, context)
        await CostBook(self._ports.store, self._ports.clock).add(scope, "task_retrieval", context.trace.usage)
        return TaskMemories(
            results=found.hits,
            text=found.text,
            query=found.question.query,
            usage=context.trace.usage.model_copy(update={"milliseconds": since(begun)}),
            degraded=tuple(context.trace.degraded),
        )

    async def guidelines(self, scope: Scope, names: Sequence[str], *, background: bool) -> ToolSummary:
        """Have the guidelines of tools written; see `ReMe.summarize_tool_memory`."""
        begun, store = time.perf_counter(), self._ports.store
        names = tuple(dict.fromkeys(names))
        statistics = await store.tool_statistics(scope, names)
        missing = tuple(item.tool_name for item in statistics if not item.calls)
        unchanged: list[str] = []
        stale: list[str] = []
        for item in statistics:
            before = await find_guideline(self._ports.store, scope, item.tool_name) if item.calls else None
            if before is not None and written_from(before) == item.calls:
                unchanged.append(item.tool_name)
            elif item.calls:
                stale.append(item.tool_name)
        done = ToolSummary(unchanged=tuple(unchanged), missing=missing)
        outcomes: list[JobOutcome] = []
        if stale and self._ports.model is not None:
            jobs = [self._guideline_job(name) for name in stale]
            await store.add_jobs(scope, jobs)
            if background:
                self._start(scope)
                return done.model_copy(update={"job_ids": tuple(job.job_id for job in jobs)})
            outcomes = await self._runner.finish(scope, jobs)
        return await self._summary(scope, names, done, outcomes, begun)

    async def _summary(
        self, scope: Scope, names: Sequence[str], done: ToolSummary, outcomes: Sequence[JobOutcome], begun: float
    ) -> ToolSummary:
        written: dict[str, Memory] = {m.memory_id: m for outcome in outcomes for m in outcome.memories}
        usage = sum((outcome.usage for outcome in outcomes), Usage())
        known = await retrieve_tool_memories(self._ports.store, scope, names)
        done_by_others = [
            str(outcome.job.payload.get("tool_name"))
            for outcome in outcomes
            if outcome.failure is None and not outcome.has_written
        ]
        result = done.model_copy(
            update={
                "memories": tuple(written.values()),
                "unchanged": (*done.unchanged, *done_by_others),
                "results": known.results,
                "run_ids": tuple(outcome.job.run_id for outcome in outcomes if outcome.has_written),
                "job_ids": undone(outcomes),
                "usage": usage.model_copy(update={"milliseconds": since(begun)}),
                "degraded": with_outcomes_degraded((), outcomes),
            }
        )
        if result.degraded:
            self._start(scope)  # what has no vector yet gets it later
        failures: list[ReMeError] = [outcome.failure for outcome in outcomes if outcome.failure is not None]
        if failures:
            raise not_all_done(result, failures, kept="the calls") from failures[0]
        return result

    def _guideline_job(self, name: str) -> Job:
        now = self._ports.clock.now()
        return Job(kind=GUIDELINE, payload={"tool_name": name}, created_at=now, due_at=now)

    def _task_worker(self, flow: TaskFlow) -> TaskWorker:
        return TaskWorker(
            store=self._ports.store,
            embedder=self._ports.embedder,
            model=self._ports.model,
            clock=self._ports.clock,
            flow=flow,
            language=self._language,
        )


def flow_context(
    ports: RuntimePorts, language: Language | None, scope: Scope, run_id: str = "", *, memory_target: str | None = None
) -> FlowContext:
    """Return what a flow over the ports of a memory may touch."""
    return FlowContext(
        scope=scope,
        memory_target=memory_target,
        store=ports.store,
        embedder=ports.embedder,
        model=ports.model,
        clock=ports.clock,
        run_id=run_id,
        language=language,
    )


def _check_flow(flow: object) -> None:
    if not isinstance(flow, Stage):
        msg = f"flow: wanted stages put together with >> and |, found {shown(flow)}"
        raise ConfigurationError(msg)
