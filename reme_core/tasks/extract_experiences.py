"""Stages that learn from attempts, each by itself and two compared; the requests to a model, and its answers read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, Strict

from reme_core.errors import ConfigurationError
from reme_core.ports import Matrix, ResponseSchema
from reme_core.schema import Message, Source
from reme_core.schema.checks import Text
from reme_core.steps.ask_json import JsonQuestion, WrittenAnswer, ask, list_schema, lowered, none_as_empty, not_blank
from reme_core.steps.flow import FlowContext, Stage, for_each, stage
from reme_core.tasks.attempts import (
    SHOWN_CHARS,
    SHOWN_MESSAGES,
    SHOWN_TASK_CHARS,
    ShownAttempt,
    language_of,
    show,
    steps_shown,
    task_line,
)
from reme_core.tasks.task_values import AT_ONCE, PACKAGE, Attempt, Attempts, Experience, Experiences, Origin, StepType
from reme_core.text import Language, fence, json_line, load_prompt, shortened, terms

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


def _extraction(
    name: str, origin: Origin, wanted: Callable[[float], bool], most: int
) -> Stage[Attempts, Experiences, FlowContext]:
    async def run(attempts: Attempts, context: FlowContext) -> Experiences:
        chosen = [attempt for attempt in attempts if wanted(attempt.trajectory.score)]
        lessons = [lesson for attempt in chosen for lesson in _lessons(attempt, origin, most, context)]
        return await _learn(lessons, context, name)

    return stage(run, name)


def _lessons(attempt: Attempt, origin: Origin, most: int, context: FlowContext) -> Iterator[ExperienceRequest]:
    steps = steps_shown(attempt)
    for number, messages in enumerate(steps, 1):
        task = task_line(attempt, context, step=number, steps=len(steps))
        yield _request(origin, task, {"attempt": show(attempt, messages)}, most, context)


def _request(
    origin: Origin, task: str, shown: Mapping[str, ShownAttempt], most: int, context: FlowContext
) -> ExperienceRequest:
    fences = [fence("task", task), *(fence(name, one.lines) for name, one in shown.items())]
    return ExperienceRequest(
        origin=origin,
        user="\n".join(fences),
        shown=tuple(shown.values()),
        language=language_of([one.attempt for one in shown.values()], context),
        most=most,
    )


async def _learn(lessons: Sequence[ExperienceRequest], context: FlowContext, wanted_for: str) -> Experiences:
    async def learn(lesson: ExperienceRequest) -> Experiences:
        return await ask(context.chat_model(wanted_for), experience_question(lesson))

    learnt = await for_each(learn, lessons, at_once=AT_ONCE)
    return tuple(experience for group in learnt for experience in group)


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
        return await _learn([_compared((_whole(best), _whole(worst)), context, most)], context, "comparison")

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
        lessons = [_compared((good[one], bad[other]), context, most) for one, other in chosen]
        return await _learn(lessons, context, "step_comparison")

    return stage(run, "step_comparison")


def _whole(attempt: Attempt) -> _ComparedAttempt:
    return _ComparedAttempt(
        attempt=attempt, messages=tuple(message for step in steps_shown(attempt) for message in step)
    )


def _sides(attempts: Sequence[Attempt]) -> list[_ComparedAttempt]:
    return [_ComparedAttempt(attempt=attempt, messages=step) for attempt in attempts for step in steps_shown(attempt)]


def _compared(sides: tuple[_ComparedAttempt, _ComparedAttempt], context: FlowContext, most: int) -> ExperienceRequest:
    better, worse = sides
    chars, messages = SHOWN_CHARS // 2, SHOWN_MESSAGES // 2
    first = len(better.messages) + 1
    shown = {
        "better": show(better.attempt, better.messages, max_chars=chars, max_messages=messages),
        "worse": show(worse.attempt, worse.messages, first=first, max_chars=chars, max_messages=messages),
    }
    return _request(Origin.COMPARISON, _task_line(sides, context), shown, most, context)


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


MAX_CONTENT_CHARS = 4000
"""An experience is a few sentences, a procedure a page; what is longer is a copy of the attempt."""

MAX_WHEN_CHARS = 1000
"""A situation is told in a sentence or two."""

MAX_TAGS = 8
MAX_TAG_CHARS = 60

_BLANKS = re.compile(r"[\s\x00-\x1f\x7f]+")


def _tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    """Keep what can be a tag; a tag too many is no reason to ask again."""
    lines = (_BLANKS.sub(" ", tag).strip() for tag in tags)
    return tuple(dict.fromkeys(tag for tag in lines if 0 < len(tag) <= MAX_TAG_CHARS))[:MAX_TAGS]


class WrittenExperience(WrittenAnswer):
    """An experience as the model writes it. Keys of its own say nothing."""

    when_to_use: Annotated[Text, AfterValidator(not_blank), Field(max_length=MAX_WHEN_CHARS)]
    content: Annotated[Text, AfterValidator(not_blank), Field(max_length=MAX_CONTENT_CHARS)]
    tags: Annotated[tuple[Text, ...], AfterValidator(_tags), BeforeValidator(none_as_empty)] = ()
    confidence: Annotated[float, Strict(), Field(ge=0, le=1, allow_inf_nan=False)]
    step_type: Annotated[StepType, BeforeValidator(lowered)]
    tools_used: Annotated[tuple[Text, ...], BeforeValidator(none_as_empty)] = ()
    messages: Annotated[tuple[Annotated[int, Strict()], ...], Field(min_length=1)]


class _WrittenExperiences(WrittenAnswer):
    experiences: tuple[WrittenExperience, ...]


_TEXT: JsonValue = {"type": "string"}
_SCHEMA = ResponseSchema(
    name="experiences",
    schema=list_schema(
        "experiences",
        {
            "when_to_use": _TEXT,
            "content": _TEXT,
            "tags": {"type": "array", "items": _TEXT},
            "confidence": {"type": "number"},
            "step_type": {"type": "string", "enum": [kind.value for kind in StepType]},
            "tools_used": {"type": "array", "items": _TEXT},
            "messages": {"type": "array", "items": {"type": "integer"}},
        },
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperienceRequest:
    """What a model is to learn from.

    Attributes:
        origin: What comes of it; its prompt says what to look for.
        user: The fenced data.
        shown: The attempts that the data shows, in the order of their numbers.
        language: Of the prompts.
        most: At most so many experiences.
    """

    origin: Origin
    user: str
    shown: tuple[ShownAttempt, ...]
    language: Language
    most: int


def experience_question(lesson: ExperienceRequest) -> JsonQuestion[Experiences]:
    """Return what the model is asked."""
    form = load_prompt(PACKAGE, "experience", lesson.language).fill({"most": str(lesson.most)})
    return JsonQuestion(
        system=load_prompt(PACKAGE, str(lesson.origin), lesson.language).fill({"form": form}),
        user=lesson.user,
        schema=_SCHEMA,
        language=lesson.language,
        read=lambda value: read_experiences(value, lesson),
    )


def read_experiences(value: JsonValue, lesson: ExperienceRequest) -> Experiences:
    """Read an answer.

    Raises:
        ValueError: Saying what is wrong; a ValidationError for what is wrong with its form.
    """
    listed = value.get("experiences") if isinstance(value, dict) else None
    if isinstance(listed, list) and len(listed) > lesson.most:
        msg = f"experiences: {len(listed)} of them, at most {lesson.most}: only what is most worth knowing"
        raise ValueError(msg)
    called = frozenset(name for shown in lesson.shown for name in tools_called(shown.attempt))
    written = _WrittenExperiences.model_validate(value).experiences
    return tuple(_experience(item, f"experiences[{place}]", lesson, called) for place, item in enumerate(written))


def tools_called(attempt: Attempt) -> frozenset[str]:
    """Return the names of the tools that were called in an attempt."""
    blocks = (block for message in attempt.trajectory.messages for block in message.content)
    return frozenset(block.name for block in blocks if block.type == "tool_call")


def _experience(
    written: WrittenExperience, where: str, lesson: ExperienceRequest, called: frozenset[str]
) -> Experience:
    cited = frozenset(written.messages)
    evidence: list[Message] = []
    sources: list[Source] = []
    for shown in lesson.shown:
        own = [message for number, message in shown.messages.items() if number in cited]
        evidence += own
        if own:
            ids = tuple(message.message_id for message in own)
            sources.append(Source(block_id=shown.attempt.block_id, message_ids=ids))
    if len(evidence) < len(cited):
        known = {number for shown in lesson.shown for number in shown.messages}
        msg = f"{where}.messages: no message has the number {str(min(cited - known))[:20]}: give numbers that are shown"
        raise ValueError(msg)
    named = (name.strip() for name in written.tools_used)
    return Experience(
        when_to_use=written.when_to_use,
        content=written.content,
        tags=written.tags,
        confidence=written.confidence,
        step_type=written.step_type,
        tools_used=tuple(dict.fromkeys(name for name in named if name in called)),
        origin=lesson.origin,
        attempts=tuple(shown.attempt for shown in lesson.shown),
        evidence=tuple(evidence),
        sources=tuple(sources),
    )
