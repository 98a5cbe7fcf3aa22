"""Worker of the jobs that learn from attempts, and the flow that it runs by default.

Its parts are stages to be put together in other ways: `preprocess() >> segmentation() >> success_extraction()` is a
flow, too. A stage of one's own is an async function of attempts, or experiences, and a `FlowContext`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from reme_core.errors import ConfigurationError
from reme_core.ports import ChatModel, Clock, Embedder, PutMemory, Store, WriteBatch
from reme_core.schema import Block, Job, Memory, MemoryType, Scope, StoredMessage, Trajectory, least_trusted, shown
from reme_core.steps.distillation import Distilled, UsageCounter
from reme_core.steps.flow import FlowContext
from reme_core.steps.similar_memories import SIMILARITY
from reme_core.tasks.attempts import attempt_of, preprocess
from reme_core.tasks.extract_experiences import SUCCESS_SCORE, comparison, failure_extraction, success_extraction
from reme_core.tasks.task_values import (
    Attempt,
    AttemptEntry,
    Attempts,
    Experience,
    Experiences,
    TaskFlow,
    TaskPayload,
    read_task_payload,
)
from reme_core.tasks.validate_experiences import MIN_SCORE, deduplication, validation
from reme_core.text import Language


def task_flow(
    *, success_score: float = SUCCESS_SCORE, min_score: float = MIN_SCORE, similarity: float = SIMILARITY
) -> TaskFlow:
    """Make the default flow.

    Args:
        success_score: From this score on an attempt is a success.
        min_score: The least score that the validation gives to what is kept.
        similarity: The least cosine of two experiences that say the same.
    """
    learning = (
        success_extraction(success_score=success_score) | failure_extraction(success_score=success_score) | comparison()
    )
    return preprocess() >> learning >> validation(min_score=min_score) >> deduplication(similarity=similarity)


TASK_FLOW: TaskFlow = task_flow()
"""What `summary_task` does with the attempts at one task, unless it is given another flow."""


AUTHOR = "task_summary"
"""The author and actor of what is learnt from attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWorker:
    """A `Worker` that hands the attempts of a job to a flow, and makes procedural memories of what it returns.

    Attributes:
        store: Where the attempts are, and what is known.
        embedder: Gives vectors to what is learnt; None leaves it to its words.
        model: For the stages that ask one; None where the flow asks none.
        clock: Tells the time.
        flow: From attempts to experiences.
        language: Of the prompts; None follows the attempts.
    """

    store: Store
    embedder: Embedder | None
    model: ChatModel | None
    clock: Clock
    flow: TaskFlow
    language: Language | None = None

    async def work(self, scope: Scope, job: Job, meter: UsageCounter) -> Distilled:
        """Work out what the attempts of a job teach; see `Worker.work`."""
        payload = read_task_payload(job)
        context = FlowContext(
            scope=scope,
            memory_target=payload.task_name,
            store=self.store,
            embedder=self.embedder,
            model=self.model,
            clock=self.clock,
            run_id=job.run_id,
            language=self.language,
        )
        try:
            attempts = await self._attempts(scope, payload)
            experiences = _checked(await self.flow(attempts, context), attempts, self.flow)
            vectors = await context.vectors(item.index_text for item in experiences)
        finally:
            meter.usage += context.trace.usage
        batch = WriteBatch(
            puts=[
                PutMemory(
                    memory=memory,
                    vector=vectors.get(memory.index_text),
                    wants_vector=self.embedder is not None,
                    expected_revision=0,
                )
                for memory in (self._memory(scope, payload.task_name, item) for item in experiences)
            ],
            reason="task summary",
            run_id=job.run_id,
            actor=AUTHOR,
            at=self.clock.now(),
        )
        trace = context.trace
        return Distilled(batch=batch, rejected=tuple(trace.rejected), degraded=tuple(trace.degraded))

    async def _attempts(self, scope: Scope, payload: TaskPayload) -> Attempts:
        blocks = await self.store.get_blocks(scope, [entry.trajectory_id for entry in payload.attempts])
        attempts = []
        for entry, block in zip(payload.attempts, blocks, strict=True):
            stored = await self.store.get_messages(scope, block.message_ids)
            # Thousands of messages are gone through once more.
            attempts.append(await asyncio.to_thread(_attempt, entry, block, stored))
        return tuple(attempts)

    def _memory(self, scope: Scope, task_name: str, experience: Experience) -> Memory:
        now = self.clock.now()
        observed = max((message.created_at for message in experience.evidence), default=now)
        return Memory(
            memory_space=scope.memory_space,
            user_id=scope.user_id,
            memory_type=MemoryType.PROCEDURAL,
            memory_target=task_name,
            content=experience.content,
            when_to_use=experience.when_to_use,
            observed_at=observed,
            valid_from=observed,
            created_at=now,
            updated_at=now,
            author=AUTHOR,
            trust=least_trusted(message.trust for message in experience.evidence),
            importance=0.5 if experience.score is None else experience.score,
            confidence=experience.confidence,
            sources=experience.sources,
            metadata=experience.metadata(),
        )


def _attempt(entry: AttemptEntry, block: Block, stored: Sequence[StoredMessage]) -> Attempt:
    trajectory = Trajectory(
        trajectory_id=entry.trajectory_id,
        task_id=entry.task_id,
        messages=tuple(item.message for item in stored),
        score=entry.score,
        metadata=entry.metadata,
    )
    return attempt_of(trajectory, block.block_id)


def _checked(found: object, attempts: Attempts, flow: TaskFlow) -> Experiences:
    """Return what a flow came to, if it can be written (ConfigurationError: it can't; the job waits for another flow).

    A stage may be anybody's: what it says it learnt from is an attempt of this job, or nothing.
    """
    if not isinstance(found, (tuple, list)) or not all(isinstance(item, Experience) for item in found):
        msg = f"the flow {flow} returned {shown(found)}: wanted a tuple of Experience"
        raise ConfigurationError(msg)
    said = {attempt.block_id: {m.message_id for m in attempt.trajectory.messages} for attempt in attempts}
    for item in found:
        for source in item.sources:
            if source.block_id not in said or not said[source.block_id].issuperset(source.message_ids):
                msg = f"the flow {flow} returned an experience whose source {source!r:.200} is none of its attempts"
                raise ConfigurationError(msg)
        if not item.sources:
            msg = f"the flow {flow} returned an experience without sources: name the messages that it rests on"
            raise ConfigurationError(msg)
    return tuple(found)
