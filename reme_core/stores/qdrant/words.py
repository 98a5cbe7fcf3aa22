"""Words as sparse vectors: the product of a query's and a memory's is the BM25 of the memory for the query.

The server keeps, for each memory, how much each of its terms counts by how often it stands there and how long the text
is; the query brings how rare each term is *in its scope*. Rareness over the whole collection, which the server could
compute by itself, would let the memories of others move the scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from qdrant_client import models

from reme_core.retrieval.arrays import inverse_frequency, length_norm
from reme_core.retrieval.query_words import query_words
from reme_core.text import pack_terms, unpack_terms

MEAN_TERMS = 16.0
"""The length, in terms, of a text that is neither long nor short; fixed, so that memories needn't be written again
when the mean of their scope moves. Two sentences have about so many."""

MOST_WORDS = 64
"""Terms of a query that are looked up; the first ones, since each costs a count."""


def keys_of_terms(words: Iterable[str]) -> list[str]:
    """Return terms as hexadecimal hashes of 64 bits, with repetition."""
    return [_key(term) for term in unpack_terms(pack_terms(words)).tolist()]


def document_vector(keys: Sequence[str]) -> models.SparseVector:
    """Return the sparse vector of a text with these terms."""
    norm = float(length_norm(np.array([len(keys)]), MEAN_TERMS)[0])
    return _sparse({key: count / (count + norm) for key, count in Counter(keys).items()})


def query_weights(text: str) -> dict[str, float]:
    """Return the terms of a query, and those related to them, with what each counts."""
    words = query_words(text)
    weights = words.weights[words.units].tolist()
    pairs = zip(words.hashes.tolist(), weights, strict=True)
    return {_key(term): weight for term, weight in list(pairs)[:MOST_WORDS]}


def query_vector(weights: Mapping[str, float], holding: Mapping[str, int], memories: int) -> models.SparseVector | None:
    """Return the sparse vector of a query.

    `holding` says how many of the scope's memories hold each term. None where no memory holds any.
    """
    known = {key: weight for key, weight in weights.items() if holding.get(key)}
    if not known:
        return None
    counts = np.array([holding[key] for key in known])
    rareness = inverse_frequency(counts, max(memories, int(counts.max())))
    return _sparse({key: known[key] * rare for key, rare in zip(known, rareness.tolist(), strict=True)})


def product(query: models.SparseVector | None, document: models.SparseVector | None) -> float:
    """Multiply the sparse vectors of a query and a memory."""
    if query is None or document is None:
        return 0.0
    held = dict(zip(document.indices, document.values, strict=True))
    pairs = zip(query.indices, query.values, strict=True)
    return sum(value * held.get(index, 0.0) for index, value in pairs)


def _key(term: int) -> str:
    return f"{term:016x}"


def _sparse(weights: Mapping[str, float]) -> models.SparseVector:
    """Write weights at 32 bits of each hash; the rare terms that meet there are added up."""
    places: dict[int, float] = {}
    for key, weight in weights.items():
        place = int(key[-8:], 16)
        places[place] = places.get(place, 0.0) + weight
    ordered = sorted(places)
    return models.SparseVector(indices=ordered, values=[places[place] for place in ordered])
