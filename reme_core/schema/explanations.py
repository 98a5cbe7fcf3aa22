"""Answer of `retrieve`, and its explanation: the parts of each score, what was left out and why, and the time."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from pydantic import Field

from reme_core.schema.hits import Hit, found_text
from reme_core.schema.mapping import MappingModel, Usage

HitKey: TypeAlias = tuple[str, str, str]
"""Layer, user and id of something found."""


class LeftOut(StrEnum):
    """The rule by which something is no result."""

    REPETITION = "repetition"
    BUDGET = "budget"
    LIMIT = "limit"
    MIN_SCORE = "min_score"
    CANDIDATES = "candidates"
    NO_MATCH = "no_match"
    FILTER = "filter"
    LAYER = "layer"
    UNKNOWN = "unknown"

    @property
    def words(self) -> str:
        """The rule as a sentence."""
        return _WORDS[self]


_WORDS = {
    LeftOut.REPETITION: "it repeats a result above it, or a memory above says all of it",
    LeftOut.BUDGET: "the budget of tokens had no room for it",
    LeftOut.LIMIT: "enough results stand above it",
    LeftOut.MIN_SCORE: "it scores less than was asked for",
    LeftOut.CANDIDATES: "it ranks behind those that were compared",
    LeftOut.NO_MATCH: "no word, vector, name or date of the question speaks for it",
    LeftOut.FILTER: "a condition of the question excludes it",
    LeftOut.LAYER: "its layer was not looked at",
    LeftOut.UNKNOWN: "there is nothing of this id here",
}


class ExplainedHit(MappingModel):
    """Something that was compared.

    Attributes:
        hit: What was found.
        rank: Its place by score among all that were compared, from 1.
        parts: What the score is made of, by name; they add up to it. docs/retrieval.md describes them.
        left_out: Why it is no result; None: it is one.
    """

    hit: Hit
    rank: int
    parts: dict[str, float]
    left_out: LeftOut | None = None


class WhyNot(MappingModel):
    """Why something is no result.

    Attributes:
        id: What was asked about.
        left_out: The rule; None: it is a result.
        reason: The rule in words, with what it was about this one.
        place: Its place in its layer, from 1, where it was found at all but not compared.
        found: It with the parts of its score, where something speaks for it.
    """

    id: str
    left_out: LeftOut | None = None
    reason: str
    place: int | None = None
    found: ExplainedHit | None = None


class Explanation(MappingModel):
    """How an answer came about.

    Attributes:
        candidates: What was compared, best first: the results and what was left out.
        steps: Milliseconds of each step, in their order.
        token_budget: The budget, if there was one.
        tokens: What the results take.
        why_not: Of the id that was asked about.
    """

    candidates: tuple[ExplainedHit, ...] = ()
    steps: dict[str, float] = Field(default_factory=dict)
    token_budget: int | None = None
    tokens: int = 0
    why_not: WhyNot | None = None


class RetrieveResult(MappingModel):
    """The answer of `retrieve`, best first.

    Attributes:
        results: What was found.
        answer: The text of an agentic retriever; None for the simple one.
        by_time: Whether the question was about a time alone: what lies there is listed, no word was compared.
        usage: What it cost.
        degraded: What could not do all, one short sentence each; empty where everything could.
        explanation: How it came about, where that was asked for; None where a retriever keeps no account of it, as
            agents and your own.
    """

    results: tuple[Hit, ...] = ()
    answer: str | None = None
    by_time: bool = False
    usage: Usage = Usage()
    degraded: tuple[str, ...] = ()
    explanation: Explanation | None = None

    @property
    def text(self) -> str:
        """The results ready for a prompt: dated, with who said them, quoted as data; "" where nothing was found.

        Days, speakers and the two lines around it come on top of a `token_budget`: some 10 tokens a result.
        """
        return found_text(self.results)


def hit_key(hit: Hit) -> HitKey:
    """Return what tells a hit from all others of an answer."""
    name = hit.memory_id or hit.reference or (hit.message_ids[0] if hit.layer == "message" else hit.block_id)
    return hit.layer, hit.user_id, name or ""
