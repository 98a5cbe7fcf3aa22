"""Attempts as a model can be shown them: numbered messages as data, best first, cut by length or by a model."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated

from pydantic import JsonValue, Strict

from reme_core.errors import ConfigurationError
from reme_core.ports import ResponseSchema
from reme_core.schema import Message, Trajectory
from reme_core.steps.ask_json import JsonQuestion, WrittenAnswer, ask, object_schema
from reme_core.steps.flow import FlowContext, Stage, for_each, stage
from reme_core.steps.slicing import Slicing, slice_messages
from reme_core.tasks.task_values import AT_ONCE, PACKAGE, Attempt, Attempts
from reme_core.text import Language, conversation_lines, fence, json_line, load_prompt, prompt_language, shortened

SHOWN_CHARS = 16_000
"""Of a step a model is shown this much; some 4,000 tokens, which leave room in a small window."""

SHOWN_MESSAGES = 100
"""Of a step a model is shown so many messages: number, time and speaker of each take some 60 characters besides."""

SHOWN_TASK_CHARS = 1500
"""Of what was asked a model is shown this much where a step is not the first."""

# A message of which less is shown says nothing.
_LEAST_CHARS = 100
# The language of an attempt shows in its first messages.
_LANGUAGE_MESSAGES, _LANGUAGE_CHARS = 50, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAttempt:
    """Messages of an attempt as a prompt shows them.

    Attributes:
        attempt: The attempt.
        lines: A JSON line for each message, as `conversation_lines` writes them.
        messages: Those that are shown, by their number; an answer may cite no others.
    """

    attempt: Attempt
    lines: str
    messages: Mapping[int, Message]


def show(
    attempt: Attempt,
    messages: Sequence[Message],
    *,
    first: int = 1,
    max_chars: int = SHOWN_CHARS,
    max_messages: int = SHOWN_MESSAGES,
) -> ShownAttempt:
    """Show messages of an attempt, numbered from `first`.

    What is too long is cut where it is longest: short messages stay whole. Of too many messages those in the middle are
    left out, and a line says how many; the others keep their numbers.
    """
    places = head_and_tail(len(messages), max_messages)
    shares = _share([len(messages[place].full_text) for place in places], max_chars)
    parts: list[str] = []
    gap = next((at for at in range(1, len(places)) if places[at] != places[at - 1] + 1), len(places))
    for run in (places[:gap], places[gap:]):
        if parts and run:
            parts.append(json_line({"left_out": len(messages) - len(places)}))
        if run:
            piece = [messages[place] for place in run]
            parts.append(conversation_lines(piece, first=first + run[0], max_chars=shares))
    return ShownAttempt(
        attempt=attempt, lines="\n".join(parts), messages={first + place: messages[place] for place in places}
    )


def steps_shown(attempt: Attempt) -> tuple[tuple[Message, ...], ...]:
    """Return the steps without the agent's instructions: the system messages before anything else is said.

    They tell how an agent was set up, not what it did. An attempt of nothing else is shown as it is.
    """
    left = instructions(attempt.trajectory.messages)
    steps = []
    for step in attempt.steps:
        steps.append(step[left:])
        left = max(0, left - len(step))
    return tuple(step for step in steps if step)


def instructions(messages: Sequence[Message]) -> int:
    """Return how many messages at the beginning are an agent's instructions."""
    spoken = next((place for place, message in enumerate(messages) if message.role != "system"), None)
    return spoken or 0


def task_line(attempt: Attempt, context: FlowContext, *, step: int, steps: int) -> str:
    """Tell what a step is part of; what was asked is said where the step doesn't show it, `step` counts from 1."""
    line: dict[str, JsonValue] = {"domain": context.memory_target, "score": attempt.trajectory.score}
    if steps > 1:
        line |= {"step": step, "steps": steps}
    asked = next((message for message in attempt.trajectory.messages if message.role == "user"), None)
    if step > 1 and asked is not None:
        line["asked"] = shortened(asked.full_text, SHOWN_TASK_CHARS)
    return json_line(line)


def language_of(attempts: Sequence[Attempt], context: FlowContext) -> Language:
    """Return the language of the prompts about attempts: that of the run, else that of what was said in them.

    Instructions, tool calls and results don't count: they are often in another language than the talk.
    """
    if context.language is not None:
        return context.language
    said = (
        shortened(message.text, _LANGUAGE_CHARS)
        for attempt in attempts
        for message in islice(attempt.trajectory.messages, _LANGUAGE_MESSAGES)
        if message.role in {"user", "assistant"}
    )
    return prompt_language(said)


def head_and_tail(count: int, most: int) -> list[int]:
    """Return the places of so many things, and where there are more than `most`, of the first and the last of them."""
    if count <= most:
        return list(range(count))
    head = most // 2
    return [*range(head), *range(count - (most - head), count)]


def _share(sizes: Sequence[int], budget: int) -> int:
    """Return how long each text may be so that all of them keep to a budget, the short ones whole."""
    left = budget
    for place, size in enumerate(sorted(sizes)):
        fair = left // (len(sizes) - place)
        if size > fair:
            return max(fair, _LEAST_CHARS)
        left -= size
    return max(sizes, default=budget)


MAX_STEPS = 8
"""Steps of one attempt at most: what is far longer teaches no more for being read in more pieces."""


def attempt_of(trajectory: Trajectory, block_id: str) -> Attempt:
    """Return the attempt of a trajectory that is on disk in a block: one step, until a stage cuts it."""
    return Attempt(trajectory=trajectory, block_id=block_id, steps=(trajectory.messages,))


def preprocess(
    *, max_chars: int = SHOWN_CHARS, max_messages: int = SHOWN_MESSAGES, max_steps: int = MAX_STEPS
) -> Stage[Attempts, Attempts, FlowContext]:
    """Make the stage that puts the best attempt first and cuts what is too long for one prompt.

    A tool call and its result stay together, however long they are. The agent's instructions at the beginning stay in
    the first step; no prompt shows them.

    Args:
        max_chars: What has more characters is cut; a single message stays whole.
        max_messages: What has more messages is cut.
        max_steps: Into so many steps at most, since each is a call of a model; what is longer is shown shortened. Steps
            that another stage has cut stay apart.

    Raises:
        ConfigurationError: One of them is below 1.
    """
    if min(max_chars, max_messages, max_steps) < 1:
        msg = (
            "preprocess: max_chars, max_messages and max_steps must be above zero, found "
            f"{max_chars}, {max_messages} and {max_steps}"
        )
        raise ConfigurationError(msg)

    async def run(attempts: Attempts, _: FlowContext) -> Attempts:
        return await asyncio.to_thread(_prepared, attempts, _CutOptions(max_chars, max_messages, max_steps))

    return stage(run, "preprocess")


@dataclass(frozen=True, slots=True)
class _CutOptions:
    """The options of `preprocess`."""

    max_chars: int
    max_messages: int
    max_steps: int


def _prepared(attempts: Attempts, cutting: _CutOptions) -> Attempts:
    best_first = sorted(attempts, key=lambda attempt: -attempt.trajectory.score)
    return tuple(_cut_by_length(attempt, cutting) for attempt in best_first)


def _cut_by_length(attempt: Attempt, cutting: _CutOptions) -> Attempt:
    steps: list[tuple[Message, ...]] = []
    left = instructions(attempt.trajectory.messages)
    for step in attempt.steps:
        pieces = _pieces(step[left:], cutting)
        steps += [step[:left] + pieces[0], *pieces[1:]]
        left = max(0, left - len(step))
    return Attempt(trajectory=attempt.trajectory, block_id=attempt.block_id, steps=tuple(steps))


def _pieces(messages: tuple[Message, ...], cutting: _CutOptions) -> list[tuple[Message, ...]]:
    """Cut messages into pieces of about the same length; at least one piece."""
    chars = sum(len(message.full_text) for message in messages)
    by_messages = min(cutting.max_steps, math.ceil(len(messages) / cutting.max_messages))
    by_chars = min(cutting.max_steps, math.ceil(chars / cutting.max_chars))
    if by_messages <= 1 and by_chars <= 1:
        return [messages]
    slicing = Slicing(
        max_gap_s=math.inf,
        max_messages=math.ceil(len(messages) / max(1, by_messages)),
        max_chars=max(1, math.ceil(chars / max(1, by_chars))),
    )
    return [piece.messages for piece in slice_messages(messages, slicing)]


_SCHEMA = ResponseSchema(
    name="ends",
    schema=object_schema({"ends": {"type": "array", "items": {"type": "integer"}}}),
)
# Each message by itself, those apart that have to stay together.
_SINGLY = Slicing(max_gap_s=math.inf, max_messages=1, max_chars=1)


class _WrittenSegments(WrittenAnswer):
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
