"""Selection of the memories that a fact is compared with: of its own type and target, and of no other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest

from reme_core.ports import ListMemories, MemorySearch, Store, Target, Vector
from reme_core.remember.fact_extraction import Fact
from reme_core.schema import Memory, Scope
from reme_core.schema.tool_calls import is_guideline
from reme_core.steps.targets import all_memories, memories_about
from reme_core.text import query_terms, terms

FEW = 12
"""A target with no more memories is shown whole: two that contradict each other need not share a word."""

MOST = 4
"""Of a target with more, at most so many are shown to each fact."""

# What is as near as this is worth a look. The overlap is the share of the shorter text's words that the longer one
# holds, the target's name and dates apart: what was told on one day shares these. One word alone is what a talk is
# about, unless there are hardly others.
_LEAST_COSINE = 0.4
_LEAST_OVERLAP, _LEAST_WORDS, _ENOUGH_OVERLAP = 0.34, 2, 0.5
_DATED = re.compile(r"[(（][^()（）]*\d{4}[^()（）]*[)）]")
_SEARCHED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMemories:
    """Finds neighbours within a scope. What was read of a target is kept: make one for each time of looking.

    Attributes:
        store: Where they are.
        scope: Whose memories.
    """

    store: Store
    scope: Scope
    _first: dict[Target, tuple[Memory, ...] | None] = field(default_factory=dict)

    async def all_of(self, target: Target) -> list[Memory]:
        """Return all memories of a target, replaced ones included."""
        return await all_memories(self.store, self.scope, replace(memories_about(target), include_superseded=True))

    async def near(self, fact: Fact, vector: Vector | None) -> tuple[Memory, ...]:
        """Return the memories that a fact may repeat, better, replace or take back, nearest first."""
        few = await self._few(fact.target)
        by_vector = [] if vector is None or few == () else await self._by_vector(fact, vector)
        if few is not None:
            by_words = sorted(few, key=lambda memory: -_overlap(fact, memory)[0])
            near = _taken_in_turn(by_words, by_vector)
        else:
            near = _taken_in_turn(await self._by_words(fact), by_vector)[:MOST]
        # What the calls of a tool have taught is no statement that talk could better or take back.
        return tuple(memory for memory in near if not is_guideline(memory))

    async def _by_vector(self, fact: Fact, vector: Vector) -> list[Memory]:
        search = MemorySearch(vector=vector, limit=MOST, filter=memories_about(fact.target), min_score=_LEAST_COSINE)
        return [item.memory for item in await self.store.search(self.scope, search)]

    async def _by_words(self, fact: Fact) -> list[Memory]:
        words = _DATED.sub(" ", fact.index_text).strip() or fact.index_text
        search = MemorySearch(text=words, limit=_SEARCHED, filter=memories_about(fact.target))
        return [item.memory for item in await self.store.search(self.scope, search) if _is_near(fact, item.memory)]

    async def _few(self, target: Target) -> tuple[Memory, ...] | None:
        """Return the memories of a target, if they are few."""
        if target not in self._first:
            query = ListMemories(filter=memories_about(target), limit=FEW + 1)
            memories = (await self.store.list_memories(self.scope, query)).memories
            self._first[target] = memories if len(memories) <= FEW else None
        return self._first[target]


def _is_near(fact: Fact, memory: Memory) -> bool:
    overlap, shared = _overlap(fact, memory)
    return overlap >= _ENOUGH_OVERLAP or (shared >= _LEAST_WORDS and overlap >= _LEAST_OVERLAP)


def _overlap(fact: Fact, memory: Memory) -> tuple[float, int]:
    """Return how much a memory shares with a fact, and how many words that are."""
    names = set(query_terms(fact.target.memory_target))
    text, other = _DATED.sub(" ", fact.index_text), _DATED.sub(" ", memory.index_text)
    asked, held = set(query_terms(text)) - names, set(query_terms(other)) - names
    shared = len(asked & set(terms(other)))
    return shared / max(1, min(len(asked), len(held))), shared


def _taken_in_turn(*rankings: Sequence[Memory]) -> tuple[Memory, ...]:
    taken = {memory.memory_id: memory for memory in chain.from_iterable(zip_longest(*rankings)) if memory is not None}
    return tuple(taken.values())
