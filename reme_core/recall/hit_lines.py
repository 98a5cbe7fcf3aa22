"""Hits as numbered lines of a prompt, shortened so that all of them fit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from reme_core.retrieval.passage_hits import text_of
from reme_core.schema import Hit
from reme_core.text import RankedParts, json_line, prompt_time, query_terms, rank_parts

# Names and situations are the user's or a model's: they are shown, and take no room from the texts.
_NAME_CHARS = 40
_WHEN_CHARS = 120
# A text of which less is left tells nothing: fewer texts are shown then.
_LEAST_CHARS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownHits:
    """Lines, and how many hits they show: the first so many."""

    lines: str
    count: int


def show_hits(hits: Sequence[Hit], query: str, fits: Callable[[str], bool]) -> ShownHits:
    """Write hits as JSON lines, numbered from 1: day, who says it or whom it is about, situation, text.

    All texts have the same room: as many characters as `fits` allows, where short ones leave theirs to the others. Of a
    longer text stand there the parts that say most of the query. Where not even 40 characters of each fit, the
    last ones are left out.
    """
    ranked = rank_parts([text_of(hit) for hit in hits], frozenset(query_terms(query)))
    shown = [_ShownHit(fields=_fields(hit), parts=parts) for hit, parts in zip(hits, ranked, strict=True)]
    longest = max((item.parts.chars for item in shown), default=0)
    if fits(whole := _lines(shown, longest)):
        return ShownHits(lines=whole, count=len(shown))
    chars = _most(longest, lambda chars: fits(_lines(shown, chars)))
    if chars >= _LEAST_CHARS:
        return ShownHits(lines=_lines(shown, chars), count=len(shown))
    count = _most(len(shown), lambda count: fits(_lines(shown[:count], _LEAST_CHARS)))
    return ShownHits(lines=_lines(shown[:count], _LEAST_CHARS), count=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShownHit:
    fields: dict[str, JsonValue]
    parts: RankedParts


def _fields(hit: Hit) -> dict[str, JsonValue]:
    day = hit.observed_at or hit.created_at
    given: dict[str, JsonValue] = {
        "at": "" if day is None else prompt_time(day)[:10],
        "by": (hit.name or hit.role or "")[:_NAME_CHARS],
        "about": (hit.memory_target or "")[:_NAME_CHARS],
        "when": hit.when_to_use[:_WHEN_CHARS],
    }
    return {name: value for name, value in given.items() if value}


def _lines(shown: Sequence[_ShownHit], chars: int) -> str:
    return "\n".join(
        json_line({"n": number, **item.fields, "text": item.parts.excerpt(chars)})
        for number, item in enumerate(shown, 1)
    )


def _most(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number from 1 to `most` that fits, 0 if none does; what a larger one fits, a smaller does."""
    return bisect_left(range(1, most + 1), 1, key=lambda number: 0 if fits(number) else 1)
