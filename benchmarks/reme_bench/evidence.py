"""Measures of what was found for a question, as pure functions, and the rows that the benchmarks keep of them.

Terms are those of `reme_core.text`: words without stop words and endings, pairs of characters in scripts without
blanks. Shares are fractions in [0, 1] here and percent in tables.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from reme_core import Hit
from reme_core.models import CharacterTokenCounter
from reme_core.text import query_terms, terms

Change = Literal["update", "contradiction"]
PLACES = (5, 10, 20)
BUDGETS = (512, 1024, 2048)
RESAMPLES, SEED = 2000, 13
# What a rubric says to the judge, before what it says of the answer.
_TO_THE_JUDGE = re.compile(r"^\s*LLM response should [a-z]+\s*:", re.IGNORECASE)


@dataclass(frozen=True)
class Question:
    """One question: `evidence` is the text of each message that answers it, by id; none: it can't be answered.

    Attributes:
        answer_words: The terms of the gold answer that the evidence holds at all.
        said_at: The times of those evidence messages that have one.
        label_of: Of sets that label sessions and not messages, the id in `evidence` that a message counts for.
        gold: The answer, or the rubric where there is none.
        change: The fact was told again: it changed, or the tellings contradict each other.
        asked_at: When it is asked, where a data set tells.
    """

    conversation: str
    question_id: str
    text: str
    category: str
    evidence: Mapping[str, str]
    answer_words: frozenset[str] = frozenset()
    answerable: bool = True
    said_at: Mapping[str, str] = field(default_factory=dict)
    label_of: Mapping[str, str] = field(default_factory=dict)
    gold: str | None = None
    change: Change | None = None
    asked_at: str | None = None

    def labels(self, ids: Sequence[str]) -> list[str]:
        """Return for each message id what it counts for: itself, or the evidence session that it is of."""
        return [self.label_of.get(message_id, message_id) for message_id in ids]


@dataclass(frozen=True)
class Found:
    """What one system returned for one question: a ranking, and what it gives within each budget of tokens."""

    ranking: Sequence[Hit]
    in_budget: Mapping[int, Sequence[Hit]]
    milliseconds: float = 0.0


@dataclass(frozen=True)
class Row:
    """One question and one system. A figure that the question can't have is missing from `figures`.

    `notes` is the text within each budget. `ids_as_of` is what was found when the question was asked once more `as_of`
    a time, where it was.
    """

    system: str
    question: Question
    ids: list[str]
    scores: list[float]
    milliseconds: float
    figures: dict[str, float] = field(default_factory=dict)
    tokens_to_80: int | None = None
    as_of: str | None = None
    ids_as_of: list[str] | None = None
    notes: Mapping[int, str] = field(default_factory=dict)


def message_ids(hits: Iterable[Hit]) -> list[str]:
    """Distinct messages in the order found; a hit that stands for several counts each of them as one place."""
    return list(dict.fromkeys(message_id for hit in hits for message_id in hit.message_ids))


def recall_at(ids: Sequence[str], evidence: AbstractSet[str], k: int) -> float:
    """Share of the evidence among the first k distinct messages."""
    return len(evidence & set(ids[:k])) / len(evidence)


def any_at(ids: Sequence[str], evidence: AbstractSet[str], k: int) -> float:
    """1.0 if at least one evidence message is among the first k distinct messages, else 0.0."""
    return float(not evidence.isdisjoint(ids[:k]))


def evidence_held(hits: Sequence[Hit], evidence: Mapping[str, str], label_of: Mapping[str, str] | None = None) -> float:
    """Mean over the evidence messages of the share of their terms that hits naming the message hold.

    A message returned whole counts 1, a passage of it the share of the message's distinct terms that the passage holds,
    several passages what they hold together. A message without terms counts 1 where any hit names it. `label_of`: see
    `Question`.
    """
    held: dict[str, set[str]] = {}
    for hit in hits:
        named = evidence.keys() & {(label_of or {}).get(message_id, message_id) for message_id in hit.message_ids}
        words = set(terms(hit.memory)) if named else set()
        for message_id in named:
            held.setdefault(message_id, set()).update(words)
    shares = []
    for message_id, text in evidence.items():
        whole = set(terms(text))
        told = held.get(message_id)
        shares.append(0.0 if told is None else len(whole & told) / len(whole) if whole else 1.0)
    return statistics.fmean(shares)


def tokens_to(share: float, ranking: Sequence[Hit], question: Question) -> int | None:
    """Tokens of the texts from the top of a ranking down to where they hold that share of the evidence.

    Tokens are those of a budget (four characters). None: all of the ranking holds less.
    """
    counter, spent = CharacterTokenCounter(), 0
    for place, hit in enumerate(ranking, 1):
        spent += counter.count(hit.memory)
        if question.evidence.keys().isdisjoint(question.labels(hit.message_ids)):
            continue
        if evidence_held(ranking[:place], question.evidence, question.label_of) >= share:
            return spent
    return None


def answer_words(answer: str | None, rubric: Sequence[str], evidence: Iterable[str]) -> frozenset[str]:
    """Terms of the answer, or of the rubric where there is none, that occur in the evidence messages at all."""
    asked = answer if answer else "\n".join(_TO_THE_JUDGE.sub("", line) for line in rubric)
    return frozenset(query_terms(asked)) & {word for text in evidence for word in terms(text)}


def words_held(hits: Sequence[Hit], words: AbstractSet[str]) -> float:
    """Share of the words that occur in the texts returned, whichever message they come from."""
    return len(words & {word for hit in hits for word in terms(hit.memory)}) / len(words)


def figures_of(found: Found, question: Question) -> dict[str, float]:
    """All figures of a question that has evidence; none for one that has none."""
    if not question.evidence:
        return {}
    ids, evidence = question.labels(message_ids(found.ranking)), question.evidence.keys()
    figures = {f"recall@{k}": recall_at(ids, evidence, k) for k in PLACES}
    figures |= {f"any@{k}": any_at(ids, evidence, k) for k in PLACES[:2]}
    for budget in BUDGETS:
        figures[f"evidence in {budget:,}"] = evidence_held(
            found.in_budget[budget], question.evidence, question.label_of
        )
    for budget in BUDGETS:
        if question.answer_words:
            figures[f"words in {budget:,}"] = words_held(found.in_budget[budget], question.answer_words)
    return figures


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Chance that a positive scores above a negative, ties counting half; not a number where one side is empty.

    Source: Hanley and McNeil 1982, The meaning and use of the area under a receiver operating characteristic curve.
    """
    if not positive or not negative:
        return float("nan")
    difference = np.asarray(positive)[:, None] - np.asarray(negative)[None, :]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


def interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the mean by percentile bootstrap over the values, in a fixed order of chance.

    Given the differences of two systems question by question, it is the paired interval.
    Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 13.
    """
    data = np.asarray(values, np.float64)
    if not len(data):
        return float("nan"), float("nan")
    drawn = np.random.default_rng(SEED).integers(len(data), size=(RESAMPLES, len(data)))
    low, high = np.percentile(data[drawn].mean(axis=1), (2.5, 97.5))
    return float(low), float(high)
