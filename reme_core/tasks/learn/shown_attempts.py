"""Views of attempts for prompts: numbered messages as data, within a bounded number of characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from pydantic import JsonValue

from reme_core.schema import Message
from reme_core.steps.flow_context import FlowContext
from reme_core.tasks.task_values import Attempt
from reme_core.text import Language, conversation_lines, json_line, prompt_language, shortened

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
