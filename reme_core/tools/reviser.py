"""The reviser: a second look at what a run has made of its messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, tzinfo

from pydantic import Field, JsonValue

from reme_core.errors import ConfigurationError
from reme_core.ports import ChatModel, ResponseSchema, ToolContext
from reme_core.schema import Memory, Message
from reme_core.steps.ask_json import JsonQuestion, MeteredChatModel, WrittenAnswer, ask
from reme_core.steps.draft_store import DraftStore
from reme_core.text import Language, conversation_lines, fence, load_prompt, prompt_language
from reme_core.tools.base import BaseMemoryToolOp, NoArguments, parameters_of
from reme_core.tools.search import memory_line

_PACKAGE = "reme_core.tools"
_MOST_PROBLEMS = 50


class _WrittenVerdict(WrittenAnswer):
    ok: bool = Field(description="Whether there is no problem worth correcting.")
    problems: list[str] = Field(
        default_factory=list, max_length=_MOST_PROBLEMS, description="One short sentence for each problem."
    )


async def revise(
    model: ChatModel,
    messages: Sequence[Message],
    before: Sequence[Memory],
    after: Sequence[Memory],
    language: Language,
    *,
    remark: str = "",
    zone: tzinfo = UTC,
) -> tuple[str, ...]:
    """Ask whether memories hold what messages say, without repetition or conflict; return what is wrong, if anything.

    `before` are the memories concerned as they were, `after` as they are now. `remark` is what else the model has to
    know, such as what is not to be kept; times are shown in `zone`.

    Raises:
        ModelOutputError: The model answered twice what can't be used.
        ModelError: What the model raises.
    """
    task = load_prompt(_PACKAGE, "revise_task", language).fill(
        {
            "conversation": fence("conversation", conversation_lines(messages, zone=zone)),
            "before": fence("before", "\n".join(memory_line(memory, zone) for memory in before)),
            "after": fence("after", "\n".join(memory_line(memory, zone) for memory in after)),
        }
    )
    question = JsonQuestion(
        system=load_prompt(_PACKAGE, "revise", language).text,
        user=f"{task}\n\n{remark}" if remark else task,
        schema=_SCHEMA,
        language=language,
        read=_read,
    )
    return await ask(model, question)


class ReviseMemoryOp(BaseMemoryToolOp[NoArguments]):
    """Has the context's model check what the draft has changed against the messages of the call."""

    name = "revise_memory"
    description = (
        "Check your changes so far: is everything said in the conversation kept, is anything said twice, "
        "does anything contradict? Correct what the answer names."
    )
    item = NoArguments
    is_concurrent = True

    async def execute(self, items: Sequence[NoArguments], context: ToolContext) -> str:
        """Ask the model; see `BaseMemoryToolOp.execute`.

        Raises:
            ConfigurationError: The context has no model, or its memories are no draft.
        """
        if context.model is None or not isinstance(context.store, DraftStore):
            msg = "revise_memory needs a model, and a DraftStore as the memories of its context"
            raise ConfigurationError(msg)
        changes = context.store.changes
        before = [change.before for change in changes if change.before is not None]
        after = [change.after for change in changes if change.after is not None]
        language = prompt_language(message.full_text for message in context.messages)
        model = MeteredChatModel(context.model, context.trace)
        problems = await revise(
            model, context.messages, before, after, language, remark=context.guidance, zone=context.zone
        )
        if not problems:
            return "everything is in, nothing is repeated, nothing contradicts"
        return "\n".join(["to be corrected:", *(f"- {' '.join(problem.split())}" for problem in problems)])


_SCHEMA = ResponseSchema(name="verdict", schema=parameters_of(_WrittenVerdict))


def _read(value: JsonValue) -> tuple[str, ...]:
    """Read the problems, a sentence each (ValueError: saying what can't be used)."""
    answer = _WrittenVerdict.model_validate(value)
    if not answer.ok and not answer.problems:
        msg = "verdict: ok is false and no problem is named: name it, or say true"
        raise ValueError(msg)
    return tuple(text for text in answer.problems if text.strip())
