"""Passages of a long text: a few sentences each, the unit in which long texts are indexed, embedded and shown.

A reply of 400 words holds many subjects, and the one that is asked for stands in a few of its sentences. Passages are
consecutive and don't overlap; together they are the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from reme_core.text.segment import GRAM_RANGES, query_terms, terms

LONG_TERMS = 200
"""A text of more terms is cut: 94 % of the replies of assistants in BEAM (Tavakoli and others), 3 % of users' turns."""

PASSAGE_CHARS = 480
"""The most characters of a passage, about 120 tokens: what answered most questions in the same budget on BEAM."""

PASSAGE_GRAMS = 160
"""The same where most characters are of a script without blanks, which take three times as many tokens."""

# Characters by whose scripts the size of the passages is chosen.
_SAMPLE_CHARS = 2_000
_GRAM = re.compile(f"[{GRAM_RANGES}]")
# Blank lines, ends of lines and of sentences: where a text may be cut.
_BREAK = re.compile(r"\n+|(?<=[.!?])\s+|(?<=[。！？])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A stretch of a text: characters `start` to `end`, the last one not included."""

    start: int
    end: int


def cut_passages(text: str, *, most_chars: int | None = None) -> list[Passage]:
    """Cut a text into passages of whole sentences, each of at most `most_chars` characters, by its script if not given.

    A sentence that is longer is cut behind a blank or a sign, or where there is none in its last half, anywhere. Time
    linear in the length of the text; an empty text has no passage.
    """
    most_chars = most_chars or _fitting_chars(text)
    bounds = [0]
    sentence_ends = (match.end() for match in _BREAK.finditer(text))
    last = 0
    for end in _distinct(sentence_ends, len(text)):
        if end - bounds[-1] > most_chars and last > bounds[-1]:
            bounds.append(last)
        while end - bounds[-1] > most_chars:
            bounds.append(_inside(text, bounds[-1], most_chars))
        last = end
    if last > bounds[-1]:
        bounds.append(last)
    return [Passage(start=start, end=end) for start, end in pairwise(bounds)]


def segment_passages(text: str) -> tuple[list[str], bytes]:
    """Return the index terms of a text and its packed passages, none where it is short.

    The terms of a long text are those of its passages one behind the other; of a word in a script without blanks that a
    cut has parted, the pair across the cut belongs to the passage behind it. Packed are two little-endian 32-bit
    numbers for each passage: where it ends, in characters, and how many terms it has.
    """
    words = terms(text)
    if len(words) <= LONG_TERMS:
        return words, b""
    told = _passages_with_terms(text)
    parts = [_across(text, passage.start) + part for passage, part in told]
    packed = np.array([(passage.end, len(part)) for (passage, _), part in zip(told, parts, strict=True)], "<u4")
    return [word for part in parts for word in part], packed.tobytes()


def passage_sizes(packed: bytes) -> list[int]:
    """Return the number of terms of each packed passage; none for a text that has no passages."""
    sizes: list[int] = np.frombuffer(packed, "<u4")[1::2].tolist()
    return sizes


def passage_spans(packed: bytes) -> list[Passage]:
    """Return where the packed passages begin and end; none for a text that has no passages."""
    ends: list[int] = np.frombuffer(packed, "<u4")[0::2].tolist()
    return [Passage(start=start, end=end) for start, end in pairwise([0, *ends])]


def _distinct(ends: Iterator[int], length: int) -> Iterator[int]:
    """Yield rising ends of sentences, and the end of the text last."""
    before = 0
    for end in ends:
        if before < end < length:
            yield end
            before = end
    if length:
        yield length


def _inside(text: str, start: int, most_chars: int) -> int:
    end = start + most_chars
    return next((place + 1 for place in range(end - 1, start + most_chars // 2, -1) if not text[place].isalnum()), end)


def _fitting_chars(text: str) -> int:
    sample = text[:_SAMPLE_CHARS]
    return PASSAGE_GRAMS if 2 * len(_GRAM.findall(sample)) > len(sample) else PASSAGE_CHARS


def _across(text: str, cut: int) -> list[str]:
    """Return the pair of characters across a cut, where it has parted a run of a script without blanks."""
    pair = text[cut - 1 : cut + 1] if cut else ""
    return query_terms(pair) if len(_GRAM.findall(pair)) == 2 else []


def _passages_with_terms(text: str) -> list[tuple[Passage, list[str]]]:
    """Cut a text and return each passage with its terms; one without any is joined to a neighbour."""
    told: list[tuple[Passage, list[str]]] = []
    for passage in cut_passages(text):
        words = terms(text[passage.start : passage.end])
        if told and not (words and told[-1][1]):
            before, earlier = told.pop()
            told.append((Passage(start=before.start, end=passage.end), earlier + words))
        else:
            told.append((passage, words))
    return told
