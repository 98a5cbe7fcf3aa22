"""Distiller of at most two calls: one extracts facts, one reconciles them with what is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reme_core.ports import BlockSummary, ChatModel, Clock, Embedder, Store, Vector, WriteBatch
from reme_core.remember.fact_candidates import ComparedMemories, NearMemory
from reme_core.remember.fact_extraction import Fact, extraction_question, facts_of, read_known_targets
from reme_core.remember.fact_reconciliation import (
    ComparedFact,
    FactAction,
    FactOutcome,
    nearest,
    reconcile_question,
    room_beside,
)
from reme_core.remember.fact_resolution import AUTHOR, MemoryChanges, is_of_another_time, needs_past, summed_up
from reme_core.remember.record_resolution import keep_records
from reme_core.remember.written_facts import rejected
from reme_core.remember.written_records import WrittenRecord, find_shown, with_records
from reme_core.retrieval.embedding import try_embedding
from reme_core.rules import Claim
from reme_core.schema import Memory, MemoryType, RejectedFact, Scope, Usage
from reme_core.schema.tool_calls import is_guideline
from reme_core.steps.ask_json import MeteredChatModel, ask
from reme_core.steps.distillation import Distilled, DistilTask
from reme_core.steps.flow import Stage, stage
from reme_core.steps.records import MemorySchema
from reme_core.steps.similar_memories import find_equal_memories
from reme_core.steps.targets import claim_on, target_of
from reme_core.text import Language, estimate_tokens, prompt_language
from reme_core.tools import revise


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleDistiller:
    """A `Distiller` of at most two model calls: one takes typed facts from the messages, one reconciles them.

    The first one sums the conversation up as well: for the index of its blocks, and as a memory of its own. A fact that
    says what a current memory says is left alone, one without neighbours is written, neither with a second call. What
    of an answer can't be used is asked for once more; a fact that can't be used then is left out.

    Attributes:
        store: What is known.
        embedder: Gives vectors to facts; None compares them by their words.
        model: The chat model.
        clock: Tells the time.
        language: Of the prompts; None follows the conversation.
        use_reviser: Have a further call check the result; what it finds is put right in a second attempt.
        schemas: Whose records the first call fills as well; their fields are checked by their classes alone.
    """

    store: Store
    embedder: Embedder | None
    model: ChatModel
    clock: Clock
    language: Language | None = None
    use_reviser: bool = False
    schemas: Sequence[MemorySchema] = ()

    @property
    def name(self) -> str:
        """Who writes."""
        return AUTHOR

    async def distil(self, scope: Scope, task: DistilTask) -> Distilled:
        """Work out what a task changes; see `Distiller.distil`. Nothing is written."""
        if not task.messages:
            return Distilled(batch=WriteBatch(reason="summary", run_id=task.run_id, actor=AUTHOR, at=self.clock.now()))
        run = _DistilState(options=self, scope=scope, task=task, language=self.language or _language(task))
        changes = await run.work_out(())
        if self.use_reviser:
            problems = await run.review(changes)
            if problems:
                changes = await run.work_out(problems)
        return await run.distilled(changes)


def _language(task: DistilTask) -> Language:
    return prompt_language(message.full_text for message in task.messages)


@dataclass(slots=True, kw_only=True)
class _DistilState:
    """One call of `distil`: the context of its stages."""

    options: SimpleDistiller
    scope: Scope
    task: DistilTask
    language: Language
    problems: Sequence[str] = ()
    near: ComparedMemories = field(init=False)
    rejected: list[RejectedFact] = field(default_factory=list)
    outcomes: Sequence[FactOutcome] = ()
    summaries: tuple[str, ...] = ()
    extraction: int = 0
    records: tuple[WrittenRecord, ...] = ()
    seen: dict[str, Memory] = field(default_factory=dict)
    vectors: dict[str, Vector] = field(default_factory=dict)
    degraded: dict[str, None] = field(default_factory=dict)

    @property
    def model(self) -> ChatModel:
        """The model, its calls counted."""
        return MeteredChatModel(self.options.model, self.task.meter)

    async def work_out(self, problems: Sequence[str]) -> MemoryChanges:
        """Go through all stages; `problems` are those of an earlier attempt."""
        self.problems = problems
        self.near = ComparedMemories(store=self.options.store, scope=self.scope)
        return await _DISTILLING(self.task, self)

    async def review(self, changes: MemoryChanges) -> Sequence[str]:
        """Have the model check what came out; return what is wrong with it."""
        before = list(self.seen.values())
        after = changes.after(before)
        remark = self.task.guidance.shown(self.language)
        return await revise(
            self.model, self.task.messages, before, after, self.language, remark=remark, zone=self.task.zone
        )

    async def distilled(self, changes: MemoryChanges) -> Distilled:
        """Return changes as a write, with the vectors of all that is new, and what the index is to say."""
        parts = summed_up(self.summaries, self.task.blocks)
        is_open = self.task.memory_type is None and self.task.targets is None
        if is_open and self.task.guidance.wants_summaries:
            changes.sum_up(parts)
        self.rejected += await keep_records(self.options.store, self.scope, self.task, self.records, changes)
        await self.embed(changes.texts)
        batch = changes.batch(self.task.run_id, self.vectors, want_vectors=self.options.embedder is not None)
        return Distilled(
            batch=batch,
            rejected_facts=tuple(self.rejected),
            facts=tuple(outcome.preview for outcome in self.outcomes),
            degraded=tuple(self.degraded),
            summaries=tuple(
                BlockSummary(block_id=blocks[0].block_id, summary=text, author=AUTHOR)
                for text, blocks in parts
                if len(blocks) == 1
            ),
        )

    async def embed(self, texts: Sequence[str]) -> None:
        """Get the vectors of texts that have none yet; without them words are compared, and vectors follow."""
        missing = [text for text in dict.fromkeys(texts) if text not in self.vectors]
        if self.options.embedder is None or not missing:
            return
        rows = await try_embedding(self.options.embedder, missing)
        if isinstance(rows, str):
            self.degraded[rows] = None
            return
        self.task.meter.usage += Usage(embedding_calls=1)
        self.vectors |= dict(zip(missing, rows, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class _SortedFacts:
    """Facts of which it is clear what becomes of them, and those that have to be held against others."""

    outcomes: tuple[FactOutcome, ...]
    facts: tuple[Fact, ...] = ()
    cases: tuple[ComparedFact, ...] = ()


@stage
async def extract(task: DistilTask, run: _DistilState) -> tuple[Fact, ...]:
    """Have the model take facts from the messages."""
    known = await read_known_targets(run.options.store, run.scope)
    question = extraction_question(task, known, run.language, run.problems)
    run.extraction = estimate_tokens(question.user)
    # A record is about the user, as what is personal is.
    is_open = task.memory_type in {None, MemoryType.PERSONAL} and task.targets is None
    if is_open and run.options.schemas:
        texts = [message.full_text for message in task.messages]
        shown = await find_shown(run.options.store, run.scope, run.options.schemas, texts)
        answer = await ask(run.model, with_records(question, shown, run.language))
        written, run.records = answer.facts, answer.records
    else:
        written = await ask(run.model, question)
    run.rejected = [*written.rejected, *(item for record in run.records for item in record.rejected)]
    run.summaries = written.summaries
    return tuple(facts_of(written.facts, task, known))


@stage
async def settle_known(facts: tuple[Fact, ...], run: _DistilState) -> _SortedFacts:
    """Decide without a model what is known word by word.

    A memory whose words are said again with an end gets that end. One that speaks of another time is another memory.
    """
    outcomes, others = list[FactOutcome](), list[Fact]()
    equal = await find_equal_memories(run.options.store, run.scope, [fact.claim for fact in facts])
    run.seen |= {memory.memory_id: memory for memory in equal.values()}
    for fact in facts:
        same = equal.get(fact.claim)
        if same is None or is_of_another_time(same, fact):
            others.append(fact)
        elif fact.ended_at is not None and not is_guideline(same):
            outcomes.append(FactOutcome(fact=fact, action=FactAction.UPDATE, memories=(same,), candidates=(same,)))
        else:
            outcomes.append(FactOutcome(fact=fact, action=FactAction.SKIP, candidates=(same,)))
    return _SortedFacts(outcomes=tuple(outcomes), facts=tuple(others))


@stage
async def find_candidates(given: _SortedFacts, run: _DistilState) -> _SortedFacts:
    """Find what each fact may change; what has no neighbours is new."""
    await run.embed([fact.index_text for fact in given.facts])
    taken = {memory.memory_id for outcome in given.outcomes for memory in outcome.memories}
    near = list[tuple[Fact, Sequence[NearMemory]]]()
    for fact in given.facts:
        found = await run.near.near(fact, run.vectors.get(fact.index_text))
        run.seen |= {one.memory.memory_id: one.memory for one in found}
        near.append((fact, [one for one in found if one.memory.memory_id not in taken]))
    cases = nearest(near, room_beside(run.extraction))
    new = tuple(FactOutcome(fact=case.fact, action=FactAction.ADD) for case in cases if not case.candidates)
    return _SortedFacts(outcomes=(*given.outcomes, *new), cases=tuple(case for case in cases if case.candidates))


@stage
async def reconcile(given: _SortedFacts, run: _DistilState) -> tuple[FactOutcome, ...]:
    """Have the model decide what the facts mean for their neighbours."""
    if not given.cases:
        return given.outcomes
    question = reconcile_question(given.cases, run.language, run.problems, zone=run.task.zone)
    decided = await ask(run.model, question)
    for place, problem in decided.problems.items():
        case = given.cases[place]
        left_out = rejected(case.fact.content, f"what becomes of it was not told: {problem}")
        run.rejected.append(left_out.model_copy(update={"compared_with": case.candidates}))
    return (*given.outcomes, *(outcome for outcome in decided.outcomes if outcome is not None))


@stage
async def resolve(outcomes: tuple[FactOutcome, ...], run: _DistilState) -> MemoryChanges:
    """Work out what changes."""
    run.outcomes = outcomes
    late = dict.fromkeys(outcome.fact.target for outcome in outcomes if needs_past(outcome))
    changes = MemoryChanges(
        scope=run.scope,
        now=run.options.clock.now(),
        equal=await _equal(outcomes, run),
        past={target: await run.near.all_of(target) for target in late},
        zone=run.task.zone,
    )
    changes.take(outcomes)
    return changes


async def _equal(outcomes: Sequence[FactOutcome], run: _DistilState) -> dict[Claim, Memory]:
    """Return the current memories that say what facts say, which were seen, or what the model wrote into updates."""
    seen = {claim_on(target_of(memory), memory.content): memory for memory in run.seen.values()}
    told = [claim_on(outcome.fact.target, outcome.content) for outcome in outcomes if outcome.content]
    return seen | await find_equal_memories(run.options.store, run.scope, told)


_DISTILLING: Stage[DistilTask, MemoryChanges, _DistilState] = (
    extract >> settle_known >> find_candidates >> reconcile >> resolve
)
