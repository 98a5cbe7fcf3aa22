"""Filters as Qdrant evaluates them. Each begins with the scope."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from qdrant_client import models

from reme_core.ports import EventQuery
from reme_core.rules import CheckedFilter
from reme_core.schema import Scope
from reme_core.stores.qdrant.points import COMMIT, MEMORY, scope_key, text_key
from reme_core.stores.qdrant.words import keys_of_terms


def equals(field: str, value: str) -> models.FieldCondition:
    """Match a field that is, or holds, this value."""
    return models.FieldCondition(key=field, match=models.MatchValue(value=value))


def is_true(field: str) -> models.FieldCondition:
    """Match a field that is true."""
    return models.FieldCondition(key=field, match=models.MatchValue(value=True))


def is_missing(field: str) -> models.IsEmptyCondition:
    """Match what has no such field."""
    return models.IsEmptyCondition(is_empty=models.PayloadField(key=field))


def ended_before_own_times(scope: Scope) -> models.Filter:
    """Match memories that earlier releases wrote as not current, whether they were replaced or had merely ended."""
    untold = models.FieldCondition(key="current", match=models.MatchValue(value=False))
    return all_memories(scope, untold, is_missing("superseded_by"))


def one_of(field: str, values: Iterable[str]) -> models.FieldCondition:
    """Match a field that is, or holds, one of these values."""
    return models.FieldCondition(key=field, match=models.MatchAny(any=list(values)))


def whole_scope(scope: Scope) -> models.Filter:
    """Match everything of a scope."""
    return models.Filter(must=[equals("scope", scope_key(scope))])


def all_memories(scope: Scope, *more: models.Condition) -> models.Filter:
    """Match the memories of a scope that meet all conditions."""
    return models.Filter(must=[equals("scope", scope_key(scope)), equals("kind", MEMORY), *more])


def all_commits(scope: Scope, *more: models.Condition) -> models.Filter:
    """Match the commits of a scope that meet all conditions."""
    return models.Filter(must=[equals("scope", scope_key(scope)), equals("kind", COMMIT), *more])


def waiting_apart_from(scopes: Iterable[Scope]) -> models.Filter:
    """Match the memories that wait for vectors, of all scopes but some."""
    known = one_of("scope", [scope_key(scope) for scope in scopes])
    return models.Filter(must=[equals("kind", MEMORY), is_true("waits")], must_not=[known])


def counts_uses() -> models.FieldCondition:
    """Match the commits that counted uses, and tell no event."""
    return is_true("counts")


def until(number: int) -> models.FieldCondition:
    """Match the commits up to this number."""
    return models.FieldCondition(key="last", range=models.Range(lte=number))


def older_than(sequence: int) -> models.Filter:
    """Match the points of memories that an earlier commit brought to their state."""
    return models.Filter(must=[models.FieldCondition(key="sequence", range=models.Range(lt=sequence))])


def matching(scope: Scope, wanted: CheckedFilter, *more: models.Condition) -> models.Filter:
    """Match the memories of a scope that a filter lets through."""
    conditions: list[models.Condition] = list(more)
    if wanted.types is not None:
        conditions.append(one_of("type", [kind.value for kind in wanted.types]))
    if wanted.targets is not None:
        conditions.append(one_of("target", map(text_key, wanted.targets)))
    conditions += _validity(wanted)
    conditions += _observed(wanted)
    conditions += _during(wanted)
    conditions += [equals("metadata", token) for token in wanted.metadata]
    conditions += [equals("words", key) for key in keys_of_terms(wanted.words)]
    return all_memories(scope, *conditions)


def told(scope: Scope, query: EventQuery, after: int) -> models.Filter:
    """Match the commits that were applied and may hold the events asked for, numbered above `after`."""
    conditions: list[models.Condition] = [
        is_true("applied"),
        models.FieldCondition(key="last", range=models.Range(gt=after)),
        models.Filter(must_not=[counts_uses()]),
    ]
    if query.memory_id is not None:
        conditions.append(equals("memory_ids", text_key(query.memory_id)))
    if query.run_id is not None:
        conditions.append(equals("run_id", text_key(query.run_id)))
    return all_commits(scope, *conditions)


def created_until(time: datetime) -> models.FieldCondition:
    """Match what was created at this time or before."""
    return models.FieldCondition(key="created_at", range=models.DatetimeRange(lte=time))


def matches_nothing(wanted: CheckedFilter) -> bool:
    """Tell whether a filter asks for one of no values; Qdrant takes that for no condition at all."""
    return wanted.types == () or wanted.targets == ()


def _validity(wanted: CheckedFilter) -> Sequence[models.Condition]:
    if wanted.include_superseded:
        return []
    if wanted.as_of is None:
        return [is_true("current")]
    begun = models.FieldCondition(key="valid_from", range=models.DatetimeRange(lte=wanted.as_of))
    not_ended = models.FieldCondition(key="valid_to", range=models.DatetimeRange(gt=wanted.as_of))
    # One that was replaced nobody knows when held at no time; see `Memory.holds_at`.
    endless = models.Filter(must=[is_true("current"), is_missing("valid_to")])
    return [begun, models.Filter(should=[endless, not_ended])]


def _observed(wanted: CheckedFilter) -> Sequence[models.Condition]:
    if wanted.observed_from is None and wanted.observed_to is None:
        return []
    span = models.DatetimeRange(gte=wanted.observed_from, lt=wanted.observed_to)
    return [models.FieldCondition(key="observed_at", range=span)]


def _during(wanted: CheckedFilter) -> Sequence[models.Condition]:
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
