"""Flow that writes the guideline of a tool, and the jobs that run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reme_core.errors import InvalidInputError, RunError
from reme_core.ports import ChatModel, Clock, Embedder, PutMemory, Store, WriteBatch
from reme_core.remember.fact_extraction import join_sources
from reme_core.rules import Claim
from reme_core.schema import Job, Memory, MemoryType, Scope, Source, ToolCallResult, TrustClass, shown_input
from reme_core.steps.ask_json import ask
from reme_core.steps.distillation import Distilled, UsageCounter
from reme_core.steps.flow import FlowContext
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


async def guideline_flow(tool_name: str, context: FlowContext) -> GuidelineDraft:
    """Have the model write the guideline of a tool from some of its calls and the guideline there is.

    What the calls add up to is not shown to the model. What is to be written is told by `guideline_batch`.

    Raises:
        InvalidInputError: No call of the tool is recorded.
        ModelOutputError: Neither of two answers can be used.
    """
    [statistics] = await context.store.tool_statistics(context.scope, [tool_name])
    if not statistics.calls:
        msg = f"no call of the tool {tool_name!r} is recorded: add some with add_tool_call_results, or check the name"
        raise InvalidInputError(msg)
    examples = await pick_examples(context.store, context.scope, statistics)
    before = await find_guideline(context.store, context.scope, tool_name)
    language = context.language or _language(examples)
    question = guideline_question(tool_name, examples, "" if before is None else before.content, language)
    text = await ask(context.chat_model("a guideline"), question)
    ids = dict.fromkeys(message_id for call in examples for message_id in call.message_ids)
    stored = (await find_messages_by_id(context.store, context.scope, ids)).values()
    sources = [Source(block_id=item.block_id, message_ids=(item.message.message_id,)) for item in stored]
    return GuidelineDraft(
        tool_name=tool_name, text=text, calls=statistics.calls, sources=join_sources((), sources), before=before
    )


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
    twin = (await find_equal_memories(context.store, context.scope, [claim])).get(claim)
    if twin is not None and draft.before is not None and twin.memory_id == draft.before.memory_id:
        twin = None
    kept = twin or draft.before
    memory = _memory(draft, kept, context)
    puts: list[PutMemory] = []
    if twin is not None and draft.before is not None:
        puts.append(_closed(draft.before, twin, context))
    puts.append(
        PutMemory(
            memory=memory,
            vector=(await context.vectors([memory.index_text])).get(memory.index_text),
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
        "trust": TrustClass.TOOL,
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


GUIDELINE = "guideline"
"""The kind of job that writes the guideline of one tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidelineWorker:
    """A `Worker` that has a model write the guideline of a tool, unless there is nothing new to write it from.

    Attributes:
        store: Calls, the messages that they were taken from, and guidelines.
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
        context = FlowContext(
            scope=scope,
            memory_target=name,
            store=self.store,
            embedder=self.embedder,
            model=self.model,
            clock=self.clock,
            run_id=job.run_id,
            language=self.language,
        )
        try:
            batch = await guideline_batch(await guideline_flow(name, context), context)
        finally:
            meter.usage += context.trace.usage
        return Distilled(batch=batch, degraded=tuple(context.trace.degraded))
