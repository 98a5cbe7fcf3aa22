"""Segments of postings: however they were cut and merged, a term is found in the same rows as often."""

from __future__ import annotations

import random

import numpy as np
import pytest

from reme_core.retrieval import query_words
from reme_core.retrieval.query_words import Postings
from reme_core.text import pack_terms, unpack_terms

WORDS = [f"word{number}" for number in range(40)]


def found(index: Postings) -> list[tuple[int, int, float]]:
    matches = index.find(unpack_terms(pack_terms(WORDS)))
    return sorted(zip(matches.terms.tolist(), matches.rows.tolist(), matches.counts.tolist(), strict=True))


@pytest.mark.parametrize("merged_pairs", [0, 50, 400, 1 << 19])
def test_segments_too_large_to_be_merged_are_looked_up_beside_each_other(
    monkeypatch: pytest.MonkeyPatch, merged_pairs: int
) -> None:
    monkeypatch.setattr(query_words, "_MERGED_PAIRS", merged_pairs)
    chance = random.Random(merged_pairs)
    texts = [pack_terms(chance.choices(WORDS, k=chance.randint(0, 12))) for _ in range(600)]
    whole, parts = Postings(), Postings()
    whole.extend(0, texts)
    start = 0
    while start < len(texts):
        size = chance.choice((1, 5, 40, 90))
        parts.extend(start, texts[start : start + size])
        start += size
    assert found(parts) == found(whole)
    mapping = np.where(np.arange(len(texts)) % 3 == 0, -1, np.cumsum(np.arange(len(texts)) % 3 != 0) - 1)
    for index in (parts, whole):
        index.renumber(mapping)
    assert found(parts) == found(whole)
