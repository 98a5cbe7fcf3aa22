"""The weights of the parts of a score."""

import math
from dataclasses import dataclass, replace

# Terms above which a text counts as long; chosen by the LoCoMo benchmark.
LONG = 24
# Terms above which a reply to a question that shares words with the query counts less as its answer; 24 to 96 do alike
# on LoCoMo and BEAM (docs/retrieval.md has the table of ablations).
LONG_ANSWER = 48
# Terms of a message at most, where the mean of a session's messages says how much their neighbours count: one tool
# result of 10,000 terms says nothing about the talk around it. 200 to 800 do alike on BEAM.
LONG_MESSAGE = 400
# What nearby text loses of its weight where messages are long goes to the text itself by this share; on BEAM 0.5 to 1
# find alike, and 0 finds 3.3 less of recall@10 by words.
OWN_SHARE = 0.75
# The best of many passages is near by chance: what its cosine loses for each factor of e in their number. On BEAM it
# finds 0.8 more of recall@10 than the best alone, and twice of it does alike.
PASSAGE_DISCOUNT = 0.05
# A mean of cosines is lower than the cosine of a mean; this brings the two to one scale (LoCoMo, rounded).
MEAN_TO_WINDOW = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What each part of the additive score counts; 0 switches a part off.

    Source: chosen on five conversations of LoCoMo and rounded; halving or doubling one of them costs at most 1.3 of
    evidence recall@10 with vectors, 2.1 without. Parts are 0 where a text lacks what they look at, so one set serves
    all layers.

    Attributes:
        vector: cosine of the query and the text.
        vector_nearby: cosines of the text and two neighbours either side, averaged, nearer ones counting more.
        text: BM25 of the text, divided by the best of the query.
        text_nearby: BM25 of the text with four neighbours either side, nearer ones counting more, likewise divided.
        answers: the text part of the message before, if that asks a question.
        speaker: the text is by the speaker whom the query is about.
        first_person: the text is by the user, and the query says "I" or "my"; for texts that something else speaks for.
        wish: the text is one of the two standing wishes of the user for which most speaks, and the query says "I" or
            "you".
        length: log(1 + terms), at most 24 of them: against one-line small talk.
        date: fit of the text's time to a date in the query, 0 to 2.
        relation: what a word of the query counts that relations tell of a text, beside one that the text says; see
            `told_words`. A half keeps what says all of it in front.
        assume_mean: a text without a vector counts as near as the others are on average, instead of not at all.
    """

    vector: float = 0.7
    vector_nearby: float = 0.9
    text: float = 0.4
    text_nearby: float = 0.8
    answers: float = 0.35
    speaker: float = 0.5
    first_person: float = 0.8
    wish: float = 0.6
    length: float = 0.25
    date: float = 0.7
    relation: float = 0.5
    assume_mean: bool = True

    @property
    def sequential(self) -> bool:
        """Whether any part looks at neighbours."""
        return bool(self.vector_nearby or self.text_nearby or self.answers)

    def ceiling(self, *, with_vector: bool) -> float:
        """Return what no score exceeds, for a query with or without a vector: all parts at their best."""
        words = self.text + self.text_nearby + self.answers + self.speaker + 2 * self.date
        vectors = self.vector + MEAN_TO_WINDOW * self.vector_nearby if with_vector else 0.0
        return words + vectors + self.length * math.log1p(LONG)


MESSAGE_WEIGHTS = Weights()
# For distilled memories: 0.7 cosine + 0.4 BM25, the best found on a library of procedural memories (docs/design).
# Their times are for filters, and a missing vector is no vector.
MEMORY_WEIGHTS = Weights(
    vector_nearby=0.0,
    text_nearby=0.0,
    answers=0.0,
    speaker=0.0,
    first_person=0.0,
    wish=0.0,
    length=0.0,
    date=0.0,
    assume_mean=False,
)
# Summaries of blocks: the same, and they are of a day.
SUMMARY_WEIGHTS = replace(MEMORY_WEIGHTS, date=0.7)
