"""Attempts put on disk: their messages, a block for each, and the jobs that learn from them, in one write."""

from __future__ import annotations

import asyncio
import json
import math
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from reme_core.errors import ConflictError, ReMeError
from reme_core.jobs.job_outcomes import JobOutcome, not_all_done, undone, with_outcomes_degraded
from reme_core.jobs.job_runner import JobRunner
from reme_core.ports import AppendMessages, Clock, Store
from reme_core.remember.summarizer import VerbatimSummarizer, since
from reme_core.schema import Block, Job, JobState, Memory, Message, Scope, TaskSummary, Trajectory, Usage, new_id
from reme_core.schema.messages import with_original_id
from reme_core.steps.message_lines import find_all, find_messages_by_id
from reme_core.steps.slicing import block_from
from reme_core.tasks.task_values import TASK, AttemptEntry, TaskPayload, read_task_payload

# One job asks a model once for each step of each attempt, and `preprocess` makes at most eight of one: what a failure
# makes it do again stays bounded.
_MOST_ATTEMPTS = 16
# Somebody else has handed in the same attempt, or a message of it, in the same moment.
_TIMES_OVERTAKEN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequest:
    """Attempts that are to be recorded.

    Attributes:
        task_name: The target of what is learnt.
        trajectories: The attempts.
        background: Return once they are on disk; what follows is left to the next call or to `flush`.
    """

    task_name: str
    trajectories: Sequence[Trajectory]
    background: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecorder:
    """Keeps attempts, and has a job for each task.

    Attributes:
        store: Where they go.
        record: Gives their messages vectors.
        runner: Does the jobs; None: they wait until there is somebody who can.
        clock: Tells the time.
        start: Has the jobs of a scope done in the background.
    """

    store: Store
    record: VerbatimSummarizer
    runner: JobRunner | None
    clock: Clock
    start: Callable[[Scope], None]

    async def summarize(self, scope: Scope, request: TaskRequest) -> TaskSummary:
        """Keep attempts and learn from them.

        Raises:
            ConflictError: The id of a trajectory belongs to another one; nothing was kept.
            PartialFailureError: They are kept, what follows failed and is tried again later; `done` is the result.
        """
        begun = time.perf_counter()
        kept = await self._keep(scope, request)
        result = TaskSummary(
            session_id=kept.session_id,
            block_ids=tuple(trajectory.trajectory_id for trajectory in request.trajectories),
            known_block_ids=kept.known,
            job_ids=tuple(job.job_id for job in kept.to_do),
        )
        if request.background or (self.runner is None and self.record.embedder is None):
            self.start(scope)
            return result.model_copy(update={"usage": Usage(milliseconds=since(begun))})
        degraded: tuple[str, ...] = ()
        usage, failures = Usage(), list[ReMeError]()
        try:
            usage, degraded = await self.record.embed(scope)
        except ReMeError as exc:  # a dimension that the store refuses
            failures.append(exc)
        if self.runner is not None:
            outcomes = await self.runner.finish(scope, kept.to_do)
            failures += [outcome.failure for outcome in outcomes if outcome.failure is not None]
            result = _with_outcomes(result, outcomes)
            usage = sum((outcome.usage for outcome in outcomes), usage)
            degraded = with_outcomes_degraded(degraded, outcomes)
        spent = usage.model_copy(update={"milliseconds": since(begun)})
        result = result.model_copy(update={"usage": spent, "degraded": degraded})
        if degraded:
            self.start(scope)  # what has no vector yet gets it later
        if failures:
            raise not_all_done(result, failures, kept="the trajectories") from failures[0]
        return result

    async def _keep(self, scope: Scope, request: TaskRequest) -> _StoredAttempts:
        for left in reversed(range(_TIMES_OVERTAKEN)):
            plan = await self._plan(scope, request)
            if not plan.blocks:
                return plan
            try:
                await self.store.append(scope, self._append(plan))
            except ConflictError:
                if not left:
                    raise
            else:
                return plan
        raise AssertionError  # the last round returns or raises

    def _append(self, plan: _StoredAttempts) -> AppendMessages:
        return AppendMessages(
            session_id=plan.session_id,
            messages=plan.messages,
            want_vectors=self.record.embedder is not None,
            slicer=lambda _: plan.blocks,
            planner=(lambda _, __: plan.jobs) if plan.jobs else None,
        )

    async def _plan(self, scope: Scope, request: TaskRequest) -> _StoredAttempts:
        ids = [trajectory.trajectory_id for trajectory in request.trajectories]
        held = {block.block_id: block for block in await find_all(partial(self.store.get_blocks, scope), ids)}
        for trajectory in request.trajectories:
            if trajectory.trajectory_id in held:
                await self._check_same(scope, trajectory, held[trajectory.trajectory_id])
        fresh = [trajectory for trajectory in request.trajectories if trajectory.trajectory_id not in held]
        known = tuple(name for name in (item.trajectory_id for item in request.trajectories) if name in held)
        if not fresh:
            session_id = next(iter(held.values())).session_id if held else new_id()
            return _StoredAttempts(
                session_id=session_id, known=known, waiting=await self._waiting(scope, request, known)
            )
        session_id = new_id()
        said = (message.message_id for item in fresh for message in item.messages)
        taken = await find_messages_by_id(self.store, scope, said)
        messages, blocks = await asyncio.to_thread(_blocks, session_id, fresh, taken)
        jobs = tuple(self._jobs(request.task_name, fresh))
        waiting = await self._waiting(scope, request, known)
        return _StoredAttempts(
            session_id=session_id, known=known, messages=messages, blocks=blocks, jobs=jobs, waiting=waiting
        )

    async def _waiting(self, scope: Scope, request: TaskRequest, known: Sequence[str]) -> tuple[Job, ...]:
        """Return the jobs that are still to be done on attempts that were kept before.

        Raises:
            ConflictError: One is about such an attempt with another score, or for another task.
        """
        if not known:
            return ()
        given = {item.trajectory_id: item for item in request.trajectories}
        waiting = []
        for job in await self.store.list_jobs(scope, (JobState.PENDING, JobState.RUNNING)):
            if job.kind != TASK:
                continue
            payload = read_task_payload(job)
            about = [entry for entry in payload.attempts if entry.trajectory_id in given]
            for entry in about:
                if payload.task_name != request.task_name or entry != _entry(given[entry.trajectory_id]):
                    msg = (
                        f"trajectory_id {entry.trajectory_id!r} waits to be learnt from, with another score, task or "
                        "metadata: leave it out to get one of its own, or drop its job"
                    )
                    raise ConflictError(msg)
            waiting += [job] if about else []
        return tuple(waiting)

    async def _check_same(self, scope: Scope, trajectory: Trajectory, block: Block) -> None:
        """Refuse the id of a trajectory that belongs to another one (ConflictError)."""
        stored = [item.message for item in await self.store.get_messages(scope, block.message_ids)]
        given = trajectory.messages
        if len(given) != len(stored) or not all(map(_says_the_same, given, stored)):
            msg = (
                f"trajectory_id {trajectory.trajectory_id!r} belongs to other messages: ids are unique in a scope; "
                "leave it out to get one"
            )
            raise ConflictError(msg)

    def _jobs(self, task_name: str, trajectories: Sequence[Trajectory]) -> Iterator[Job]:
        tasks: dict[str, list[Trajectory]] = {}
        for trajectory in trajectories:
            tasks.setdefault(trajectory.task_key, []).append(trajectory)
        now = self.clock.now()
        for attempts in tasks.values():
            # Dealt out best first, so that each job has good and bad ones to compare.
            dealt = sorted(attempts, key=lambda attempt: -attempt.score)
            hands = math.ceil(len(dealt) / _MOST_ATTEMPTS)
            for hand in range(hands):
                entries = tuple(_entry(attempt) for attempt in dealt[hand::hands])
                payload = dict(TaskPayload(task_name=task_name, attempts=entries).write())
                yield Job(kind=TASK, payload=payload, created_at=now, due_at=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredAttempts:
    """What is on disk, or is to be written."""

    session_id: str
    known: tuple[str, ...]
    messages: tuple[Message, ...] = ()
    blocks: tuple[Block, ...] = ()
    jobs: tuple[Job, ...] = ()
    waiting: tuple[Job, ...] = ()

    @property
    def to_do(self) -> tuple[Job, ...]:
        """All jobs about what was handed in."""
        return (*self.waiting, *self.jobs)


def _entry(trajectory: Trajectory) -> AttemptEntry:
    return AttemptEntry(
        trajectory_id=trajectory.trajectory_id,
        task_id=trajectory.task_id,
        score=trajectory.score,
        metadata=trajectory.metadata,
    )


def _blocks(
    session_id: str, trajectories: Sequence[Trajectory], taken: Iterable[str]
) -> tuple[tuple[Message, ...], tuple[Block, ...]]:
    """Return the messages as they are stored, and the block of each trajectory.

    A message whose id is taken, by one that was kept before or by another attempt, is kept once more under an id of its
    own: an attempt is whole, and what was said before stays as it is.
    """
    messages: list[Message] = []
    blocks = []
    used = set(taken)
    for trajectory in trajectories:
        own = []
        for message in trajectory.messages:
            stored = message
            if message.message_id in used:
                other = _other_id(trajectory.trajectory_id, message.message_id)
                stored = message.model_copy(update={"message_id": other, "metadata": with_original_id(message)})
            used.add(stored.message_id)
            own.append(stored)
        messages += own
        block = block_from(session_id, own)
        blocks.append(block.model_copy(update={"block_id": trajectory.trajectory_id}))
    return tuple(messages), tuple(blocks)


def _other_id(trajectory_id: str, message_id: str) -> str:
    return uuid.uuid5(uuid.NAMESPACE_OID, json.dumps([trajectory_id, message_id])).hex


def _says_the_same(one: Message, other: Message) -> bool:
    return (one.role, one.name, one.apart()[0].content) == (other.role, other.name, other.apart()[0].content)


def _with_outcomes(result: TaskSummary, outcomes: Sequence[JobOutcome]) -> TaskSummary:
    written: dict[str, Memory] = {m.memory_id: m for outcome in outcomes for m in outcome.memories}
    return result.model_copy(
        update={
            "memories": tuple(written.values()),
            "rejected": tuple(item for outcome in outcomes for item in outcome.rejected),
            "run_ids": tuple(outcome.job.run_id for outcome in outcomes if outcome.has_written),
            "job_ids": undone(outcomes),
        }
    )
