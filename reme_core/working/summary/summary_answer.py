"""Answers of a model that keeps a summary: their form, the summary that they make, and what makes one unusable.

A model is shown the summary so far line by line, each with a number, and says what is new and which lines are gone. All
others stay as they are, letter by letter: what it forgets to say again isn't lost.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue, ValidationError

from reme_core.ports import ResponseSchema, TokenCounter
from reme_core.schema import describe
from reme_core.schema.checks import Text
from reme_core.text import json_line, normalise_content, terms
from reme_core.working.summary.sections import Section, Summary, parse_summary, summary_of
from reme_core.working.tool_results import drop_unknown_references

# What is somewhat too long loses its least lines; what is longer than this is no summary.
_FAR_TOO_LONG = 2
# Below this, a summary with its headings may well be longer than what it summarises.
_LONG_ENOUGH_TOKENS = 400
# The share of an answer's words that stand in what was given: in its own words, a good one has half and more; an error,
# a greeting or an apology has next to none. A single line may be told in other words than the rest.
_LEAST_SHARED, _LEAST_SHARED_BY_LINE = 0.25, 0.15
# A line of fewer words tells too little to be looked for.
_TELLING_WORDS = 3
# Of every ten words that are given and not in the summary yet, one is asked for, up to this many: less says nothing.
_LEAST_WORDS = 8
# The share of the words that only the summary so far has, which are still there: what is done may go, not nearly all.
# Progress and next steps don't count.
_LEAST_KEPT, _WORTH_KEEPING = 0.2, 10
_LASTING = (Section.GOAL, Section.CONSTRAINTS, Section.DECISIONS, Section.CONTEXT)

_FIELDS: Mapping[str, Section] = {section.lower().replace(" ", "_"): section for section in Section}
_LINES: JsonValue = {"type": "array", "items": {"type": "string"}}

SUMMARY_SCHEMA = ResponseSchema(
    name="summary",
    schema={
        "type": "object",
        "properties": {"gone": {"type": "array", "items": {"type": "integer"}}, **dict.fromkeys(_FIELDS, _LINES)},
        "required": ["gone", *_FIELDS],
        "additionalProperties": False,
    },
)
"""The form of an answer."""


def _listed(value: object) -> object:
    """Return a list of a model: none for null, one of one for a text or a number."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str | int) else value


Lines = Annotated[tuple[Text, ...], BeforeValidator(_listed)]


class WrittenSummary(BaseModel):
    """An answer: numbers of lines that are gone, and new lines of each section; keys of its own say nothing."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    gone: Annotated[tuple[int, ...], BeforeValidator(_listed)] = ()
    goal: Lines
    constraints: Lines
    progress: Lines
    key_decisions: Lines
    next_steps: Lines
    critical_context: Lines

    @property
    def new(self) -> Summary:
        """The new lines."""
        fields = (self.goal, self.constraints, self.progress, self.key_decisions, self.next_steps)
        return summary_of(dict(zip(Section, (*fields, self.critical_context), strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What an answer was made from.

    Attributes:
        before: The summary so far.
        tokens: How long the messages are.
        texts: The texts of the messages.
        words: The index terms of the messages and of the summary so far.
        new_words: Those of the messages alone.
        script: Of most of the text: words of another script can't be looked for in a text of this one.
        citable: References that may be cited.
    """

    before: Summary
    tokens: int
    texts: tuple[str, ...]
    words: frozenset[str]
    new_words: frozenset[str]
    script: str
    citable: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAnswer:
    """What became of an answer: a summary, what is wrong with it, or both where it is only too long.

    Attributes:
        summary: The new summary; None: nothing of the answer can be used.
        problem: Told to whoever wrote it; "" for none.
    """

    summary: Summary | None = None
    problem: str = ""


def numbered_lines(summary: Summary) -> str:
    """Write a summary as a line of JSON for each section that has any: `{"goal":{"1":"…","2":"…"}}`."""
    shown, number = list[str](), 0
    for field, section in _FIELDS.items():
        lines = dict[str, JsonValue]()
        for line in summary.of(section):
            number += 1
            lines[str(number)] = line
        shown += [json_line({field: lines})] if lines else []
    return "\n".join(shown)


def given_from(
    before: Summary, texts: Sequence[str], counter: TokenCounter, *, citable: frozenset[str] = frozenset()
) -> Given:
    """Describe what an answer is made from: the summary so far, and the texts of the messages."""
    uses = Counter[str]()
    for text in texts:
        uses.update(terms(text))
    new_words = frozenset(uses)
    uses.update(_words(before))
    scripts = Counter[str]()
    for word, count in uses.items():
        scripts[_script(word)] += count
    return Given(
        before=before,
        tokens=sum(map(counter.count, texts)),
        texts=tuple(texts),
        words=frozenset(uses),
        new_words=new_words,
        script=scripts.most_common(1)[0][0] if scripts else "",
        citable=citable,
    )


def read_answer(
    value: JsonValue, text: str, given: Given, *, limit_tokens: int, asked_tokens: int, counter: TokenCounter
) -> ReadAnswer:
    """Read an answer: JSON of `SUMMARY_SCHEMA`, or else a text with the six headings.

    A summary that has more than `limit_tokens` with its new lines is a problem, of which the model is told how it comes
    to `asked_tokens`; unless it is far too long it can be used nevertheless.
    Lines that share next to no word with what was given are left out, and so are references that there aren't.
    """
    try:
        written = _written(value, text)
    except ValidationError as exc:
        return ReadAnswer(problem=describe(exc, "answer"))
    except ValueError as exc:
        return ReadAnswer(problem=str(exc))
    problem = _problem(written.new, given, limit_tokens, counter)
    if problem:
        return ReadAnswer(problem=problem)
    summary = _joined(given, written)
    if summary.is_empty:
        return ReadAnswer(problem="every section is empty")
    if _is_forgetful(summary, given):
        return ReadAnswer(problem="gone names nearly all that the summary so far says: only what is done or replaced")
    return ReadAnswer(summary=summary, problem=_excess(summary, limit_tokens, asked_tokens, counter))


def _written(value: JsonValue, text: str) -> WrittenSummary:
    """Read the form of an answer (ValueError, a ValidationError among them, if it has none)."""
    if isinstance(value, dict):
        named = {key.strip().lower().replace(" ", "_"): item for key, item in value.items()}
        return WrittenSummary.model_validate(named)
    summary = parse_summary(text)
    return WrittenSummary.model_validate({field: summary.of(section) for field, section in _FIELDS.items()})


def _problem(new: Summary, given: Given, limit_tokens: int, counter: TokenCounter) -> str:
    """Return what is wrong with new lines by themselves."""
    tokens = counter.count(new.text)
    if tokens > _FAR_TOO_LONG * limit_tokens:
        return f"its lines have {len(new.text)} characters, far too many: write less"
    if tokens > given.tokens >= _LONG_ENOUGH_TOKENS:
        return f"its lines have {len(new.text)} characters, more than what they summarise: write less"
    words = _words(new)
    shared = words & given.words
    fresh = given.new_words - _words(given.before)
    if len(shared) < min(_LEAST_WORDS, len(fresh) // 10):
        return "it says next to nothing of what was given"
    looked_for = _looked_for(words, given)
    if len(shared & looked_for) < _LEAST_SHARED * len(looked_for):
        return "it hardly has a word in common with what was given: use the words of the conversation"
    return ""


def _joined(given: Given, written: WrittenSummary) -> Summary:
    """Return the lines so far that aren't gone, and behind them, in each section, the new ones."""
    gone = frozenset(written.gone)
    number, lines = 0, dict[Section, list[str]]()
    for section in Section:
        kept = list[str]()
        for line in given.before.of(section):
            number += 1
            if number not in gone:
                kept.append(line)
        new = [cited for line in written.new.of(section) if (cited := _usable(line, given))]
        lines[section] = [line for line in kept if not any(_says_all(other, line) for other in new)] + new
    return summary_of(lines)


def _usable(line: str, given: Given) -> str:
    """Return a new line without references that there aren't; "" for a line that is about something else."""
    looked_for = _looked_for(frozenset(terms(line)), given)
    is_telling = len(looked_for) >= _TELLING_WORDS and bool(given.words)
    if is_telling and len(looked_for & given.words) < _LEAST_SHARED_BY_LINE * len(looked_for):
        return ""
    return drop_unknown_references(line, given.citable, (*given.before.all_lines, *given.texts))


def _says_all(line: str, other: str) -> bool:
    """Tell whether a line has all words and numbers of another one, which is then said again."""
    words = frozenset(terms(other))
    return words <= frozenset(terms(line)) if words else normalise_content(line) == normalise_content(other)


def _is_forgetful(summary: Summary, given: Given) -> bool:
    """Tell whether nearly all is gone of what the summary so far alone says."""
    known = frozenset(term for section in _LASTING for line in given.before.of(section) for term in terms(line))
    known -= given.new_words
    return len(known) >= _WORTH_KEEPING and len(known & _words(summary)) < _LEAST_KEPT * len(known)


def _excess(summary: Summary, limit_tokens: int, asked_tokens: int, counter: TokenCounter) -> str:
    """Return by how much a summary is too long; "" where it isn't."""
    tokens = counter.count(summary.text)
    if tokens <= limit_tokens:
        return ""
    chars = len(summary.text)
    most = chars * asked_tokens // tokens
    return (
        f"with the lines that stay it would have {chars} characters, {chars - most} too many: name more lines in gone, "
        "the oldest of progress first, and write one shorter line in place of several"
    )


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
