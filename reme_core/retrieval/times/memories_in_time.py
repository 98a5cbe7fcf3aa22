"""Memories of a time, most telling first: for questions about a time, which share no word with their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

import numpy as np

from reme_core.ports import ListMemories, MemoryFilter, ScoredMemory, Store
from reme_core.retrieval.arrays import FloatArray, IntArray
from reme_core.retrieval.times.named_dates import calendar_days
from reme_core.retrieval.times.time_order import asked_fit, time_scores
from reme_core.retrieval.times.time_question import AskedTime, bounds, days_asked_for
from reme_core.schema import Memory, Scope
from reme_core.text.segment import terms

_PAGE = 500
# Of a time that holds more, the memories made last are compared.
_MOST = 2_000
_FEW = 50


async def list_memories_in_time(
    store: Store, scope: Scope, wanted: MemoryFilter, asked: AskedTime | None, *, limit: int
) -> list[ScoredMemory]:
    """List what a filter lets through and, where a time is asked for, is of that time, by `time_scores`.

    A memory is of the times in which it was said, began to hold, or held until an end.

    Raises:
        UnsupportedFilterError: The store can't honour the filter.
    """
    among = wanted if asked is None else _within(wanted, asked)
    found: list[Memory] = []
    cursor: str | None = None
    while len(found) < _MOST:
        page = await store.list_memories(scope, ListMemories(filter=among, limit=_PAGE, cursor=cursor))
        found += page.memories
        cursor = page.next_cursor
        if cursor is None:
            break
    if len(found) > _FEW:
        return await asyncio.to_thread(_order, found, asked, limit)
    return _order(found, asked, limit)


def memory_fit(memories: Sequence[Memory], asked: AskedTime) -> FloatArray:
    """Tell how well memories fit a time asked for: (n,), as `asked_fit`."""
    said = asked_fit(_days([memory.observed_at for memory in memories]), asked)
    begun = asked_fit(_days([memory.valid_from for memory in memories]), asked)
    return np.maximum(np.maximum(said, begun), [1.0 if _holds_in(memory, asked) else 0.0 for memory in memories])


def _within(wanted: MemoryFilter, asked: AskedTime) -> MemoryFilter:
    span = bounds(asked)
    if span is None:
        return wanted
    end = datetime.combine(span.last, time(), UTC) + timedelta(days=1)
    return replace(wanted, during_from=datetime.combine(span.first, time(), UTC), during_to=end)


def _order(found: Sequence[Memory], asked: AskedTime | None, limit: int) -> list[ScoredMemory]:
    lengths = np.array([len(terms(memory.index_text)) for memory in found], np.int32)
    questions = np.zeros(len(found), np.bool_)
    fit = None if asked is None else memory_fit(found, asked)
    scores = time_scores(lengths, questions, fit)
    scored = [
        ScoredMemory(memory=memory, score=score)
        for memory, score in zip(found, scores.tolist(), strict=True)
        if score > 0.0
    ]
    scored.sort(key=lambda item: (-item.score, -item.memory.observed_at.timestamp(), item.memory.memory_id))
    return scored[:limit]


def _holds_in(memory: Memory, asked: AskedTime) -> bool:
    """Tell whether it held, for a time that ends, on a day asked for."""
    if memory.valid_to is None:
        return False
    first = memory.valid_from.date()
    last = max(first, (memory.valid_to - timedelta(microseconds=1)).date())
    return any(first <= span.last and last >= span.first for span in days_asked_for(asked))


def _days(times: Sequence[datetime]) -> IntArray:
    return calendar_days(np.array([moment.timestamp() for moment in times], np.float64))
