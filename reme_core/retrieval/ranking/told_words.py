"""Words of a query that other texts tell of a row: of "Lea works at the bakery" that Lea is Ann's sister."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reme_core.retrieval.arrays import IntArray
from reme_core.retrieval.query_words import QueryWords, TermMatches
from reme_core.text.segment import pack_terms, unpack_terms


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldWords:
    """Terms of a query that count as said by rows.

    Attributes:
        keys: Of the rows, (n,), each once.
        words: The terms.
    """

    keys: IntArray
    words: frozenset[str]


def with_told(
    matches: TermMatches, words: QueryWords, told: Sequence[tuple[IntArray, frozenset[str]]], rows: int, weight: float
) -> TermMatches:
    """Return occurrences with those that are told of some of `rows` rows, each counted `weight`.

    `told` are numbers of rows, -1 for none, with terms of the query. What a row says itself is not counted again.
    """
    cells = [np.empty(0, np.int64)]
    for numbers, terms in told:
        places = np.flatnonzero(np.isin(words.hashes[: words.plain], unpack_terms(pack_terms(sorted(terms)))))
        cells.append((places[:, None] * rows + numbers[numbers >= 0][None, :]).ravel())
    new = np.setdiff1d(np.concatenate(cells), matches.terms * rows + matches.rows)
    return TermMatches(
        terms=np.concatenate([matches.terms, new // rows]),
        rows=np.concatenate([matches.rows, new % rows]),
        counts=np.concatenate([matches.counts, np.full(len(new), weight)]),
    )
