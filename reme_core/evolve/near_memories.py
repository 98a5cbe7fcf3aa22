"""Groups of memories that lie near each other, as few and as full as a model is to be asked about."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from reme_core.evolve.consolidation_question import MOST_SHOWN_CHARS
from reme_core.ports import MemorySearch
from reme_core.schema import Memory
from reme_core.steps.flow import FlowContext
from reme_core.steps.similar_memories import SIMILARITY, Overlap, overlap, says_alike, undated
from reme_core.steps.targets import memories_about, target_of
from reme_core.text import query_terms

MOST_OF_A_REQUEST = 40
"""Memories that a model is shown at once: some 1,500 tokens."""

MOST_REQUESTS = 50
"""A run asks no more often; how much is left is told."""

_NEAREST = 12  # the memory itself is among them
_LIKELY_OVERLAP = 0.8


class NearPair(NamedTuple):
    """Two memories, how near they are in [0, 1], and by their vectors where both have one.

    How near: the share of the words of the one that says less which the other says, too, rare words counting more, or
    the cosine of their vectors where that is more. What is told by the way in a longer memory is near to it.
    """

    score: float
    one: Memory
    other: Memory
    similarity: float | None = None


async def near_pairs(context: FlowContext, memories: Sequence[Memory]) -> list[NearPair]:
    """Return each of some memories with its nearest ones of the same type and target, nearest pairs first.

    However far the nearest are: what says the same in other words may share none with it.
    """
    shown = {memory.memory_id: memory for memory in memories if len(memory.content) <= MOST_SHOWN_CHARS}
    words = await asyncio.to_thread(_words_of, shown)
    rarity = _rarity(words.values())
    vectors = await context.vectors(memory.index_text for memory in shown.values())
    found: dict[frozenset[str], NearPair] = {}
    for memory in shown.values():
        search = MemorySearch(
            text=undated(memory.index_text),
            vector=vectors.get(memory.index_text),
            limit=_NEAREST,
            filter=memories_about(target_of(memory)),
        )
        for item in await context.store.search(context.scope, search):
            other = shown.get(item.memory.memory_id, memory)
            pair = frozenset((memory.memory_id, other.memory_id))
            if other is not memory and pair not in found:
                share = _shared(words[memory.memory_id], words[other.memory_id], rarity)
                found[pair] = NearPair(max(share, item.similarity or 0.0), memory, other, item.similarity)
    return sorted(found.values(), key=lambda pair: (-pair.score, pair.one.memory_id, pair.other.memory_id))


def _words_of(memories: Mapping[str, Memory]) -> dict[str, frozenset[str]]:
    return {name: frozenset(query_terms(undated(memory.index_text))) for name, memory in memories.items()}


def _rarity(texts: Iterable[frozenset[str]]) -> Mapping[str, float]:
    """Return what each word counts: the logarithm of one in how many texts has it."""
    known = list(texts)
    held = Counter(word for words in known for word in words)
    return {word: math.log(1 + len(known) / times) for word, times in held.items()}


def _shared(one: frozenset[str], other: frozenset[str], rarity: Mapping[str, float]) -> float:
    """Return the share of the words of the text that says less which the other one has as well, in [0, 1]."""
    less = min(sum(rarity[word] for word in words) for words in (one, other))
    return sum(rarity[word] for word in one & other) / less if less else 0.0


def likely_same(pairs: Iterable[NearPair]) -> list[tuple[Memory, Memory]]:
    """Return the pairs that say the same as far as their words tell."""
    return [
        (pair.one, pair.other)
        for pair in pairs
        if ((pair.similarity or 0.0) >= SIMILARITY or _overlap(pair.one, pair.other).share >= _LIKELY_OVERLAP)
        and says_alike(pair.one.index_text, pair.other.index_text)
    ]


def _overlap(one: Memory, other: Memory) -> Overlap:
    return overlap(one.index_text, other.index_text, one.memory_target)


def request_groups(pairs: Iterable[NearPair]) -> list[list[Memory]]:
    """Put memories into groups for requests: those that are near each other together, nearest first.

    Of pairs that would make a group too large the farther ones are not compared. Groups of several targets share a
    request.
    """
    group_of: dict[str, list[Memory]] = {}
    for pair in pairs:
        one = group_of.setdefault(pair.one.memory_id, [pair.one])
        other = group_of.setdefault(pair.other.memory_id, [pair.other])
        if one is not other and len(one) + len(other) <= MOST_OF_A_REQUEST:
            one += other
            group_of.update((memory.memory_id, one) for memory in other)
    requests: list[list[Memory]] = []
    for group in {id(group): group for group in group_of.values()}.values():
        room = (request for request in requests if len(request) + len(group) <= MOST_OF_A_REQUEST)
        request = next(room, None)
        if request is None:
            requests.append(list(group))
        else:
            request += group
    return [request for request in requests if len(request) > 1]
