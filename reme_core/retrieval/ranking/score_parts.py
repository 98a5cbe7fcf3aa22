"""Parts of a score: BM25 of a row and of what is near, nearby vectors, and the speakers that a query names.

The nearby vector part comes from the cosines of the rows themselves: on LoCoMo their mean under a triangle of two rows
either side finds as much evidence (86.0) as embedded windows of three messages do (85.5), and needs no second
embedding, no second matrix and no second search.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from reme_core.retrieval.arrays import BoolArray, FloatArray, Matrix, NumberArray, inverse_frequency, length_norm, sums
from reme_core.retrieval.query_words import QueryWords
from reme_core.retrieval.ranking.partition_shape import TEXT_REACH, VECTOR_REACH, SessionLine, triangle
from reme_core.retrieval.ranking.postings import TermMatches
from reme_core.retrieval.ranking.score_weights import MEAN_TO_WINDOW

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


def fill_mean(cosines: FloatArray, present: BoolArray) -> FloatArray:
    """Give rows without a vector the mean cosine of those `present`: unknown is neither near nor far.

    With 0 in place of the mean, a partition of which a third is embedded finds less than it does by words alone.
    """
    if present.all() or not present.any():
        return cosines
    return np.where(present, cosines, cosines.mean(where=present))


def nearby_cosines(cosines: FloatArray, line: SessionLine, share: FloatArray) -> FloatArray:
    """Average cosines (n,) over each row and what stands round it, scaled like the cosine of a window.

    `share` (length,) is the `triangle` of 1 for each row: what the average divides by.
    """
    around = triangle(line.lay(cosines), VECTOR_REACH) / share
    return MEAN_TO_WINDOW * around[line.places]


_WORD = re.compile(r"[^\W_]+")
# Names that say a role: every conversation with a model has them, and "the user" names nobody.
_ROLES = frozenset({"user", "assistant", "system", "tool", "human", "ai", "bot", "me", "you"})
# Words between two names that make both of them subjects.
_JOINED = re.compile(r"\b(?:and|or)\b|[&,、和与與跟及とや와과]", re.IGNORECASE)


# Words by which a question speaks of who asks, in the languages that `dates` and `is_question` read.
_FIRST_PERSON = re.compile(
    r"\b(?:I|i|[Mm]y|[Mm]e|[Mm]ine|[Mm]yself|[Ww]e|[Oo]ur|[Oo]urs)\b"  # "us" is a country as well
    "|我(?!慢)|咱|俺|私(?=[はがのもをにと、])|僕|わたし|ぼく|(?<![가-힣])(?:나는|나의|내가|내|저는|제가|저의|제|우리)(?![가-힣])"
)

_SECOND_PERSON = re.compile(r"\b[Yy]ou(?:r|rs)?\b|你|您|君|あなた|당신|너")


def speaks_of_two(query: str) -> bool:
    """Tell whether a query speaks of who asks or of who is asked: it may want help, not facts about others."""
    return bool(_FIRST_PERSON.search(query) or _SECOND_PERSON.search(query))


def first_person(query: str) -> int | None:
    """Return the place in a query where it first speaks of who asks ("I", "my", "我"), None where it doesn't."""
    found = _FIRST_PERSON.search(query)
    return None if found is None else found.start()


def named_speakers(query: str, names: Mapping[str, int]) -> list[tuple[int, str]]:
    """Find the speakers whose name, or first word of it, stands in a query, as pairs (place in the query, name).

    Ordered by place. Words are compared with case ("Will" names nobody in "will she"), or without where the query has
    no capital letter. Names in scripts without blanks are found inside the text. Names of roles never count.
    """
    places: dict[str, int] = {}
    lower = query.islower()
    for match in _WORD.finditer(query):
        places.setdefault(match.group(), match.start())
    found = []
    for name in names:
        if not name or name.lower() in _ROLES:
            continue
        if not name.isascii() and name in query:
            found.append((query.index(name), name))
        elif first := _WORD.match(name):
            word = first.group().lower() if lower else first.group()
            if word in places:
                found.append((places[word], name))
    return sorted(found)


def subject(query: str, named: list[tuple[int, str]]) -> str | None:
    """Name the speaker whose messages a query asks for, from its `named_speakers`.

    The only one, or the first of several ("What did Ann tell Bob?") unless the first two are joined ("Ann and Bob").
    """
    if not named:
        return None
    (first, name), *others = named
    if others and (others[0][0] == first or _JOINED.search(query[first + len(name) : others[0][0]])):
        return None
    return name
