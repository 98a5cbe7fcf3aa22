"""Stages that learn from each attempt by itself: why it worked, or why it failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reme_core.schema import Message
from reme_core.steps.ask_json import ask
from reme_core.steps.flow import Stage, for_each, stage
from reme_core.steps.flow_context import FlowContext
from reme_core.tasks.learn.read_experiences import AT_ONCE, ExperienceRequest, experience_question
from reme_core.tasks.learn.shown_attempts import language_of, show, steps_shown, task_line
from reme_core.tasks.task_values import Attempt, Attempts, Experiences, Origin
from reme_core.text import fence

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
            experiences, _ = await ask(context.chat_model(name), question)
            return experiences

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
