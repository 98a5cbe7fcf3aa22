"""Search for equal memories in a store, without reading a whole target."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from reme_core.errors import UnsupportedFilterError
from reme_core.ports import MemoryFilter, Store, Target
from reme_core.rules import Claim, claim_of
from reme_core.schema import Memory, Scope
from reme_core.steps.targets import all_memories
from reme_core.text import query_terms
from reme_core.text.segment import GRAM_RANGES

# Words between blanks, in letters whose index terms don't hang on how a text is written: Latin without accents,
# Cyrillic, Hebrew, Arabic. None with an accent of its own behind it, which is an apostrophe where texts are cut into
# terms, and stands behind a blank in the normal form.
_WORDS = re.compile(r"(?<!\S)[a-z0-9\u0430-\u045f\u05d0-\u05ea\u0621-\u064a]+(?!\S| \u0301)")
_GRAMS = re.compile(f"[{GRAM_RANGES}]+")
# All words together find few memories long before they are this many.
_MOST_WORDS, _MOST_GRAMS = 24, 12


async def find_equal_memories(store: Store, scope: Scope, claims: Iterable[Claim]) -> dict[str, Memory]:
    """Return the current memories that say what claims say, by id.

    A store has no search by normal form. It has one by words, and those that every spelling of a claim has leave few
    memories to compare. Where there are no such words, or the store can't filter by words, the target is read.
    """
    rest: dict[Target, set[Claim]] = {}
    twins: dict[str, Memory] = {}
    for claim in claims:
        target, keyword = Target(claim.memory_type, claim.memory_target), certain_words(claim.content)
        try:
            found = await _same(store, scope, target, [claim], keyword) if keyword else None
        except UnsupportedFilterError:
            found = None
        if found is None:
            rest.setdefault(target, set()).add(claim)
        else:
            twins |= found
    for target, wanted in rest.items():
        twins |= await _same(store, scope, target, wanted, None)
    return twins


async def _same(
    store: Store, scope: Scope, target: Target, wanted: Collection[Claim], keyword: str | None
) -> dict[str, Memory]:
    near = MemoryFilter(types=(target.memory_type,), targets=(target.memory_target,), keyword=keyword)
    held = await all_memories(store, scope, near)
    return {memory.memory_id: memory for memory in held if claim_of(memory) in wanted}


def certain_words(normal: str) -> str:
    """Return words of a normalised content that are index terms of every text with that normal form; may be empty.

    Left out is what depends on the spelling: words that lose an ending in the index (another form is kept of "doGs",
    which reads as two words, than of "dogs"), and those with "ss", which may be written with one letter.
    """
    words = [word for word in _WORDS.findall(normal) if query_terms(word) == [word] and "ss" not in word]
    grams = [run[:_MOST_GRAMS] for run in _GRAMS.findall(normal)]
    return " ".join(list(dict.fromkeys(words + grams))[:_MOST_WORDS])
