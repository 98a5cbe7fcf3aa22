"""Filters as Qdrant evaluates them, each beginning with the scope; and ranking, scored together here.

A score is 0.7 cosine + 0.4 text, divided by the weights in use; the text part is BM25 divided by the best of the query.
So many candidates are fetched of each list that nothing left out could rank among those returned (Fagin, Lotem, Naor
2003, Optimal aggregation algorithms for middleware, section 4: the threshold algorithm), up to `MOST_CANDIDATES`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from qdrant_client import models

from reme_core.errors import UnsupportedFilterError
from reme_core.ports import IndexHit, MemoryFilter, MemorySearch, Vector
from reme_core.rules import CheckedFilter
from reme_core.schema import Scope
from reme_core.stores._cursors import Place
from reme_core.stores.qdrant.backend import DENSE, WORDS, Backend
from reme_core.stores.qdrant.points import (
    MEMORY,
    dense_of,
    keys_of_terms,
    product,
    query_vector,
    query_weights,
    read_place,
    scope_key,
    text_key,
)


def equals(field: str, value: str) -> models.FieldCondition:
    """Match a field that is, or holds, this value."""
    return models.FieldCondition(key=field, match=models.MatchValue(value=value))


def is_true(field: str) -> models.FieldCondition:
    """Match a field that is true."""
    return models.FieldCondition(key=field, match=models.MatchValue(value=True))


def one_of(field: str, values: Iterable[str]) -> models.FieldCondition:
    """Match a field that is, or holds, one of these values."""
    return models.FieldCondition(key=field, match=models.MatchAny(any=list(values)))


def whole_scope(scope: Scope) -> models.Filter:
    """Match everything of a scope."""
    return models.Filter(must=[equals("scope", scope_key(scope))])


def all_memories(scope: Scope, *more: models.Condition) -> models.Filter:
    """Match the memories of a scope that meet all conditions."""
    return models.Filter(must=[equals("scope", scope_key(scope)), equals("kind", MEMORY), *more])


def matching(scope: Scope, wanted: CheckedFilter, *more: models.Condition) -> models.Filter:
    """Match the memories of a scope that a filter lets through."""
    conditions: list[models.Condition] = list(more)
    asked = wanted.asked
    if asked.telling_relations:
        msg = "filter: telling_relations is for lists of the store: an index of memories has no relations"
        raise UnsupportedFilterError(msg)
    if asked.types is not None:
        conditions.append(one_of("type", [kind.value for kind in asked.types]))
    if asked.trust is not None:
        conditions.append(one_of("trust", [known.value for known in asked.trust]))
    if asked.targets is not None:
        conditions.append(one_of("target", map(text_key, asked.targets)))
    conditions += [*_validity(asked), *_observed(asked), *_during(asked)]
    conditions += [equals("metadata", text_key(token)) for token in wanted.metadata]
    conditions += [equals("words", key) for key in keys_of_terms(wanted.words)]
    return all_memories(scope, *conditions)


def matches_nothing(wanted: CheckedFilter) -> bool:
    """Tell whether a filter asks for one of no values; Qdrant takes that for no condition at all."""
    return () in (wanted.asked.types, wanted.asked.targets, wanted.asked.trust)


def _validity(wanted: MemoryFilter) -> Sequence[models.Condition]:
    if wanted.include_superseded:
        return []
    if wanted.as_of is None:
        return [is_true("current")]
    begun = models.FieldCondition(key="valid_from", range=models.DatetimeRange(lte=wanted.as_of))
    not_ended = models.FieldCondition(key="valid_to", range=models.DatetimeRange(gt=wanted.as_of))
    # One that was joined into another holds at no time; see `Memory.holds_at`.
    endless = models.Filter(
        must=[is_true("current"), models.IsEmptyCondition(is_empty=models.PayloadField(key="valid_to"))]
    )
    return [begun, models.Filter(should=[endless, not_ended])]


def _observed(wanted: MemoryFilter) -> Sequence[models.Condition]:
    if wanted.observed_from is None and wanted.observed_to is None:
        return []
    span = models.DatetimeRange(gte=wanted.observed_from, lt=wanted.observed_to)
    return [models.FieldCondition(key="observed_at", range=span)]


def _during(wanted: MemoryFilter) -> Sequence[models.Condition]:
    first, end = wanted.during_from, wanted.during_to
    if first is None and end is None:
        return []
    was_said = models.FieldCondition(key="observed_at", range=models.DatetimeRange(gte=first, lt=end))
    held: list[models.Condition] = []
    if first is not None:
        begun = models.FieldCondition(key="valid_from", range=models.DatetimeRange(gte=first))
        ended = models.FieldCondition(key="valid_to", range=models.DatetimeRange(gt=first))
        held.append(models.Filter(should=[begun, ended]))
    if end is not None:
        held.append(models.FieldCondition(key="valid_from", range=models.DatetimeRange(lt=end)))
    return [models.Filter(should=[was_said, models.Filter(must=held)])]


VECTOR_WEIGHT = 0.7
TEXT_WEIGHT = 0.4
FEWEST_CANDIDATES = 64
MOST_CANDIDATES = 8192
# Servers compute in single precision; what differs by less is a tie.
_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranking:
    """What is asked for, ready to be sent.

    Attributes:
        scope: Where.
        wanted: Which memories.
        vector: The query's vector.
        words: The query's words.
        by_words: Whether words count at all.
    """

    scope: Scope
    wanted: models.Filter
    vector: Vector | None
    words: models.SparseVector | None
    by_words: bool

    @property
    def total_weight(self) -> float:
        return VECTOR_WEIGHT * (self.vector is not None) + TEXT_WEIGHT * self.by_words

    def score(self, cosine: float, share: float) -> float:
        weighed = VECTOR_WEIGHT * cosine * (self.vector is not None) + TEXT_WEIGHT * share * self.by_words
        return round(min(weighed / self.total_weight, 1.0), _DIGITS)


@dataclass(slots=True, kw_only=True)
class _Candidates:
    """What was fetched: memories with their cosines and text scores, and what those left out can have at most."""

    places: dict[str, Place] = field(default_factory=dict)
    cosines: dict[str, float] = field(default_factory=dict)
    texts: dict[str, float] = field(default_factory=dict)
    cosine_left: float = 0.0
    text_left: float = 0.0
    complete: bool = True


async def rank(backend: Backend, scope: Scope, search: MemorySearch, wanted: CheckedFilter) -> list[IndexHit]:
    """Return the best memories, highest first; ties: newest first, then by id."""
    by_words = bool(search.text.strip())
    ranking = _Ranking(
        scope=scope,
        wanted=matching(scope, wanted),
        vector=search.vector,
        words=await _query_words(backend, scope, search.text) if by_words else None,
        by_words=by_words,
    )
    limit = max(4 * search.limit, FEWEST_CANDIDATES)
    while True:
        candidates = await _fetch(backend, ranking, limit)
        best = _best(ranking, candidates, search)
        if candidates.complete or limit >= MOST_CANDIDATES or _is_settled(ranking, candidates, best, search.limit):
            return best
        limit *= 4


async def _query_words(backend: Backend, scope: Scope, text: str) -> models.SparseVector | None:
    """Weigh the words of a query by how rare they are among the memories of the scope."""
    weights = query_weights(text)
    if not weights:
        return None
    conditions = [all_memories(scope, equals("words", key)) for key in weights]
    counts = await asyncio.gather(
        backend.count(scope, all_memories(scope)),
        *(backend.count(scope, condition) for condition in conditions),
    )
    return query_vector(weights, dict(zip(weights, counts[1:], strict=True)), counts[0])


async def _fetch(backend: Backend, ranking: _Ranking, limit: int) -> _Candidates:
    both = ranking.vector is not None and ranking.words is not None
    dense, sparse = await asyncio.gather(
        _nearest(backend, ranking, DENSE, limit, fetch=WORDS if both else None),
        _nearest(backend, ranking, WORDS, limit, fetch=DENSE if both else None),
    )
    candidates = _Candidates(complete=max(len(dense), len(sparse)) < limit)
    for point in dense:
        _keep(candidates, point, cosine=point.score, text=product(ranking.words, _sparse_of(point.vector)))
    for point in sparse:
        own = dense_of(point.vector)
        nearness = 0.0 if own is None or ranking.vector is None else float(np.dot(own, ranking.vector))
        _keep(candidates, point, cosine=nearness, text=point.score)
    best = max((point.score for point in sparse), default=0.0)
    candidates.texts = {name: text / best if best > 0 else 0.0 for name, text in candidates.texts.items()}
    if len(dense) >= limit:
        candidates.cosine_left = dense[-1].score
    if len(sparse) >= limit and best > 0:
        candidates.text_left = sparse[-1].score / best
    return candidates


async def _nearest(
    backend: Backend, ranking: _Ranking, using: str, limit: int, *, fetch: str | None
) -> list[models.ScoredPoint]:
    query: list[float] | models.SparseVector | None = ranking.words
    if using == DENSE:
        query = None if ranking.vector is None else ranking.vector.tolist()
    if query is None:
        return []
    return await backend.nearest(ranking.scope, query, using, wanted=ranking.wanted, limit=limit, fetch=fetch)


def _keep(candidates: _Candidates, point: models.ScoredPoint, *, cosine: float, text: float) -> None:
    name = str(point.id)
    if name not in candidates.places:
        candidates.places[name] = read_place(point.payload)
        candidates.cosines[name] = cosine
        candidates.texts[name] = text


def _best(ranking: _Ranking, candidates: _Candidates, search: MemorySearch) -> list[IndexHit]:
    floor = -math.inf if search.min_score is None else search.min_score
    scores = {
        place: ranking.score(candidates.cosines[name], candidates.texts[name])
        for name, place in candidates.places.items()
    }
    near = (
        {} if ranking.vector is None else {place: candidates.cosines[name] for name, place in candidates.places.items()}
    )
    best = sorted(
        (place for place, score in scores.items() if score >= floor), key=lambda place: (-scores[place], place)
    )
    return [
        IndexHit(memory_id=place.memory_id, score=scores[place], similarity=near.get(place))
        for place in best[: search.limit]
    ]


def _is_settled(ranking: _Ranking, candidates: _Candidates, best: Sequence[IndexHit], limit: int) -> bool:
    """Tell whether nothing that was left out can score as high as the last one returned."""
    left = ranking.score(candidates.cosine_left, candidates.text_left)
    return len(best) == limit and best[-1].score > left


def _sparse_of(vectors: object) -> models.SparseVector | None:
    sparse = vectors.get(WORDS) if isinstance(vectors, dict) else None
    return sparse if isinstance(sparse, models.SparseVector) else None
