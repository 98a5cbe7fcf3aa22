"""Parts of a score: BM25 of a row and of what is near, nearby vectors, speakers; the shape that they look at.

The nearby vector part comes from the cosines of the rows themselves: on LoCoMo their mean under a triangle of two rows
either side finds as much evidence (86.0) as embedded windows of three messages do (85.5), and needs no second
embedding, no second matrix and no second search.

On the line, between two sessions lies a gap that no kernel reaches across. The weight of a neighbour falls linearly
with its distance: the triangle kernel of Lv and Zhai 2009, Positional Language Models for Information Retrieval, over
messages in place of words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from reme_core.retrieval.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    Matrix,
    NumberArray,
    VectorColumn,
    inverse_frequency,
    length_norm,
    sums,
)
from reme_core.retrieval.query_words import QueryWords, TermMatches
from reme_core.retrieval.ranking.row_columns import RowColumns, RowPieces
from reme_core.retrieval.ranking.score_weights import LONG, LONG_ANSWER, LONG_MESSAGE, MEAN_TO_WINDOW

Number = TypeVar("Number", np.float32, np.float64)

GAP = 4
"""Empty places before each session and after the last: the reach of the widest kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLine:
    """Where n rows stand on a line of `length` places.

    Attributes:
        places: The place of each row, (n,); removed rows share the last place, where nothing is.
        taken: Which places a row stands on, (length,).
        before: The row before each row in its session, (n,); -1 where there is none.
        length: The number of places.
    """

    places: IntArray
    taken: BoolArray
    before: IntArray
    length: int

    @property
    def nbytes(self) -> int:
        """The bytes held."""
        return self.places.nbytes + self.taken.nbytes + self.before.nbytes

    def lay(self, values: FloatArray) -> FloatArray:
        """Put values (n,) of the rows onto their places: (length,), zero elsewhere."""
        out = np.zeros(self.length)
        out[self.places] = values
        out[-1] = 0.0
        return out


def line_of(sessions: IntArray, positions: IntArray, alive: BoolArray) -> SessionLine:
    """Lay out the living rows: by session, position and storage order; session -1 is a session of one."""
    n = len(sessions)
    living = np.flatnonzero(alive)
    order = living[np.lexsort((positions[living], sessions[living]))]
    ordered = sessions[order]
    heads = np.ones(len(order), np.bool_)
    heads[1:] = (ordered[1:] != ordered[:-1]) | (ordered[1:] < 0)
    along = np.arange(len(order)) + GAP * np.cumsum(heads)
    length = (int(along[-1]) if len(order) else 0) + 1 + GAP
    places = np.full(n, length - 1)
    places[order] = along
    taken = np.zeros(length, np.bool_)
    taken[along] = True
    before = np.full(n, -1)
    before[order[1:]] = np.where(heads[1:], -1, order[:-1])
    return SessionLine(places=places, taken=taken, before=before, length=length)


def triangle(values: npt.NDArray[Number], reach: int) -> npt.NDArray[Number]:
    """Add to each value (n,) those within `reach`, at distance d times 1 - d / (reach + 1).

    A box over the values before, then one over those after: together a triangle. Sums are made in the same order
    everywhere, so equal surroundings give equal results. The ends of `values` must be empty over the reach.
    """
    box = values.copy()
    for distance in range(1, reach + 1):
        box[distance:] += values[:-distance]
    out = box.copy()
    for distance in range(1, reach + 1):
        out[:-distance] += box[distance:]
    out /= reach + 1
    return out


# Messages either side that the nearby text and the nearby cosines take in, nearer ones counting more; chosen on LoCoMo,
# where one more or one fewer changes little.
TEXT_REACH = GAP
VECTOR_REACH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionShape:
    """Columns derived from the rows.

    Attributes:
        pieces: the number of living pieces.
        mean_length: mean terms of a living piece.
        nearness: how much neighbours say of each row, (n,), in (0, 1]: 1 where the messages of its session are short,
            falling as their mean length grows.
        brevity: how likely each row is an answer by its length, (n,), in (0, 1].
        vectors: which living rows have a vector, (n,).
        line: the rows laid out, where what stands nearby counts.
        nearby_norm: BM25's length norm of each place of the line with what stands round it.
        vector_share: what the nearby cosines of each place divide by.
    """

    pieces: int
    mean_length: float
    nearness: FloatArray
    brevity: FloatArray
    vectors: BoolArray
    line: SessionLine
    nearby_norm: Matrix
    vector_share: FloatArray

    @property
    def nbytes(self) -> int:
        """The bytes held."""
        columns = (self.nearness, self.brevity, self.vectors, self.nearby_norm, self.vector_share)
        return self.line.nbytes + sum(column.nbytes for column in columns)


def shape_of(columns: RowColumns, pieces: RowPieces, own: VectorColumn, *, neighbours: bool) -> PartitionShape:
    """Derive the shape of a partition; removed rows count nothing and are nobody's neighbours."""
    n, alive = len(columns), columns.alive
    living = max(n - columns.dead, 1)
    lengths = np.where(alive, columns.lengths, 0).astype(np.float64)
    line = line_of(columns.sessions, columns.positions, alive if neighbours else np.zeros(n, np.bool_))
    nearby = triangle(line.lay(lengths), TEXT_REACH)
    alive_pieces = alive if pieces.all_whole else alive[pieces.owner]
    count = max(int(np.count_nonzero(alive_pieces)), 1)
    return PartitionShape(
        pieces=count,
        mean_length=float(pieces.lengths.sum(where=alive_pieces)) / count,
        nearness=_nearness(columns, lengths) if neighbours else np.ones(n),
        brevity=np.minimum(1.0, LONG_ANSWER / np.maximum(lengths, 1.0)),
        vectors=alive & pieces.any(own.present(len(pieces))),
        line=line,
        nearby_norm=length_norm(nearby, float(nearby.sum(where=line.taken)) / living).astype(np.float32),
        vector_share=np.maximum(triangle(line.taken.astype(np.float64), VECTOR_REACH), 1.0),
    )


def _nearness(columns: RowColumns, lengths: FloatArray) -> FloatArray:
    """Tell how much neighbours say of rows of these lengths, (n,): by the mean length of the messages of a session.

    By session and not by scope, for a scope may hold a chat of two people beside talk with an assistant: all questions
    of LoCoMo and BEAM in one scope find 6 points more of recall@10 so.
    """
    _, session = np.unique(columns.sessions, return_inverse=True)
    counts = sums(session, columns.alive.astype(np.float64), len(columns))
    means = sums(session, np.minimum(lengths, LONG_MESSAGE), len(columns)) / np.maximum(counts, 1.0)
    nearness: FloatArray = np.minimum(1.0, LONG / np.maximum(means, 1.0))[session]
    return nearness


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
