"""Filters as Qdrant evaluates them. Each begins with the scope."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qdrant_client import models

from reme_core.rules import CheckedFilter
from reme_core.schema import Scope
from reme_core.stores.qdrant.points import MEMORY, scope_key, text_key
from reme_core.stores.qdrant.words import keys_of_terms


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
    if wanted.types is not None:
        conditions.append(one_of("type", [kind.value for kind in wanted.types]))
    if wanted.targets is not None:
        conditions.append(one_of("target", map(text_key, wanted.targets)))
    conditions += _validity(wanted)
    conditions += _observed(wanted)
    conditions += _during(wanted)
    conditions += [equals("metadata", text_key(token)) for token in wanted.metadata]
    conditions += [equals("words", key) for key in keys_of_terms(wanted.words)]
    return all_memories(scope, *conditions)


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
    endless = models.Filter(
        must=[is_true("current"), models.IsEmptyCondition(is_empty=models.PayloadField(key="valid_to"))]
    )
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
