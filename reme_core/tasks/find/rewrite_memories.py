"""Stage that has a model write what was found for a task as one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, JsonValue

from reme_core.ports import ResponseSchema
from reme_core.schema.checks import Text
from reme_core.steps.ask_json import JsonQuestion, ask
from reme_core.steps.flow import stage
from reme_core.steps.flow_context import FlowContext
from reme_core.tasks.find.rerank_memories import PACKAGE, task_fence
from reme_core.tasks.find.shown_memories import ShownMemory, language_of, memory_lines, shown_of
from reme_core.tasks.task_values import TaskAnswer
from reme_core.text import Language, estimate_tokens, fence, load_prompt

MAX_TEXT_TOKENS = 800
"""Tokens of a text that is accepted; 400 words are asked for, which have about 600."""

# About 46,000 characters at most; those further down have little to do with the task.
_MOST_SHOWN = 20
_SHOWN_CHARS = 2000
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
    text, _ = await ask(model, question)
    return replace(answer, text=text)


def rewrite_question(
    task: str, memories: Sequence[ShownMemory], language: Language, *, limit_tokens: int
) -> JsonQuestion[str]:
    """Return what the model is asked."""
    words = max(1, int(limit_tokens * _WORDS_PER_TOKEN))
    parts = [task_fence(task), fence("memories", memory_lines(memories, max_chars=_SHOWN_CHARS))]
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
