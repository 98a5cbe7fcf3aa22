"""The ranking index of one partition."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from reme_core.retrieval.arrays import BoolArray, FloatArray, IntArray, Matrix, VectorColumn, best_rows
from reme_core.retrieval.named_dates import calendar_days, date_fit, named_dates, relative_days, without_relative_days
from reme_core.retrieval.query_words import Postings, QueryWords, query_words
from reme_core.retrieval.ranking.evidence import Evidence
from reme_core.retrieval.ranking.row_columns import RowColumns, RowPieces, Rows, ScoredRow, best_piece
from reme_core.retrieval.ranking.score_parts import (
    PartitionShape,
    fill_mean,
    first_person,
    gather_units,
    named_speakers,
    nearby_cosines,
    nearby_text,
    new_terms,
    own_text,
    shape_of,
    speaks_of_two,
    subject,
)
from reme_core.retrieval.ranking.score_weights import (
    LONG,
    MEAN_TO_WINDOW,
    MESSAGE_WEIGHTS,
    OWN_SHARE,
    PASSAGE_DISCOUNT,
    Weights,
)
from reme_core.retrieval.ranking.told_words import ToldWords, with_told
from reme_core.retrieval.time_question import AskedTime, asked_fit, time_scores
from reme_core.text.segment import pack_terms, unpack_terms
from reme_core.text.summary import is_question

# A question that brings fewer terms of its own says no more than the query does (with 2, LoCoMo loses 0.1).
_NEW_TERMS = 1
# Standing wishes that a query lifts: more of them take the places of what it asks for (BEAM: 2 or 3, rather than all).
_WISHES = 2
# What speaks for it counts this much, and it stands behind what follows it by so little.
_ECHO = 0.25
# A question that was asked so often in a row still stands behind its answer.
_REPEATED = 3
_BEHIND = 1e-6
# Removed rows are dropped for good when there are this many, and they are a quarter of all.
_DEAD_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is looked for.

    Attributes:
        text: the question in words.
        vector: (d,) float32 of unit norm, or None to rank by words alone.
        now: when it is asked, for "yesterday" in it; None leaves such words unread.
        told: words of it that relations tell of rows which lack them; looked at where rows have no passages.
    """

    text: str
    vector: Matrix | None = None
    now: datetime | None = None
    told: tuple[ToldWords, ...] = ()


class RankingIndex:
    """Ranks the texts of one partition; in memory, without I/O, not safe for use by two threads at once."""

    def __init__(self, weights: Weights = MESSAGE_WEIGHTS) -> None:
        """Start without rows."""
        self._weights = weights
        self._columns = RowColumns()
        self._pieces = RowPieces()
        self._postings = Postings()
        self._own = VectorColumn()
        self._cached: PartitionShape | None = None

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
        parts = (self._columns, self._pieces, self._postings, self._own)
        return sum(part.nbytes for part in parts) + (0 if self._cached is None else self._cached.nbytes)

    def extend(self, rows: Rows, vectors: Matrix | None = None) -> None:
        """Append rows; `vectors` (m, d), float32 of unit norm, where all of their m pieces have one.

        The pieces of a row are its passages, or the row itself where it has none.

        Raises:
            ValueError: A key is given twice or belongs to a row that is there, or the vectors have another shape.
        """
        first = len(self._pieces)
        self._columns.extend(rows)
        self._postings.extend(first, self._pieces.extend(rows.terms, rows.passages or [b""] * len(rows.keys)))
        if vectors is not None:
            self._own.put(np.arange(first, len(self._pieces)), vectors)
        self._changed()

    def remove(self, keys: IntArray) -> None:
        """Remove rows with their vectors; keys that are not there are passed over."""
        slots = np.unique(self._columns.slots(keys))
        slots = slots[slots >= 0]
        self._columns.bury(slots)
        if self._columns.dead > max(_DEAD_ROWS, len(self._columns) // 4):
            pieces = self._pieces.compact(self._columns.compact())
            for part in (self._postings, self._own):
                part.renumber(pieces)
        self._changed()

    def set_vectors(self, keys: IntArray, matrix: Matrix, passages: IntArray | None = None) -> None:
        """Set the vectors (m, d) of rows, float32 of unit norm.

        `passages` (m,) are the numbers of the passages that they are of, from 0; left out, they are of whole texts, or
        of first passages. Keys and passages that are not there are passed over.

        Raises:
            ValueError: The shape is not (m, d) with the d of the vectors before.
        """
        if len(matrix) != len(keys):
            msg = f"there are {len(keys)} keys and {len(matrix)} vectors: give one for each"
            raise ValueError(msg)
        slots, numbers = self._columns.slots(keys), np.zeros(len(keys), np.int64) if passages is None else passages
        known = slots >= 0
        known[known] = numbers[known] < self._pieces.counts()[slots[known]]
        self._own.put(self._pieces.first[slots[known]] + numbers[known], matrix if known.all() else matrix[known])
        self._changed()

    def rank(
        self,
        query: Query,
        *,
        limit: int,
        allowed: BoolArray | None = None,
        lifts: Mapping[int, float] | None = None,
        explain: bool = False,
        only: IntArray | None = None,
    ) -> list[ScoredRow]:
        """Rank the rows for a query.

        A row for which nothing speaks (no word of it or near it, no vector, speaker, date or lift) is not found.
        `allowed` (n,), aligned with `keys`, leaves rows out of the result but not out of the statistics: the ranking is
        that of all rows, filtered. `lifts` adds to the scores of the rows with the keys given. `explain` asks for the
        parts of each score. `only` asks for the rows with these keys, as far as they are found, and for their places.

        Returns:
            At most `limit` rows, highest first; ties: newer first, unknown times last, then by key.

        Raises:
            ValueError: `limit` is below 1, `allowed` is not aligned, or the query vector has another dimension.
        """
        self._check_asked(limit, allowed)
        evidence = self._evidence(query, explain=explain)
        if lifts:
            self._lift(evidence, lifts)
        speaks = evidence.rows != 0.0
        if query.vector is not None and len(speaks):
            speaks |= self._shape().vectors
        if self._columns.dead:
            speaks &= self._columns.alive
        if allowed is not None:
            speaks &= allowed
        evidence.add("length", self._weights.length * self._length_prior())
        if self._weights.wish and self._columns.wishes.any():
            self._lift_wishes(evidence, speaks, query.text)
        if evidence.echoes.any():
            self._put_behind_answers(evidence)
        slots = np.flatnonzero(speaks)
        if only is None:
            return self._best(evidence, slots, limit)
        found = self._best(evidence, slots[np.isin(self._columns.keys[slots], only)], limit)
        scores = evidence.rows[slots]
        return [replace(row, place=1 + int((scores > row.score).sum())) for row in found]

    def list_by_time(self, asked: AskedTime | None, *, limit: int, allowed: BoolArray | None = None) -> list[ScoredRow]:
        """List the rows of a time, or all where None is asked for, by `time_scores`; no word has to be shared.

        Ties and errors as those of `rank`.
        """
        self._check_asked(limit, allowed)
        columns = self._columns
        fit = None if asked is None else asked_fit(calendar_days(columns.times), asked)
        scores = time_scores(columns.lengths, columns.questions, fit)
        lies_there = columns.alive & (scores > 0.0)
        slots = np.flatnonzero(lies_there if allowed is None else lies_there & allowed)
        return self._best(replace(self._nothing(), rows=scores), slots, limit)

    def evidence(self, query: Query) -> FloatArray:
        """Add up what speaks for each slot, the prior of its length apart: (n,), aligned with `keys`.

        The values of removed slots mean nothing.
        """
        return self._evidence(query).rows

    def _nothing(self) -> Evidence:
        n = len(self._columns)
        return Evidence(np.zeros(n), np.zeros(len(self._pieces)), np.zeros(n, np.bool_), np.full(n, np.nan))

    def holding(self, words: Collection[str], *, least: int) -> BoolArray:
        """Tell which rows, where none has passages, hold so many of some terms: (n,), aligned with `keys`."""
        rows = self._postings.find(np.unique(unpack_terms(pack_terms(words)))).rows
        return (np.bincount(rows, minlength=len(self._columns)) >= least) & self._columns.alive

    def _evidence(self, query: Query, *, explain: bool = False) -> Evidence:
        found = replace(self._nothing(), parts={} if explain else None)
        if not len(self._columns):
            return found
        named = named_speakers(query.text, self._columns.names) if len(self._columns.names) > 1 else []
        self._add_words(found, query_words(self._sought_words(query), [name for _, name in named]), query.told)
        if query.vector is not None and len(self._own):
            self._add_vectors(found, query.vector)
        if is_question(query.text):
            found.weaken(found.echoes, _ECHO)
        else:
            found.echoes[:] = False  # some words that a question happens to hold
        self._add_date(found, query)
        self._add_speaker(found, query.text, named)
        return found

    def _sought_words(self, query: Query) -> str:
        """Return the part of a question whose words are looked for.

        "Last week" of a question is another week than that of a text, so relative times that texts are of are left out.
        """
        spans = relative_days(query.text, query.now) if query.now is not None else []
        if not spans or not date_fit(calendar_days(self._columns.times), (), spans).any():
            return query.text
        return without_relative_days(query.text)

    def _add_words(self, found: Evidence, words: QueryWords, told: tuple[ToldWords, ...]) -> None:
        columns, pieces, weights = self._columns, self._pieces, self._weights
        alive = columns.alive if pieces.all_whole else columns.alive[pieces.owner]
        matches = self._postings.find(words.hashes, alive if columns.dead else None)
        if told and pieces.all_whole:
            slots = [(columns.slots(item.keys), item.words) for item in told]
            matches = with_told(matches, words, slots, len(columns), weights.relation)
        if not len(matches.rows):
            return
        shape = self._shape()
        matches = gather_units(matches, words, len(pieces))
        own = own_text(matches, words.weights, pieces.lengths, shape.pieces, shape.mean_length)
        own /= own.max() or 1.0
        found.pieces[:] += weights.text * own
        own = pieces.best(own)
        if not pieces.all_whole:
            matches = replace(matches, rows=pieces.owner[matches.rows].astype(np.int64))
        if weights.sequential:
            found.echoes[:] = columns.questions & (new_terms(matches, words, columns.lengths) < _NEW_TERMS)
        found.add("text", (weights.text + OWN_SHARE * weights.text_nearby * (1.0 - shape.nearness)) * own)
        if weights.answers:
            asked = np.append(np.where(columns.questions, own, 0.0), 0.0)
            found.add("answers", weights.answers * shape.brevity * asked[shape.line.before])
        if weights.text_nearby:
            nearby = nearby_text(matches, words.weights, shape.line, shape.nearby_norm, living=len(self))
            found.add("text_nearby", (weights.text_nearby * shape.nearness / (nearby.max() or 1.0)) * nearby)

    def _add_vectors(self, found: Evidence, vector: Matrix) -> None:
        weights, shape, pieces = self._weights, self._shape(), self._pieces
        vector = np.ascontiguousarray(vector, np.float32)
        cosines = self._own.products(vector, len(pieces)).astype(np.float64)
        own = weights.vector + MEAN_TO_WINDOW * weights.vector_nearby * (1.0 - shape.nearness)
        found.pieces[:] += (own if pieces.all_whole else own[pieces.owner]) * cosines
        if not pieces.all_whole:
            cosines = np.where(self._own.present(len(pieces)), cosines, -1.0)
            cosines = pieces.best(cosines) - PASSAGE_DISCOUNT * np.log(pieces.counts())
            cosines = np.where(shape.vectors, cosines, 0.0)
        found.cosines[shape.vectors] = cosines[shape.vectors]
        if weights.assume_mean:
            cosines = fill_mean(cosines, shape.vectors)
        found.add("vector", own * cosines)
        if weights.vector_nearby:
            nearby = nearby_cosines(cosines, shape.line, shape.vector_share)
            found.add("vector_nearby", weights.vector_nearby * shape.nearness * nearby)

    def _add_speaker(self, found: Evidence, text: str, named: list[tuple[int, str]]) -> None:
        """Lift what the person says whom a query is about: the user, where the query speaks of who asks first."""
        asks = first_person(text)
        if asks is not None and (not named or asks < named[0][0]):
            speaks = self._users() & (found.rows != 0.0) & ~found.echoes
            found.add("first_person", self._weights.first_person * speaks)
        elif (name := subject(text, named)) is not None:
            found.add("speaker", self._weights.speaker * (self._columns.speakers == self._columns.names[name]))

    def _users(self) -> BoolArray:
        """Tell which texts are by the user who asks: those without a name where there are any, or else all."""
        by_user = self._columns.by_user
        nameless: BoolArray = by_user & (self._columns.speakers == self._columns.names.get("user", -1))
        return nameless if nameless.any() else by_user

    def _add_date(self, found: Evidence, query: Query) -> None:
        if not self._weights.date:
            return
        named = named_dates(query.text)
        spans = relative_days(query.text, query.now) if query.now is not None else []
        if named or spans:
            found.add("date", self._weights.date * date_fit(calendar_days(self._columns.times), named, spans))

    def _length_prior(self) -> FloatArray:
        """Log of the terms of each row, up to that of a long one; where messages are long, it says little.

        What is long has the same prior everywhere, so that rows of short and of long talk can be compared.
        """
        longest = math.log1p(LONG)
        missing: FloatArray = np.log1p(np.minimum(self._columns.lengths, LONG)) - longest
        if self._weights.length and len(missing):
            missing *= self._shape().nearness
        return longest + missing

    def _lift_wishes(self, found: Evidence, speaks: BoolArray, text: str) -> None:
        """Lift standing wishes of the user where a query speaks of who asks or is asked, and of no other person."""
        if not speaks_of_two(text) or named_speakers(text, self._columns.names):
            return
        wishes = np.flatnonzero(self._columns.wishes & speaks)
        best = wishes[np.argsort(-found.rows[wishes], kind="stable")[:_WISHES]]
        asks = first_person(text) is not None
        found.add_at("wish", best, self._weights.wish + (0.0 if asks else self._weights.first_person))

    def _put_behind_answers(self, found: Evidence) -> None:
        """Put questions that say no more than the query does behind what follows them."""
        before = self._shape().line.before
        answers = np.flatnonzero((before >= 0) & found.echoes[before])
        for _ in range(_REPEATED):
            asked = before[answers]
            found.put("echo", asked, np.minimum(found.rows[asked], found.rows[answers] - _BEHIND))

    def _shape(self) -> PartitionShape:
        if self._cached is None:
            self._cached = shape_of(self._columns, self._pieces, self._own, neighbours=self._weights.sequential)
        return self._cached

    def _lift(self, found: Evidence, lifts: Mapping[int, float]) -> None:
        slots = self._columns.slots(np.fromiter(lifts, np.int64, len(lifts)))
        values = np.fromiter(lifts.values(), np.float64, len(lifts))
        found.add_at("lift", slots[slots >= 0], values[slots >= 0])

    def _check_asked(self, limit: int, allowed: BoolArray | None) -> None:
        if limit < 1:
            msg = f"limit must be at least 1, not {limit}"
            raise ValueError(msg)
        if allowed is not None and len(allowed) != len(self._columns):
            msg = f"allowed must have {len(self._columns)} values like keys, not {len(allowed)}"
            raise ValueError(msg)

    def _best(self, found: Evidence, slots: IntArray, limit: int) -> list[ScoredRow]:
        scores = found.rows[slots]
        places = best_rows(scores, limit)
        slots, scores = slots[places], scores[places]
        keys, times = self._columns.keys[slots], self._columns.times[slots]
        newest = np.where(np.isnan(times), np.inf, -times)
        order = np.lexsort((keys, newest, -scores))[:limit]
        slots = slots[order]
        passages = self._best_passages(slots, found.pieces)
        near = [None if math.isnan(cosine) else cosine for cosine in found.cosines[slots].tolist()]
        rows = zip(keys[order].tolist(), scores[order].tolist(), passages, near, found.parts_at(slots), strict=True)
        return [ScoredRow(*row) for row in rows]

    def _best_passages(self, slots: IntArray, values: FloatArray) -> list[int | None]:
        """Return for each slot which of its pieces has the highest value, None for a text of one piece."""
        if self._pieces.all_whole:
            return [None] * len(slots)
        firsts, counts = self._pieces.first[slots].tolist(), self._pieces.counts()[slots].tolist()
        return [best_piece(values[first : first + count]) for first, count in zip(firsts, counts, strict=True)]

    def _changed(self) -> None:
        self._cached = None
