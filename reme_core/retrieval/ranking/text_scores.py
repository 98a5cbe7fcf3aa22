"""The text parts of a score: BM25 of a row, and of a row with what stands round it."""

import numpy as np

from reme_core.retrieval.arrays import FloatArray, Matrix, NumberArray, sums
from reme_core.retrieval.bm25 import inverse_frequency, length_norm
from reme_core.retrieval.query_words import QueryWords
from reme_core.retrieval.ranking.partition_shape import TEXT_REACH
from reme_core.retrieval.ranking.postings import TermMatches
from reme_core.retrieval.ranking.session_line import SessionLine, triangle

# Cells of the (units, places) table that the nearby text works on at a time: 1 MB, so that it stays in the cache.
_CELLS = 1 << 18


def gather_units(matches: TermMatches, words: QueryWords, n: int) -> TermMatches:
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
    return TermMatches(
        terms=np.concatenate([units[plain], cells // n]),
        rows=np.concatenate([matches.rows[plain], cells % n]),
        counts=np.concatenate([matches.counts[plain], counts]),
    )


def own_text(matches: TermMatches, weights: FloatArray, lengths: NumberArray, living: int, mean: float) -> FloatArray:
    """BM25 of each row: (n,). `lengths` (n,) are terms a row, `mean` their mean over the `living` rows."""
    frequencies = np.bincount(matches.terms, minlength=len(weights))
    idf = weights * inverse_frequency(frequencies, living)
    norm = length_norm(lengths[matches.rows], mean)
    return sums(matches.rows, idf[matches.terms] * matches.counts / (matches.counts + norm), len(lengths))


def new_terms(matches: TermMatches, words: QueryWords, lengths: NumberArray) -> FloatArray:
    """Count the terms of each row (n,) that are none of the query's own, repetitions included."""
    plain = matches.terms < words.plain
    return lengths - sums(matches.rows[plain], matches.counts[plain], len(lengths))


def nearby_text(
    matches: TermMatches, weights: FloatArray, line: SessionLine, norm: Matrix, *, living: int
) -> FloatArray:
    """BM25 of each row taken together with the rows around it: (n,).

    The counts of a term round a row are added up, nearer ones counting more; `norm` (length,) is the length norm of the
    lengths added up alike. Document frequencies count the surroundings that hold a term.
    """
    q, length = len(weights), line.length
    nearby = np.zeros(length, np.float32)
    cells = matches.terms * length + line.places[matches.rows]
    step = max(1, _CELLS // length)
    for first in range(0, q, step):
        last = min(q, first + step)
        inside = slice(None) if step >= q else (matches.terms >= first) & (matches.terms < last)
        counts = sums(cells[inside] - first * length, matches.counts[inside], (last - first) * length)
        table = triangle(counts.astype(np.float32), TEXT_REACH).reshape(last - first, length)
        holding = np.count_nonzero((table > 0) & line.taken, axis=1)
        table /= table + norm
        table *= (weights[first:last] * inverse_frequency(holding, living)).astype(np.float32)[:, None]
        nearby += table.sum(axis=0)
    return nearby[line.places].astype(np.float64)
