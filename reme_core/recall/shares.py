"""Scores of memories beside those of messages, which lie on another scale."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from reme_core.ports import ScoredMemory, Vector
from reme_core.recall.cut import Told, is_told
from reme_core.schema import Hit, LeftOut, MemoryType
from reme_core.text import terms

# A memory leads the answer if it holds this share of the question's words, or scores this high with a vector.
_LEADING_SHARE = 0.5
_LEADING_SCORE = 0.6
# A found memory adds at most this to the score of the messages it came from: as a fourth of a perfect match does
# (retrieval.md: facts as extra keys of their messages add 1.6 to recall@10).
_LIFT = 0.25


def share_of_memory(item: ScoredMemory, asked: AbstractSet[str], vector: Vector | None) -> float:
    """Return the score of a memory beside messages: above 0.5 if it answers the question, else below."""
    factor, base = share_and_base(item, asked, vector)
    return base + factor * min(max(item.score, 0.0), 1.0)


def share_and_base(item: ScoredMemory, asked: AbstractSet[str], vector: Vector | None) -> tuple[float, float]:
    """Return what the score of a memory is multiplied by, and 0.5 to add if it answers the question, else 0.

    The text part of a memory's score is relative to the best of the search, so that the best of bad matches looks
    perfect; the share of the question's words that it holds does not. Names are no such words: every memory about a
    person holds the person's name. `asked` are the others. What relations tell of a memory counts as if it said so.
    """
    share = len(asked & (item.told | frozenset(terms(item.memory.index_text)))) / len(asked) if asked else 1.0
    score = min(max(item.score, 0.0), 1.0)
    if share >= _LEADING_SHARE or (vector is not None and score >= _LEADING_SCORE):
        return 0.5, 0.5
    return (share if vector is None else max(share, score)) / 2, 0.0


def in_place_of(hit: Hit, said: Sequence[Hit], *, leads: bool) -> Hit:
    """Put a memory where the best message stands that says nothing else: it tells the same, and since when.

    One that `leads` stands beside the best of its messages, which it has lifted there: a date may be said by it alone.
    """
    ids = frozenset(hit.message_ids)
    scores = [other.score for other in said if ids.intersection(other.message_ids) and (leads or is_told(other, [hit]))]
    return hit.model_copy(update={"score": max(scores)}) if scores and max(scores) > hit.score else hit


def lifts_of(memories: Sequence[ScoredMemory]) -> dict[str, float]:
    """Return what memories that were found add to the scores of the messages they came from, by message.

    A summary comes from all messages of its block, and says of none that it answers.
    """
    lifts: dict[str, float] = {}
    for item in memories:
        if item.memory.memory_type is MemoryType.SUMMARY:
            continue
        for source in item.memory.sources:
            for message_id in source.message_ids:
                lifts[message_id] = max(lifts.get(message_id, 0.0), _LIFT * max(item.score, 0.0))
    return lifts


def without_retold(hits: Sequence[Hit], tell: Told) -> list[Hit]:
    """Leave out summaries of blocks of which something else was found: they tell it again, and less of it.

    Long as they are, they hold words of many questions and the detail of few: the notes of 1,024 tokens with them had
    all evidence of 87.4 % of 223 questions of LoCoMo by words, of 90.1 % with vectors; without 90.6 % and 92.4 %.
    """
    found = {block for hit in hits if hit.memory_type is not MemoryType.SUMMARY for block in hit.block_ids}
    kept = []
    for hit in hits:
        if hit.memory_type is MemoryType.SUMMARY and hit.block_ids and found.issuperset(hit.block_ids):
            tell(hit, LeftOut.REPETITION)
        else:
            kept.append(hit)
    return kept
