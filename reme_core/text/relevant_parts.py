"""Excerpts of long texts for a question: the parts that say something of it, in the order of the text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reme_core.text.segment import terms
from reme_core.text.summary import split_sentences

# About the length of a sentence: small enough that the best part of a text has room where room is short.
_PART_CHARS = 120
# A part that is cut to less tells nothing.
_LEAST_CHARS = 20
# Only the beginning of a text is read: of fifty texts, what takes some tenths of a second to cut into words.
_READ_CHARS = 20_000
# More parts than these are seldom shown of one text, so that their order need not be known.
_MOST_CHOSEN = 16
_GAP = " … "


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedParts:
    """A text in parts, sentences for the most.

    Attributes:
        parts: In the order of the text; joined they are the text, blanks squeezed.
        ranked: Their places, those to be shown first at the front.
    """

    parts: tuple[str, ...]
    ranked: tuple[int, ...]

    @property
    def chars(self) -> int:
        """The length of the whole text."""
        return len("".join(self.parts).rstrip())

    def excerpt(self, max_chars: int) -> str:
        """Return the whole text, or its best parts with "…" for what is left out.

        At most `max_chars` characters, which have to be 10 at least.
        """
        if self.chars <= max_chars:
            return "".join(self.parts).rstrip()
        taken: dict[int, str] = {}
        room = max_chars - len(_GAP)
        for place in self.ranked:
            room -= len(_GAP)
            part = self.parts[place][: max(0, room)]
            if part == self.parts[place] or len(part) >= _LEAST_CHARS or not taken:
                taken[place] = part
            room -= len(part)
            if part != self.parts[place]:
                break
        return self._joined(taken)

    def _joined(self, taken: Mapping[int, str]) -> str:
        text, end = "", 0
        for place in sorted(taken):
            text = text + taken[place] if place == end else text.rstrip() + _GAP + taken[place]
            end = place + 1 if taken[place] == self.parts[place] else -1
        return text.strip() if end == len(self.parts) else f"{text.rstrip()}{_GAP}".strip()


def rank_parts(texts: Sequence[str], words: frozenset[str]) -> list[RankedParts]:
    """Cut texts into parts, and rank the parts of each by what they say of a question with these index terms.

    The best part comes first, then the beginning, which mostly says what a text is about, then parts with words that
    were not shown yet, then the others as they stand. A word counts the more, the fewer of the texts hold it. Of a text
    above 20,000 characters only the beginning is read.
    """
    cut = [tuple(_parts(text[:_READ_CHARS])) for text in texts]
    shared = [[words.intersection(terms(part)) for part in parts] for parts in cut]
    held = Counter(word for of_text in shared for word in frozenset[str]().union(*of_text))
    weights = {word: math.log1p(len(texts) / count) for word, count in held.items()}
    return [
        RankedParts(parts=parts, ranked=_ranked(of_text, weights)) for parts, of_text in zip(cut, shared, strict=True)
    ]


def _ranked(shared: Sequence[frozenset[str]], weights: Mapping[str, float]) -> tuple[int, ...]:
    told: frozenset[str] = frozenset()
    chosen: list[int] = []
    while len(chosen) < _MOST_CHOSEN:
        gains = [math.fsum(weights[word] for word in words - told) for words in shared]
        best = max(gains, default=0.0)
        if not best:
            break
        chosen.append(gains.index(best))
        told |= shared[chosen[-1]]
    return tuple(dict.fromkeys([*chosen[:1], *range(len(shared))[:1], *chosen, *range(len(shared))]))


def _parts(text: str) -> Iterator[str]:
    end = 0
    for sentence in split_sentences(text):
        end = text.index(sentence, end) + len(sentence)
        left = " ".join(sentence.split())
        while len(left) > _PART_CHARS:
            cut = left.rfind(" ", _PART_CHARS // 2, _PART_CHARS) + 1 or _PART_CHARS
            yield left[:cut]
            left = left[cut:]
        yield f"{left} " if text[end : end + 1].isspace() else left
