"""Retriever that has one model call put the first hits of the simple search, as numbered lines, in order."""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from reme_core.errors import ModelOutputError, ReMeError
from reme_core.ports import ChatModel, RetrieveRequest, TokenCounter
from reme_core.recall.cut import DEFAULT_LIMIT, cut_hits
from reme_core.recall.search_account import reordered
from reme_core.recall.simple_retriever import BUDGET_CANDIDATES, SimpleRetriever, check_request
from reme_core.remember.summarizer import since
from reme_core.retrieval.hits import text_of
from reme_core.schema import Hit, LeftOut, RetrieveResult, Scope, Usage, hit_key, trust_field
from reme_core.schema.explanations import HitKey
from reme_core.steps.ask_json import ORDER_SCHEMA, JsonQuestion, bare_order, read_order, with_rest
from reme_core.text import (
    Language,
    RankedParts,
    fence,
    json_line,
    load_prompt,
    prompt_language,
    prompt_time,
    query_terms,
    rank_parts,
    shortened,
)

_LOG = logging.getLogger("reme")


# Names and situations are the user's or a model's: they are shown, and take no room from the texts.
_NAME_CHARS = 40
_WHEN_CHARS = 120
# A text of which less is left tells nothing: fewer texts are shown then.
_LEAST_CHARS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownHits:
    """Lines, and how many hits they show: the first so many."""

    lines: str
    count: int


def show_hits(hits: Sequence[Hit], query: str, fits: Callable[[str], bool]) -> ShownHits:
    """Write hits as JSON lines, numbered from 1: day, who says it or whom it is about, situation, text.

    All texts have the same room: as many characters as `fits` allows, where short ones leave theirs to the others. Of a
    longer text stand there the parts that say most of the query. Where not even 40 characters of each fit, the
    last ones are left out.
    """
    ranked = rank_parts([text_of(hit) for hit in hits], frozenset(query_terms(query)))
    shown = [_ShownHit(fields=_fields(hit), parts=parts) for hit, parts in zip(hits, ranked, strict=True)]
    longest = max((item.parts.chars for item in shown), default=0)
    if fits(whole := _lines(shown, longest)):
        return ShownHits(lines=whole, count=len(shown))
    chars = _most(longest, lambda chars: fits(_lines(shown, chars)))
    if chars >= _LEAST_CHARS:
        return ShownHits(lines=_lines(shown, chars), count=len(shown))
    count = _most(len(shown), lambda count: fits(_lines(shown[:count], _LEAST_CHARS)))
    return ShownHits(lines=_lines(shown[:count], _LEAST_CHARS), count=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShownHit:
    fields: dict[str, JsonValue]
    parts: RankedParts


def _fields(hit: Hit) -> dict[str, JsonValue]:
    day = hit.observed_at or hit.created_at
    given: dict[str, JsonValue] = {
        "at": "" if day is None else prompt_time(day)[:10],
        "by": (hit.name or hit.role or "")[:_NAME_CHARS],
        "about": (hit.memory_target or "")[:_NAME_CHARS],
        "when": hit.when_to_use[:_WHEN_CHARS],
    }
    return {name: value for name, value in given.items() if value} | trust_field(hit.untold_trust)


def _lines(shown: Sequence[_ShownHit], chars: int) -> str:
    return "\n".join(
        json_line({"n": number, **item.fields, "text": item.parts.excerpt(chars)})
        for number, item in enumerate(shown, 1)
    )


def _most(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number from 1 to `most` that fits, 0 if none does; what a larger one fits, a smaller does."""
    return bisect_left(range(1, most + 1), 1, key=lambda number: 0 if fits(number) else 1)


MAX_PROMPT_TOKENS = 6000
"""Of the one call, the form of its answer included."""

# What chat formats add to two messages, and the schema of the answer for endpoints that want it in the prompt.
_FRAME_TOKENS = 128
# A longer question is a pasted text, whose head and tail say what is asked.
_QUESTION_CHARS = 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankedRetrieval:
    """A `Retriever`: the simple search, and its first hits in the order that a model gives them.

    Hits that the model doesn't name follow in the order of the search, and so do those behind the first. A hit has the
    score of its place: what the search gave to the hit that stood there. Where the model fails or names nothing the
    order is that of the search, `degraded` and one line of the log say so, and nothing is raised.

    Attributes:
        simple: The search.
        model: Asked once a question, and not at all where there are fewer than two hits.
        counter: Counts the tokens of the prompt, and those of a budget.
        first: How many hits the model is shown.
        timeout_s: How long the model's answer is waited for.
        language: Of the prompt; None follows the question.
    """

    simple: SimpleRetriever
    model: ChatModel
    counter: TokenCounter
    first: int
    timeout_s: float
    language: Language | None

    async def retrieve(self, scope: Scope, request: RetrieveRequest) -> RetrieveResult:
        """Return what was found, best first; see `Retriever.retrieve`."""
        begun = time.perf_counter()
        check_request(request)
        wanted = (request.limit or DEFAULT_LIMIT) if request.token_budget is None else BUDGET_CANDIDATES
        found = await self.simple.retrieve(scope, replace(request, limit=max(wanted, self.first), token_budget=None))
        # What lies in a time comes in an order of its own, and there is no question to answer.
        order = _ModelOrder() if found.by_time else await self._order(found.results[: self.first], request)
        ordered = _in_order(found.results, order.places)
        left_out: dict[HitKey, LeftOut] = {}
        results = await asyncio.to_thread(
            cut_hits,
            ordered,
            self.counter,
            limit=request.limit,
            token_budget=request.token_budget,
            tell=lambda hit, rule: left_out.update({hit_key(hit): rule}),
        )
        explanation = found.explanation
        if explanation is not None:
            explanation = reordered(explanation, ordered, results, left_out, self.counter)
            explanation = explanation.model_copy(update={"token_budget": request.token_budget})
        usage = found.usage + order.usage
        return RetrieveResult(
            results=results,
            usage=usage.model_copy(update={"milliseconds": since(begun)}),
            by_time=found.by_time,
            degraded=(*found.degraded, *order.degraded),
            explanation=explanation,
        )

    async def _order(self, hits: Sequence[Hit], request: RetrieveRequest) -> _ModelOrder:
        if len(hits) < 2:
            return _ModelOrder()
        question = await asyncio.to_thread(order_question, hits, request, self.counter, self.language)
        try:
            async with asyncio.timeout(self.timeout_s):
                answer, usage = await self._ask(question)
        except TimeoutError:
            return _as_found("the model did not answer in time", Usage(model_calls=1))
        except ModelOutputError as exc:
            return _as_found("the model gave no order", Usage(model_calls=1), exc.message)
        except Exception as exc:  # noqa: BLE001  # the outer edge of a model, which may be somebody else's
            # The text of an error that is none of ours may hold anything.
            detail = exc.message if isinstance(exc, ReMeError) else ""
            return _as_found(f"the model failed ({type(exc).__name__})", Usage(model_calls=1), detail)
        try:
            places = question.read(answer)
        except ValueError as exc:
            return _as_found("the model gave no order", usage, str(exc))
        return _ModelOrder(places=places, usage=usage)

    async def _ask(self, question: JsonQuestion[tuple[int, ...]]) -> tuple[JsonValue, Usage]:
        try:
            result = await self.model.chat(question.request())
        except ModelOutputError as exc:
            answer = bare_order(exc.raw)
            if answer is None:
                raise
            return answer, Usage(model_calls=1)  # its tokens are not known
        return result.parsed, result.usage


def order_question(
    hits: Sequence[Hit], request: RetrieveRequest, counter: TokenCounter, language: Language | None
) -> JsonQuestion[tuple[int, ...]]:
    """Return what the model is asked, in at most `MAX_PROMPT_TOKENS`; read are the places of the hits that it names.

    All hits are shown, long ones in parts, unless they are so many that some tens of characters of each don't fit: then
    the last ones are not.
    """
    language = language or prompt_language((request.query,))
    system = load_prompt("reme_core.recall", "rerank", language).fill({})
    asked = {"at": prompt_time(request.now), "text": shortened(request.query, _QUESTION_CHARS)}
    room = MAX_PROMPT_TOKENS - _FRAME_TOKENS - counter.count(system)

    def written(lines: str) -> str:
        return f"{fence('texts', lines)}\n{fence('question', json_line(asked))}"

    shown = show_hits(hits, request.query, lambda lines: counter.count(written(lines)) <= room)
    return JsonQuestion(
        system=system,
        user=written(shown.lines),
        schema=ORDER_SCHEMA,
        language=language,
        read=lambda answer: _named(answer, shown.count),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ModelOrder:
    """Places of hits that were named, what it cost to know them, and what failed."""

    places: tuple[int, ...] = ()
    usage: Usage = field(default_factory=Usage)
    degraded: tuple[str, ...] = ()


def _named(answer: JsonValue, count: int) -> tuple[int, ...]:
    places = read_order(answer, count)
    if not places:
        msg = "order: names nothing"
        raise ValueError(msg)
    return places


def _as_found(problem: str, usage: Usage, detail: str = "") -> _ModelOrder:
    sentence = f"reranking: {problem}; the order is that of the search"
    _LOG.warning("%s%s", sentence, f" ({' '.join(detail.split())})" if detail else "")
    return _ModelOrder(usage=usage, degraded=(sentence,))


def _in_order(hits: Sequence[Hit], places: Sequence[int]) -> list[Hit]:
    """Return the hits of these places, then the others, each with the score of the hit that stood there before."""
    ordered = (hits[place] for place in with_rest(places, len(hits)))
    return [hit.model_copy(update={"score": before.score}) for hit, before in zip(ordered, hits, strict=True)]
