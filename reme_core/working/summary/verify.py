"""Verification of a model's summary: refusals, apologies and inventions of a model are no summaries."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from reme_core.ports import TokenCounter
from reme_core.text import split_sentences, terms
from reme_core.working.summary.identifiers import IdentifierKind, identifiers
from reme_core.working.summary.sections import Section, Summary, parse_summary

# Below this, a summary with its headings may well be longer than what it summarises.
_LONG_ENOUGH_TOKENS = 400
# The share of a summary's words that stand in what was given: in its own words, a good one has half and more; a
# greeting or an apology has next to none.
_LEAST_SHARED = 0.25
# The share of the words that only the summary so far has, which are still there: what is done may go, not nearly all.
# Progress and next steps don't count, nor do constraints, which are put back.
_LEAST_KEPT, _WORTH_KEEPING = 0.2, 10
_PASSING = (Section.CONSTRAINTS, Section.PROGRESS, Section.NEXT_STEPS)
# Of every ten words that are given, one is asked for, up to this many: less says nothing.
_LEAST_WORDS = 8
# A line that reads like an error, or like a greeting, is a quotation if more than this share of its words was given.
_QUOTED_ERROR, _QUOTED_CHAT = 0.5, 0.8
# A line of at least so many words, none of which was given, isn't about it.
_TELLING_WORDS = 4
# The share of a line's words that stand in one sentence of the prompt, by which it is copied from there.
_PROMPT_SHARE = 0.8
# A hint as views and summaries write it. In a quotation the words around a reference stay, but for our own form.
_HINT = re.compile(r"\s*[(（\[]?\bdetails: reload (?P<ours>[0-9a-f]{16})\b[)）\]]?|\breload (?P<bare>[0-9a-f]{16})\b")
# What a model makes of a hint: with marks or brackets, "reload(reference='…')", a name instead of a reference.
_WRITTEN_HINT = re.compile(
    r"\s*[(（\[]?\s*(?:details\s*:\s*)?[`*\"']{0,3}\breload\b[^\w\s]{0,3}\s{0,2}[^\w\s]{0,3}(?:reference|ref|id)?"
    r"[^\w\s]{0,3}\s{0,2}[^\w\s]{0,3}\b(?P<plain>[0-9a-f]{16})\b[`*\"'>)）\]]{0,4}"
    r"|\s*[(（\[]?\s*details\s*:\s*reload[ \t]+[`<\"']?(?P<named>[\w./\\:-]{1,512})[`>\"']?[)）\]]?",
    re.IGNORECASE,
)
_BARE_REFERENCE = re.compile(r"\s?(?<![\w/-])(?P<bare>[0-9a-f]{16})(?![\w/-])")
# What a line begins with that tells of a failure.
_FAILURE = re.compile(
    r"\w*(?:error|exception)\b|traceback\b|https?[ /]?\d{3}\b|(?:http )?status(?: code)? ?\d{3}\b"
    r"|[45]\d\d\b[\s:-]*(?:client|server|error|bad|unauthori|forbidden|not found|too many|internal|service|gateway"
    r"|timeout|request|rate|payment|conflict)"
    r"|rate limit|too many requests|internal server|service (?:is )?(?:temporarily )?unavailable|bad gateway"
    r"|gateway time|(?:the |your )?request (?:timed out|failed|was)|time[d ]?-?out\b|unauthori[sz]ed|forbidden[.!]?$"
    r"|invalid (?:api )?(?:key|request)|insufficient quota|quota exceeded|connection (?:error|refused|reset)"
    r"|failed to (?:generate|process|summari)"
    r"|(?:请求|服务器?|系统|网络|内部|未知)(?:失败|超时|过多|繁忙|不可用|错误|异常)|(?:错误|异常)\s*[:：]?\s*(?:\d{3}\b|[。.!！]?$)",
    re.IGNORECASE,
)
# What a line begins with that greets, apologises, or speaks of the model itself.
_CHAT = re.compile(
    r"(?:hello|hi|hey|greetings|sure|certainly|of course|okay|ok)\b"
    r"|(?:i am|i['’]m) (?:an?|your|the|sorry|unable|not able)\b|as an? (?:ai|assistant|language model)"
    r"|how (?:can|may) i |i (?:can['’]t|cannot|can not) (?:help|assist|do|fulfil)|sorry\b|my apologies"
    r"|你好|您好|我是|抱歉|对不起|作为(?:一个)?(?:ai|人工|助手)|好的(?:[\s，,。.！!]|$)",
    re.IGNORECASE,
)
# What it adds at the end of an answer that may be good.
_OFFER = re.compile(
    r"(?:please )?let me know (?:if|whether|what|how)|i hope (?:this|that|it)\b|(?:please )?feel free to"
    r"|is there anything|would you like me to"
    r"|(?:here is|here['’]s|this is|above is|below is) (?:the|your|an?|my)\b.{0,30}\bsummary"
    r"|希望(?:这|以上|对[你您])|如(?:果|有|需).{0,12}(?:请|可以)?(?:告诉|告知|随时)|以上(?:是|就是|为)",
    re.IGNORECASE,
)
_MARKS = "*_`\"'“”[(<-# "


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a summary was made from.

    Attributes:
        before: The summary so far.
        tokens: How long that and the messages are.
        texts: The texts of the messages.
        words: The index terms of the messages and of the summary so far.
        new_words: Those of the messages alone.
        script: Of most of the text: words of another script can't be looked for in a text of this one.
        told: The words of each sentence of the prompt.
    """

    before: Summary
    tokens: int
    texts: tuple[str, ...]
    words: frozenset[str]
    new_words: frozenset[str]
    script: str
    told: tuple[frozenset[str], ...]


def given_from(before: Summary, texts: Sequence[str], counter: TokenCounter, *, prompt: str = "") -> Given:
    """Describe what a summary is made from: the summary so far, and the texts of the messages.

    `prompt` is what the model was told to do: it isn't to be copied.
    """
    tokens = sum(map(counter.count, (*before.all_lines, *texts)))
    uses = Counter[str]()
    for text in texts:
        uses.update(terms(text))
    new_words = frozenset(uses)
    uses.update(_words(before))
    scripts = Counter[str]()
    for word, count in uses.items():
        scripts[_script(word)] += count
    told = tuple(frozenset(terms(sentence)) for sentence in split_sentences(prompt))
    return Given(
        before=before,
        tokens=tokens,
        texts=tuple(texts),
        words=frozenset(uses),
        new_words=new_words,
        script=scripts.most_common(1)[0][0] if scripts else "",
        told=told,
    )


def check_summary(answer: str, given: Given, *, limit_tokens: int, counter: TokenCounter) -> str | None:
    """Return what is wrong with an answer, told to whoever wrote it; None if it is a summary of what was given."""
    if not answer.strip():
        return "it is empty"
    try:
        summary = parse_summary(answer)
    except ValueError as exc:
        return str(exc)
    return _size_problem(summary, given, limit_tokens, counter) or _content_problem(summary, given)


def drop_references(text: str, allowed: frozenset[str]) -> str:
    """Return a text without hints ("details: reload …") at references that aren't allowed.

    Nothing else goes: of "reload 0123456789abcdef" without "details:" before it only the reference does, for "…".
    """

    def kept(match: re.Match[str]) -> str:
        if (match["ours"] or match["bare"]) in allowed:
            return match[0]
        return "reload …" if match["bare"] else ""

    return _HINT.sub(kept, text)


def drop_invented(summary: Summary, given: Given, allowed: frozenset[str]) -> Summary:
    """Return a model's summary without hints that aren't allowed, in whatever form it writes them.

    A reference that stands alone may stay if it was given: it may mean something else.
    """

    def cited(match: re.Match[str]) -> str:
        return match[0] if (match["plain"] or match["named"]) in allowed else ""

    def bare(match: re.Match[str]) -> str:
        name = match["bare"]
        is_known = name in allowed or any(name in text for text in (*given.before.all_lines, *given.texts))
        return match[0] if is_known else ""

    return Summary(
        tuple(
            tuple(_BARE_REFERENCE.sub(bare, _WRITTEN_HINT.sub(cited, line)) for line in body) for body in summary.lines
        )
    )


def drop_off_topic(summary: Summary, given: Given) -> Summary:
    """Return a summary without lines that tell of a failure, chat, repeat the prompt, or share no word with `given`."""
    return Summary(
        tuple(
            tuple(line for line in body if not _is_off_topic(line, given) and not _is_foreign(line, given))
            for body in summary.lines
        )
    )


def _size_problem(summary: Summary, given: Given, limit_tokens: int, counter: TokenCounter) -> str | None:
    if summary.is_empty:
        return "every section is empty"
    tokens = counter.count(summary.text)
    if tokens > limit_tokens:
        return f"it has about {tokens} tokens, at most {limit_tokens} are allowed: write less"
    if tokens > given.tokens >= _LONG_ENOUGH_TOKENS:
        return f"it has about {tokens} tokens, more than the {given.tokens} that it summarises: write less"
    return None


def _content_problem(summary: Summary, given: Given) -> str | None:
    for lines in summary.lines:
        body = tuple(line for line in lines if not _OFFER.match(line.lstrip(_MARKS)))
        if body and all(_is_off_topic(line, given) for line in body):
            return f"this reads like an error or a greeting and stands nowhere in what was given: {body[0][:80]!r}"
    words = _words(summary)
    shared = words & given.words
    if len(shared) < min(_LEAST_WORDS, len(given.words) // 10):
        return "it says next to nothing of what was given"
    looked_for = _looked_for(words, given)
    if given.words and looked_for and len(shared & looked_for) < _LEAST_SHARED * len(looked_for):
        return "it hardly has a word in common with what was given: use the words of the conversation"
    lasting = given.before
    for section in _PASSING:
        lasting = lasting.with_lines(section, ())
    known = _words(lasting) - given.new_words
    if len(known) >= _WORTH_KEEPING and len(known & words) < _LEAST_KEPT * len(known):
        return "it leaves out nearly all that the summary so far says: keep what is not done or replaced"
    return None


def _is_off_topic(line: str, given: Given) -> bool:
    """Tell whether a line is an error, chat, or a sentence of the prompt, and no quotation of what was given."""
    start = line.lstrip(_MARKS)
    words = frozenset(terms(line))
    share = len(words & given.words) / max(1, len(words))
    if _FAILURE.match(start):
        return share <= _QUOTED_ERROR and not _names_given(line, given)
    if _CHAT.match(start) or _OFFER.match(start):
        return share <= _QUOTED_CHAT and not _names_given(line, given)
    if share > _QUOTED_CHAT or len(words) < 2:
        return False
    return any(len(words & told) >= _PROMPT_SHARE * len(words) for told in given.told)


def _names_given(line: str, given: Given) -> bool:
    """Tell whether a line names a file or the like that was given; numbers and "HTTP" stand in errors as well."""
    names = [item.text for item in identifiers(line) if item.kind <= IdentifierKind.CODE and not item.text.isupper()]
    return any(name in text for name in names for text in (*given.texts, *given.before.all_lines))


def _is_foreign(line: str, given: Given) -> bool:
    looked_for = _looked_for(frozenset(terms(line)), given)
    return bool(given.words) and len(looked_for) >= _TELLING_WORDS and not looked_for & given.words


def _looked_for(words: frozenset[str], given: Given) -> frozenset[str]:
    return frozenset(word for word in words if _script(word) == given.script)


def _script(word: str) -> str:
    """Return the script of a word, or of its first character that isn't ASCII: "CJK", "CYRILLIC", "LATIN"."""
    if word.isascii():
        return "LATIN"
    first = next(char for char in word if not char.isascii())
    return unicodedata.name(first, "?").split(" ", 1)[0].split("-", 1)[0]


def _words(summary: Summary) -> frozenset[str]:
    return frozenset(term for line in summary.all_lines for term in terms(line))
