"""Stages that learn from attempts: from each by itself, and from the difference of two."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import JsonValue

from reme_core.errors import ConfigurationError
from reme_core.ports import Matrix
from reme_core.schema import Message
from reme_core.steps.ask_json import ask
from reme_core.steps.flow import FlowContext, Stage, for_each, stage
from reme_core.tasks.attempts import (
    SHOWN_CHARS,
    SHOWN_MESSAGES,
    SHOWN_TASK_CHARS,
    language_of,
    show,
    steps_shown,
    task_line,
)
from reme_core.tasks.read_experiences import AT_ONCE, ExperienceRequest, experience_question
from reme_core.tasks.task_values import Attempt, Attempts, Experiences, Origin
from reme_core.text import fence, json_line, shortened, terms

SUCCESS_SCORE = 1.0
"""From this score on an attempt is a success; 1 is solved."""

MOST_EXPERIENCES = 5
"""A step teaches a thing or two; a model that names more repeats itself."""


def success_extraction(
    *, success_score: float = SUCCESS_SCORE, most: int = MOST_EXPERIENCES
) -> Stage[Attempts, Experiences, FlowContext]:
    """Make the stage that learns what made attempts work: one call for each step, at most `most` experiences of each.

    Args:
        success_score: Attempts with this score or a higher one; without any there is no call.
        most: Experiences of one step at most.
    """
    return _extraction("success_extraction", Origin.SUCCESS, lambda score: score >= success_score, most)


def failure_extraction(
    *, success_score: float = SUCCESS_SCORE, most: int = MOST_EXPERIENCES
) -> Stage[Attempts, Experiences, FlowContext]:
    """Make the stage that learns what led attempts astray: one call for each step, at most `most` experiences of each.

    Args:
        success_score: Attempts with a lower score; without any there is no call.
        most: Experiences of one step at most.
    """
    return _extraction("failure_extraction", Origin.FAILURE, lambda score: score < success_score, most)


@dataclass(frozen=True, slots=True, kw_only=True)
class _AttemptStep:
    attempt: Attempt
    number: int
    count: int
    messages: tuple[Message, ...]


def _extraction(
    name: str, origin: Origin, wanted: Callable[[float], bool], most: int
) -> Stage[Attempts, Experiences, FlowContext]:
    async def run(attempts: Attempts, context: FlowContext) -> Experiences:
        async def learn(step: _AttemptStep) -> Experiences:
            question = experience_question(_lesson(step, origin, most, context))
            return await ask(context.chat_model(name), question)

        steps = [step for attempt in attempts if wanted(attempt.trajectory.score) for step in _steps(attempt)]
        learnt = await for_each(learn, steps, at_once=AT_ONCE)
        return tuple(experience for group in learnt for experience in group)

    return stage(run, name)


def _steps(attempt: Attempt) -> list[_AttemptStep]:
    steps = steps_shown(attempt)
    return [
        _AttemptStep(attempt=attempt, number=number, count=len(steps), messages=messages)
        for number, messages in enumerate(steps, 1)
    ]


def _lesson(step: _AttemptStep, origin: Origin, most: int, context: FlowContext) -> ExperienceRequest:
    shown = show(step.attempt, step.messages)
    task = task_line(step.attempt, context, step=step.number, steps=step.count)
    return ExperienceRequest(
        prompt=str(origin),
        origin=origin,
        user="\n".join((fence("task", task), fence("attempt", shown.lines))),
        shown=(shown,),
        language=language_of((step.attempt,), context),
        most=most,
    )


# What a step is about shows in this much of it, head and tail.
_COMPARED_CHARS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class _ComparedAttempt:
    """Messages of an attempt that are held against those of another one."""

    attempt: Attempt
    messages: tuple[Message, ...]


def comparison(*, most: int = MOST_EXPERIENCES) -> Stage[Attempts, Experiences, FlowContext]:
    """Make the stage that learns from the difference between the best attempt and the worst, in one call.

    Without two different scores there is no difference, and no call. Of attempts with one score the first is taken.

    Args:
        most: Experiences at most.
    """

    async def run(attempts: Attempts, context: FlowContext) -> Experiences:
        best = max(attempts, key=lambda attempt: attempt.trajectory.score, default=None)
        worst = min(attempts, key=lambda attempt: attempt.trajectory.score, default=None)
        if best is None or worst is None or best.trajectory.score == worst.trajectory.score:
            return ()
        return await _learn((_whole(best), _whole(worst)), context, most, "comparison")

    return stage(run, "comparison")


def step_comparison(
    *, success_score: float = SUCCESS_SCORE, similarity: float = 0.3, pairs: int = 3, most: int = MOST_EXPERIENCES
) -> Stage[Attempts, Experiences, FlowContext]:
    """Make the stage that learns from pairs of similar steps, one of an attempt that went well and one that did not.

    The most similar pairs come first, each step is in one pair, and each pair is one call.

    Args:
        success_score: Attempts with this score or a higher one went well.
        similarity: What two steps must have in common: the cosine of their vectors, or without an embedder the share of
            their words that are in both. Low by default: an example for a model to look at, no proof.
        pairs: At most so many.
        most: Experiences of one pair at most.

    Raises:
        ConfigurationError: `pairs` is below 1.
    """
    if pairs < 1:
        msg = f"step_comparison: pairs must be above zero, found {pairs}"
        raise ConfigurationError(msg)

    async def run(attempts: Attempts, context: FlowContext) -> Experiences:
        good = _sides([attempt for attempt in attempts if attempt.trajectory.score >= success_score])
        bad = _sides([attempt for attempt in attempts if attempt.trajectory.score < success_score])
        if not good or not bad:
            return ()
        chosen = await asyncio.to_thread(_pairs, await _likeness(good, bad, context), similarity, pairs)
        learnt = await for_each(
            lambda pair: _learn((good[pair[0]], bad[pair[1]]), context, most, "step_comparison"),
            chosen,
            at_once=AT_ONCE,
        )
        return tuple(experience for group in learnt for experience in group)

    return stage(run, "step_comparison")


def _whole(attempt: Attempt) -> _ComparedAttempt:
    return _ComparedAttempt(
        attempt=attempt, messages=tuple(message for step in steps_shown(attempt) for message in step)
    )


def _sides(attempts: Sequence[Attempt]) -> list[_ComparedAttempt]:
    return [_ComparedAttempt(attempt=attempt, messages=step) for attempt in attempts for step in steps_shown(attempt)]


async def _learn(
    sides: tuple[_ComparedAttempt, _ComparedAttempt], context: FlowContext, most: int, wanted_for: str
) -> Experiences:
    better, worse = sides
    one = show(better.attempt, better.messages, max_chars=SHOWN_CHARS // 2, max_messages=SHOWN_MESSAGES // 2)
    other = show(
        worse.attempt,
        worse.messages,
        first=len(better.messages) + 1,
        max_chars=SHOWN_CHARS // 2,
        max_messages=SHOWN_MESSAGES // 2,
    )
    parts = (
        fence("task", _task_line(sides, context)),
        fence("better", one.lines),
        fence("worse", other.lines),
    )
    lesson = ExperienceRequest(
        prompt="comparison",
        origin=Origin.COMPARISON,
        user="\n".join(parts),
        shown=(one, other),
        language=language_of((better.attempt, worse.attempt), context),
        most=most,
    )
    return await ask(context.chat_model(wanted_for), experience_question(lesson))


def _task_line(sides: tuple[_ComparedAttempt, _ComparedAttempt], context: FlowContext) -> str:
    scores: dict[str, JsonValue] = {
        name: side.attempt.trajectory.score for name, side in zip(("better", "worse"), sides, strict=True)
    }
    line: dict[str, JsonValue] = {"domain": context.memory_target, "scores": scores}
    for side in sides:
        asked = next((message for message in side.attempt.trajectory.messages if message.role == "user"), None)
        if asked is not None and asked not in side.messages:
            line["asked"] = shortened(asked.full_text, SHOWN_TASK_CHARS)
    return json_line(line)


async def _likeness(good: Sequence[_ComparedAttempt], bad: Sequence[_ComparedAttempt], context: FlowContext) -> Matrix:
    """Return how similar each step is to each; shape (good, bad)."""
    texts = await asyncio.to_thread(lambda: [_text(side) for side in (*good, *bad)])
    rows = await context.try_embedding(texts)
    if rows is None:
        return await asyncio.to_thread(_shared_words, texts[: len(good)], texts[len(good) :])
    cosines: Matrix = rows[: len(good)] @ rows[len(good) :].T
    return cosines


def _text(side: _ComparedAttempt) -> str:
    most = max(1, _COMPARED_CHARS // len(side.messages))
    return shortened("\n".join(shortened(message.full_text, most) for message in side.messages), _COMPARED_CHARS)


def _shared_words(good: Sequence[str], bad: Sequence[str]) -> Matrix:
    others = [frozenset(terms(text)) for text in bad]
    rows = np.zeros((len(good), len(bad)), np.float32)
    for row, text in enumerate(good):
        own = frozenset(terms(text))
        for column, words in enumerate(others):
            rows[row, column] = len(own & words) / max(1, len(own | words))
    return rows


def _pairs(likeness: Matrix, similarity: float, most: int) -> list[tuple[int, int]]:
    """Return the most similar pairs, each row and each column once."""
    chosen: list[tuple[int, int]] = []
    columns = likeness.shape[1]
    for place in np.argsort(-likeness, axis=None, kind="stable").tolist():
        row, column = divmod(place, columns)
        if len(chosen) == most or likeness[row, column] < similarity:
            break
        if all(row != taken and column != other for taken, other in chosen):
            chosen.append((row, column))
    return chosen
