"""Search over passages of offloaded texts, by their words. Functions over a connection."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from reme_core.ports import OffloadSearch, ScoredOffload
from reme_core.retrieval.arrays import inverse_frequency
from reme_core.schema import OffloadInfo, Scope
from reme_core.stores.sql.bookkeeping import find_scope
from reme_core.stores.sql.connection import PassagePostings, SqlConnection, WordPair
from reme_core.stores.sql.offload_rows import offload_conditions
from reme_core.text import query_terms, terms

# A longer query is a pasted text: its beginning says what it is, and says it in words enough.
_MOST_TERMS = 256
_CHUNK = 500
# So much of a score is for holding the words, for holding them near to each other, with so many others between two at
# most, and for holding them one behind the other.
_WORDS, _NEAR, _BEHIND = 0.5, 0.25, 0.25
_REACH = 3


def search_offloads(connection: SqlConnection, scope: Scope, search: OffloadSearch) -> list[ScoredOffload]:
    """Return the best passages, one of each offload, as `Store.search_offloads` says."""
    number = find_scope(connection, scope)
    words = list(dict.fromkeys(query_terms(search.text)))[:_MOST_TERMS]
    if number is None or not words:
        return []
    where, values = offload_conditions(connection, number, search)
    some = f"SELECT 1 FROM offloads WHERE {' AND '.join(where)} LIMIT 1"  # noqa: S608  # a closed set of conditions
    if connection.execute(some, values).fetchone() is None:
        return []
    # A session has few of the passages of a scope, so that the others needn't be scored.
    admitted = None if search.session_id is None else _passages_of(connection, where, values)
    scores = _score_passages(connection, number, words, admitted)
    # The newest text has the highest numbers, and of one text the first passage; see `add_passages`.
    ranked = sorted(scores, key=lambda passage: (-scores[passage], -passage))
    best: dict[int, int] = {}
    known = _admitted(connection, where, values, ranked) if admitted is None else _known(admitted, ranked)
    for passage, offload in known:
        best.setdefault(offload, passage)
        if len(best) == search.limit:
            break
    return [_scored(connection, passage, scores[passage]) for passage in best.values()]


def _score_passages(
    connection: SqlConnection, scope: int, words: Sequence[str], admitted: Container[int] | None
) -> dict[int, float]:
    """Return the score of each passage with one of the words, in (0, 1]; only of those admitted, None meaning all.

    It is the share of their weights that it holds, of which parts are for neighbours of the query that are near to each
    other in the passage as well, and that follow on each other: a number stands in many lines of a log, and behind its
    name in few.
    """
    (total,) = connection.execute("SELECT count(*) FROM offload_passages WHERE scope = ?", (scope,)).fetchone()
    pairs = list(pairwise(words))
    postings = connection.dialect.postings(connection, scope, words, pairs, reach=_REACH)
    if postings is None:
        postings = _scan(connection, scope, words, pairs)
    counts = np.array([len(postings.holding[word]) for word in words], np.int64)
    weights = inverse_frequency(counts, total).tolist()
    shares: dict[int, float] = {}
    # Added up in the same order for each passage, or equal ones would differ in their last bits.
    for word, weight in zip(words, weights, strict=True):
        holding = postings.holding[word]
        for passage in holding if admitted is None else (passage for passage in holding if passage in admitted):
            shares[passage] = shares.get(passage, 0.0) + weight
    near, behind = Counter(postings.near), Counter(postings.behind)
    whole, most = sum(weights), max(1, len(pairs))
    alone = 0 if pairs else 1
    return {
        passage: share
        / whole
        * (_WORDS + _NEAR * max(alone, near[passage] / most) + _BEHIND * max(alone, behind[passage] / most))
        for passage, share in shares.items()
    }


def _scan(connection: SqlConnection, scope: int, words: Sequence[str], pairs: Sequence[WordPair]) -> PassagePostings:
    """Read every text of the scope, where there is no index of words."""
    found = PassagePostings({word: [] for word in words}, [], [])
    rows = connection.execute(
        "SELECT passage, substr(text, start + 1, chars) FROM offload_passages JOIN offloads USING (offload)"
        " WHERE offload_passages.scope = ?",
        (scope,),
    )
    for passage, text in rows:
        places: dict[str, list[int]] = {}
        for place, word in enumerate(terms(text)):
            if word in found.holding:
                places.setdefault(word, []).append(place)
        for word in places:
            found.holding[word].append(passage)
        for one, other in pairs:
            steps = {later - place for place in places.get(one, ()) for later in places.get(other, ())}
            if any(abs(step) <= _REACH + 1 for step in steps):
                found.near.append(passage)
            if 1 in steps:
                found.behind.append(passage)
    return found


def _passages_of(connection: SqlConnection, where: Sequence[str], values: Sequence[object]) -> dict[int, int]:
    """Return the passages of the offloads that meet the conditions, each with its offload."""
    return dict(connection.execute(_passages_where(where), values).fetchall())


def _admitted(
    connection: SqlConnection, where: Sequence[str], values: Sequence[object], ranked: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield passage and offload of those whose offloads meet the conditions, in the order given."""
    query = _passages_where([*where, "passage IN (SELECT value FROM json_each(?))"])
    for start in range(0, len(ranked), _CHUNK):
        chunk = ranked[start : start + _CHUNK]
        offloads = dict(connection.execute(query, (*values, json.dumps(chunk))).fetchall())
        yield from _known(offloads, chunk)


def _known(offloads: Mapping[int, int], ranked: Sequence[int]) -> Iterator[tuple[int, int]]:
    return ((passage, offloads[passage]) for passage in ranked if passage in offloads)


def _passages_where(conditions: Sequence[str]) -> str:
    return (
        "SELECT passage, offload FROM offload_passages JOIN offloads USING (offload)"  # noqa: S608  # a closed set
        f" WHERE {' AND '.join(conditions)}"
    )


def _scored(connection: SqlConnection, passage: int, score: float) -> ScoredOffload:
    info, text, offset, line = connection.execute(
        "SELECT info, substr(text, start + 1, chars), start, line"
        " FROM offload_passages JOIN offloads USING (offload) WHERE passage = ?",
        (passage,),
    ).fetchone()
    return ScoredOffload(
        info=OffloadInfo.model_validate_json(info), passage=text, offset=offset, first_line=line, score=min(score, 1.0)
    )
