"""From what was decided to one batch of changes.

Deletes leave the store, and superseded memories the present, before anything comes: the batch never holds two current
memories that say the same. What would repeat a memory is left out. Each change expects the revision that was read, so
that of two runs at once the later one fails with a ConflictError and can be run again on what it finds then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

from reme_core.ports import DeleteMemory, PutMemory, Target, Vector, WriteBatch
from reme_core.runtime.extraction import Fact, join_sources
from reme_core.runtime.reconcile import SHOWN_CHARS, SHOWN_FACT_CHARS, Action, Outcome
from reme_core.schema import Memory, Scope, new_id
from reme_core.text import normalise_content

AUTHOR = "simple"
"""The author and actor of what the simple strategy writes."""

_ORDER = {action: place for place, action in enumerate(("delete", "supersede", "update", "add", "skip"))}


@dataclass(slots=True, kw_only=True)
class Changes:
    """What a run changes, gathered outcome by outcome.

    Attributes:
        scope: Whose memories they are.
        now: The time of writing.
        equal: The current memories by target and normalised content, as far as outcomes may meet them.
    """

    scope: Scope
    now: datetime
    equal: Mapping[tuple[Target, str], Memory]
    closings: list[Memory] = field(default_factory=list)
    updates: list[Memory] = field(default_factory=list)
    adds: list[Memory] = field(default_factory=list)
    deletes: list[Memory] = field(default_factory=list)
    _replacing: set[str] = field(default_factory=set)
    _leaving: set[str] = field(default_factory=set)
    _claimed: dict[tuple[Target, str], str] = field(default_factory=dict)

    def take(self, outcomes: Iterable[Outcome]) -> None:
        """Work out what outcomes change; what leaves the present goes first, and makes room for what comes."""
        ordered = sorted(outcomes, key=lambda outcome: _ORDER[outcome.action])
        for outcome in ordered:
            match outcome.action:
                case Action.DELETE:
                    self.deletes += outcome.memories
                    self._leaving |= {memory.memory_id for memory in outcome.memories}
                case Action.SUPERSEDE:
                    self._supersede(outcome)
                case Action.UPDATE:
                    self._update(outcome)
                case Action.ADD:
                    self._add(self._new(outcome.fact))
                case Action.SKIP:
                    continue
                case _:
                    assert_never(outcome.action)

    def batch(self, run_id: str, vectors: Mapping[str, Vector]) -> WriteBatch:
        """Return everything as one write; `vectors` are those of the texts of what is new or changed."""
        puts = [PutMemory(memory=memory, expected_revision=memory.revision) for memory in self.closings]
        puts += [
            PutMemory(memory=memory, vector=vectors.get(memory.index_text), expected_revision=memory.revision)
            for memory in self.updates
        ]
        puts += [
            PutMemory(
                memory=memory,
                vector=vectors.get(memory.index_text),
                expected_revision=0,
                # One that closed memories point to has to be there: if another writer was faster, read again.
                on_duplicate="raise" if memory.memory_id in self._replacing else "existing",
            )
            for memory in self.adds
        ]
        deletes = [DeleteMemory(memory_id=item.memory_id, expected_revision=item.revision) for item in self.deletes]
        return WriteBatch(puts=puts, deletes=deletes, reason="summary", run_id=run_id, actor=AUTHOR, at=self.now)

    def after(self, before: Iterable[Memory]) -> list[Memory]:
        """Return what becomes of memories, and behind them what is new."""
        changed = {memory.memory_id: memory for memory in (*self.closings, *self.updates)}
        gone = {memory.memory_id for memory in self.deletes}
        kept = [changed.get(memory.memory_id, memory) for memory in before if memory.memory_id not in gone]
        return [*kept, *self.adds]

    @property
    def texts(self) -> list[str]:
        """The texts of what is new or changed, each once."""
        return list(dict.fromkeys(memory.index_text for memory in (*self.updates, *self.adds)))

    def _add(self, memory: Memory) -> str:
        """Add a memory, unless a current one says the same; return the id of the one that says it then."""
        if memory.is_current:
            holder = self._holder(memory)
            if holder is not None:
                return holder
            self._claimed[_key_of(memory)] = memory.memory_id
        self.adds.append(memory)
        return memory.memory_id

    def _supersede(self, outcome: Outcome) -> None:
        """Close what the fact replaces, at the time from which the fact holds.

        A change that lies ahead closes nothing yet. If what it should replace was said later and holds from later on,
        conversations came in another order than they were held in: then the fact is the past of that memory.
        """
        fact = outcome.fact
        new = self._new(fact)
        if fact.valid_from > self.now:
            self._add(new)
            return
        later = [
            old for old in outcome.memories if old.observed_at > fact.observed_at and old.valid_from > fact.valid_from
        ]
        if later and fact.ended_at is None:
            first = min(later, key=lambda old: old.valid_from)
            new = new.model_copy(update={"valid_to": first.valid_from, "superseded_by": first.memory_id})
        closed = [old for old in outcome.memories if old.is_current and old not in later]
        self._leaving |= {old.memory_id for old in closed}
        successor = self._add(new)
        if closed and successor == new.memory_id:
            self._replacing.add(successor)
        for old in closed:
            ended = {"valid_to": max(old.valid_from, fact.valid_from), "superseded_by": successor}
            self.closings.append(old.model_copy(update={**ended, "updated_at": self.now}))

    def _update(self, outcome: Outcome) -> None:
        """Put the better text into the memory; it keeps its id, and says when it was said first.

        It holds from the date that was stated, else as before. A memory of which the model saw a part alone keeps its
        text, and the fact stands beside it.
        """
        fact, [old] = outcome.fact, outcome.memories
        # Of a long fact the model saw a part as well, so that its own text may lack the rest.
        content = outcome.content if outcome.content and len(fact.content) <= SHOWN_FACT_CHARS else fact.content
        same_text = normalise_content(content) == normalise_content(old.content)
        if len(old.content) > SHOWN_CHARS and not same_text:
            self._add(self._new(fact))
            return
        changed: dict[str, object] = {**_interval(old, fact), "observed_at": min(old.observed_at, fact.observed_at)}
        if not same_text:
            changed |= {"content": content, "when_to_use": fact.when_to_use or old.when_to_use, "author": AUTHOR}
        new = old.model_copy(update=changed)
        if new == old:
            return
        new = new.model_copy(update={"sources": join_sources(old.sources, fact.sources), "updated_at": self.now})
        if new.is_current:
            if self._holder(new) not in {None, old.memory_id}:
                return
            self._claimed[_key_of(new)] = old.memory_id
        (self.closings if same_text else self.updates).append(new)

    def _holder(self, memory: Memory) -> str | None:
        """Return the current memory that says what this one says, if there is one or will be."""
        key = _key_of(memory)
        held = self.equal.get(key)
        if held is not None and held.memory_id not in self._leaving:
            return held.memory_id
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
            valid_to=fact.ended_at,
            created_at=self.now,
            updated_at=self.now,
            author=AUTHOR,
            sources=fact.sources,
        )


def key_of(target: Target, content: str) -> tuple[Target, str]:
    """Return what only one current memory may have."""
    return target, normalise_content(content)


def _key_of(memory: Memory) -> tuple[Target, str]:
    return key_of(Target(memory.memory_type, memory.memory_target), memory.content)


def _interval(old: Memory, fact: Fact) -> dict[str, object]:
    """Return from when to when a memory holds once a fact has bettered it; never an end before the beginning."""
    ends = old.valid_to if old.valid_to is not None else fact.ended_at
    begins = fact.stated_from or old.valid_from
    if ends is not None and begins > ends:
        begins = old.valid_from if old.valid_from <= ends else min(fact.valid_from, ends)
    return {"valid_from": begins, "valid_to": ends}
