"""The memories that a fact has to be compared with: of its own type and target, and of no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from reme_core.ports import ListMemories, MemoryFilter, MemorySearch, MemoryStore, Target, Vector
from reme_core.runtime.extraction import Fact
from reme_core.schema import Memory, Scope
from reme_core.text import normalise_content, query_terms, terms

FEW = 12
"""A target with no more memories is shown whole: two that contradict each other need not share a word."""

MOST = 5
"""Of a target with more, at most so many are shown to each fact."""

# What is as near as this is worth a look: low on purpose, for a candidate too many costs a line of the prompt, and one
# too few leaves a contradiction. The overlap is the share of the shorter text's words, the target's name apart, that
# the longer one holds.
_LEAST_COSINE = 0.35
_LEAST_OVERLAP = 0.3
_SEARCHED = 20
_PAGE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """Finds neighbours within a scope."""

    memories: MemoryStore
    scope: Scope

    async def find_equal(self, target: Target, content: str, *, with_ended: bool = False) -> list[Memory]:
        """Return the memories of a target that say the same, whatever the case, blanks and punctuation around it."""
        wanted = normalise_content(content)
        few = await self._few(target, with_ended=with_ended)
        if few is not None:
            return [memory for memory in few if normalise_content(memory.content) == wanted]
        keyword = content if query_terms(content) else None
        equal: list[Memory] = []
        cursor: str | None = None
        while True:
            query = ListMemories(filter=_of(target, with_ended=with_ended, keyword=keyword), limit=_PAGE, cursor=cursor)
            page = await self.memories.list_memories(self.scope, query)
            equal += [memory for memory in page.memories if normalise_content(memory.content) == wanted]
            cursor = page.next_cursor
            if cursor is None:
                return equal

    async def near(self, fact: Fact, vector: Vector | None) -> tuple[Memory, ...]:
        """Return the memories that a fact may repeat, better, replace or take back, nearest first.

        For a fact that has ended, ended memories as well: what is known of the past is not written again.
        """
        with_ended = fact.ended_at is not None
        few = await self._few(fact.target, with_ended=with_ended)
        if few is not None:
            return few
        by_vector: list[Memory] = []
        if vector is not None:
            search = MemorySearch(
                vector=vector, limit=MOST, filter=_of(fact.target, with_ended=with_ended), min_score=_LEAST_COSINE
            )
            by_vector = [item.memory for item in await self.memories.search(self.scope, search)]
        search = MemorySearch(text=fact.index_text, limit=_SEARCHED, filter=_of(fact.target, with_ended=with_ended))
        found = await self.memories.search(self.scope, search)
        by_words = [item.memory for item in found if _overlap(fact, item.memory) >= _LEAST_OVERLAP]
        return _taken_in_turn(by_words, by_vector)

    async def _few(self, target: Target, *, with_ended: bool) -> tuple[Memory, ...] | None:
        """Return the memories of a target, if they are few."""
        query = ListMemories(filter=_of(target, with_ended=with_ended), limit=FEW + 1)
        memories = (await self.memories.list_memories(self.scope, query)).memories
        return memories if len(memories) <= FEW else None


def _of(target: Target, *, with_ended: bool, keyword: str | None = None) -> MemoryFilter:
    return MemoryFilter(
        types=(target.memory_type,),
        targets=(target.memory_target,),
        include_superseded=with_ended,
        keyword=keyword,
    )


def _overlap(fact: Fact, memory: Memory) -> float:
    names = set(query_terms(fact.target.memory_target))
    asked = set(query_terms(fact.index_text)) - names
    held = set(query_terms(memory.index_text)) - names
    shared = asked & set(terms(memory.index_text))
    return len(shared) / max(1, min(len(asked), len(held)))


def _taken_in_turn(*rankings: Sequence[Memory]) -> tuple[Memory, ...]:
    taken = {memory.memory_id: memory for memory in chain.from_iterable(zip_longest(*rankings)) if memory is not None}
    return tuple(taken.values())[:MOST]
