"""Wording of guidelines: their length in words, and none of the numbers that we count ourselves."""

from __future__ import annotations

import math
import re
from functools import cache

# Han, kana and Hangul: scripts whose characters are counted, two for a word.
_COUNTED = re.compile("[\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff]")

_CALLS = r"(?:calls?|requests?|attempts?|invocations?|executions?|queries|runs|examples?|uses|cases|trials)"
_RATE = r"(?:success|failure|error)[ -](?:rate|ratio|percentage|probability|share)s?"
_IS = r"(?:(?:is|are|was|were|of|at|about|around|approximately|roughly|nearly|over|under|above|below|:|=|~|≈)\s*)"
_TIME = r"(?:time|latency|duration|runtime|tokens?|token cost|cost)"
_NUMBER = r"\d[\d.,]{0,12}"
_UNIT = r"(?:ms|s|sec|seconds?|milliseconds?|tokens?)\b"
_COUNT = r"(?:\d{1,9}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|fifty|(?:a |one )?hundred)"
_DEGREE = r"(?:(?:very|quite|rather|extremely)\s+)?(?:high|low|perfect)"
_THING = r"(?!(?:an?|the|all|its|your|this|that|these|those)\s)[a-z-]{1,20}"
_WENT = (
    r"(?:succeed(?:s|ed)?|successful|fail(?:s|ed|ures?)?|work(?:s|ed)?|pass(?:es|ed)?|return(?:s|ed)?|timed? out"
    r"|errored)\b(?!\s+(?:by|from)\b)"
)
# What stands before numbers of what is allowed, or comes in some order; blanks are single here.
_NO_LIMIT = r"(?<!up to )(?<!at most )(?<!more than )(?<!maximum of )(?<!limit of )(?<!page )(?<!step )"
_NO_CONDITION = "(?<![若果续当旦多使试])"
_CLAUSE_ENDS = r"(?=\s*(?:$|[，,。；;、!！)）]))"
_STATED = (
    rf"\b{_RATE}\s*{_IS}{{0,3}}(?:{_NUMBER}|(?:very |quite |rather )?(?:high|low)\b)",
    rf"{_NUMBER}\s*(?:%|percent)\s*(?:of\s+)?(?:{_RATE}|success(?:es)?|failures?)\b(?!\s+(?:threshold|limit|criteri))",
    rf"\b(?:success(?:es)?|failures?)\s*{_IS}{{1,3}}{_NUMBER}\s*(?:%|percent)",
    rf"\b(?:ha[sd]|have|shows?|showed|achieves?|achieved|works? with|worked with)\s+(?:an?\s+)?{_DEGREE}\s+{_RATE}\b",
    rf"^\W*{_DEGREE}\s+{_RATE}\W*$",
    rf"(?:%|\bpercent)\s*of\s+(?:all\s+|the\s+|these\s+|its\s+|recorded\s+|observed\s+){{0,2}}{_CALLS}\b",
    rf"(?:%|\bpercent)\s*of\s+(?:(?:all|the|these|its|recorded|observed)\s+){{0,3}}(?:{_THING}\s+){{1,2}}(?:{_WENT}"
    r"|(?:are|were)\s+(?:successful|fine|ok|good|empty|rejected|refused|slow)\b)",
    r"(?:%|\bpercent)\s*of\s+the\s+time\b",
    rf"\b(?:succeed(?:s|ed)?|successful|fail(?:s|ed)?)\s+(?:in\s+|at\s+)?(?:about\s+|over\s+)?{_NUMBER}\s*(?:%|percent)",
    rf"{_NUMBER}\s*(?:%|percent)\s+(?:successful|succeed(?:ed)?|fail(?:ed)?)\b",
    rf"{_NO_LIMIT}\b\d{{1,9}}\s+(?:out\s+)?of\s+(?:the\s+|all\s+)?(?:last\s+|recorded\s+)?\d{{1,9}}\s+"
    rf"(?:{_CALLS}|failed|succeeded)\b",
    rf"{_NO_LIMIT}\b{_COUNT}\s+(?:out\s+of|in)\s+(?:every\s+)?{_COUNT}\s+(?:{_CALLS}|times|failed|succeeded)\b",
    rf"\b(?:succeed(?:s|ed)?|successful|fail(?:s|ed)?|work(?:s|ed)?)\s+(?:in\s+|about\s+){{0,2}}{_COUNT}\s+(?:times\s+)?"
    rf"(?:(?:out\s+of|in)\s+(?:every\s+)?{_COUNT}|of\s+\d{{1,9}})\b",
    rf"\b\d{{1,9}}\s?/\s?\d{{1,9}}\s+(?:of\s+)?(?:(?:the|all|recorded)\s+)?(?:{_CALLS}\s+)?(?:(?:have|had|were|are|has)\s+)?"
    rf"{_WENT}",
    rf"\b\d{{1,9}}\s+(?:recorded\s+|observed\s+|failed\s+|successful\s+)?{_CALLS}\s+"
    r"(?:succeeded|failed|ended|returned|were\s+(?:made|recorded|observed|successful|failures|fine|ok))\b",
    r"(?<!max )(?<!maximum )(?<!parallel )(?<!concurrent )\b(?:calls|invocations|executions)\s*[:=]\s*"
    rf"(?>{_NUMBER})(?!\s*(?:/|(?:per|an?|each|every|at)\b))",
    r"\berrors?\s*[:=]\s*\d{1,9}\s*(?:x|×|times)\s",
    r"\b\d{1,9}\s*[x×]\s+(?:[A-Za-z.]{0,60}(?:Error|Exception|Timeout|Failure)s?|HTTP \d{3})\b",
    rf"\b(?:in|of|from|across)\s+(?:the\s+|all\s+)?\d{{1,9}}\s+(?:recorded|observed)\s+{_CALLS}\b",
    rf"\b(?:average|mean|median|avg)\b\.?(?:\s+[a-z]+){{0,2}}\s+{_TIME}\s*{_IS}{{0,3}}{_NUMBER}",
    rf"\b(?:takes?|took|lasts?|costs?|uses?)\s+[^.;,\n]{{0,20}}{_NUMBER}[^.;,\n]{{0,12}}\s(?:on average|in the median)",
    rf"\bon average[,\s]+[^.;\n]{{0,30}}{_NUMBER}\s*{_UNIT}",
    rf"{_NUMBER}\s*{_UNIT}\s+(?:on average|in the median)\b",
    rf"\b(?:average|mean|median|avg\.?)\s*{_IS}{{0,2}}{_NUMBER}\s*{_UNIT}",
    rf"\b{_TIME}\s*[:=]\s*(?:average|mean|median|avg\.?|p(?:50|75|90|95|99))\s*{_IS}{{0,2}}{_NUMBER}",
    rf"\bp(?:50|75|90|95|99)\b(?:\s+(?:response\s+)?{_TIME})?\s*{_IS}{{0,3}}{_NUMBER}\s*(?:ms|s|sec|seconds?)\b",
    r"(?:成功|失败|错误|出错|报错)率\s*(?:约?为|约|是|在|达到?|高达|仅|超过|接近|[:：]){0,2}\s*(?:\d|百分之|[一二三四五六七八九]成)",
    r"(?:成功|失败|错误|出错|报错)率(?:很|较|非常|极|比较)?(?:高|低)(?![于过])",
    r"(?:成功|失败)\s*[:：]?\s*\d[\d.]{0,8}\s*[%％]|\d\s*[%％]\s*(?:的)?(?:成功|失败)(?:率|$|[，,。；;)）])",
    rf"{_NO_CONDITION}(?:成功|失败|出错|报错|超时)了?\s*\d{{1,9}}\s*次{_CLAUSE_ENDS}|\d{{1,9}}\s*次(?:成功|失败){_CLAUSE_ENDS}",
    r"[%％]\s*的?(?:调用|请求|尝试|情况|时候)|百分之[\d一二三四五六七八九十百]{1,5}的?(?:调用|请求|尝试)",
    r"\d{1,9}\s*次(?:调用|请求|尝试)(?:中|里|都|均|全部|有|成功|失败)|(?:共|总共|累计)(?:调用|请求)了?\s*\d{1,9}\s*次",
    r"平均(?:每次)?(?:响应|执行|调用|处理|运行)?(?:耗时|用时|时间|时长|延迟|消耗|花费|令牌|token)?(?:数|为|约|是|在|[:：]|\s){0,3}"
    r"\d[\d.]{0,12}\s*(?:秒|毫秒|分钟|ms|s\b|个?\s*token|个?令牌)",
)

_SEVERAL = r"(?:\d{1,9}|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|fifty)"
_TIMES = (
    rf"(?:(?:about\s+|around\s+|over\s+|only\s+)?{_SEVERAL}\s+times|twice)\b"
    r"(?!\s+(?:per|an?|each|every|in\s+a\s+row)\b)"
)
_FAULTS = (
    r"(?:(?:[A-Za-z_.]{0,60}(?:Error|Exception|Timeout|Failure)s?|HTTP\s\d{3}s?)(?:\s+(?:errors?|failures?|answers?))?"
    r"|success(?:es)?)"
)
_HAS_BEEN = r"(?:was|were|(?:has|have|had)\s+been)"
_USED = r"(?:called|invoked|used|executed|queried|run|tried)"
_SEEN = r"(?:seen|raised|observed|recorded|reported|returned|encountered|thrown|counted)"
_PART = (
    r"(?:half|(?:an?|one|two|three|four)[ -](?:third|quarter|fifth|tenth)s?|(?:the\s+|a\s+)?(?:vast\s+)?majority"
    r"|(?:an?\s+)?(?:third|quarter|fifth|tenth))"
)
# Counts of what was: the same words come in limits and conditions ("once it has failed 3 times"), see `_CONDITION`.
_COUNTED_CALLS = (
    rf"\bout\s+of\s+(?:(?:the|all|its|last|recorded)\s+){{0,2}}{_COUNT}\s+{_CALLS}\b\W{{0,3}}"
    rf"(?:(?:about|only)\s+)?(?:{_COUNT}|none|all|half)\b",
    rf"\b{_COUNT}\s+of\s+(?:(?:the|all|its|last|recorded)\s+){{0,2}}{_COUNT}\s+(?:{_THING}\s+){{1,2}}"
    rf"(?:(?:have|has|had|were|are)\s+)?{_WENT}",
    rf"\b(?:in|for|with)\s+{_COUNT}\s+of\s+(?:(?:the|all|its|last|recorded)\s+){{0,2}}{_COUNT}\s+{_CALLS}\b",
    rf"\b{_PART}\s+of\s+(?:(?:all|the|these|its|recorded|observed)\s+){{0,3}}(?:{_THING}\s+){{1,4}}"
    rf"(?!(?<=is )returned|(?<=are )returned){_WENT}",
    rf"\bevery\s+(?:second|third|fourth|fifth|tenth|other)\s+{_THING}\s+{_WENT}",
    rf"\b(?:{_HAS_BEEN})\s+(?:{_USED}|{_SEEN})\s+{_TIMES}",
    rf"\b(?:occurred|happened|appeared|came\s+up|failed|succeeded|timed\s+out)\s+{_TIMES}",
    rf"(?:^|[,;(])\W*(?:{_USED}|{_SEEN})\s+{_TIMES}\s*(?:$|[.;!)]|,(?!\s*(?:it|the|they|this|that|an?)\b))",
    rf"\b{_SEVERAL}\s+{_FAULTS}\s+(?:{_HAS_BEEN}|occurred|happened|appeared|came\s+up)\b",
    rf"\bthere\s+{_HAS_BEEN}\s+(?:about\s+|only\s+)?{_SEVERAL}\s+(?:[a-z-]{{1,20}}\s+)?(?:{_FAULTS}|{_CALLS})\b",
    rf"(?:^|[,;(]|\band\s)\s*{_COUNT}\s+(?:failures?|success(?:es)?|failed|succeeded)\s*(?:$|[.;!)])",
    rf"\b(?:success(?:es)?|failures?|succeeded|failed)\s*{_IS}{{1,3}}{_COUNT}\s?(?:/|(?:out\s+)?of\b)\s?{_COUNT}",
    r"\b(?:successes|failures)\s*[:=]\s*\d",
    rf"\b(?:succeed(?:s|ed)?|successful|fail(?:s|ed)?|works?|worked)\s*[(\[–—:-]+\s*(?:in\s+|about\s+|over\s+|~\s*)?{_NUMBER}"
    r"\s*(?:%|percent)\s*(?:$|[)\].,;]|of\b)",
    rf"\b(?:typical|usual|normal|expected|observed|measured)\s+(?:[a-z-]{{1,20}}\s+){{0,2}}{_TIME}\s*{_IS}{{0,3}}{_NUMBER}",
    rf"\b(?:response|execution|answer|run|call)[ -]?(?:time|latency|duration)s?\s*{_IS}{{1,3}}{_NUMBER}\s*{_UNIT}",
    r"\b(?:typically|usually|normally|generally|mostly)\s+(?:takes?|took|needs?|lasts?|costs?|answers?|responds?)\s"
    rf"[^.;,\n]{{0,20}}?{_NUMBER}\s*{_UNIT}",
)
# Before a count, in the same part of a sentence: it is a limit, or what to do in some case.
_CONDITION = re.compile(
    r"\b(?:if|when|whenever|once|after|until|unless|before|in case|should|must|may|can|up to|at most|max(?:imum)?"
    r"|limit(?:ed)?|keep|set|allow(?:s|ed)?|retry|stop|that|which)\b[^,;:]*$",
    re.IGNORECASE,
)
_CONDITION_CHARS = 100
# Without one of these no pattern fits, and most sentences have none: they are told at once.
_HINT = re.compile(
    r"\d|[率成分]|\b(?:very|quite|rather|extremely|high|low|perfect|percent|half|majority|one|two|three|four|five|six|seven"
    r"|eight|nine|ten|eleven|twelve|twenty|fifty|hundred|third|quarter|fifth|tenth|every|twice)|[%％]",
    re.IGNORECASE,
)
# The end of a sentence, and the blanks behind it; a point inside of a number or a name, or behind "avg", ends none.
_ENDS = re.compile(r"(?<=[.!?;])(?<!\b[Aa]vg\.)(?<!\bapprox\.)\s+|(?<=[。！？；])\s*|\n")


def word_count(text: str) -> int:
    """Count words: what stands between blanks is one, and two characters of Chinese, Japanese or Korean are one."""
    counted, words = 0, 0
    for word in text.split():
        characters = len(_COUNTED.findall(word))
        counted += characters
        words += sum(any(map(str.isalnum, part)) for part in _COUNTED.split(word)) if characters else 1
    return words + math.ceil(counted / 2)


def without_statistics(text: str) -> str:
    """Return a text without the sentences that state rates, averages or counts of calls; on one line.

    Numbers that belong to the use of a tool stay: sizes, limits, settings in percent.
    """
    # A line break ends a sentence or stands within one: what only the joined lines say is left out as well.
    once = _without(text)
    return _without(once) if "\n" in text else once


def _without(text: str) -> str:
    sentences = [" ".join(sentence.split()) for sentence in _ENDS.split(text)]
    kept = [sentence for sentence in sentences if not _states_numbers(sentence)]
    return " ".join(text.split() if len(kept) == len(sentences) else " ".join(kept).split())


# Compiled on first use: the two patterns take longer to compile than the rest of the package's own patterns together.
@cache
def _statistics() -> re.Pattern[str]:
    return re.compile("|".join(_STATED), re.IGNORECASE)


@cache
def _counts() -> re.Pattern[str]:
    return re.compile("|".join(_COUNTED_CALLS), re.IGNORECASE)


def _states_numbers(sentence: str) -> bool:
    if not _HINT.search(sentence):
        return False
    if _statistics().search(sentence):
        return True
    # From a bound on: a long sentence with many counts is not gone through for each of them.
    return any(
        not _CONDITION.search(sentence, max(0, found.start() - _CONDITION_CHARS), found.start())
        for found in _counts().finditer(sentence)
    )
