"""Resolution of decided facts into one batch of changes.

Deletes leave the store, and superseded memories the present, before anything comes: the batch never holds two current
memories that say the same. What would repeat a memory is left out. A memory that several facts concern is changed once,
to what it is in the end. Each change expects the revision that was read, so that of two runs at once the later one
fails with a ConflictError and can be run again on what it finds then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import assert_never

from reme_core.ports import DeleteMemory, PutMemory, Target, Vector, WriteBatch
from reme_core.remember.fact_extraction import Fact, join_sources
from reme_core.remember.fact_reconciliation import SHOWN_CHARS, SHOWN_FACT_CHARS, FactAction, FactOutcome
from reme_core.rules import Claim, chain_of, join_relations, place
from reme_core.schema import (
    Block,
    Memory,
    MemoryType,
    Scope,
    Source,
    TimePrecision,
    TrustClass,
    last_part,
    least_trusted,
    new_id,
    shown_time,
    shown_validity,
)
from reme_core.steps.targets import SELF, claim_on, target_of
from reme_core.text import normalise_content

AUTHOR = "simple"
"""The author and actor of what the simple strategy writes."""

_ORDER = {action: place for place, action in enumerate(("delete", "supersede", "update", "add", "skip"))}


@dataclass(slots=True, kw_only=True)
class MemoryChanges:
    """What a run changes, gathered outcome by outcome.

    Attributes:
        scope: Whose memories they are.
        now: The time of writing.
        equal: The current memories by what they claim, as far as outcomes may meet them.
        past: All memories, replaced ones included, of the targets where `needs_past` says so.
        zone: Where the user is: on their calendar it is told what lies ahead.
    """

    scope: Scope
    now: datetime
    equal: Mapping[Claim, Memory]
    past: Mapping[Target, Sequence[Memory]] = field(default_factory=dict)
    zone: tzinfo = UTC
    adds: list[Memory] = field(default_factory=list)
    deletes: list[Memory] = field(default_factory=list)
    _changed: dict[str, Memory] = field(default_factory=dict)
    _retold: set[str] = field(default_factory=set)
    _replacing: set[str] = field(default_factory=set)
    _leaving: set[str] = field(default_factory=set)
    _claimed: dict[Claim, Memory] = field(default_factory=dict)

    def take(self, outcomes: Iterable[FactOutcome]) -> None:
        """Work out what outcomes change; what leaves the present goes first, and makes room for what comes."""
        ordered = sorted(outcomes, key=lambda outcome: _ORDER[outcome.action])
        for outcome in ordered:
            match outcome.action:
                case FactAction.DELETE:
                    self.deletes += outcome.memories
                    self._leaving |= {memory.memory_id for memory in outcome.memories}
                case FactAction.SUPERSEDE:
                    self._supersede(outcome)
                case FactAction.UPDATE:
                    self._update(outcome)
                case FactAction.ADD:
                    self._add(self._new(outcome.fact))
                case FactAction.SKIP:
                    continue
                case _:
                    assert_never(outcome.action)

    def sum_up(self, parts: Iterable[tuple[str, Sequence[Block]]]) -> None:
        """Add what is said of the conversation as a whole, a memory for each of its parts."""
        for text, blocks in parts:
            self.adds.append(
                Memory(
                    memory_id=new_id(),
                    memory_space=self.scope.memory_space,
                    user_id=self.scope.user_id,
                    memory_type=MemoryType.SUMMARY,
                    memory_target=SELF,
                    content=text,
                    observed_at=max(block.ended_at for block in blocks),
                    valid_from=min(block.started_at for block in blocks),
                    created_at=self.now,
                    updated_at=self.now,
                    author=AUTHOR,
                    trust=TrustClass.USER,  # until the store sees whose words these are
                    sources=tuple(
                        Source(block_id=block.block_id, message_ids=block.message_ids[block.repeats :])
                        for block in blocks
                    ),
                )
            )

    def retell(self, memory: Memory) -> None:
        """Change a memory to one with another text."""
        self._changed[memory.memory_id] = memory
        self._retold.add(memory.memory_id)

    def batch(self, run_id: str, vectors: Mapping[str, Vector], *, want_vectors: bool) -> WriteBatch:
        """Return everything as one write; `vectors` are those of the texts of what is new or changed.

        With `want_vectors` what is not among them waits for its own.
        """
        puts = [PutMemory(memory=memory, expected_revision=memory.revision) for memory in self._kept]
        new = {memory.memory_id for memory in self.adds}
        puts += [
            PutMemory(
                memory=memory,
                vector=vectors.get(memory.index_text),
                wants_vector=want_vectors,
                expected_revision=0 if memory.memory_id in new else memory.revision,
                # One that closed memories point to has to be there: if another writer was faster, read again.
                on_duplicate="raise" if memory.memory_id in self._replacing else "existing",
            )
            for memory in (*self._updates, *self.adds)
        ]
        deletes = [DeleteMemory(memory_id=item.memory_id, expected_revision=item.revision) for item in self.deletes]
        return WriteBatch(puts=puts, deletes=deletes, reason="summary", run_id=run_id, actor=AUTHOR, at=self.now)

    def after(self, before: Iterable[Memory]) -> list[Memory]:
        """Return what becomes of memories, and behind them what is new."""
        gone = {memory.memory_id for memory in self.deletes}
        kept = [self._changed.get(memory.memory_id, memory) for memory in before if memory.memory_id not in gone]
        return [*kept, *self.adds]

    @property
    def _kept(self) -> list[Memory]:
        """What is changed and keeps its text."""
        return [memory for memory in self._changed.values() if memory.memory_id not in self._retold]

    @property
    def _updates(self) -> list[Memory]:
        """What has another text."""
        return [memory for memory in self._changed.values() if memory.memory_id in self._retold]

    @property
    def texts(self) -> list[str]:
        """The texts of what is new or changed, each once."""
        return list(dict.fromkeys(memory.index_text for memory in (*self._updates, *self.adds)))

    def _add(self, memory: Memory) -> str:
        """Add a memory, unless a current one says the same; return the id of the one that says it then.

        Two events that were told in the same words are told apart by their times: the second one says its own.
        """
        if memory.is_current:
            holder = self._holder(memory)
            if holder is not None and (holder.is_over_before(memory) or memory.is_over_before(holder)):
                memory = memory.model_copy(update={"content": f"{memory.content} ({_when(memory)})"})
                holder = self._holder(memory)
            if holder is not None:
                return holder.memory_id
            self._claimed[_claim(memory)] = memory
        self.adds.append(memory)
        return memory.memory_id

    def _supersede(self, outcome: FactOutcome) -> None:
        """Give the fact its time among the memories that it replaces and those that these have replaced; see `place`.

        A change that lies ahead closes nothing yet but what lies ahead itself.
        """
        new = self._new(outcome.fact)
        chain, at = self._chain(outcome), max(self.now, new.valid_from)
        if self._lies_ahead(new):
            chain = [memory for memory in chain if self._lies_ahead(memory)]
            at = max(memory.valid_from for memory in (new, *chain))
        placed = place(chain, new, at=at, named={memory.memory_id for memory in outcome.memories})
        if placed.memory is None:
            return
        self._leaving |= {memory.memory_id for memory in placed.changed}
        successor = self._add(placed.memory)
        for memory in placed.changed:
            link = {"superseded_by": successor} if memory.superseded_by == new.memory_id else {}
            self._change(memory.model_copy(update=link))
        if placed.changed and successor == new.memory_id:
            self._replacing.add(successor)

    def _lies_ahead(self, memory: Memory) -> bool:
        """Tell whether a memory has not begun; a day, a month or a year begins where the user is."""
        if memory.valid_from_precision is TimePrecision.EXACT:
            return memory.valid_from > self.now
        return memory.valid_from > self.now.astimezone(self.zone).replace(tzinfo=UTC)

    def _chain(self, outcome: FactOutcome) -> list[Memory]:
        """Return what a fact replaces, and all that hangs together with it, as outcomes so far have left it."""
        target = outcome.fact.target
        held = {memory.memory_id: memory for memory in (*outcome.memories, *self.past.get(target, ()))}
        held |= {name: memory for name, memory in self._changed.items() if target_of(memory) == target}
        held |= {memory.memory_id: memory for memory in self.adds if target_of(memory) == target}
        gone = {memory.memory_id for memory in self.deletes}
        chain = chain_of(held.values(), (memory.memory_id for memory in outcome.memories))
        return [memory for memory in chain if memory.memory_id not in gone]

    def _change(self, memory: Memory) -> None:
        """Note what becomes of a memory that is there, or of one that this run adds."""
        changed = memory.model_copy(update={"updated_at": self.now})
        own = next((place for place, added in enumerate(self.adds) if added.memory_id == memory.memory_id), None)
        if own is None:
            self._changed[memory.memory_id] = changed
            return
        self.adds[own] = changed
        if not changed.is_current:
            self._claimed.pop(_claim(changed), None)

    def _update(self, outcome: FactOutcome) -> None:
        """Put the better text into the memory; it keeps its id, and says when it was said first.

        It holds from the date that was stated, else as before. A memory of which the model saw a part alone keeps its
        text, and the fact stands beside it.
        """
        fact, [named] = outcome.fact, outcome.memories
        old = self._changed.get(named.memory_id, named)
        # Of a long fact the model saw a part as well, so that its own text may lack the rest.
        content = outcome.content if outcome.content and len(fact.content) <= SHOWN_FACT_CHARS else fact.content
        same_text = normalise_content(content) == normalise_content(old.content)
        if len(old.content) > SHOWN_CHARS and not same_text:
            self._add(self._new(fact))
            return
        changed: dict[str, object] = {**_interval(old, fact), "observed_at": min(old.observed_at, fact.observed_at)}
        changed["relations"] = join_relations(old.relations, fact.relations, content=content)
        if not same_text:
            changed |= {"content": content, "when_to_use": fact.when_to_use or old.when_to_use, "author": AUTHOR}
        new = old.model_copy(update=changed)
        if new == old:
            return
        trust = least_trusted([old.trust, fact.trust])
        sources = join_sources(old.sources, fact.sources)
        new = new.model_copy(update={"sources": sources, "trust": trust, "updated_at": self.now})
        if new.is_current:
            holder = self._holder(new)
            if holder is not None and holder.memory_id != old.memory_id:
                return
            self._claimed[_claim(new)] = new
        self._changed[old.memory_id] = new
        if not same_text:
            self._retold.add(old.memory_id)

    def _holder(self, memory: Memory) -> Memory | None:
        """Return the current memory that says what this one says, if there is one or will be."""
        key = _claim(memory)
        held = self.equal.get(key)
        if held is not None and held.memory_id not in self._leaving:
            return held
        return self._claimed.get(key)

    def _new(self, fact: Fact) -> Memory:
        return Memory(
            memory_id=new_id(),
            memory_space=self.scope.memory_space,
            user_id=self.scope.user_id,
            memory_type=fact.target.memory_type,
            memory_target=fact.target.memory_target,
            content=fact.content,
            when_to_use=fact.when_to_use,
            observed_at=fact.observed_at,
            valid_from=fact.valid_from,
            valid_from_precision=fact.valid_from_precision,
            valid_to=fact.ended_at,
            valid_to_precision=fact.ended_precision,
            created_at=self.now,
            updated_at=self.now,
            author=AUTHOR,
            trust=fact.trust,
            sources=fact.sources,
            relations=fact.relations,
        )


def summed_up(texts: Sequence[str], blocks: Sequence[Block]) -> list[tuple[str, Sequence[Block]]]:
    """Return what a model said of blocks with the blocks that it said it of: one each, or all that was said of all."""
    if len(texts) == len(blocks):
        return [(text, [block]) for text, block in zip(texts, blocks, strict=True)]
    return [(" ".join(texts), blocks)] if texts else []


def needs_past(outcome: FactOutcome) -> bool:
    """Tell whether an outcome concerns memories that were replaced: the fact began before one that it replaces.

    A fact that comes last replaces what is current and nothing else.
    """
    fact = outcome.fact
    return outcome.action is FactAction.SUPERSEDE and any(
        old.valid_from >= fact.valid_from or old.observed_at >= fact.observed_at for old in outcome.memories
    )


def is_of_another_time(memory: Memory, fact: Fact) -> bool:
    """Tell whether a memory, as it was told, speaks of a time that has nothing in common with that of a fact.

    A memory that nobody told a time of holds since it was said as far as one knows; a fact may say it ended before.
    """
    if memory.valid_to is not None and memory.valid_to <= fact.valid_from:
        return True
    is_told = memory.valid_to is not None or memory.valid_from != memory.observed_at
    return is_told and fact.ended_at is not None and fact.ended_at <= memory.valid_from


def _claim(memory: Memory) -> Claim:
    return claim_on(target_of(memory), memory.content)


def _when(memory: Memory) -> str:
    return shown_validity(memory) or f"since {shown_time(memory.valid_from, TimePrecision.DAY)}"


def _interval(old: Memory, fact: Fact) -> dict[str, object]:
    """Return from when to when a memory holds once a fact has bettered it; never an end before the beginning."""
    ends, until = old.valid_to, old.valid_to_precision
    if ends is None:
        ends, until = fact.ended_at, fact.ended_precision
    told = [(old.valid_from, old.valid_from_precision), (fact.valid_from, fact.valid_from_precision)]
    if fact.stated_from is not None:
        told.insert(0, (fact.stated_from, fact.stated_precision))
    if ends is not None:
        told = [*(one for one in told if one[0] < ends), (last_part(ends, until), until)]
    begins, since = told[0]
    return {"valid_from": begins, "valid_from_precision": since, "valid_to": ends, "valid_to_precision": until}
