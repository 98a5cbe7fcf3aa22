"""Search for questions about a time: lists what lies there, as such questions share no word with their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reme_core.ports import MemoryFilter, MessageSearch, RetrieveRequest, ScoredMemory, Store
from reme_core.retrieval import asked_time, names_no_topic
from reme_core.retrieval.hits import block_hit, memory_hit, message_hit
from reme_core.retrieval.time_question import AskedTime, list_memories_in_time, memory_fit
from reme_core.schema import Hit, Layer, Scope

# Scores of messages end here, those of memories that answer begin here; see `simple_retriever`.
_LEADING = 0.5


def asks_by_time(request: RetrieveRequest) -> bool:
    """Tell whether a request names a time, in its question or beside it, and nothing else that could be looked for."""
    is_bounded = request.said_from is not None or request.said_to is not None
    if not (is_bounded or asked_time(request.query, request.now)):
        return False
    return names_no_topic(request.query)


async def list_by_time(
    store: Store,
    scope: Scope,
    layers: Sequence[Layer],
    wanted: MemoryFilter,
    search: MessageSearch,
) -> list[Hit]:
    """List memories and messages of a time; `wanted` and `search` are those of a search, without words or vector.

    Memories lead. A time given beside the question is one in which a memory was said or held.
    """
    by_time = replace(search, by_time=True)
    hits: list[Hit] = []
    if "memory" in layers:
        asked = asked_time(search.text, search.now)
        during = replace(
            wanted,
            observed_from=None,
            observed_to=None,
            during_from=wanted.observed_from,
            during_to=wanted.observed_to,
        )
        found = await list_memories_in_time(store, scope, wanted if asked else during, asked, limit=search.limit)
        hits += [memory_hit(item, _LEADING + item.score / 2) for item in found]
    if "message" in layers:
        hits += [message_hit(scope, item, item.score / 2) for item in await store.search_messages(scope, by_time)]
    if "summary" in layers:
        hits += [block_hit(scope, item, item.score / 2) for item in await store.search_blocks(scope, by_time)]
    return hits


def prefer_in_time(found: Sequence[ScoredMemory], hits: Sequence[Hit], asked: AskedTime | None) -> list[Hit]:
    """Put those memories that lead, and are of the time that a question names, before the others that lead.

    `hits` are those of `found`. A memory that leads still does; one that doesn't counts half if it is of another time.
    """
    if asked is None or not found:
        return list(hits)
    fits = memory_fit([item.memory for item in found], asked) > 0.0
    return [
        hit.model_copy(update={"score": _timed(hit.score, fits=fit)})
        for hit, fit in zip(hits, fits.tolist(), strict=True)
    ]


def _timed(score: float, *, fits: bool) -> float:
    if score < _LEADING:
        return score if fits else score / 2
    return (score + _LEADING) / 2 + (_LEADING / 2 if fits else 0.0)
