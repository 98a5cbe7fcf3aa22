"""Ranking without a model: an additive score over what a text says and what it stands next to.

A store makes one `RankingIndex` for each partition, feeds it `Rows` (keys, packed terms, sessions, positions, speakers,
times, questions) and vectors of unit norm, and asks it to `rank` a `Query`:

    index = RankingIndex(MESSAGE_WEIGHTS)
    index.extend(rows)                                   # or plain_rows(...) for memories, which have no neighbours
    index.set_vectors(keys, matrix)                      # message_text(name, text), embedded
    index.rank(Query(text=..., vector=...), limit=10, allowed=mask, lifts={key: 0.5})
    index.remove(keys)

Rows may lack a vector: they count as of mean similarity, so a partition that is embedded in part is not ranked by what
happens to be embedded. What stands nearby is scored from the cosines of neighbouring rows.

`index.keys`, `index.times`, `index.sessions` and `index.alive` are columns aligned with the `allowed` mask.
`fill_budget` cuts a ranking to tokens; `bm25_order` is the baseline to compare with.
"""

from reme_core.retrieval.arrays import BoolArray, FloatArray, IntArray, Matrix, bm25_order
from reme_core.retrieval.embedding import message_text
from reme_core.retrieval.named_dates import DaySpan, NamedDate, named_dates, relative_days
from reme_core.retrieval.ranking.partition_index import Query, RankingIndex
from reme_core.retrieval.ranking.row_columns import Rows, ScoredRow, plain_rows
from reme_core.retrieval.ranking.score_weights import MEMORY_WEIGHTS, MESSAGE_WEIGHTS, SUMMARY_WEIGHTS, Weights
from reme_core.retrieval.ranking.vector_search import BLOCK_ROWS
from reme_core.retrieval.time_question import AskedTime, asked_time, names_no_topic
from reme_core.retrieval.token_budget import Candidate, fill_budget

__all__ = [
    "BLOCK_ROWS",
    "MEMORY_WEIGHTS",
    "MESSAGE_WEIGHTS",
    "SUMMARY_WEIGHTS",
    "AskedTime",
    "BoolArray",
    "Candidate",
    "DaySpan",
    "FloatArray",
    "IntArray",
    "Matrix",
    "NamedDate",
    "Query",
    "RankingIndex",
    "Rows",
    "ScoredRow",
    "Weights",
    "asked_time",
    "bm25_order",
    "fill_budget",
    "message_text",
    "named_dates",
    "names_no_topic",
    "plain_rows",
    "relative_days",
]
