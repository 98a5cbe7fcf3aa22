"""Account of one search: what degraded, and where it is asked for, what each score is made of and what was left out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from reme_core.ports import (
    MemorySearch,
    MessageSearch,
    RetrieveRequest,
    ScoredBlock,
    ScoredMemory,
    ScoredMessage,
    TokenCounter,
)
from reme_core.schema import ExplainedHit, Explanation, Hit, Layer, LeftOut, Scope, WhyNot, hit_key
from reme_core.schema.explanations import HitKey

# Below this a difference is one of rounding, and no part of a score.
_LEAST = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFor:
    """What was looked for: the layers, the words of the question, and the searches that it became."""

    layers: Sequence[Layer]
    words: frozenset[str]
    memories: MemorySearch
    messages: MessageSearch


class SearchAccount:
    """Keeps account of one search; of what it costs time to keep, only where an explanation is asked for.

    Each step tells what it made of the scores; what they changed by since the step before is a part in its name. So
    the parts add up to the score, whatever the steps do.
    """

    def __init__(self, *, explains: bool) -> None:
        """Begin."""
        self.degraded: list[str] = []
        self.explains = explains
        self.asked: dict[Scope, AskedFor] = {}
        self._parts: dict[HitKey, dict[str, float]] = {}
        self._left_out: dict[HitKey, LeftOut] = {}
        self._steps: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Take the time of a step; the same name again adds to it."""
        begun = time.perf_counter()
        yield
        self._steps[name] = self._steps.get(name, 0.0) + (time.perf_counter() - begun) * 1000

    def begin(self, degraded: Sequence[str]) -> None:
        """Begin a search, anew where it is to look further down."""
        self.degraded = [*degraded]
        self._parts.clear()
        self._left_out.clear()

    def found(
        self,
        hits: Sequence[Hit],
        items: Sequence[ScoredMemory | ScoredMessage | ScoredBlock],
        *,
        factor: float,
        base: float = 0.0,
    ) -> None:
        """Keep the parts of scores that were multiplied, and raised by a base: that of what answers the question."""
        for hit, item in zip(hits, items, strict=True) if self.explains else ():
            given = item.parts or {"words": item.score}  # of a store that keeps no account of them
            parts = {name: value * factor for name, value in given.items()}
            self._parts[hit_key(hit)] = parts | ({"answers_question": base} if base else {})

    def moved(self, name: str, hits: Sequence[Hit]) -> None:
        """Keep what a step changed of the scores of hits."""
        for hit in hits if self.explains else ():
            parts = self._parts.setdefault(hit_key(hit), {})
            change = hit.score - sum(parts.values())
            if abs(change) > _LEAST:
                parts[name] = parts.get(name, 0.0) + change

    def leave_out(self, hit: Hit, rule: LeftOut) -> None:
        """Keep why something is no result."""
        if self.explains:
            self._left_out[hit_key(hit)] = rule

    def explained(self, hit: Hit, *, rank: int, left_out: LeftOut | None) -> ExplainedHit:
        """Return a hit with the parts of its score."""
        return ExplainedHit(hit=hit, rank=rank, parts=dict(self._parts.get(hit_key(hit), {})), left_out=left_out)

    def explanation(
        self, request: RetrieveRequest, compared: Sequence[Hit], results: Sequence[Hit], counter: TokenCounter
    ) -> Explanation:
        """Return what is known of all that was compared, best first."""
        taken = {hit_key(hit): hit for hit in results}
        rest = LeftOut.BUDGET if request.token_budget is not None and len(results) != request.limit else LeftOut.LIMIT
        ordered = sorted(compared, key=lambda hit: -hit.score)
        return Explanation(
            candidates=tuple(
                self.explained(
                    taken.get(key, hit), rank=rank, left_out=None if key in taken else self._left_out.get(key, rest)
                )
                for rank, (key, hit) in enumerate(((hit_key(hit), hit) for hit in ordered), 1)
            ),
            steps=self._steps,
            token_budget=request.token_budget,
            tokens=sum(counter.count(hit.memory) for hit in results),
        )


def why_among(explanation: Explanation, name: str) -> WhyNot | None:
    """Tell why something that was compared is no result, or that it is one; None where it was not compared."""
    for item in explanation.candidates:
        if hit_key(item.hit)[2] == name:
            place = f"number {item.rank} of {len(explanation.candidates)} with a score of {item.hit.score:.3f}"
            reason = f"{item.left_out.words}: it is {place}" if item.left_out else f"it is a result, {place}"
            return WhyNot(id=name, left_out=item.left_out, reason=reason, found=item)
    return None


def reordered(
    explanation: Explanation,
    hits: Sequence[Hit],
    results: Sequence[Hit],
    left_out: Mapping[HitKey, LeftOut],
    counter: TokenCounter,
) -> Explanation:
    """Return an explanation after hits were put in another order, and cut again; the change of a score is a part."""
    taken, moved = {hit_key(hit) for hit in results}, {hit_key(hit): hit for hit in hits}
    told = []
    for item in explanation.candidates:
        key = hit_key(item.hit)
        if hit := moved.get(key):
            parts = item.parts | {"reranked": hit.score - item.hit.score}
            rule = None if key in taken else left_out.get(key, LeftOut.LIMIT)
            told.append(ExplainedHit(hit=hit, rank=item.rank, parts=parts, left_out=rule))
        else:
            told.append(item)
    told.sort(key=lambda item: -item.hit.score)
    candidates = tuple(item.model_copy(update={"rank": rank}) for rank, item in enumerate(told, 1))
    tokens = sum(counter.count(hit.memory) for hit in results)
    anew = explanation.model_copy(update={"candidates": candidates, "tokens": tokens})
    why = anew.why_not
    return anew if why is None else anew.model_copy(update={"why_not": why_among(anew, why.id) or why})
