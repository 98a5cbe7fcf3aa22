"""Search for the memories that a fact is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import NamedTuple

from reme_core.ports import ListMemories, MemorySearch, Store, Target, Vector
from reme_core.remember.fact_extraction import Fact
from reme_core.schema import Memory, Scope
from reme_core.schema.tool_calls import is_guideline
from reme_core.steps.similar_memories import LEAST_COSINE, Overlap, overlap, undated
from reme_core.steps.targets import all_memories, memories_about

FEW = 12
"""A target with no more memories is shown whole: two that contradict each other need not share a word."""

MOST = 4
"""Of a target with more, at most so many are shown to each fact."""

_SEARCHED = 20


class NearMemory(NamedTuple):
    """A memory that a fact may change, and how near it is in [0, 1]: the share of its words, or the cosine."""

    memory: Memory
    similarity: float


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

    async def near(self, fact: Fact, vector: Vector | None) -> tuple[NearMemory, ...]:
        """Return the memories that a fact may repeat, better, replace or take back, nearest first."""
        few = await self._few(fact.target)
        by_vector = [] if vector is None or few == () else await self._by_vector(fact, vector)
        if few is not None:
            by_words = sorted((_by_words(fact, memory) for memory in few), key=lambda one: -one.similarity)
            near = _taken_in_turn(by_words, by_vector)
        else:
            near = _taken_in_turn(await self._by_words(fact), by_vector)[:MOST]
        # What the calls of a tool have taught is no statement that talk could better or take back.
        return tuple(candidate for candidate in near if not is_guideline(candidate.memory))

    async def _by_vector(self, fact: Fact, vector: Vector) -> list[NearMemory]:
        search = MemorySearch(vector=vector, limit=MOST, filter=memories_about(fact.target), min_score=LEAST_COSINE)
        return [NearMemory(item.memory, item.score) for item in await self.store.search(self.scope, search)]

    async def _by_words(self, fact: Fact) -> list[NearMemory]:
        search = MemorySearch(text=undated(fact.index_text), limit=_SEARCHED, filter=memories_about(fact.target))
        found = await self.store.search(self.scope, search)
        return [_by_words(fact, item.memory) for item in found if _overlap(fact, item.memory).is_near]

    async def _few(self, target: Target) -> tuple[Memory, ...] | None:
        """Return the memories of a target, if they are few."""
        if target not in self._first:
            query = ListMemories(filter=memories_about(target), limit=FEW + 1)
            memories = (await self.store.list_memories(self.scope, query)).memories
            self._first[target] = memories if len(memories) <= FEW else None
        return self._first[target]


def _overlap(fact: Fact, memory: Memory) -> Overlap:
    return overlap(fact.index_text, memory.index_text, fact.target.memory_target)


def _by_words(fact: Fact, memory: Memory) -> NearMemory:
    return NearMemory(memory, _overlap(fact, memory).share)


def _taken_in_turn(*rankings: Sequence[NearMemory]) -> tuple[NearMemory, ...]:
    """Return the first of each, then the second of each; what is in both has the higher similarity of its two."""
    taken: dict[str, NearMemory] = {}
    for one in chain.from_iterable(zip_longest(*rankings)):
        if one is not None:
            other = taken.get(one.memory.memory_id, one)
            taken[one.memory.memory_id] = max(one, other, key=lambda candidate: candidate.similarity)
    return tuple(taken.values())
