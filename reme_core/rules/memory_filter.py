"""Filters of memories: checked once, in a form that compares values by type, and matched on values."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import JsonValue

from reme_core.errors import InvalidInputError, UnsupportedFilterError
from reme_core.ports import MemoryFilter, Scalar
from reme_core.schema import Memory, parse_time
from reme_core.text import query_terms, terms


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFilter:
    """A filter that can be honoured.

    Attributes:
        asked: The filter, its times in UTC.
        metadata: One token (see `metadata_token`) for each pair that has to be there.
        words: Index terms that all have to be there.
    """

    asked: MemoryFilter
    metadata: tuple[str, ...]
    words: tuple[str, ...]


def check_filter(wanted: MemoryFilter) -> CheckedFilter:
    """Read a filter.

    Raises:
        InvalidInputError: It asks for one time and for all, or a time is none.
        UnsupportedFilterError: A metadata value that is no scalar, or a keyword without any indexed word.
    """
    if wanted.as_of is not None and wanted.include_superseded:
        msg = "filter: as_of asks for one time and include_superseded for all; leave one of them out"
        raise InvalidInputError(msg)
    asked = replace(
        wanted,
        as_of=_time(wanted.as_of, "as_of"),
        observed_from=_time(wanted.observed_from, "observed_from"),
        observed_to=_time(wanted.observed_to, "observed_to"),
        during_from=_time(wanted.during_from, "during_from"),
        during_to=_time(wanted.during_to, "during_to"),
    )
    return CheckedFilter(
        asked=asked,
        metadata=tuple(_wanted_token(key, value) for key, value in wanted.metadata.items()),
        words=_words(wanted.keyword),
    )


def matches(memory: Memory, wanted: CheckedFilter) -> bool:
    """Tell whether a memory meets every condition."""
    asked = wanted.asked
    return (
        (asked.types is None or memory.memory_type in asked.types)
        and (asked.targets is None or memory.memory_target in asked.targets)
        and (asked.trust is None or memory.trust in asked.trust)
        and _is_valid(memory, asked)
        and (asked.observed_from is None or memory.observed_at >= asked.observed_from)
        and (asked.observed_to is None or memory.observed_at < asked.observed_to)
        and _is_of_time(memory, asked.during_from, asked.during_to)
        and (not asked.telling_relations or bool(memory.relations))
        and (not wanted.metadata or set(wanted.metadata) <= set(metadata_tokens(memory.metadata)))
        and (not wanted.words or set(wanted.words) <= set(terms(memory.index_text)))
    )


def metadata_tokens(metadata: dict[str, JsonValue]) -> list[str]:
    """Return the tokens of all pairs whose value is a scalar."""
    found = (metadata_token(key, value) for key, value in metadata.items())
    return [token for token in found if token is not None]


def metadata_token(key: str, value: object) -> str | None:
    """Write a pair so that equal pairs, and no others, are written alike: true is not 1, and 1 equals 1.0.

    Returns:
        The token, or None where the value is no scalar.
    """
    if value is not None and not isinstance(value, (str, int, float)):
        return None
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        value = int(value)
    return json.dumps([key, value])


def _wanted_token(key: str, value: Scalar) -> str:
    token = metadata_token(key, value)
    if token is None:
        msg = f"filter: metadata {key!r} can be compared with a string, number, boolean or None, not with {value!r:.60}"
        raise UnsupportedFilterError(msg)
    return token


def _words(keyword: str | None) -> tuple[str, ...]:
    if keyword is None:
        return ()
    words = tuple(dict.fromkeys(query_terms(keyword)))
    if not words:
        msg = f"filter: the keyword {keyword!r:.60} has no word that is indexed; leave it out, or name one"
        raise UnsupportedFilterError(msg)
    return words


def _time(value: datetime | None, name: str) -> datetime | None:
    if value is None:
        return None
    try:
        return parse_time(value)
    except ValueError as exc:
        msg = f"filter: {name}: {exc}"
        raise InvalidInputError(msg) from exc


def _is_valid(memory: Memory, wanted: MemoryFilter) -> bool:
    if wanted.include_superseded:
        return True
    if wanted.as_of is None:
        return memory.is_current
    return memory.holds_at(wanted.as_of)


def _is_of_time(memory: Memory, first: datetime | None, end: datetime | None) -> bool:
    """Tell whether it was said in a time, began or ended in it, or held in it for a time that ends."""
    was_said = (first is None or memory.observed_at >= first) and (end is None or memory.observed_at < end)
    has_begun = end is None or memory.valid_from < end
    is_later = first is None or memory.valid_from >= first or (memory.valid_to is not None and memory.valid_to > first)
    return was_said or (has_begun and is_later)
