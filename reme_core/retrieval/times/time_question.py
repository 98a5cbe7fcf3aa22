"""Questions about a time: which time they name, and whether they ask for anything else.

"What happened last week?" shares no word with its answers, and the words that it has ("happened") say nothing of them.
Such a question lists what lies in that time (see `time_order`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache

from reme_core.retrieval.times.named_dates import (
    DaySpan,
    NamedDate,
    calendar_spans,
    named_dates,
    relative_days,
    without_times,
)
from reme_core.retrieval.times.time_fit import DAYS_AFTER
from reme_core.text.segment import query_terms

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
