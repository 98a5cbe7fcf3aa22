"""The ranking index of one partition."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from reme_core.retrieval.arrays import BoolArray, FloatArray, IntArray, Matrix
from reme_core.retrieval.columns import Columns, Rows
from reme_core.retrieval.dates import calendar_days, named_dates, relative_days, without_relative_days
from reme_core.retrieval.nearby_vectors import fill_mean, nearby_cosines
from reme_core.retrieval.postings import Postings
from reme_core.retrieval.query_words import query_words
from reme_core.retrieval.shape import Shape, shape_of
from reme_core.retrieval.speakers import named_speakers, subject
from reme_core.retrieval.text_parts import gather_units, nearby_text, own_text
from reme_core.retrieval.time_order import asked_fit, time_scores
from reme_core.retrieval.time_question import AskedTime
from reme_core.retrieval.timefit import date_fit
from reme_core.retrieval.vectors import VectorColumn, best_rows
from reme_core.retrieval.weights import LONG, MESSAGE_WEIGHTS, Weights

# Removed rows are dropped for good when there are this many, and they are a quarter of all.
_DEAD_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is looked for.

    Attributes:
        text: the question in words.
        vector: (d,) float32 of unit norm, or None to rank by words alone.
        now: when it is asked, for "yesterday" in it; None leaves such words unread.
    """

    text: str
    vector: Matrix | None = None
    now: datetime | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """A row found: its key, and its score, comparable within one ranking only."""

    key: int
    score: float


class RankingIndex:
    """Ranks the texts of one partition; in memory, without I/O, not safe for use by two threads at once."""

    def __init__(self, weights: Weights = MESSAGE_WEIGHTS) -> None:
        """Start without rows."""
        self._weights = weights
        self._columns = Columns()
        self._postings = Postings()
        self._own = VectorColumn()
        self._cached: Shape | None = None

    def __len__(self) -> int:
        """The number of rows, removed ones not counted."""
        return len(self._columns) - self._columns.dead

    @property
    def keys(self) -> IntArray:
        """The keys of all slots, (n,), in the order they came; removed slots keep theirs until they are dropped."""
        return self._columns.keys

    @property
    def alive(self) -> BoolArray:
        """Which slots have not been removed: (n,), aligned with `keys`."""
        return self._columns.alive

    @property
    def times(self) -> FloatArray:
        """Seconds since 1970 UTC of all slots, NaN where unknown: (n,), aligned with `keys`."""
        return self._columns.times

    @property
    def sessions(self) -> IntArray:
        """Session numbers of all slots: (n,), aligned with `keys`."""
        return self._columns.sessions

    @property
    def nbytes(self) -> int:
        """The bytes held, those of Python objects left out."""
        parts = (self._columns, self._postings, self._own)
        return sum(part.nbytes for part in parts) + (0 if self._cached is None else self._cached.nbytes)

    def extend(self, rows: Rows, vectors: Matrix | None = None) -> None:
        """Append rows; `vectors` (n, d), float32 of unit norm, where all of them have one.

        Raises:
            ValueError: A key is given twice or belongs to a row that is there, or the vectors have another shape.
        """
        first = len(self._columns)
        self._columns.extend(rows)
        self._postings.extend(first, rows.terms)
        if vectors is not None:
            self._own.put(np.arange(first, first + len(rows.keys)), vectors)
        self._changed()

    def remove(self, keys: IntArray) -> None:
        """Remove rows with their vectors; keys that are not there are passed over."""
        slots = np.unique(self._columns.slots(keys))
        slots = slots[slots >= 0]
        self._columns.bury(slots)
        if self._columns.dead > max(_DEAD_ROWS, len(self._columns) // 4):
            mapping = self._columns.compact()
            for part in (self._postings, self._own):
                part.renumber(mapping)
        self._changed()

    def set_vectors(self, keys: IntArray, matrix: Matrix) -> None:
        """Set the vectors (m, d) of rows, float32 of unit norm; keys that are not there are passed over.

        Raises:
            ValueError: The shape is not (m, d) with the d of the vectors before.
        """
        slots = self._columns.slots(keys)
        known = slots >= 0
        if known.all() or len(matrix) != len(keys):
            self._own.put(slots, matrix)
        else:
            self._own.put(slots[known], matrix[known])
        self._changed()

    def rank(
        self,
        query: Query,
        *,
        limit: int,
        allowed: BoolArray | None = None,
        lifts: Mapping[int, float] | None = None,
    ) -> list[Scored]:
        """Rank the rows for a query.

        A row for which nothing speaks (no word of it or near it, no vector, speaker, date or lift) is not found.
        `allowed` (n,), aligned with `keys`, leaves rows out of the result but not out of the statistics: the ranking is
        that of all rows, filtered. `lifts` adds to the scores of the rows with the keys given.

        Returns:
            At most `limit` rows, highest first; ties: newer first, unknown times last, then by key.

        Raises:
            ValueError: `limit` is below 1, `allowed` is not aligned, or the query vector has another dimension.
        """
        self._check_asked(limit, allowed)
        scores = self.evidence(query)
        if lifts:
            self._lift(scores, lifts)
        speaks = scores != 0.0
        if query.vector is not None:
            speaks |= self._shape().vectors
        if self._columns.dead:
            speaks &= self._columns.alive
        if allowed is not None:
            speaks &= allowed
        slots = np.flatnonzero(speaks)
        prior = np.log1p(np.minimum(self._columns.lengths[slots], LONG))
        return self._best(scores[slots] + self._weights.length * prior, slots, limit)

    def list_by_time(self, asked: AskedTime | None, *, limit: int, allowed: BoolArray | None = None) -> list[Scored]:
        """List the rows of a time, or all where None is asked for, by `time_scores`; no word has to be shared.

        Ties and errors as those of `rank`.
        """
        self._check_asked(limit, allowed)
        columns = self._columns
        fit = None if asked is None else asked_fit(calendar_days(columns.times), asked)
        scores = time_scores(columns.lengths, columns.questions, fit)
        lies_there = columns.alive & (scores > 0.0)
        slots = np.flatnonzero(lies_there if allowed is None else lies_there & allowed)
        return self._best(scores[slots], slots, limit)

    def evidence(self, query: Query) -> FloatArray:
        """Add up what speaks for each slot, the prior of its length apart: (n,), aligned with `keys`.

        The values of removed slots mean nothing.
        """
        n = len(self._columns)
        total = np.zeros(n)
        if not n:
            return total
        named = named_speakers(query.text, self._columns.names) if len(self._columns.names) > 1 else []
        self._add_words(total, self._sought_words(query), [name for _, name in named])
        if query.vector is not None and len(self._own):
            self._add_vectors(total, query.vector)
        self._add_speaker(total, subject(query.text, named))
        self._add_date(total, query)
        return total

    def _sought_words(self, query: Query) -> str:
        """Return the part of a question whose words are looked for.

        "Last week" of a question is another week than that of a text, so relative times that texts are of are left out.
        """
        spans = relative_days(query.text, query.now) if query.now is not None else []
        if not spans or not date_fit(calendar_days(self._columns.times), (), spans).any():
            return query.text
        return without_relative_days(query.text)

    def _add_words(self, total: FloatArray, text: str, named: Iterable[str]) -> None:
        words = query_words(text, named)
        columns = self._columns
        found = self._postings.find(words.hashes, columns.alive if columns.dead else None)
        if not len(found.rows):
            return
        weights, shape = self._weights, self._shape()
        matches = gather_units(found, words, len(columns))
        own = own_text(matches, words.weights, columns.lengths, len(self), shape.mean_length)
        own /= own.max()
        total += weights.text * own
        if weights.answers:
            asked = np.append(np.where(columns.questions, own, 0.0), 0.0)
            total += weights.answers * asked[shape.line.before]
        if weights.text_nearby:
            nearby = nearby_text(matches, words.weights, shape.line, shape.nearby_norm, living=len(self))
            total += (weights.text_nearby / nearby.max()) * nearby

    def _add_vectors(self, total: FloatArray, vector: Matrix) -> None:
        n, weights, shape = len(total), self._weights, self._shape()
        vector = np.ascontiguousarray(vector, np.float32)
        cosines = self._own.products(vector, n).astype(np.float64)
        if weights.assume_mean:
            cosines = fill_mean(cosines, shape.vectors)
        total += weights.vector * cosines
        if not weights.vector_nearby:
            return
        nearby = nearby_cosines(cosines, shape.line, shape.vector_share)
        total += weights.vector_nearby * nearby

    def _add_speaker(self, total: FloatArray, name: str | None) -> None:
        if name is not None and self._weights.speaker:
            total += self._weights.speaker * (self._columns.speakers == self._columns.names[name])

    def _add_date(self, total: FloatArray, query: Query) -> None:
        if not self._weights.date:
            return
        named = named_dates(query.text)
        spans = relative_days(query.text, query.now) if query.now is not None else []
        if named or spans:
            total += self._weights.date * date_fit(calendar_days(self._columns.times), named, spans)

    def _shape(self) -> Shape:
        if self._cached is None:
            self._cached = shape_of(self._columns, self._own, neighbours=self._weights.sequential)
        return self._cached

    def _lift(self, scores: FloatArray, lifts: Mapping[int, float]) -> None:
        slots = self._columns.slots(np.fromiter(lifts, np.int64, len(lifts)))
        values = np.fromiter(lifts.values(), np.float64, len(lifts))
        scores[slots[slots >= 0]] += values[slots >= 0]

    def _check_asked(self, limit: int, allowed: BoolArray | None) -> None:
        if limit < 1:
            msg = f"limit must be at least 1, not {limit}"
            raise ValueError(msg)
        if allowed is not None and len(allowed) != len(self._columns):
            msg = f"allowed must have {len(self._columns)} values like keys, not {len(allowed)}"
            raise ValueError(msg)

    def _best(self, scores: FloatArray, slots: IntArray, limit: int) -> list[Scored]:
        places = best_rows(scores, limit)
        slots, scores = slots[places], scores[places]
        keys, times = self._columns.keys[slots], self._columns.times[slots]
        newest = np.where(np.isnan(times), np.inf, -times)
        order = np.lexsort((keys, newest, -scores))[:limit]
        return [Scored(key, score) for key, score in zip(keys[order].tolist(), scores[order].tolist(), strict=True)]

    def _changed(self) -> None:
        self._cached = None
