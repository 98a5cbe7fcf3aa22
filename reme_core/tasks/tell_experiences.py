"""Texts of what was found for a task: put in order and rewritten by a model, or plain."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, JsonValue

from reme_core.errors import InvalidInputError
from reme_core.ports import ResponseSchema
from reme_core.schema import Hit
from reme_core.schema.checks import Text
from reme_core.steps.ask_json import ORDER_SCHEMA, JsonQuestion, ask, read_order, with_rest
from reme_core.steps.flow import FlowContext, stage
from reme_core.tasks.task_values import TaskAnswer
from reme_core.text import Language, estimate_tokens, fence, json_line, load_prompt, prompt_language, shortened

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


PACKAGE = "reme_core.tasks"
"""Where the prompts of procedural memory lie."""

MAX_TASK_CHARS = 4000
"""Characters of a task that the prompts show: about a thousand tokens."""

MAX_RANKED = 50
"""So many hits are put in order, 40,000 characters at most; further ones stay behind them as they are."""

_RANKED_CHARS = 500


@stage
async def rerank(answer: TaskAnswer, context: FlowContext) -> TaskAnswer:
    """Have the model put the hits in order, best first, and keep as many as the question asks for.

    Those that it leaves out come last, in the order in which they were found. Scores stay those of the search. No call
    for one hit or none.

    Raises:
        ConfigurationError: There is no model.
        ModelError: The model failed, or gave no usable order twice.
    """
    model = context.chat_model("reranking memories")
    most = answer.question.limit
    if len(answer.hits) < 2:
        return answer
    ranked, others = answer.hits[:MAX_RANKED], answer.hits[MAX_RANKED:]
    shown = shown_of(ranked)
    question = rerank_question(answer.question.query, shown, language_of(answer, context))
    places = await ask(model, question)
    return replace(answer, hits=(*(ranked[place] for place in places), *others)[:most])


def rerank_question(task: str, memories: Sequence[ShownMemory], language: Language) -> JsonQuestion[tuple[int, ...]]:
    """Return what the model is asked; the answer is read as all places of `memories`, from 0, in the new order."""
    parts = [task_fence(task), fence("memories", memory_lines(memories, max_chars=_RANKED_CHARS))]
    return JsonQuestion(
        system=load_prompt(PACKAGE, "rerank", language).fill({}),
        user="\n".join(parts),
        schema=ORDER_SCHEMA,
        language=language,
        read=lambda value: with_rest(read_order(value, len(memories)), len(memories)),
    )


def task_fence(task: str) -> str:
    """Return a task as prompts show it: data in a fence."""
    return fence("task", json_line({"text": shortened(task, MAX_TASK_CHARS)}))


MAX_TEXT_TOKENS = 800
"""Tokens of a text that is accepted; 400 words are asked for, which have about 600."""

# About 46,000 characters at most; those further down have little to do with the task.
_MOST_SHOWN = 20
_REWRITTEN_CHARS = 2000
# An English word is 1.5 tokens by `estimate_tokens`, a Chinese character 0.8: models that keep to half of the tokens
# as words have room to miss it.
_WORDS_PER_TOKEN = 0.5


class _RewrittenText(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    text: Annotated[Text, AfterValidator(str.strip)]


_SCHEMA = ResponseSchema(
    name="text",
    schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)


@stage
async def rewrite(answer: TaskAnswer, context: FlowContext) -> TaskAnswer:
    """Have the model write one text for this task from what was found, in place of the text so far; the hits stay.

    At most `MAX_TEXT_TOKENS` tokens, or the `token_budget` of the question if that is less. A longer text is asked for
    again, never cut. Without hits there is no call, and the text is empty.

    Raises:
        ConfigurationError: There is no model.
        ModelError: The model failed, or gave no usable text twice.
    """
    model = context.chat_model("rewriting memories for a task")
    if not answer.hits:
        return replace(answer, text="")
    shown = shown_of(answer.hits[:_MOST_SHOWN])
    budget = answer.question.token_budget
    most = MAX_TEXT_TOKENS if budget is None else min(budget, MAX_TEXT_TOKENS)
    question = rewrite_question(answer.question.query, shown, language_of(answer, context), limit_tokens=most)
    text = await ask(model, question)
    return replace(answer, text=text)


def rewrite_question(
    task: str, memories: Sequence[ShownMemory], language: Language, *, limit_tokens: int
) -> JsonQuestion[str]:
    """Return what the model is asked."""
    words = max(1, int(limit_tokens * _WORDS_PER_TOKEN))
    parts = [task_fence(task), fence("memories", memory_lines(memories, max_chars=_REWRITTEN_CHARS))]
    return JsonQuestion(
        system=load_prompt(PACKAGE, "rewrite", language).fill({"words": str(words)}),
        user="\n".join(parts),
        schema=_SCHEMA,
        language=language,
        read=lambda value: read_text(value, limit_tokens=limit_tokens),
    )


def read_text(value: JsonValue, *, limit_tokens: int) -> str:
    """Read a text of at most so many tokens (ValueError, saying what is wrong: it is empty, or too long)."""
    text = _RewrittenText.model_validate(value).text
    if not text:
        msg = "text: is empty; say what of the memories helps with the task"
        raise ValueError(msg)
    tokens = estimate_tokens(text)
    if tokens > limit_tokens:
        words = max(1, int(limit_tokens * _WORDS_PER_TOKEN))
        msg = f"text: has about {tokens} tokens, at most {limit_tokens} fit: write {words} words or less"
        raise ValueError(msg)
    return text
