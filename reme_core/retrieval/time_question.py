"""Questions about a time: which one they name, what else they ask for, and what lies in it, in order.

"What happened last week?" shares no word with its answers, and the words that it has ("happened") say nothing of them.
Such a question lists what lies in that time (see `time_scores`).

For their order no word is compared. Chosen to be explained, not measured: a text that says much stands before a short
one, a statement before a question, what was said in the time asked for before what was said soon after it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cache

import numpy as np

from reme_core.ports import (
    ListMemories,
    MemoryFilter,
    MessageSearch,
    RetrieveRequest,
    ScoredMemory,
    Store,
)
from reme_core.retrieval.arrays import BoolArray, FloatArray, IntArray, NumberArray
from reme_core.retrieval.hits import block_hit, memory_hit, message_hit
from reme_core.retrieval.named_dates import (
    DAYS_AFTER,
    DaySpan,
    NamedDate,
    calendar_days,
    calendar_spans,
    date_fit,
    named_dates,
    relative_days,
    without_times,
)
from reme_core.retrieval.ranking.score_weights import LONG
from reme_core.schema import Hit, Layer, Memory, Scope
from reme_core.text.segment import query_terms, terms

# Words for happening and talking, for anything, and for times: none of them says what a question is about.
_EMPTY = """
happen occur say talk speak tell discuss chat mention ask remember recall know list show give let summarize summarise
summary recap overview everything anything something nothing thing stuff event news new update time date day week month
year morning afternoon evening night around since within past last previous early earlier late later recent recently
begin end whole entire first please conversation message memory note entry
"""
_EMPTY_PHRASES = re.compile(r"\b(?:(?:go|goes|going|gone|went) on|up to)\b", re.ASCII | re.IGNORECASE)
_EMPTY_EASTERN = re.compile(
    # Chinese
    "发生|發生|什么|什麼|甚么|甚麼|哪些|哪几|怎么样|怎样|事情|事儿|事|[我你您他她咱]们?|[我你您他她]們|都|和|跟|一起|做|干|幹"
    "|说|說|聊|谈|談|讲|講|提|到|过|過|了|的|得|在|有|没有|吗|嗎|呢|吧|啊|是|请|請|告诉|告訴|列出|总结|總結|回顾|回顧|记得|記得"
    "|一下|那|这|這|整|天|周|週|月|年|期间|期間|时候|時候|早上|上午|中午|下午|晚上"
    # Japanese
    "|何|なに|なん|どんな|出来事|こと|起きた|起きました|起こった|あった|ありました|しました|した|していた|していました|して"
    "|いた|いました|話しました|話した|話して|言いました|言った|言って|教えて|ください|私たち|私|僕|俺|[がをはにのでともへか]"
    # Korean: whole words, with what is joined to them
    "|(?<![가-힣])(?:무슨|무엇[을이]?|뭐[가를]?|뭘|어떤|일[이을]?|일들[이을]?|것[을이]?|것들[을이]?|[나저](?:는|도)?|내가|제가"
    "|우리(?:가|는)?|에는?|엔|은|는|이|가|을|를|있었[가-힣]*|했[가-힣]*|하였[가-힣]*|일어났[가-힣]*"
    "|(?:이야기|얘기|말|대화)[가-힣]*)(?![가-힣])"
)


# A month that is a person's name too, where no word or number beside it says that the month is meant.
_NAME_OR_MONTH = re.compile(
    r"(?<!\bin )(?<!\bof )(?<!\bthis )(?<!\blast )(?<!\bduring )(?<!\bearly )(?<!\blate )(?<!\d )(?<!st )(?<!nd )"
    r"(?<!rd )(?<!th )\b(?:April|May|June|August)\b(?!,? (?:of )?\d)"
)
# Words of ranges, of which single days would be an answer that looks complete: such a question goes by its words.
_RANGE = re.compile(
    r"\b(?:since|until|till|before|after|between|through|from)\b"
    "|以来|以來|之前|以前|之后|之後|以后|以後|为止|為止|[日号號月年][到至]|から|まで|부터|까지",
    re.IGNORECASE,
)
# Feasts whose signs would be read as words for times.
_FEASTS = re.compile("过年|過年|周年|週年")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTime:
    """The time that a question names, at least one date or span.

    Attributes:
        dates: Dates as they were written; parts may be missing.
        spans: Relative times by the calendar.
        wide: The same times on the wide side (see `relative_days`).
    """

    dates: tuple[NamedDate, ...] = ()
    spans: tuple[DaySpan, ...] = ()
    wide: tuple[DaySpan, ...] = ()


def asked_time(text: str, now: datetime | None) -> AskedTime | None:
    """Read the time that a question names; None where it names none. Without `now`, "yesterday" names none."""
    dates = tuple(named_dates(text))
    spans = () if now is None else tuple(calendar_spans(text, now))
    wide = () if now is None else tuple(relative_days(text, now))
    return AskedTime(dates=dates, spans=spans, wide=wide) if dates or wide else None


def telling_terms(text: str) -> list[str]:
    """Return the terms of a question that say what it is about: not its times, nor words such as "happened"."""
    empty = _empty_terms()
    return [term for term in query_terms(_EMPTY_PHRASES.sub(" ", without_times(text))) if term not in empty]


def names_no_topic(text: str) -> bool:
    """Tell whether a question, its times apart, leaves open what it is about: "what happened", "我们聊了什么".

    One that names a range ("since May", "5月1日到5月20日"), or a month that may be a person, leaves nothing open.
    """
    if _FEASTS.search(text) or _NAME_OR_MONTH.search(text) or (_RANGE.search(text) and named_dates(text)):
        return False
    return not telling_terms(text if text.isascii() else _EMPTY_EASTERN.sub(" ", without_times(text)))


def days_asked_for(asked: AskedTime) -> list[DaySpan]:
    """Return the spans of days asked for; a date without a year, which may lie in any, has none."""
    return [*asked.spans, *(_span_of(named, named.year) for named in asked.dates if named.year is not None)]


def bounds(asked: AskedTime) -> DaySpan | None:
    """Return a span of days outside of which nothing is of the time asked for, nor near it; None if years are open."""
    if any(named.year is None for named in asked.dates):
        return None
    spans = [*days_asked_for(asked), *asked.wide]
    last = max(span.last for span in spans) + timedelta(days=DAYS_AFTER)
    return DaySpan(first=min(span.first for span in spans), last=last)


def _span_of(named: NamedDate, year: int) -> DaySpan:
    first = date(year, named.month or 1, 1)
    if named.day is not None:
        day = first + timedelta(days=named.day - 1)  # the 31st of June is the 1st of July
        return DaySpan(first=day, last=day)
    is_last = named.month in {None, 12}
    behind = date(year + is_last, 1 if is_last else first.month + 1, 1)
    return DaySpan(first=first, last=behind - timedelta(days=1))


@cache
def _empty_terms() -> frozenset[str]:
    return frozenset(query_terms(_EMPTY))


# A question tells half of what a statement of its length does.
_QUESTION = 0.5
# What is of a relative time on the wide side alone, as Monday of this week is of "last week".
_WIDE = 0.5


def time_scores(lengths: NumberArray, questions: BoolArray, fit: FloatArray | None) -> FloatArray:
    """Score texts by their terms, whether they ask, and how well they fit a time asked for, each (n,): (n,) in [0, 1].

    Above 0.5 what is of that time, or everything where `fit` is None; at most 0.5 what is near it; 0 anything else.
    """
    told = np.log1p(1.0 + np.minimum(lengths, LONG)) / np.log1p(1.0 + LONG)
    told = np.where(questions, _QUESTION * told, told)
    fits = np.ones(len(lengths)) if fit is None else fit
    scores: FloatArray = np.where(fits >= 1.0, 0.5, 0.0) + 0.5 * fits * told
    return scores


def asked_fit(days: IntArray, asked: AskedTime) -> FloatArray:
    """Tell how well days since 1970 (n,) fit a time asked for: (n,); 1 inside it, above 0 near it, 0 elsewhere.

    Near a named day are the seven after it, the less the later; near a relative time its wide side.
    """
    fit = np.where(date_fit(days, (), asked.wide) > 0.0, _WIDE, 0.0)
    np.maximum(fit, date_fit(days, (), asked.spans), out=fit)
    for name in asked.dates:
        one = date_fit(days, (name,), ())
        if name.day is not None:
            one = np.maximum(one - 1.0, 0.0)
        elif name.month is not None:
            one = np.where(one >= 1.0, 1.0, 0.0)
        else:
            one = np.where(one > 0.0, 1.0, 0.0)
        np.maximum(fit, one, out=fit)
    return fit


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
