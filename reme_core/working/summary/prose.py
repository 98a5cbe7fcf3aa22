"""Summaries of a model without the six headings, or with next to no word of what was said."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from reme_core.ports import TokenCounter
from reme_core.text import split_sentences
from reme_core.working.summary.sections import Section, Summary, clean_line, parse_summary, print_line, summary_of

# A heading, of the summary or of something else; JSON; tags, as of thoughts; a fence.
_OTHER_FORM = re.compile(
    r"^[ \t]*(?:#|```|\*\*[^*\n]+\*\*:?[ \t]*$)|\A(?:[{<]|\[[ \t\n]*(?:[\[\]{\"\d-]|true|false|null))", re.MULTILINE
)
# What many models put around a summary: a tag, a title.
_TAGGED = re.compile(r"<summary>(.*)</summary>", re.DOTALL | re.IGNORECASE)
_TITLE = re.compile(
    r"[#*]*[ \t]*(?:(?:the|conversation|session|context)[ \t]+)*(?:summary|摘要|总结)[ \t:：#*]*\n", re.IGNORECASE
)
_OUR_HEADING = re.compile(rf"\W*(?:{'|'.join(Section)})\W*", re.IGNORECASE)
# What a failing or unwilling model says in place of a summary; in a text that shares next to no word with the talk.
_FAILURE = re.compile(
    r"error|exception|fail|timeout|timed out|unavailable|overload|try again|too many|rate limit|quota|exceeded|invalid"
    r"|denied|forbidden|unauthori|traceback|sorry|apolog|unable|cannot|can['’]?t\b|can not|could not|couldn|not able"
    r"|won['’]t\b|not allowed|declin|violat|guideline|blocked|aborted|bad (?:gateway|request)|not found|insufficient"
    r"|retries|maintenance|(?:service|system|server|model) (?:is )?(?:down|busy|unknown)|(?:unknown|no such) model"
    r"|connection (?:refused|reset|closed|aborted|lost)|hard limit|no (?:response|answer|output|result)s?\b"
    r"|(?:nothing|no (?:conversation|messages?|content|text)) to\b|please provide|language model|happy to|let me know"
    r"|\bas an? ai\b|\bhow (?:can|may) i|\bhelp you|\bassist|\b(?:could|would|do|can|are) you\b[^.?]{0,200}\?"
    r"|anything else|^\W*(?:hello|hi|hey|greetings|welcome|sure|certainly|of course|ok(?:ay)?|thanks?|got it)\b"
    r"|^\W*(?:understood|good (?:morning|afternoon|evening|day)|unfortunately|how are|(?:http\w*\W*)?[45]\d\d)\b"
    r"|^\W*i(?: (?:don['’]t|do not)|['’]m not| am not)\b"
    r"|\A\W*(?:done|null|nan|undefined|true|false|yes|no|empty|stopped|cancell?ed|\d+)\W*\Z"
    r"|错误|失败|异常|超时|抱歉|对不起|不好意思|无法|不能|不支持|你好|您好|繁忙|请提供|请稍后|拒绝|违规|维护中"
    r"|^\W*(?:好的|当然|谢谢|作为)",
    re.IGNORECASE,
)
# What a refusal or an error begins with, though it may name what the talk was about.
_REFUSAL = re.compile(
    r"\W*(?:(?:i['’]m|i am) (?:very |so )?(?:sorry|afraid|unable|not able)|(?:i )?apologi[sz]e|sorry\b"
    r"|unfortunately\W+i\b|\w*(?:error|exception)\s*[:(]|traceback\b"
    r"|as an? (?:ai|assistant|language model)"
    r"|i (?:can['’]?t|can ?not|could not|couldn['’]t|won['’]t|will not|must decline|decline|do not|don['’]t) "
    r"(?:to )?(?:summari|help|assist|do|fulfil|compl|process|provide|generate|produce|create|continue|access|have|see)"
    r"|(?:很|非常|真的)?(?:抱歉|对不起)|不好意思|我?(?:无法|不能)(?:总结|回答|提供|处理|完成|生成|帮)|作为(?:一个)?(?:ai|人工|助手))",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"^\s*\d{1,3}[.)]\s+")
_LETTER = re.compile(r"[^\W\d_]")
# An answer beside quotations takes at most this share of a summary.
_BESIDE_SHARE = 0.5
# A paragraph is cut into lines that are no longer: a summary keeps only the beginning of a longer one. Where not one of
# them has room, into short ones.
_LINE_CHARS, _SHORT_LINE_CHARS = 300, 60


def unwrapped(answer: str) -> str:
    """Return an answer without the tag around it, and without the title above it, that say that it is a summary."""
    tagged = _TAGGED.fullmatch(answer.strip())
    text = tagged[1].strip() if tagged else answer.strip()
    title = _TITLE.match(text)
    return text[title.end() :] if title else text


def is_prose(answer: str) -> bool:
    """Tell whether an answer is a plain text: no headings, no JSON, no tags."""
    text = answer.strip()
    return bool(text) and _OTHER_FORM.search(text) is None


def as_summary(answer: str) -> str:
    """Return a plain text as a summary, all in Critical Context; a refusal, and what has another form, as it is."""
    is_told = is_prose(answer) and _REFUSAL.match(answer) is None
    return summary_of({Section.CONTEXT: _lines(answer)}).text if is_told else answer


def own_words(answer: str) -> tuple[str, ...]:
    """Return the lines of an answer that can't be checked against the talk; none where it is no summary at all.

    That is one without letters, in another form, or that reads like a failure; nothing of it is to be used. Lines that
    point somewhere are left out.
    """
    lines = [line for line in _lines(answer) if _OUR_HEADING.fullmatch(line) is None]
    told = "\n".join(lines)
    if not is_prose(told) or _LETTER.search(told) is None or _FAILURE.search(told):
        return ()
    return tuple(line for line in lines if "reload" not in line.casefold())


def most_beside(parts: Sequence[Sequence[str]], limit_tokens: int, counter: TokenCounter) -> tuple[str, ...]:
    """Return as many lines as may stand beside quotations, each once; where parts are long, their first ones."""
    room = int(limit_tokens * _BESIDE_SHARE)
    kept = [list(dict.fromkeys(part)) for part in parts]
    costs = {line: counter.count(print_line(line)) + 1 for part in kept for line in part}
    sums = [sum(costs[line] for line in part) for part in kept]
    total = sum(sums)
    while total > room:
        longest = max(range(len(kept)), key=sums.__getitem__)
        cost = costs[kept[longest].pop()]
        sums[longest] -= cost
        total -= cost
    return tuple(dict.fromkeys(line for part in kept for line in part))


def most_of(words: Sequence[str], limit_tokens: int, counter: TokenCounter) -> tuple[str, ...]:
    """Return as many of the first words of an answer as may stand beside quotations."""
    short = [piece for line in words for piece in _pieces(line, _SHORT_LINE_CHARS)]
    return most_beside([words], limit_tokens, counter) or most_beside([short], limit_tokens, counter)


def tokens_of(lines: Sequence[str], counter: TokenCounter) -> int:
    """Return the tokens of lines of a summary."""
    return counter.count("\n".join(map(print_line, lines)))


def with_words(summary: Summary, lines: Sequence[str]) -> Summary:
    """Return a summary with lines at the end of Critical Context, those that it lacks."""
    there = summary.of(Section.CONTEXT)
    return summary.with_lines(Section.CONTEXT, (*there, *(line for line in lines if line not in there)))


def within(summary: Summary, limit_tokens: int, counter: TokenCounter) -> Summary:
    """Return a summary that is at most `limit_tokens` long, without the first lines of its longest sections."""
    while counter.count(summary.text) > limit_tokens and not summary.is_empty:
        longest = max(Section, key=lambda section: len(summary.of(section)))
        summary = summary.with_lines(longest, summary.of(longest)[1:])
    return summary


def beside(text: str, lines: Sequence[str], limit_tokens: int, counter: TokenCounter) -> str | None:
    """Return the text of a summary with lines at its end, at most `limit_tokens` long; None if there is no room."""
    try:
        summary = parse_summary(text)
    except ValueError:  # not even the headings had room
        return None
    kept = list(lines)
    while kept:
        found = with_words(summary, kept).text
        if counter.count(found) <= limit_tokens:
            return found
        kept.pop()
    return None


def _lines(answer: str) -> list[str]:
    found = (clean_line(_NUMBERED.sub("", line, count=1)) for line in answer.splitlines())
    return [piece for line in found if line for piece in _pieces(line, _LINE_CHARS)]


def _pieces(line: str, most_chars: int) -> list[str]:
    """Cut a long line between sentences, and a long sentence between words."""
    if len(line) <= most_chars:
        return [line]
    pieces: list[str] = []
    for sentence in split_sentences(line):
        for part in textwrap.wrap(sentence, most_chars, break_on_hyphens=False):
            if pieces and len(pieces[-1]) + len(part) < most_chars:
                pieces[-1] += f" {part}"
            else:
                pieces.append(part)
    return [piece for piece in map(clean_line, pieces) if piece]
