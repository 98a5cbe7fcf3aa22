"""BM25: its two formulas over arrays, and a plain ranking of texts to compare with.

Source: Robertson and Zaragoza 2009, The Probabilistic Relevance Framework: BM25 and Beyond, section 3; the inverse
document frequency is kept above zero by adding one inside the logarithm, as Lucene does.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from reme_core.retrieval.arrays import FloatArray, IntArray, NumberArray
from reme_core.text.segment import query_terms

K1 = 1.2
B = 0.75


def inverse_frequency(frequencies: IntArray | FloatArray, n: int) -> FloatArray:
    """Weigh terms by their rareness: frequencies (q,) are the numbers of the n texts that hold each."""
    counts = np.asarray(frequencies, np.float64)
    weights: FloatArray = np.log1p((n - counts + 0.5) / (counts + 0.5))
    return weights


def length_norm(lengths: NumberArray | FloatArray, mean: float) -> FloatArray:
    """Half-saturation count of a term in texts of given lengths (n,): k1 * (1 - b + b * length / mean)."""
    return K1 * ((1.0 - B) + (B / max(mean, 1e-9)) * np.asarray(lengths, np.float64))


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
