"""The simple way of distilling: one call takes facts from the messages, one more holds them against what is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reme_core.ports import ChatModel, Clock, Embedder, MemoryStore, Target, Vector, WriteBatch
from reme_core.runtime.asking import Metered, ask
from reme_core.runtime.distil import Distilled, DistilTask
from reme_core.runtime.embedding import embed_strictly
from reme_core.runtime.extraction import Fact, extraction_question, facts_of
from reme_core.runtime.known_targets import read_known_targets
from reme_core.runtime.neighbours import Neighbourhood
from reme_core.runtime.reconcile import Action, Case, Outcome, reconcile_question
from reme_core.runtime.resolve import AUTHOR, Changes, key_of, needs_past
from reme_core.schema import Memory, Scope, Usage
from reme_core.text import Language, prompt_language
from reme_core.tools import revise


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleDistiller:
    """A `Distiller` of at most two model calls: one takes typed facts from the messages, one reconciles them.

    A fact that says what a current memory says is left alone, one without neighbours is written, neither with a second
    call. An answer that can't be used is asked for once more.

    Attributes:
        memories: What is known.
        embedder: Gives vectors to facts; None compares them by their words.
        model: The chat model.
        clock: Tells the time.
        language: Of the prompts; None follows the conversation.
        use_reviser: Have a further call check the result; what it finds is put right in a second attempt.
    """

    memories: MemoryStore
    embedder: Embedder | None
    model: ChatModel
    clock: Clock
    language: Language | None = None
    use_reviser: bool = False

    @property
    def name(self) -> str:
        """Who writes."""
        return AUTHOR

    async def distil(self, scope: Scope, task: DistilTask) -> Distilled:
        """Work out what a task changes; see `Distiller.distil`. Nothing is written."""
        if not task.messages:
            return Distilled(batch=WriteBatch(reason="summary", run_id=task.run_id, actor=AUTHOR, at=self.clock.now()))
        run = _Run(options=self, scope=scope, task=task, language=self.language or _language(task))
        changes = await run.work_out(())
        if self.use_reviser:
            problems = await run.review(changes)
            if problems:
                changes = await run.work_out(problems)
        return await run.distilled(changes)


def _language(task: DistilTask) -> Language:
    return prompt_language(message.full_text for message in task.messages)


@dataclass(slots=True, kw_only=True)
class _Run:
    """One call of `distil`, and what it has cost so far."""

    options: SimpleDistiller
    scope: Scope
    task: DistilTask
    language: Language
    near: Neighbourhood = field(init=False)
    usage: Usage = field(default_factory=Usage)
    seen: dict[str, Memory] = field(default_factory=dict)
    vectors: dict[str, Vector] = field(default_factory=dict)

    @property
    def _model(self) -> ChatModel:
        return Metered(self.options.model, self.task.meter)

    async def work_out(self, problems: Sequence[str]) -> Changes:
        """Go through both calls; `problems` are those of an earlier attempt."""
        self.near = Neighbourhood(memories=self.options.memories, scope=self.scope)
        outcomes, facts = await self._known(await self._extract(problems))
        await self._embed([fact.index_text for fact in facts])
        taken = {memory.memory_id for outcome in outcomes for memory in outcome.memories}
        cases = [await self._case(fact, taken) for fact in facts]
        outcomes += [Outcome(fact=case.fact, action=Action.ADD) for case in cases if not case.candidates]
        outcomes += await self._reconcile([case for case in cases if case.candidates], problems)
        late = dict.fromkeys(outcome.fact.target for outcome in outcomes if needs_past(outcome))
        changes = Changes(
            scope=self.scope,
            now=self.options.clock.now(),
            equal=await self._equal(outcomes),
            past={target: await self.near.all_of(target) for target in late},
        )
        changes.take(outcomes)
        return changes

    async def review(self, changes: Changes) -> Sequence[str]:
        """Have the model check what came out; return what is wrong with it."""
        before = list(self.seen.values())
        after = changes.after(before)
        verdict = await revise(self._model, self.task.messages, before, after, self.language)
        self.usage += verdict.usage
        return verdict.problems

    async def distilled(self, changes: Changes) -> Distilled:
        """Return changes as a write, with the vectors of all that is new."""
        await self._embed(changes.texts)
        return Distilled(batch=changes.batch(self.task.run_id, self.vectors), usage=self.usage)

    async def _extract(self, problems: Sequence[str]) -> list[Fact]:
        known = await read_known_targets(self.options.memories, self.scope)
        question = extraction_question(self.task, known, self.language, problems)
        written, usage = await ask(self._model, question)
        self.usage += usage
        return facts_of(written, self.task, known, self.options.clock.now())

    async def _known(self, facts: Sequence[Fact]) -> tuple[list[Outcome], list[Fact]]:
        """Decide without a model what is known word by word; return that, and the other facts.

        A current memory whose words are said again as over is ended.
        """
        outcomes, others = list[Outcome](), list[Fact]()
        await self.near.prepare(facts)
        for fact in facts:
            equal = await self.near.find_equal(fact.target, fact.content, with_ended=fact.ended_at is not None)
            self.seen |= {memory.memory_id: memory for memory in equal}
            current = tuple(memory for memory in equal if memory.is_current)
            if current and fact.ended_at is not None:
                outcomes.append(Outcome(fact=fact, action=Action.UPDATE, memories=current[:1]))
            elif not equal:
                others.append(fact)
        return outcomes, others

    async def _case(self, fact: Fact, taken: set[str]) -> Case:
        found = await self.near.near(fact, self.vectors.get(fact.index_text))
        self.seen |= {memory.memory_id: memory for memory in found}
        return Case(fact=fact, candidates=tuple(memory for memory in found if memory.memory_id not in taken))

    async def _reconcile(self, cases: Sequence[Case], problems: Sequence[str]) -> Sequence[Outcome]:
        if not cases:
            return ()
        outcomes, usage = await ask(self._model, reconcile_question(cases, self.language, problems))
        self.usage += usage
        return outcomes

    async def _equal(self, outcomes: Sequence[Outcome]) -> dict[tuple[Target, str], Memory]:
        """Return the current memories that say what the model has written into updates; facts were looked up before."""
        equal: dict[tuple[Target, str], Memory] = {}
        for outcome in outcomes:
            if outcome.content:
                target = outcome.fact.target
                for memory in await self.near.find_equal(target, outcome.content):
                    equal[key_of(target, outcome.content)] = memory
        return equal

    async def _embed(self, texts: Sequence[str]) -> None:
        """Get the vectors of texts that have none yet."""
        missing = [text for text in dict.fromkeys(texts) if text not in self.vectors]
        if self.options.embedder is None or not missing:
            return
        rows = await embed_strictly(self.options.embedder, missing)
        self.usage += Usage(embedding_calls=1)
        self.task.meter.add(Usage(embedding_calls=1))
        self.vectors |= dict(zip(missing, rows, strict=True))
