"""Search for duplicates of new memories: equal and similar ones, in the store and among themselves.

Compared is what memories are found by, `index_text`, within one scope, type and target. With vectors two say the same
if these are near; but not if a word or two are replaced (enable, disable), if the words stand in another order (a
before b), or if they deny or count otherwise: a lesson lost costs more than one told twice. Without vectors they say
the same if their words do, in the same order. Equal contents are equal whatever their `when_to_use`, as in the store.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from reme_core.errors import UnsupportedFilterError
from reme_core.ports import Matrix, MemoryFilter, MemorySearch, Store, Target, Vector
from reme_core.rules import Claim, claim_of
from reme_core.schema import Memory, Scope
from reme_core.steps.targets import all_memories, claim_on, memories_about
from reme_core.text import query_terms, terms
from reme_core.text.segment import GRAM_RANGES

# Words between blanks, in letters whose index terms don't hang on how a text is written: Latin without accents,
# Cyrillic, Hebrew, Arabic. None with an accent of its own behind it, which is an apostrophe where texts are cut into
# terms, and stands behind a blank in the normal form.
_WORDS = re.compile(r"(?<!\S)[a-z0-9\u0430-\u045f\u05d0-\u05ea\u0621-\u064a]+(?!\S| \u0301)")
_GRAMS = re.compile(f"[{GRAM_RANGES}]+")
# All words together find few memories long before they are this many.
_MOST_WORDS, _MOST_GRAMS = 24, 12
# From so many claims on, a target is read once for all of them.
_MANY = 8


async def find_equal_memories(store: Store, scope: Scope, claims: Iterable[Claim]) -> dict[Claim, Memory]:
    """Return the current memories that say what claims say; of each claim there is one at most.

    A store has no search by normal form. It has one by words, and those that every spelling of a claim has leave few
    memories to compare. Where there are no such words, many claims on one target, or a store that can't filter by
    words, the target is read once.
    """
    wanted: dict[Target, set[Claim]] = {}
    for claim in claims:
        wanted.setdefault(Target(claim.memory_type, claim.memory_target), set()).add(claim)
    found: dict[Claim, Memory] = {}
    for target, group in wanted.items():
        about = memories_about(target)
        keywords = [certain_words(claim.content) for claim in group] if len(group) < _MANY else [""]
        try:
            held = await _with_words(store, scope, about, keywords)
        except UnsupportedFilterError:
            held = await all_memories(store, scope, about)
        found |= {own: memory for memory in held if (own := claim_of(memory)) is not None and own in group}
    return found


async def _with_words(store: Store, scope: Scope, about: MemoryFilter, keywords: Sequence[str]) -> list[Memory]:
    """Return the memories that hold all words of some keyword; all of them, where one has no words."""
    if not all(keywords):
        return await all_memories(store, scope, about)
    filters = (replace(about, keyword=keyword) for keyword in dict.fromkeys(keywords))
    return [memory for one in filters for memory in await all_memories(store, scope, one)]


def certain_words(normal: str) -> str:
    """Return words of a normalised content that are index terms of every text with that normal form; may be empty.

    Left out is what depends on the spelling: words that lose an ending in the index (another form is kept of "doGs",
    which reads as two words, than of "dogs"), and those with "ss", which may be written with one letter.
    """
    words = [word for word in _WORDS.findall(normal) if query_terms(word) == [word] and "ss" not in word]
    grams = [run[:_MOST_GRAMS] for run in _GRAMS.findall(normal)]
    return " ".join(list(dict.fromkeys(words + grams))[:_MOST_WORDS])


SIMILARITY = 0.9
"""As near as this, two texts say the same: paraphrases lie above it, related advice below."""

_NEAREST = 5
# Two texts of which so few words are others speak of two things. One character of Chinese stands in two terms.
_FEW_WORDS = 4
# One word makes the opposite of a long text, and a number another case.
_TURNS = re.compile(r"\d+(?:[.,]\d+)*|\b(?:not|no|never|none|without|cannot)\b|n['’]t\b|[不没沒未勿]", re.IGNORECASE)
_NOT = frozenset({"not", "cannot", "n't", "n’t"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """A memory that is to be written.

    Attributes:
        target: What it is about.
        content: What it says.
        index_text: What it will be found by.
        vector: The vector of `index_text`; None compares it by its words.
    """

    target: Target
    content: str
    index_text: str
    vector: Vector | None = None

    @property
    def claim(self) -> Claim:
        """What it would claim for itself alone."""
        return claim_on(self.target, self.content)


@dataclass(frozen=True, slots=True)
class Duplicate:
    """What a newcomer repeats: a stored memory, or the newcomer at a place before it."""

    memory: Memory | None = None
    place: int | None = None


async def find_duplicates(
    store: Store, scope: Scope, newcomers: Sequence[NewMemory], *, similarity: float = SIMILARITY
) -> list[Duplicate | None]:
    """Return for each newcomer what it repeats, None where that is nothing; the first of equal newcomers stays.

    `similarity` is the least cosine of two that say the same, in [-1, 1].
    """
    equal = await find_equal_memories(store, scope, [newcomer.claim for newcomer in newcomers])
    near: list[Sequence[Memory]] = []
    for newcomer in newcomers:
        same = equal.get(newcomer.claim)
        near.append([same] if same is not None else await _near(store, scope, newcomer, similarity))
    # Texts may be long, and libraries of them as well.
    return await asyncio.to_thread(_compared, newcomers, near, similarity)


async def _near(store: Store, scope: Scope, newcomer: NewMemory, similarity: float) -> list[Memory]:
    near = memories_about(newcomer.target)
    if newcomer.vector is not None:
        search = MemorySearch(vector=newcomer.vector, limit=_NEAREST, filter=near, min_score=similarity)
    elif newcomer.index_text.strip():
        search = MemorySearch(text=newcomer.index_text, limit=_NEAREST, filter=near)
    else:
        return []
    return [item.memory for item in await store.search(scope, search)]


def _compared(
    newcomers: Sequence[NewMemory], near: Sequence[Sequence[Memory]], similarity: float
) -> list[Duplicate | None]:
    known: list[Duplicate | None] = []
    seen: dict[Claim, int] = {}
    kept: dict[Target, _KeptMemories] = {}
    for place, (newcomer, memories) in enumerate(zip(newcomers, near, strict=True)):
        words = _words(newcomer.index_text)
        others = kept.setdefault(newcomer.target, _KeptMemories())
        stored = next((memory for memory in memories if _says(newcomer, words, memory)), None)
        earlier = seen.get(newcomer.claim)
        if stored is None and earlier is None:
            earlier = others.nearest(newcomer, words, similarity)
        if stored is None and earlier is None:
            seen[newcomer.claim] = place
            others.add(newcomer, words, place)
            known.append(None)
        else:
            known.append(Duplicate(memory=stored, place=None if stored is not None else earlier))
    return known


def _says(newcomer: NewMemory, words: _ComparedWords, memory: Memory) -> bool:
    """Tell whether a memory that was found near says what a newcomer says."""
    if claim_of(memory) == newcomer.claim:
        return True
    other = _words(memory.index_text)
    return words.agrees_with(other) if newcomer.vector is not None else words.equals(other)


@dataclass(frozen=True, slots=True)
class _ComparedWords:
    """What texts are compared by beside vectors: the terms in their order, and the numbers and denials."""

    terms: tuple[str, ...]
    turns: frozenset[str]

    def equals(self, other: _ComparedWords) -> bool:
        return bool(self.terms) and self == other

    def agrees_with(self, other: _ComparedWords) -> bool:
        """Tell whether nothing speaks against it that two texts which are near say the same."""
        if self.turns != other.turns:
            return False
        own, others = Counter(self.terms), Counter(other.terms)
        gone, new = (own - others).total(), (others - own).total()
        if gone and new:  # words stand in place of words: of many it is told otherwise, of few it is something else
            return max(gone, new) > _FEW_WORDS
        return _is_within(self.terms, other.terms) if new else _is_within(other.terms, self.terms)


def _is_within(few: Sequence[str], many: Sequence[str]) -> bool:
    """Tell whether words stand among others in the same order."""
    rest = iter(many)
    return all(word in rest for word in few)


def _words(text: str) -> _ComparedWords:
    turns = (turn.lower() for turn in _TURNS.findall(text))
    return _ComparedWords(tuple(terms(text)), frozenset("not" if turn in _NOT else turn for turn in turns))


class _KeptMemories:
    """The newcomers of one target that repeat nothing, so far."""

    def __init__(self) -> None:
        self._places: list[int] = []
        self._said: list[_ComparedWords] = []
        self._rows: Matrix | None = None
        self._by_words: dict[_ComparedWords, int] = {}

    def add(self, newcomer: NewMemory, words: _ComparedWords, place: int) -> None:
        if newcomer.vector is None:
            self._by_words.setdefault(words, place)
            return
        if self._rows is None:
            self._rows = np.zeros((16, len(newcomer.vector)), np.float32)
        if len(self._places) == len(self._rows):
            self._rows = np.concatenate((self._rows, np.zeros_like(self._rows)))
        self._rows[len(self._places)] = newcomer.vector
        self._places.append(place)
        self._said.append(words)

    def nearest(self, newcomer: NewMemory, words: _ComparedWords, similarity: float) -> int | None:
        if newcomer.vector is None:
            return self._by_words.get(words) if words.terms else None
        if self._rows is None:
            return None
        scores = self._rows[: len(self._places)] @ newcomer.vector
        near = np.flatnonzero(scores >= similarity)
        best_first = near[np.argsort(-scores[near], kind="stable")]
        return next((self._places[row] for row in best_first if words.agrees_with(self._said[row])), None)


LEAST_COSINE = 0.4
"""What is as near as this is worth a look of a model."""

# The overlap is the share of the shorter text's words that the longer one holds, the target's name and dates apart:
# what was told on one day shares these. One word alone is what a talk is about, unless there are hardly others.
_LEAST_OVERLAP, _LEAST_WORDS, _ENOUGH_OVERLAP = 0.34, 2, 0.5
_DATED = re.compile(r"[(（][^()（）]*\d{4}[^()（）]*[)）]")


def undated(text: str) -> str:
    """Return a text without the dates that it has in brackets; the whole one where nothing else is left."""
    return _DATED.sub(" ", text).strip() or text


class Overlap(NamedTuple):
    """How much two texts have in common: a share in [0, 1], and how many words that are."""

    share: float
    words: int

    @property
    def is_near(self) -> bool:
        """Whether they are worth a look."""
        return self.share >= _ENOUGH_OVERLAP or (self.words >= _LEAST_WORDS and self.share >= _LEAST_OVERLAP)


def overlap(one: str, other: str, target_name: str) -> Overlap:
    """Return how much two texts about a target have in common."""
    names = set(query_terms(target_name))
    text, held_text = _DATED.sub(" ", one), _DATED.sub(" ", other)
    asked, held = set(query_terms(text)) - names, set(query_terms(held_text)) - names
    shared = len(asked & set(terms(held_text)))
    return Overlap(shared / max(1, min(len(asked), len(held))), shared)


def says_alike(one: str, other: str) -> bool:
    """Tell whether nothing speaks against it that two texts which are near say the same."""
    return _words(one).agrees_with(_words(other))


def denies(text: str) -> bool:
    """Tell whether a text says that something is not so."""
    return any(not turn[0].isdigit() for turn in _words(text).turns)
