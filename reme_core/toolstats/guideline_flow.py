"""Flow that writes the guideline of a tool, and the jobs that run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reme_core.errors import InvalidInputError, RunError
from reme_core.ports import ChatModel, Clock, Embedder, PutMemory, Store, Vector, WriteBatch
from reme_core.remember.fact_extraction import join_sources
from reme_core.rules import Claim
from reme_core.schema import Job, Memory, MemoryType, Scope, Source, ToolCallResult, ToolStatistics, shown_input
from reme_core.steps.ask_json import MeteredChatModel, ask
from reme_core.steps.distillation import Distilled, UsageCounter
from reme_core.steps.flow import FlowContext, Stage, stage
from reme_core.steps.message_lines import find_messages_by_id
from reme_core.steps.similar_memories import find_equal_memories
from reme_core.text import Language, normalise_content, prompt_language
from reme_core.toolstats.tool_guideline import (
    KIND,
    SHOWN_CHARS,
    find_guideline,
    guideline_question,
    pick_examples,
    written_from,
)

AUTHOR = "tool_summary"
"""The author and actor of guidelines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedCalls:
    """What a guideline is written from.

    Attributes:
        statistics: What the calls of the tool add up to; not shown to the model.
        examples: Some of the calls.
        before: The guideline there is.
    """

    statistics: ToolStatistics
    examples: tuple[ToolCallResult, ...]
    before: Memory | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidelineText:
    """What a model has written from what was collected."""

    collected: CollectedCalls
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidelineDraft:
    """A guideline that is to be kept.

    Attributes:
        tool_name: The tool.
        text: How to use it.
        calls: How many calls were recorded when it was written.
        sources: Messages of the calls that the model was shown, and their blocks, as far as the scope holds them.
        before: The guideline that it takes the place of.
    """

    tool_name: str
    text: str
    calls: int
    sources: tuple[Source, ...] = ()
    before: Memory | None = None


@stage
async def collect(tool_name: str, context: FlowContext) -> CollectedCalls:
    """Gather what is known of a tool (InvalidInputError: no call of it is recorded)."""
    [statistics] = await context.store.tool_statistics(context.scope, [tool_name])
    if not statistics.calls:
        msg = f"no call of the tool {tool_name!r} is recorded: add some with add_tool_call_results, or check the name"
        raise InvalidInputError(msg)
    return CollectedCalls(
        statistics=statistics,
        examples=await pick_examples(context.store, context.scope, statistics),
        before=await find_guideline(context.store, context.scope, tool_name),
    )


@stage
async def write(collected: CollectedCalls, context: FlowContext) -> GuidelineText:
    """Have the model write (ModelOutputError: neither of two answers can be used)."""
    question = guideline_question(
        collected.statistics.tool_name,
        collected.examples,
        "" if collected.before is None else collected.before.content,
        context.language or _language(collected.examples),
    )
    text, _ = await ask(context.chat_model("a guideline"), question)
    return GuidelineText(collected=collected, text=text)


@stage
async def link(written: GuidelineText, context: FlowContext) -> GuidelineDraft:
    """Look up the messages that the calls were taken from."""
    collected = written.collected
    ids = dict.fromkeys(message_id for call in collected.examples for message_id in call.message_ids)
    stored = (await find_messages_by_id(context.store, context.scope, ids)).values()
    return GuidelineDraft(
        tool_name=collected.statistics.tool_name,
        text=written.text,
        calls=collected.statistics.calls,
        sources=join_sources(
            (), [Source(block_id=item.block_id, message_ids=(item.message.message_id,)) for item in stored]
        ),
        before=collected.before,
    )


guideline_flow: Stage[str, GuidelineDraft, FlowContext] = collect >> write >> link
"""From the name of a tool to the guideline that is to be kept; see `guideline_batch`."""


def _language(examples: Sequence[ToolCallResult]) -> Language:
    texts = ((shown_input(call.input)[:SHOWN_CHARS], call.output[:SHOWN_CHARS]) for call in examples)
    return prompt_language(text for pair in texts for text in pair)


async def guideline_batch(draft: GuidelineDraft, context: FlowContext) -> WriteBatch:
    """Return the write that keeps a guideline: it takes the place of the one before, in the same memory.

    Where another current memory of the tool says exactly the same, that one becomes the guideline, since there can't be
    two of them; the one before is then closed in its favour, and can be read in its history. Expected revisions make
    the write fail with a ConflictError where somebody else has written meanwhile.

    Raises:
        StoreError: Reading failed.
    """
    now = context.clock.now()
    claim = Claim(MemoryType.TOOL, draft.tool_name, normalise_content(draft.text))
    twins = await find_equal_memories(context.store, context.scope, [claim])
    if draft.before is not None:
        twins.pop(draft.before.memory_id, None)
    twin = next(iter(twins.values()), None)
    kept = twin or draft.before
    memory = _memory(draft, kept, context)
    puts: list[PutMemory] = []
    if twin is not None and draft.before is not None:
        puts.append(_closed(draft.before, twin, context))
    puts.append(
        PutMemory(
            memory=memory,
            vector=await _vector(memory, context),
            wants_vector=context.embedder is not None,
            expected_revision=0 if kept is None else kept.revision,
            on_duplicate="raise",
        )
    )
    return WriteBatch(puts=puts, reason="tool summary", run_id=context.run_id or None, actor=AUTHOR, at=now)


def _memory(draft: GuidelineDraft, kept: Memory | None, context: FlowContext) -> Memory:
    """Return the memory that keeps a guideline: `kept` changed, or a new one."""
    now = context.clock.now()
    # A note that becomes the guideline keeps where it came from.
    earlier = kept.sources if kept is not None and kept != draft.before else ()
    fields: dict[str, object] = {
        "content": draft.text,
        "when_to_use": draft.tool_name,
        "author": AUTHOR,
        "sources": join_sources(earlier, draft.sources),
        "metadata": {**({} if kept is None else kept.metadata), "kind": KIND, "calls": draft.calls},
        "updated_at": now,
    }
    if kept is not None:
        return Memory.model_validate({**kept.model_dump(), **fields})
    whose = {"memory_space": context.scope.memory_space, "user_id": context.scope.user_id}
    about = {"memory_type": MemoryType.TOOL, "memory_target": draft.tool_name}
    return Memory.model_validate({**whose, **about, "created_at": now, **fields})


def _closed(before: Memory, by: Memory, context: FlowContext) -> PutMemory:
    now = context.clock.now()
    ended = {"valid_to": max(now, before.valid_from), "superseded_by": by.memory_id, "updated_at": now}
    closed = Memory.model_validate({**before.model_dump(), **ended})
    return PutMemory(memory=closed, expected_revision=before.revision)


async def _vector(memory: Memory, context: FlowContext) -> Vector | None:
    vectors = await context.try_embedding([memory.index_text])
    return None if vectors is None else vectors[0]


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
