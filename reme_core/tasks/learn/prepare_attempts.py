"""First stage: attempts as a model can be shown them, best first; what is too long is cut into steps."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from reme_core.errors import ConfigurationError
from reme_core.schema import Message, Trajectory
from reme_core.steps.flow import Stage, stage
from reme_core.steps.flow_context import FlowContext
from reme_core.steps.slicing import Slicing, slice_messages
from reme_core.tasks.learn.shown_attempts import SHOWN_CHARS, SHOWN_MESSAGES, instructions
from reme_core.tasks.task_values import Attempt, Attempts

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
    return tuple(_cut(attempt, cutting) for attempt in best_first)


def _cut(attempt: Attempt, cutting: _CutOptions) -> Attempt:
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
