"""Relations that the memories of a partition tell, and what they tell of a question's words; read from the rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np

from reme_core.retrieval import BoolArray, RankingIndex, ToldWords, related_terms
from reme_core.rules import ReachedName, RelationGraph
from reme_core.schema import Relation
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.row_conditions import TELLS_RELATIONS
from reme_core.text import query_terms


def read_relations(
    connection: SqlConnection, graph: RelationGraph[int], scope: int, among: str, values: Sequence[int]
) -> None:
    """Add the relations that some rows tell to a graph; nobody else's, and not those that are no statements."""
    rows = connection.execute(
        "SELECT row, body FROM memories WHERE scope = ? AND ranked"  # noqa: S608  # fixed texts
        f" AND {TELLS_RELATIONS} AND {among} ORDER BY row",
        (scope, *values),
    )
    for row, body in rows:
        relations = tuple(Relation.model_validate(item) for item in json.loads(body).get("relations", ()))
        if relations:  # metadata may have a key of this name
            graph.add(row, relations)


def told_words(
    index: RankingIndex, graph: RelationGraph[int], question: str, holds: Callable[[int], bool]
) -> tuple[ToldWords, ...]:
    """Return which words of a question count as said by which rows, since relations lead from these words to them.

    A memory that tells the last relation of a chain says all of the chain. One that names whom the chain leads to does
    where it also says what else is asked: of "where does Ann's sister work?" what says "Lea" and "work".
    """
    words = frozenset(query_terms(question))
    told: list[ToldWords] = []
    for item in graph.reached(question, holds):
        if item.key is not None:
            told.append(ToldWords(keys=np.array([item.key]), words=item.words))
        left = words - item.words
        naming = _naming(index, item)
        if left and naming.any():
            related = {other for term in left for other in related_terms(term)}
            asked = naming & index.holding(left | related, least=1)
            told.append(ToldWords(keys=index.keys[asked], words=item.words))
    return tuple(told)


def _naming(index: RankingIndex, item: ReachedName[int]) -> BoolArray:
    """Tell which rows name somebody in full by another name than the question, whose own words find that."""
    names = (frozenset(query_terms(name)) for name in item.names)
    rows = (index.holding(own, least=len(own)) for own in names if not own <= item.words)
    naming = np.zeros(len(index.keys), np.bool_)
    for held in rows:
        naming |= held
    return naming
