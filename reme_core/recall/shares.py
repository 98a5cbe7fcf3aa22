"""Scores of memories beside those of messages, which lie on another scale."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from reme_core.ports import ScoredMemory, Vector
from reme_core.recall.cut import is_told
from reme_core.schema import Hit
from reme_core.text import terms

# A memory leads the answer if it holds this share of the question's words, or scores this high with a vector.
_LEADING_SHARE = 0.5
_LEADING_SCORE = 0.6


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
