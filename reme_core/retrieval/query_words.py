"""Words of a query: its own terms, and those they may stand for, by a thesaurus of everyday English.

A question and the text that answers it often use different words of one meaning ("job", "work"), or the question names
the kind of what the text names ("which sport", "surfing"). The groups in `thesaurus.txt` are general English, of the
size of a phrase book's index, written without regard to any one data set; a list that grows towards a data set would
measure itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

import numpy as np

from reme_core.retrieval.arrays import FloatArray, HashArray, IntArray
from reme_core.text.segment import pack_terms, query_terms, terms, unpack_terms

_FILE = "thesaurus.txt"


@lru_cache(maxsize=1 << 12)
def related_terms(term: str) -> tuple[str, ...]:
    """List the terms that a query's term may stand for, itself left out, in alphabetical order; often none.

    Takes and gives index terms, as `terms` makes them. Only words that begin like the term are stemmed, not the lists:
    stemming keeps the first two letters.
    """
    groups = _groups()
    alike = [word for word in groups.by_beginning.get(term[:2], ()) if term in terms(word)]
    members = {member for word in alike for number in groups.of_word[word] for member in groups.members[number]}
    return tuple(sorted({found for member in members for found in terms(member)} - {term}))


@dataclass(frozen=True, slots=True)
class _Groups:
    """Groups of words as written; the groups of each word that may stand for others; these words by beginning."""

    members: tuple[tuple[str, ...], ...]
    of_word: Mapping[str, tuple[int, ...]]
    by_beginning: Mapping[str, tuple[str, ...]]


@lru_cache(maxsize=1)
def _groups() -> _Groups:
    members: list[tuple[str, ...]] = []
    of_word: dict[str, list[int]] = {}
    text = resources.files(__package__).joinpath(_FILE).read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        kind, colon, listed = line.partition(":")
        heads = kind.split()
        for head in heads:
            of_word.setdefault(head, []).append(len(members))
        members.append(tuple(listed.split() if colon else heads))
    beginnings: dict[str, list[str]] = {}
    for word in of_word:
        beginnings.setdefault(word[:2], []).append(word)
    return _Groups(
        members=tuple(members),
        of_word={word: tuple(numbers) for word, numbers in of_word.items()},
        by_beginning={beginning: tuple(words) for beginning, words in beginnings.items()},
    )


# What a related term counts beside the term of the query itself; 0.2 to 0.6 do alike on LoCoMo.
_RELATED = 0.4
# A longer query is a pasted text: its beginning says what it is, and says it in words enough.
_MOST_TERMS = 256
_MOST_TERMS_RELATED = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWords:
    """Terms looked up for a query, gathered to q units: a term, or all terms related to one.

    Attributes:
        hashes: (m,) hashes to look up.
        units: (m,) the unit of each hash, 0 .. q - 1, rising.
        weights: (q,) what a unit counts.
        plain: the first so many units are one term each; the last of them, of weight 0, are the single characters of
            scripts without blanks, which texts have beside their pairs.
    """

    hashes: HashArray
    units: IntArray
    weights: FloatArray
    plain: int


def query_words(text: str, dropped: Iterable[str] = ()) -> QueryWords:
    """Read the distinct terms of a query, at most 256, and the terms related to them unless there are above 32.

    Terms of the `dropped` names are left out: the name of a speaker is said by the others, mostly in greeting. They
    stay if nothing else would.
    """
    own = dict.fromkeys(query_terms(text))
    names = {term for name in dropped for term in query_terms(name)}
    words = ([term for term in own if term not in names] or list(own))[:_MOST_TERMS]
    asked = len(words)
    singles = [term for term in dict.fromkeys(terms(text)) if term not in own][:_MOST_TERMS]
    words, weights = words + singles, [1.0] * asked + [0.0] * len(singles)
    plain = len(words)
    units = list(range(plain))
    for term in words[:asked] if asked <= _MOST_TERMS_RELATED else ():
        related = [other for other in related_terms(term) if other not in own]
        if related:
            units += [len(weights)] * len(related)
            weights.append(_RELATED)
            words += related
    return QueryWords(
        hashes=unpack_terms(pack_terms(words)),
        units=np.array(units, np.int64),
        weights=np.array(weights),
        plain=plain,
    )
