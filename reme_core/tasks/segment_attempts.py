"""The optional stage that has a model cut attempts into the steps that they were made in."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, JsonValue, Strict

from reme_core.errors import ConfigurationError
from reme_core.ports import ResponseSchema
from reme_core.schema import Message
from reme_core.steps.ask_json import JsonQuestion, ask
from reme_core.steps.flow import FlowContext, Stage, for_each, stage
from reme_core.steps.slicing import Slicing, slice_messages
from reme_core.tasks.attempts import ShownAttempt, instructions, language_of, show, task_line
from reme_core.tasks.read_experiences import AT_ONCE, PACKAGE
from reme_core.tasks.task_values import Attempt, Attempts
from reme_core.text import fence, load_prompt

_SCHEMA = ResponseSchema(
    name="ends",
    schema={
        "type": "object",
        "properties": {"ends": {"type": "array", "items": {"type": "integer"}}},
        "required": ["ends"],
    },
)
# Each message by itself, those apart that have to stay together.
_SINGLY = Slicing(max_gap_s=math.inf, max_messages=1, max_chars=1)


class _WrittenSegments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    ends: tuple[Annotated[int, Strict()], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _AttemptPart:
    """A step that may be made of several, of the attempt at a place; its first messages may be instructions."""

    attempt: Attempt
    place: int
    number: int
    messages: tuple[Message, ...]
    instructions: int

    @property
    def spoken(self) -> tuple[Message, ...]:
        return self.messages[self.instructions :]


def segmentation(*, min_messages: int = 6, max_steps: int = 12) -> Stage[Attempts, Attempts, FlowContext]:
    """Make the stage that cuts attempts into the steps that a model sees in them, one call for each that is long.

    Steps that are there already are cut further, never joined. A tool call and its result stay in one step: a step that
    a model ends between them ends behind them.

    Args:
        min_messages: What has fewer messages is one step, without a call.
        max_steps: At most so many of what was one.

    Raises:
        ConfigurationError: `min_messages` is below 2, or `max_steps` below 1.
    """
    if min_messages < 2 or max_steps < 1:
        msg = f"segmentation: min_messages is at least 2 and max_steps at least 1, found {min_messages}, {max_steps}"
        raise ConfigurationError(msg)

    async def run(attempts: Attempts, context: FlowContext) -> Attempts:
        async def cut(part: _AttemptPart) -> list[tuple[Message, ...]]:
            if len(part.spoken) < min_messages:
                return [part.messages]
            return _cut(part, await _ends(part, context, max_steps))

        parts = [part for place, attempt in enumerate(attempts) for part in _parts(attempt, place)]
        pieces = await for_each(cut, parts, at_once=AT_ONCE)
        steps: list[list[tuple[Message, ...]]] = [[] for _ in attempts]
        for part, found in zip(parts, pieces, strict=True):
            steps[part.place] += found
        return tuple(replace(attempt, steps=tuple(own)) for attempt, own in zip(attempts, steps, strict=True))

    return stage(run, "segmentation")


def _parts(attempt: Attempt, place: int) -> list[_AttemptPart]:
    left = instructions(attempt.trajectory.messages)
    parts = []
    for number, step in enumerate(attempt.steps, 1):
        lead = min(left, len(step))
        parts.append(_AttemptPart(attempt=attempt, place=place, number=number, messages=step, instructions=lead))
        left = max(0, left - len(step))
    return parts


async def _ends(part: _AttemptPart, context: FlowContext, max_steps: int) -> tuple[int, ...]:
    shown = show(part.attempt, part.spoken)
    language = language_of((part.attempt,), context)
    task = task_line(part.attempt, context, step=part.number, steps=len(part.attempt.steps))
    question = JsonQuestion(
        system=load_prompt(PACKAGE, "segmentation", language).fill({"most": str(max_steps)}),
        user="\n".join((fence("task", task), fence("attempt", shown.lines))),
        schema=_SCHEMA,
        language=language,
        read=lambda value: read_ends(value, shown, max_steps),
    )
    return await ask(context.chat_model("segmentation"), question)


def read_ends(value: JsonValue, shown: ShownAttempt, max_steps: int) -> tuple[int, ...]:
    """Read the numbers of the messages after which a step ends, in order; the last one ends one anyway.

    Raises:
        ValueError: Saying what is wrong: a number that no message has, or too many steps.
    """
    ends = sorted(set(_WrittenSegments.model_validate(value).ends))
    unknown = [number for number in ends if number not in shown.messages]
    if unknown:
        msg = f"ends: no message has the number {str(unknown[0])[:20]}: give numbers that are shown"
        raise ValueError(msg)
    last = max(shown.messages)
    if len(set(ends) - {last}) >= max_steps:
        msg = f"ends: {len(set(ends) - {last}) + 1} steps, at most {max_steps}: join those that serve one purpose"
        raise ValueError(msg)
    return tuple(ends)


def _cut(part: _AttemptPart, ends: Collection[int]) -> list[tuple[Message, ...]]:
    steps: list[tuple[Message, ...]] = []
    held: tuple[Message, ...] = part.messages[: part.instructions]
    number = 0
    for unit in slice_messages(part.spoken, _SINGLY):
        held += unit.messages
        numbers = range(number + 1, number + len(unit.messages) + 1)
        number = numbers[-1]
        if any(end in numbers for end in ends):
            steps.append(held)
            held = ()
    return [*steps, held] if held else steps
