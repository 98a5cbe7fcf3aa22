"""The text parts of a score: BM25 of a row, and of a row with what stands round it."""

from collections.abc import Sequence

import numpy as np

from reme_core.retrieval.arrays import FloatArray, IntArray, NumberArray, sums
from reme_core.retrieval.bm25 import inverse_frequency, length_norm
from reme_core.retrieval.postings import Matches
from reme_core.retrieval.query_words import QueryWords
from reme_core.retrieval.surroundings import Ring

# Cells of the (units, rows) table that the nearby text works on at a time: 16 MB.
_CELLS = 2_000_000


def gather_units(matches: Matches, words: QueryWords, n: int) -> Matches:
    """Add up the counts of the terms of each unit in each of n rows; `terms` of the result are units.

    Pairs come ordered by unit and row behind the first `words.plain` units, which are passed on as they came.
    """
    units = words.units[matches.terms]
    joined = units >= words.plain
    if not joined.any():
        return matches
    cells, places = np.unique(units[joined] * n + matches.rows[joined], return_inverse=True)
    counts = sums(places, matches.counts[joined], len(cells))
    plain = ~joined
    return Matches(
        terms=np.concatenate([units[plain], cells // n]),
        rows=np.concatenate([matches.rows[plain], cells % n]),
        counts=np.concatenate([matches.counts[plain], counts]),
    )


def own_text(matches: Matches, weights: FloatArray, lengths: NumberArray, living: int, mean: float) -> FloatArray:
    """BM25 of each row: (n,). `lengths` (n,) are terms a row, `mean` their mean over the `living` rows."""
    frequencies = np.bincount(matches.terms, minlength=len(weights))
    idf = weights * inverse_frequency(frequencies, living)
    norm = length_norm(lengths[matches.rows], mean)
    return sums(matches.rows, idf[matches.terms] * matches.counts / (matches.counts + norm), len(lengths))


def nearby_text(
    matches: Matches, weights: FloatArray, norm: FloatArray, living: int, around: Sequence[Ring]
) -> FloatArray:
    """BM25 of each row taken together with the rows around it: (n,).

    The counts of a term round a row are added up by the shares of the rings; `norm` (n,) is the length norm of the
    lengths added up alike. Document frequencies count the surroundings that hold a term.
    """
    n, q = len(norm), len(weights)
    nearby = np.zeros(n)
    step = max(1, _CELLS // n)
    for first in range(0, q, step):
        last = min(q, first + step)
        part = matches if step >= q else _between(matches, first, last)
        table = _spread_counts(part, last - first, n, around)
        idf = weights[first:last] * inverse_frequency(np.count_nonzero(table, axis=1), living)
        table /= table + norm
        nearby += idf @ table
    return nearby


def _between(matches: Matches, first: int, last: int) -> Matches:
    chosen = (matches.terms >= first) & (matches.terms < last)
    return Matches(terms=matches.terms[chosen] - first, rows=matches.rows[chosen], counts=matches.counts[chosen])


def _spread_counts(matches: Matches, q: int, n: int, around: Sequence[Ring]) -> FloatArray:
    base: IntArray = matches.terms * n
    cells, values = [base + matches.rows], [matches.counts]
    for ring in around:
        at = ring.rows[matches.rows]
        here = at >= 0
        cells.append((base + at)[here])
        values.append(ring.share * matches.counts[here])
    return sums(np.concatenate(cells), np.concatenate(values), q * n).reshape(q, n)
