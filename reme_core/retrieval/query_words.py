"""The words of a query: its own terms, and those they may stand for."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from reme_core.retrieval.arrays import FloatArray, HashArray, IntArray
from reme_core.retrieval.thesaurus import related_terms
from reme_core.text.segment import pack_terms, query_terms, terms, unpack_terms

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
