"""Procedural memories as texts: in the prompts of a model, and plain, for the prompt of whoever works on a task."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from reme_core.errors import InvalidInputError
from reme_core.schema import Hit
from reme_core.steps.flow import stage
from reme_core.steps.flow_context import FlowContext
from reme_core.tasks.task_values import TaskAnswer
from reme_core.text import Language, estimate_tokens, json_line, prompt_language, shortened

MAX_WHEN_CHARS = 300
"""Characters of a situation that the prompts of a model show."""

# An advice of which less is left tells nothing.
_LEAST_CHARS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMemory:
    """What is shown of a memory.

    Attributes:
        when: The situation in which it helps; may be empty.
        content: What it says.
    """

    when: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Headings:
    heading: str
    when: str
    do: str


_WORDS: Mapping[Language, _Headings] = MappingProxyType(
    {
        "en": _Headings(heading="What earlier work on such tasks has taught:", when="When: ", do="Do: "),
        "zh": _Headings(heading="以往做此类任务的经验：", when="情形：", do="做法："),
    }
)


@stage
async def show(answer: TaskAnswer, context: FlowContext) -> TaskAnswer:
    """Write what was found as a plain text: a heading, then numbered entries that say when to do what.

    Within the `token_budget` of the question, by `estimate_tokens`: what does not fit is left out, whole entries from
    the end; the first one is shortened where it alone is too long. Empty without hits, and where a budget has no room
    for any advice. The hits stay as they are.

    Raises:
        InvalidInputError: A token budget below 1.
    """
    budget = answer.question.token_budget
    if budget is not None and budget < 1:
        msg = f"token_budget: wanted at least 1, found {budget}"
        raise InvalidInputError(msg)
    return replace(answer, text=plain_text(shown_of(answer.hits), language_of(answer, context), token_budget=budget))


def plain_text(memories: Sequence[ShownMemory], language: Language, *, token_budget: int | None) -> str:
    """Write memories as one text of at most `token_budget` tokens (`estimate_tokens`); see `show`.

    The lines of a memory but its first are indented: whatever it says, it can't look like a further entry.
    """
    if not memories:
        return ""
    words = _WORDS[language]
    entries = [_entry(memory, number, words) for number, memory in enumerate(memories, 1)]
    whole = "\n".join([words.heading, *entries])
    if token_budget is None or estimate_tokens(whole) <= token_budget:
        return whole

    def first(count: int) -> str:
        return "\n".join([words.heading, *entries[:count]])

    def cut(chars: int) -> str:
        memory = ShownMemory(when=_head(memories[0].when, chars), content=_head(memories[0].content, chars))
        return f"{words.heading}\n{_entry(memory, 1, words)}"

    count = _most(len(entries), token_budget, lambda count: estimate_tokens(first(count)))
    if count:
        return first(count)
    longest = max(len(memories[0].when), len(memories[0].content))
    chars = _most(longest, token_budget, lambda chars: estimate_tokens(cut(chars)))
    return cut(chars) if chars >= _LEAST_CHARS else ""


def shown_of(hits: Sequence[Hit]) -> list[ShownMemory]:
    """Return what is shown of hits, in their order."""
    return [ShownMemory(when=hit.when_to_use.strip(), content=hit.memory.strip()) for hit in hits]


def memory_lines(memories: Sequence[ShownMemory], *, max_chars: int) -> str:
    """Write memories for a model: one JSON line each, numbered from 1, a content cut to `max_chars` characters."""
    return "\n".join(
        json_line(
            {
                "n": number,
                "when": shortened(memory.when, MAX_WHEN_CHARS),
                "do": shortened(memory.content, max_chars),
            }
        )
        for number, memory in enumerate(memories, 1)
    )


def language_of(answer: TaskAnswer, context: FlowContext) -> Language:
    """Return the language to speak of an answer in: that of the context, else that of the task and its memories."""
    return context.language or prompt_language((answer.question.query, *(hit.memory for hit in answer.hits)))


def _entry(memory: ShownMemory, number: int, words: _Headings) -> str:
    indent = " " * len(f"{number}. ")
    parts = [f"{words.do}{memory.content}"]
    if memory.when:
        parts.insert(0, f"{words.when}{memory.when}")
    lines = [line for part in parts for line in part.splitlines()]
    return f"{number}. " + f"\n{indent}".join(lines)


def _head(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[:chars]}…"


def _most(most: int, budget: int, cost: Callable[[int], int]) -> int:
    """Return the largest number up to `most` whose cost is within a budget; costs grow with the number."""
    return bisect_right(range(1, most + 1), budget, key=cost)
