"""BM25 alone: the baseline that the ranking is compared with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from reme_core.retrieval.arrays import K1, B
from reme_core.text import query_terms


def bm25_index(texts: Sequence[str]) -> Callable[[str], list[tuple[int, float]]]:
    """Index texts; the function ranks them for a query: all indices with their scores, best first, ties as given."""
    bags = [Counter(query_terms(text)) for text in texts]
    lengths = [sum(bag.values()) for bag in bags]
    mean = sum(lengths) / max(len(lengths), 1) or 1.0
    holding: dict[str, list[int]] = {}
    for i, bag in enumerate(bags):
        for term in bag:
            holding.setdefault(term, []).append(i)

    def rank(query: str) -> list[tuple[int, float]]:
        scores = [0.0] * len(texts)
        for term in dict.fromkeys(query_terms(query)):
            found = holding.get(term, ())
            weight = math.log1p((len(texts) - len(found) + 0.5) / (len(found) + 0.5))
            for i in found:
                count = bags[i][term]
                scores[i] += weight * count / (count + K1 * (1 - B + B * lengths[i] / mean))
        return sorted(enumerate(scores), key=lambda scored: -scored[1])

    return rank


def bm25_order(query: str, texts: Sequence[str]) -> list[int]:
    """Rank texts for a query by BM25 alone: all indices, best first, ties in the order given."""
    return [place for place, _ in bm25_index(texts)(query)]
