"""Words of a query: its own terms, those they may stand for, and the inverted index that they are looked up in.

A question and the text that answers it often use different words of one meaning ("job", "work"), or the question names
the kind of what the text names ("which sport", "surfing"). The groups in `thesaurus.txt` are general English, of the
size of a phrase book's index, written without regard to any one data set; a list that grows towards a data set would
measure itself.

A segment of the index is three arrays in compressed sparse row form over its sorted distinct term hashes. New rows
become a segment of their own; two neighbouring segments of like size are merged into one, so that n appended rows cost
O(n log n) in all and a look-up visits O(log n) segments (the logarithmic method, Manning, Raghavan and Schütze 2008,
Introduction to Information Retrieval, section 4.5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

import numpy as np
import numpy.typing as npt

from reme_core.retrieval.arrays import BoolArray, FloatArray, HashArray, IntArray
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


# Larger segments stay as they are: to merge a million pairs takes some 0.1 s, in which nobody else is served, while a
# look-up takes some microseconds for each segment.
_MERGED_PAIRS = 1 << 19


@dataclass(frozen=True, slots=True, kw_only=True)
class TermMatches:
    """Occurrences of query terms: for each of m (term, row) pairs the term's place in the query, the row, the count."""

    terms: IntArray
    rows: IntArray
    counts: FloatArray


@dataclass(frozen=True, slots=True)
class _Segment:
    hashes: HashArray
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    counts: npt.NDArray[np.float32]


class Postings:
    """An inverted index over rows numbered from 0 in the order of their appending."""

    def __init__(self) -> None:
        """Start without rows."""
        self._segments: list[_Segment] = []

    @property
    def nbytes(self) -> int:
        """The bytes of the segments."""
        return sum(s.hashes.nbytes + s.starts.nbytes + s.rows.nbytes + s.counts.nbytes for s in self._segments)

    def extend(self, first: int, packed: Sequence[bytes]) -> None:
        """Add rows `first`, `first + 1`, ... with their packed terms; `first` is the number of rows added before."""
        self._push(_segment_of_texts(first, packed))

    def find(self, query: HashArray, alive: BoolArray | None = None) -> TermMatches:
        """Look up distinct term hashes (q,); rows that are not `alive` are left out.

        Rows come once for each term; for one row the terms come in the order of the query.
        """
        found = [_find_in_segment(segment, query) for segment in self._segments]
        if len(found) == 1:
            terms, rows, counts = found[0]
        elif found:
            terms, rows, counts = (np.concatenate(column) for column in zip(*found, strict=True))
        else:
            terms, rows, counts = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64)
        if alive is not None:
            keep = alive[rows]
            terms, rows, counts = terms[keep], rows[keep], counts[keep]
        return TermMatches(terms=terms, rows=rows, counts=counts)

    def renumber(self, mapping: IntArray) -> None:
        """Give row i the number `mapping[i]`, increasing with i; rows mapped to -1 are dropped."""
        kept = []
        for segment in self._segments:
            rows = mapping[segment.rows]
            keep = rows >= 0
            hashes = np.repeat(segment.hashes, np.diff(segment.starts))[keep]
            if len(hashes):
                kept.append(_segment(hashes, rows[keep], segment.counts[keep]))
        self._segments = kept

    def _push(self, segment: _Segment) -> None:
        while self._segments and len(self._segments[-1].rows) <= min(2 * len(segment.rows), _MERGED_PAIRS):
            segment = _merged(self._segments.pop(), segment)
        if len(segment.rows):
            self._segments.append(segment)


def _segment_of_texts(first: int, packed: Sequence[bytes]) -> _Segment:
    hashes = unpack_terms(b"".join(packed))
    sizes = np.fromiter((len(blob) >> 3 for blob in packed), np.int64, len(packed))
    rows = np.repeat(np.arange(first, first + len(packed)), sizes)
    return _segment(hashes, rows, None)


def _segment(hashes: HashArray, rows: IntArray, counts: npt.NDArray[np.float32] | None) -> _Segment:
    """Sort (hash, row) pairs; pairs given without counts may repeat and are counted."""
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    new = np.empty(len(hashes), np.bool_)
    new[:1] = True
    np.not_equal(hashes[1:], hashes[:-1], out=new[1:])
    span = int(rows.max()) + 1 if len(rows) else 1
    pairs = (np.cumsum(new) - 1) * span + rows[order]
    distinct = hashes[new]
    if counts is None:
        pairs.sort()
        starts = np.flatnonzero(np.concatenate(([True], pairs[1:] != pairs[:-1]))[: len(pairs)])
        counts = np.diff(starts, append=len(pairs)).astype(np.float32)
        pairs = pairs[starts]
    else:
        second = np.argsort(pairs, kind="stable")
        pairs, counts = pairs[second], counts[order][second]
    places, sorted_rows = np.divmod(pairs, span)
    bounds = np.searchsorted(places, np.arange(len(distinct) + 1))
    return _Segment(distinct, bounds, sorted_rows.astype(np.int32), counts)


def _merged(first: _Segment, second: _Segment) -> _Segment:
    hashes = np.concatenate([np.repeat(s.hashes, np.diff(s.starts)) for s in (first, second)])
    rows = np.concatenate([first.rows, second.rows]).astype(np.int64)
    return _segment(hashes, rows, np.concatenate([first.counts, second.counts]))


def _find_in_segment(segment: _Segment, query: HashArray) -> tuple[IntArray, IntArray, FloatArray]:
    places = np.searchsorted(segment.hashes, query)
    places[places == len(segment.hashes)] = 0
    known = np.flatnonzero(segment.hashes[places] == query)
    spans = [(int(segment.starts[p]), int(segment.starts[p + 1])) for p in places[known].tolist()]
    if not spans:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64)
    rows = np.concatenate([segment.rows[a:b] for a, b in spans]).astype(np.int64)
    counts = np.concatenate([segment.counts[a:b] for a, b in spans]).astype(np.float64)
    return np.repeat(known, [b - a for a, b in spans]), rows, counts
