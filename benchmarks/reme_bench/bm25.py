"""BM25 alone: the baseline that the ranking is compared with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from reme_core.retrieval.arrays import K1, B
from reme_core.text import query_terms


def bm25_order(query: str, texts: Sequence[str]) -> list[int]:
    """Rank texts for a query by BM25 alone: all indices, best first, ties in the order given.

    The baseline that the ranking of this package is compared with; it builds its index anew on each call.
    """
    bags = [Counter(query_terms(text)) for text in texts]
    lengths = [sum(bag.values()) for bag in bags]
    mean = sum(lengths) / max(len(lengths), 1) or 1.0
    scores = [0.0] * len(texts)
    for term in dict.fromkeys(query_terms(query)):
        holding = [i for i, bag in enumerate(bags) if term in bag]
        weight = math.log1p((len(texts) - len(holding) + 0.5) / (len(holding) + 0.5))
        for i in holding:
            count = bags[i][term]
            scores[i] += weight * count / (count + K1 * (1 - B + B * lengths[i] / mean))
    return sorted(range(len(texts)), key=lambda i: -scores[i])
