"""Join of memories that say the same into one of them, with the checks that nothing they say is lost.

Pure functions. What stands against a join is a ValueError that says why, in words for people.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import combinations

from pydantic import JsonValue, ValidationError

from reme_core.evolve.joined_text import check_adds_nothing, check_keeps_all, is_within
from reme_core.retrieval.named_dates import take_dates
from reme_core.rules import distinct_relations
from reme_core.schema import Memory, MergedMemories, TimePrecision, describe, last_part, least_trusted, shown_beginning
from reme_core.schema.evolution import MergedBy
from reme_core.steps.targets import joined_sources, target_of
from reme_core.text import normalise_content, terms

_TOKEN = re.compile(r"-?\d+(?:[.,:]\d+)*|[^\W\d]+|\S")
_SAYING = frozenset("#@%&*;")  # the last one stands for a date

_PARTS = {TimePrecision.YEAR: 1, TimePrecision.MONTH: 2, TimePrecision.DAY: 3, TimePrecision.EXACT: 3}


def merge(parts: Sequence[Memory], content: str, by: MergedBy, *, at: datetime) -> MergedMemories:
    """Return memories of one type as they are joined into one that says this (ValueError: see `merged_memory`)."""
    targets = {target_of(part) for part in parts}
    names = {target.memory_target.strip().casefold() for target in targets}
    held = set(terms(content))
    if len({target.memory_type for target in targets}) > 1:
        msg = "they are of different types"
        raise ValueError(msg)
    # Of several targets, all of which the text names, it makes no difference under which one it stands.
    if len(names) > 1 and not all(set(terms(name)) <= held for name in names):
        msg = "they are not about the same"
        raise ValueError(msg)
    after = merged_memory(parts, content, at=at)
    stays = [part for part in parts if part.memory_id == after.memory_id]
    others = [part for part in parts if part.memory_id != after.memory_id]
    return MergedMemories(before=(*stays, *others), after=after, by=by)


def merged_memory(parts: Sequence[Memory], content: str, *, at: datetime) -> Memory:
    """Return the memory that says what all of them say: one of them, which keeps its id.

    It is the one whose text this is, or else the one that was said first. It has the sources, relations, metadata and
    situations of all, the earliest time of being said, and the time that was stated most exactly.

    Raises:
        ValueError: They speak of two times, their metadata differ or their relations are too many, or the text lacks
            something that one of them says, or adds something.
    """
    check_same_time(parts)
    texts = [part.content for part in parts]
    check_keeps_all(texts, content)
    check_adds_nothing(texts, content)
    stays = staying(parts, content)
    others = [part for part in parts if part is not stays]
    sources = stays.sources
    for other in others:
        sources = joined_sources(sources, other.sources)
    fields: dict[str, object] = {
        "content": stays.content if normalise_content(content) == normalise_content(stays.content) else content,
        "when_to_use": "; ".join(dict.fromkeys(part.when_to_use for part in (stays, *others) if part.when_to_use)),
        "observed_at": min(part.observed_at for part in parts),
        **_joined_time(parts),
        "importance": max(part.importance for part in parts),
        "confidence": max(part.confidence for part in parts),
        "trust": least_trusted(part.trust for part in parts),
        "sources": sources,
        "relations": distinct_relations(told for part in (stays, *others) for told in part.relations),
        "metadata": _joined_metadata((stays, *others)),
        "updated_at": at,
    }
    try:
        return Memory.model_validate({**stays.model_dump(), **fields})
    except ValidationError as exc:
        raise ValueError(describe(exc, "the joined memory")) from exc


def staying(parts: Sequence[Memory], content: str) -> Memory:
    """Return the one of some memories that stays: the one with this text, or else the one that was said first."""
    key = normalise_content(content)
    return min(parts, key=lambda part: (normalise_content(part.content) != key, *said_order(part)))


def said_order(memory: Memory) -> tuple[datetime, datetime, str]:
    """Order memories by when they were said."""
    return memory.observed_at, memory.created_at, memory.memory_id


def check_same_time(parts: Sequence[Memory]) -> None:
    """Refuse memories that speak of two times, by their fields or by the dates that their texts name (ValueError)."""
    _joined_time(parts)
    named = [[date for date in take_dates(part.content)[0] if date.year and date.month] for part in parts]
    for one, other in combinations(named, 2):
        if one and other and not any(is_within(a, b) or is_within(b, a) for a in one for b in other):
            msg = "they name different dates"
            raise ValueError(msg)


def _joined_time(parts: Sequence[Memory]) -> dict[str, object]:
    told = [part for part in parts if shown_beginning(part)]
    begins = [(part.valid_from, part.valid_from_precision) for part in told]
    ends = [(part.valid_to, part.valid_to_precision) for part in parts if part.valid_to is not None]
    inside = [(last_part(moment, precision), precision) for moment, precision in ends]
    if not (_agree(begins) and _agree(inside)):
        msg = "they are of different times"
        raise ValueError(msg)
    if ends and any(part.valid_to is None and part not in told and part.observed_at >= min(ends)[0] for part in parts):
        msg = "one of them is over, and another one was said after that"
        raise ValueError(msg)
    since = max(begins, key=_exactness) if begins else (min(part.valid_from for part in parts), TimePrecision.EXACT)
    until = max(ends, key=_exactness) if ends else (None, TimePrecision.EXACT)
    return {
        "valid_from": since[0],
        "valid_from_precision": since[1],
        "valid_to": until[0],
        "valid_to_precision": until[1],
    }


def _exactness(told: tuple[datetime, TimePrecision]) -> tuple[int, bool]:
    return _PARTS[told[1]], told[1] is TimePrecision.EXACT


def _agree(told: Iterable[tuple[datetime, TimePrecision]]) -> bool:
    """Tell whether times, each as exact as it was told, can be one time."""
    return all(
        (one.year, one.month, one.day)[: min(_PARTS[own], _PARTS[its])]
        == (other.year, other.month, other.day)[: min(_PARTS[own], _PARTS[its])]
        for (one, own), (other, its) in combinations(told, 2)
    )


def _joined_metadata(parts: Sequence[Memory]) -> Mapping[str, JsonValue]:
    joined: dict[str, JsonValue] = {}
    for part in parts:
        for key, value in part.metadata.items():
            if joined.setdefault(key, value) != value:
                msg = f"their metadata differ in {key!r:.60}"
                raise ValueError(msg)
    return joined


def same_words(memory: Memory) -> tuple[object, ...]:
    """Return what is equal for memories that differ in punctuation, case and the forms of dates alone."""
    dates, rest = take_dates(memory.content)
    tokens = _TOKEN.findall(normalise_content(rest))
    kept = [token for token in tokens if token[-1].isalnum() or token in _SAYING or _is_symbol(token)]
    return memory.memory_type, normalise_content(memory.when_to_use), tuple(dates), tuple(kept)


def _is_symbol(char: str) -> bool:
    return unicodedata.category(char).startswith("S")
