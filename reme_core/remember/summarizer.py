"""Summarizers: messages are made durable, sliced and indexed; with a model, jobs make memories of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta, tzinfo

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from reme_core.errors import ConfigurationError, InvalidInputError, ModelError, PartialFailureError, ReMeError, RunError
from reme_core.jobs.job_outcomes import JobOutcome, not_all_done, undone, with_outcomes_degraded
from reme_core.jobs.job_runner import JobRunner
from reme_core.ports import (
    Appended,
    AppendMessages,
    Clock,
    Embedder,
    FindMessages,
    Planner,
    Store,
    SummaryRequest,
    Target,
)
from reme_core.retrieval.embedding import degraded_by, embed_waiting
from reme_core.schema import (
    EXTRACTIVE,
    UTC_NAME,
    Block,
    Job,
    Memory,
    MemoryType,
    Message,
    Scope,
    StoredMessage,
    SummaryResult,
    Usage,
    read_zone,
)
from reme_core.steps.distillation import SHOWN_CHARS, Distilled, Distiller, DistilTask, Guidance, UsageCounter
from reme_core.steps.slicing import Slicing, make_block, open_tail, slice_messages

SUMMARY = "summary"
"""The kind of job that distils blocks into memories."""


class SummaryPayload(BaseModel):
    """What a summary job is about, to and from the JSON on disk.

    Attributes:
        session_id: The session.
        block_ids: Its blocks.
        memory_type: The only type of memory to make.
        guidance: What the application wants, as it was when the job was promised.
        timezone: The user's, by its IANA name.
        targets: What an earlier attempt has left to do; None: everything.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    session_id: str
    block_ids: tuple[str, ...]
    memory_type: MemoryType | None = None
    guidance: Guidance = Guidance()
    timezone: str = UTC_NAME
    targets: tuple[Target, ...] | None = None

    def write(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @classmethod
    def read(cls, job: Job) -> SummaryPayload:
        """Read what `write` wrote (RunError: it is something else)."""
        try:
            return cls.model_validate(job.payload)
        except ValidationError as exc:
            msg = f"the payload of job {job.job_id!r} is none of a summary: drop the job, the messages stay"
            raise RunError(msg) from exc


NOT_GUIDED = "this summarizer follows no instructions, types or examples: SimpleSummarizer() and AgenticSummarizer() do"
"""What is said where somebody else is to follow them."""

# What a reader needs to know who "she" is; and where to look for it, past what was said at the same moment.
_BEFORE, _LOOKED_AT = 6, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryWorker:
    """A `Worker` that hands the blocks of a job to a distiller.

    Attributes:
        store: Where the blocks are.
        distiller: Makes memories of them.
        is_guided: Whether it follows what the application wants; if not, jobs with such wishes wait for one that does.
    """

    store: Store
    distiller: Distiller
    is_guided: bool = False

    async def work(self, scope: Scope, job: Job, meter: UsageCounter) -> Distilled:
        """Work out what a job changes; see `Worker.work`."""
        return await self.distiller.distil(scope, await self._task(scope, job, meter))

    async def _task(self, scope: Scope, job: Job, meter: UsageCounter) -> DistilTask:
        payload = SummaryPayload.read(job)
        if payload.guidance != Guidance() and not self.is_guided:
            raise ConfigurationError(NOT_GUIDED)
        blocks = await self.store.get_blocks(scope, payload.block_ids)
        ids = [message_id for block in blocks for message_id in block.message_ids[block.repeats :]]
        messages = tuple(item.message for item in await self.store.get_messages(scope, ids))
        before = await self._before(scope, payload.session_id, messages)
        return DistilTask(
            run_id=job.run_id,
            session_id=payload.session_id,
            blocks=tuple(blocks),
            messages=messages,
            before=tuple(item.message for item in before),
            thread=await self._thread(scope, before),
            memory_type=payload.memory_type,
            guidance=payload.guidance,
            zone=_zone(payload.timezone),
            targets=payload.targets,
            meter=meter,
        )

    async def _before(self, scope: Scope, session_id: str, messages: Sequence[Message]) -> Sequence[StoredMessage]:
        """Return the last messages of a session before these, in order."""
        if not messages:
            return ()
        # Those said at the same moment count as well: what comes before is told by the order of appending.
        until = messages[0].created_at + timedelta(microseconds=1)
        query = FindMessages(session_id=session_id, said_to=until, newest_first=True, limit=_LOOKED_AT)
        page = (await self.store.find_messages(scope, query)).messages
        ids = [item.message.message_id for item in page]
        first = ids.index(messages[0].message_id) + 1 if messages[0].message_id in ids else len(ids)
        return page[first : first + _BEFORE][::-1]

    async def _thread(self, scope: Scope, before: Sequence[StoredMessage]) -> str:
        """Return what a model has written of the block that the last of these messages lies in."""
        block_id = before[-1].block_id if before else None
        if block_id is None:
            return ""
        [block] = await self.store.get_blocks(scope, [block_id])
        return "" if block.summary_author == EXTRACTIVE else block.summary


def _zone(name: str) -> tzinfo:
    try:
        return read_zone(name)
    except ValueError as exc:  # it was known where the job was promised
        raise ConfigurationError(str(exc)) from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbatimSummarizer:
    """A `Summarizer` that invents nothing: what was said is kept, cut into blocks, and found again.

    Attributes:
        store: Where it goes.
        embedder: Gives messages vectors; None leaves them to their words.
        slicing: Where blocks begin.
        embeds_later: Whether messages wait for vectors that another process gives them.
    """

    store: Store
    embedder: Embedder | None = None
    slicing: Slicing = field(default_factory=Slicing)
    embeds_later: bool = False

    async def summarize(self, scope: Scope, request: SummaryRequest) -> SummaryResult:
        """Keep the messages; see `Summarizer.summarize`. Without messages it finishes what is left of the session."""
        begun = time.perf_counter()
        appended = await self.append(scope, request)
        result = recorded(request, appended).model_copy(update={"usage": Usage(milliseconds=since(begun))})
        if request.background:
            return result
        try:
            usage, degraded = await self.embed(scope, appended)
        except ReMeError as exc:  # a dimension that the store refuses
            msg = f"the messages are kept and found by their words; embedding them failed: {exc} Call flush() later."
            raise PartialFailureError(msg, done=result, failures=[exc]) from exc
        spent = Usage(embedding_calls=usage.embedding_calls, milliseconds=since(begun))
        return result.model_copy(update={"usage": spent, "degraded": degraded})

    async def append(self, scope: Scope, request: SummaryRequest, planner: Planner | None = None) -> Appended:
        """Put the messages, their blocks and the jobs that follow from these on disk, in one write."""
        return await self.store.append(
            scope,
            AppendMessages(
                session_id=request.session_id,
                messages=request.messages,
                want_vectors=self.embeds_later or self.embedder is not None,
                slicer=lambda waiting: self._blocks(request, waiting),
                planner=planner,
                on_conflict=request.on_conflict,
            ),
        )

    async def embed(self, scope: Scope, appended: Appended | None = None) -> tuple[Usage, tuple[str, ...]]:
        """Give the messages that wait for one their vectors, or say why they wait on; see `embed_waiting`."""
        if self.embedder is None:
            return Usage(), ()
        first = None if appended is None else appended.waiting
        try:
            return await embed_waiting(self.store, self.embedder, scope, first=first), ()
        except ModelError as exc:
            return Usage(), (degraded_by(exc, "texts without vectors are found by their words"),)

    def _blocks(self, request: SummaryRequest, waiting: Sequence[Message]) -> list[Block]:
        end = len(waiting) if request.ends_session else open_tail(waiting)
        return [make_block(request.session_id, piece) for piece in slice_messages(waiting[:end], self.slicing)]


def recorded(request: SummaryRequest, appended: Appended) -> SummaryResult:
    """Say what an append has put on disk."""
    return SummaryResult(
        session_id=request.session_id,
        message_ids=tuple(appended.renamed.get(item.message_id, item.message_id) for item in request.messages),
        known_message_ids=appended.known,
        block_ids=tuple(block.block_id for block in appended.blocks),
        job_ids=tuple(job.job_id for job in appended.jobs),
    )


def since(begun: float) -> float:
    """Return the milliseconds since a reading of `time.perf_counter`."""
    return (time.perf_counter() - begun) * 1000


# One job takes one call to extract, whose prompt has to stay small beside the window of a small model.
_JOB_MESSAGES = 60
_JOB_CHARS = 16_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillingSummarizer:
    """A `Summarizer` that keeps messages as `VerbatimSummarizer` does, and has a job for each run of new blocks.

    Attributes:
        record: Puts messages, blocks and jobs on disk.
        runner: Does the jobs.
        clock: Tells the time.
        start: Has the jobs of a scope done in the background.
        guidance: What the application wants of the memories; None: the jobs' worker follows no such wishes.
        worker_over: Makes what does the jobs over another store, for previews; None: nobody here does any.
    """

    record: VerbatimSummarizer
    runner: JobRunner
    clock: Clock
    start: Callable[[Scope], None]
    guidance: Guidance | None = None
    worker_over: Callable[[Store], SummaryWorker] | None = None

    async def summarize(self, scope: Scope, request: SummaryRequest) -> SummaryResult:
        """Keep the messages and make memories of them; see `Summarizer.summarize`."""
        begun = time.perf_counter()
        appended = await self.append(scope, request)
        result = recorded(request, appended)
        if request.background:
            self.start(scope)
            return result.model_copy(update={"usage": Usage(milliseconds=since(begun))})
        degraded: tuple[str, ...] = ()
        usage, failures = Usage(), list[ReMeError]()
        try:
            usage, degraded = await self.record.embed(scope, appended)
        except ReMeError as exc:  # a dimension that the store refuses
            failures.append(exc)
        outcomes = await self.runner.finish(scope, appended.jobs)
        failures += [outcome.failure for outcome in outcomes if outcome.failure is not None]
        result = _with_outcomes(result, outcomes, usage, since(begun))
        result = result.model_copy(update={"degraded": with_outcomes_degraded(degraded, outcomes)})
        if failures:
            raise not_all_done(result, failures, kept="the messages") from failures[0]
        return result

    async def append(self, scope: Scope, request: SummaryRequest) -> Appended:
        """Put the messages, their blocks and the jobs that make memories of these on disk, in one write."""
        if request.instructions and self.guidance is None:
            raise InvalidInputError(NOT_GUIDED)
        return await self.record.append(scope, request, lambda messages, blocks: self._jobs(request, messages, blocks))

    def _jobs(self, request: SummaryRequest, messages: Sequence[Message], blocks: Sequence[Block]) -> list[Job]:
        sizes = {message.message_id: min(len(message.full_text), SHOWN_CHARS) for message in messages}
        now = self.clock.now()
        guidance = (self.guidance or Guidance()).and_for_this_call(request.instructions)
        return [
            Job(
                kind=SUMMARY,
                payload=SummaryPayload(
                    session_id=request.session_id,
                    block_ids=tuple(block.block_id for block in group),
                    memory_type=request.memory_type,
                    guidance=guidance,
                    timezone=request.timezone,
                ).write(),
                created_at=now,
                due_at=now,
            )
            for group in _groups(blocks, sizes)
        ]


def _groups(blocks: Sequence[Block], sizes: dict[str, int]) -> list[list[Block]]:
    """Join blocks, in order, while one job can take them."""
    groups: list[list[Block]] = []
    messages = chars = 0
    for block in blocks:
        own = block.message_ids[block.repeats :]
        size = sum(sizes.get(message_id, 0) for message_id in own)
        if not groups or messages + len(own) > _JOB_MESSAGES or chars + size > _JOB_CHARS:
            groups.append([])
            messages = chars = 0
        groups[-1].append(block)
        messages += len(own)
        chars += size
    return groups


def _with_outcomes(
    result: SummaryResult, outcomes: Sequence[JobOutcome], usage: Usage, milliseconds: float
) -> SummaryResult:
    written: dict[str, Memory] = {}
    for outcome in outcomes:
        written |= {m.memory_id: m for m in outcome.memories if m.memory_type is not MemoryType.META}
        usage += outcome.usage
    runs = tuple(outcome.job.run_id for outcome in outcomes if outcome.has_written)
    return result.model_copy(
        update={
            "memories": tuple(written.values()),
            "run_id": runs[0] if runs else None,
            "run_ids": runs,
            "job_ids": undone(outcomes),
            "rejected": tuple(fact for outcome in outcomes for fact in outcome.rejected_facts),
            "usage": usage.model_copy(update={"milliseconds": milliseconds}),
        }
    )
