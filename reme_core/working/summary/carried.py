"""Lines of the summary before that a model should have copied into the new one, and are added to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reme_core.ports import TokenCounter
from reme_core.text import is_question, split_sentences, terms
from reme_core.working.summary.identifiers import identifiers, occurs, words_in
from reme_core.working.summary.sections import Section, Summary

# Sections whose lines still hold when a model forgets to copy them, and the share of a line's identifiers, or of its
# words where it has none, by which it counts as copied.
_LASTING = (Section.GOAL, Section.CONSTRAINTS, Section.CONTEXT)
_COPIED_NAMES, _COPIED_WORDS = 0.5, 0.34
# Constraints are put back unless something new is said of them; of the rest a model may know that it is done, unless
# this share is gone.
_FAIR_SHARE = 0.5
# The share of a line's index terms, and of all its words, by which another one speaks of the same.
_SAME_TERMS, _SAME_WORDS = 0.6, 0.5
_ASKED_CHARS = 8_000
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d")


def carried(
    before: Summary, summary: Summary, asked: Sequence[str], *, limit_tokens: int, counter: TokenCounter
) -> Summary:
    """Return a summary with lines of the one before that it should have kept, while there is room for them.

    That is every constraint of which neither it nor what users `asked` says something else; goals and facts where most
    of them are gone. They stand before what is new.
    """
    text, words = summary.text, words_in(summary.text)
    said = frozenset(term for line in summary.all_lines for term in terms(line))
    lines = [(section, line) for section in _LASTING for line in before.of(section)]
    missing = [(section, line) for section, line in lines if not _is_copied(line, text, words, said)]
    is_fair = len(missing) <= _FAIR_SHARE * len(lines)
    # Who asks about a thing doesn't change it.
    sentences = [
        sentence
        for part in (asked if missing else ())
        for sentence in split_sentences(part[:_ASKED_CHARS])
        if not is_question(sentence)
    ]
    others = [*map(_Saying.of, sentences)]
    added = dict[Section, list[str]]()
    for section, line in missing:
        if is_fair and section is not Section.CONSTRAINTS:
            continue
        if _is_replaced(_Saying.of(line), [*map(_Saying.of, summary.of(section)), *others]):
            continue
        longer = [*added.get(section, ()), line]
        if counter.count(_with_added(summary, {**added, section: longer}).text) <= limit_tokens:
            added[section] = longer
    return _with_added(summary, added)


def _with_added(summary: Summary, added: Mapping[Section, Sequence[str]]) -> Summary:
    for section, lines in added.items():
        summary = summary.with_lines(section, (*lines, *summary.of(section)))
    return summary


@dataclass(frozen=True, slots=True)
class _Saying:
    """A line or sentence: its index terms and all its words, both without numbers, and its numbers."""

    terms: frozenset[str]
    words: frozenset[str]
    numbers: frozenset[str]

    @classmethod
    def of(cls, text: str) -> _Saying:
        found = terms(text)
        numbers = frozenset(term for term in found if _NUMBER.search(term))
        return cls(frozenset(found) - numbers, frozenset(_WORD.findall(text.casefold())), numbers)


def _is_replaced(line: _Saying, others: Sequence[_Saying]) -> bool:
    """Tell whether somebody says something else of what a line says, and nobody says it again word for word."""
    if any(line.words <= other.words and line.numbers <= other.numbers for other in others):
        # Said with a new number beside the old one, it is the old one that goes.
        return bool(line.numbers) and any(
            line.words <= other.words and other.numbers > line.numbers for other in others
        )
    return any(
        len(line.terms & other.terms) > _SAME_TERMS * len(line.terms)
        and len(line.words & other.words) >= _SAME_WORDS * len(line.words)
        for other in others
    )


def _is_copied(line: str, text: str, words: frozenset[str], said: frozenset[str]) -> bool:
    names = [item.text for item in identifiers(line)]
    if names:
        return sum(occurs(name, text, words) for name in names) >= _COPIED_NAMES * len(names)
    there = frozenset(terms(line))
    return len(there & said) >= _COPIED_WORDS * len(there)
