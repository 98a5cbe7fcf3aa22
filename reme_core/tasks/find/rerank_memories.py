"""Stage that has a model put the memories found for a task in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reme_core.steps.ask_json import JsonQuestion, ask
from reme_core.steps.flow import stage
from reme_core.steps.flow_context import FlowContext
from reme_core.steps.model_order import ORDER_SCHEMA, read_order, with_rest
from reme_core.tasks.find.shown_memories import ShownMemory, language_of, memory_lines, shown_of
from reme_core.tasks.task_values import TaskAnswer
from reme_core.text import Language, fence, json_line, load_prompt, shortened

PACKAGE = "reme_core.tasks"
"""Where the prompts of procedural memory lie."""

MAX_TASK_CHARS = 4000
"""Characters of a task that the prompts show: about a thousand tokens."""

MAX_RANKED = 50
"""So many hits are put in order, 40,000 characters at most; further ones stay behind them as they are."""

_SHOWN_CHARS = 500


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
    places, _ = await ask(model, question)
    return replace(answer, hits=(*(ranked[place] for place in places), *others)[:most])


def rerank_question(task: str, memories: Sequence[ShownMemory], language: Language) -> JsonQuestion[tuple[int, ...]]:
    """Return what the model is asked; the answer is read as all places of `memories`, from 0, in the new order."""
    parts = [task_fence(task), fence("memories", memory_lines(memories, max_chars=_SHOWN_CHARS))]
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
