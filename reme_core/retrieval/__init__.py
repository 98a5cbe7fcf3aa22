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
`fill_budget` cuts a ranking to tokens.
"""

from reme_core.retrieval.arrays import BLOCK_ROWS as BLOCK_ROWS
from reme_core.retrieval.arrays import BoolArray as BoolArray
from reme_core.retrieval.arrays import FloatArray as FloatArray
from reme_core.retrieval.arrays import IntArray as IntArray
from reme_core.retrieval.arrays import Matrix as Matrix
from reme_core.retrieval.embedding import message_text as message_text
from reme_core.retrieval.named_dates import DaySpan as DaySpan
from reme_core.retrieval.named_dates import NamedDate as NamedDate
from reme_core.retrieval.named_dates import named_dates as named_dates
from reme_core.retrieval.named_dates import relative_days as relative_days
from reme_core.retrieval.query_words import related_terms as related_terms
from reme_core.retrieval.ranking.partition_index import Query as Query
from reme_core.retrieval.ranking.partition_index import RankingIndex as RankingIndex
from reme_core.retrieval.ranking.row_columns import Rows as Rows
from reme_core.retrieval.ranking.row_columns import ScoredRow as ScoredRow
from reme_core.retrieval.ranking.row_columns import plain_rows as plain_rows
from reme_core.retrieval.ranking.score_parts import first_person as first_person
from reme_core.retrieval.ranking.score_weights import MEMORY_WEIGHTS as MEMORY_WEIGHTS
from reme_core.retrieval.ranking.score_weights import MESSAGE_WEIGHTS as MESSAGE_WEIGHTS
from reme_core.retrieval.ranking.score_weights import SUMMARY_WEIGHTS as SUMMARY_WEIGHTS
from reme_core.retrieval.ranking.score_weights import Weights as Weights
from reme_core.retrieval.ranking.told_words import ToldWords as ToldWords
from reme_core.retrieval.time_question import AskedTime as AskedTime
from reme_core.retrieval.time_question import asked_time as asked_time
from reme_core.retrieval.time_question import names_no_topic as names_no_topic
from reme_core.retrieval.token_budget import Candidate as Candidate
from reme_core.retrieval.token_budget import fill_budget as fill_budget
from reme_core.retrieval.token_budget import is_repetition as is_repetition
