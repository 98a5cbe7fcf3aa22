"""Checks of a joined text against the texts that it stands for: nothing is lost, and nothing is added.

What is wrong is a ValueError that begins with `INCOMPLETE` and quotes what a model can put right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reme_core.retrieval.named_dates import NUMBER_WORDS, NamedDate, take_dates
from reme_core.steps.similar_memories import denies
from reme_core.text import normalise_content, query_terms, terms
from reme_core.text.segment import GRAM_RANGES

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s*")
_BRACKETED = re.compile(r"[(（\[]([^()（）\[\]]*\d{4}[^()（）\[\]]*)[)）\]]")
_GRAMS = re.compile(f"[{GRAM_RANGES}]+")
_PARTICLES = frozenset("的了是在着过地得个只也都就很而")
_LISTED = re.compile(r"[,，、/&]|\b(?:and|or)\b|[和与及或跟]")
# Of two that say nearly as much the text may follow either.
_FULL = 0.8
_MOST_TOLD = 8
# Words that join two statements; a text with more of its own says something of its own.
_MOST_ADDED = 3
INCOMPLETE = "the joined text"
"""Begins what is said of a text that lacks something: a model may mend it."""


@dataclass(frozen=True, slots=True)
class _Told:
    """What of a text can be looked for in another one: dates, what brackets say with a date, numbers, names, words."""

    dates: tuple[NamedDate, ...]
    brackets: tuple[str, ...]
    numbers: tuple[str, ...]
    names: tuple[str, ...]
    words: tuple[str, ...]
    is_list: bool


def check_keeps_all(texts: Sequence[str], content: str) -> None:
    """Refuse a text that lacks a number, date or name of one of them, or a part of a list (ValueError).

    It holds every word of one of the fullest, too, and of all that list something.
    """
    if not content.strip():
        msg = f"{INCOMPLETE} is empty"
        raise ValueError(msg)
    if any(denies(text) for text in texts) and not denies(content):
        msg = f"{INCOMPLETE} does not deny what one of them denies"
        raise ValueError(msg)
    (dates, rest), folded = take_dates(content), normalise_content(content)
    numbers, held = set(_numbers(rest)), {*terms(content), *"".join(_GRAMS.findall(content))}
    told = [_told(text) for text in texts]
    lost = [number for own in told for number in own.numbers if number not in numbers]
    lost += [name for own in told for name in own.names if not held.issuperset(terms(name))]
    lost += [text for own in told for text in own.brackets if normalise_content(text) not in folded]
    lost += [_shown(date) for own in told for date in own.dates if not any(is_within(date, its) for its in dates)]
    missing = [[word for word in own.words if not held.issuperset(terms(word))] for own in told]
    lost += [word for own, lacks in zip(told, missing, strict=True) if own.is_list for word in lacks]
    most = max(len(own.words) for own in told)
    full = [lacks for own, lacks in zip(told, missing, strict=True) if len(own.words) >= _FULL * most]
    nearest = min(full, key=len)
    lost += nearest
    if lost:
        msg = f"{INCOMPLETE} lacks {_quoted(lost)}"
        raise ValueError(msg)


def check_adds_nothing(texts: Sequence[str], content: str) -> None:
    """Refuse a text with a number, date, name or denial that no part has, or more than a few words (ValueError)."""
    if denies(content) and not any(denies(text) for text in texts):
        msg = f"{INCOMPLETE} denies what none of them denies"
        raise ValueError(msg)
    told, own = [_told(text) for text in texts], _told(content)
    text = " ".join(texts)
    held, dates = {*terms(text), *"".join(_GRAMS.findall(text))}, [date for part in told for date in part.dates]
    words = [word for word in own.words if not held.issuperset(terms(word))]
    added = [number for number in own.numbers if number not in _numbers(text)]
    added += [name for name in own.names if not held.issuperset(terms(name))]
    added += [_shown(date) for date in own.dates if not any(is_within(date, its) for its in dates)]
    added += words if len(words) > _MOST_ADDED else []
    if added:
        msg = f"{INCOMPLETE} adds {_quoted(added)}"
        raise ValueError(msg)


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(repr(text) for text in list(dict.fromkeys(texts))[:_MOST_TOLD])


def _told(text: str) -> _Told:
    dates, rest = take_dates(text)
    brackets = (inside.strip() for inside in _BRACKETED.findall(text))
    # What a bracket says beside its date, such as "the week before", makes it another date.
    spoken = (inside for inside in brackets if any(char.isalnum() for char in take_dates(inside)[1]))
    names = (
        word
        for sentence in _SENTENCE.split(rest)
        for word in _words(sentence)[1:]
        if word[0].isupper() and len(word) > 1 and not word.startswith(("I'", "I’"))
    )
    return _Told(
        dates=tuple(dates),
        brackets=tuple(spoken),
        numbers=tuple(_numbers(rest)),
        names=tuple(names),
        words=tuple(dict.fromkeys(_saying(rest))),
        is_list=_LISTED.search(rest) is not None,
    )


def _numbers(text: str) -> list[str]:
    """Return the numbers in a text as figures, in whichever form they are written."""
    spelled = (NUMBER_WORDS.get(word.lower()) for word in _WORD.findall(text))
    return [*_NUMBER.findall(text), *(str(number) for number in spelled if number is not None)]


def _saying(text: str) -> Iterable[str]:
    """Return the words that a text is found by, and of scripts without blanks the characters that say something."""
    yield from (word for word in _words(_GRAMS.sub(" ", text)) if query_terms(word))
    yield from (char for run in _GRAMS.findall(text) for char in run if char not in _PARTICLES)


def _words(text: str) -> list[str]:
    return [re.sub(r"['’]s?$", "", word) for word in _WORD.findall(text)]


def is_within(date: NamedDate, other: NamedDate) -> bool:
    """Tell whether a date is told by another one that says as much or more."""
    return all(own in (None, its) for own, its in zip(_fields(date), _fields(other), strict=True))


def _fields(date: NamedDate) -> tuple[int | None, int | None, int | None]:
    return date.year, date.month, date.day


def _shown(date: NamedDate) -> str:
    return "-".join(f"{part:02d}" for part in _fields(date) if part is not None)
