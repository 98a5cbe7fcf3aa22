"""The reviser: a second look at what a run has made of its messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reme_core.errors import ConfigurationError, ModelOutputError
from reme_core.ports import ChatModel, ChatRequest, ChatResult, ResponseSchema, RunTrace, ToolContext
from reme_core.schema import Memory, Message, TextBlock, Usage, describe
from reme_core.steps.draft_store import DraftStore
from reme_core.text import Language, conversation_lines, fence, load_prompt, prompt_language
from reme_core.tools.base import BaseMemoryToolOp, NoArguments, parameters_of
from reme_core.tools.search import memory_line

_PACKAGE = "reme_core.tools"
_ATTEMPTS = 2
_MOST_PROBLEMS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionVerdict:
    """What the reviser found.

    Attributes:
        ok: Nothing has to be corrected.
        problems: What is wrong, a sentence each; none where it is ok.
        usage: What asking cost.
    """

    ok: bool
    problems: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


class _WrittenVerdict(BaseModel):
    model_config = ConfigDict(extra="ignore")

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
    trace: RunTrace | None = None,
    remark: str = "",
    zone: tzinfo = UTC,
) -> RevisionVerdict:
    """Ask whether memories hold what messages say, without repetition or conflict.

    `before` are the memories concerned as they were, `after` as they are now. What asking has cost is in the verdict;
    where there is none, because it failed or was cancelled, it is added to the usage of `trace`. `remark` is what else
    the model has to know, such as what is not to be kept; times are shown in `zone`.

    Raises:
        ModelOutputError: The model answered twice what can't be used.
        ModelError: What the model raises.
    """
    spent: list[Usage] = []
    verdict: RevisionVerdict | None = None
    try:
        asked = _questions(messages, before, after, language, remark=remark, zone=zone)
        answer = await _answer(model, asked, spent)
        problems = tuple(text for text in answer.problems if text.strip())
        verdict = RevisionVerdict(ok=not problems, problems=problems, usage=sum(spent, Usage()))
    finally:
        if verdict is None and trace is not None:
            trace.usage += sum(spent, Usage())
    return verdict


async def _answer(model: ChatModel, asked: list[Message], spent: list[Usage]) -> _WrittenVerdict:
    """Ask, and once more where the answer can't be used; what each call has cost goes to `spent`."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _read(await _ask(model, asked, spent))
        except ModelOutputError as exc:
            if attempt == _ATTEMPTS:
                raise
            asked = [
                *asked,
                _message("user", f"Your answer could not be used: {exc} Answer with the JSON object alone."),
            ]
    raise AssertionError  # the last attempt returns or raises


async def _ask(model: ChatModel, asked: list[Message], spent: list[Usage]) -> ChatResult:
    try:
        result = await model.chat(ChatRequest(messages=asked, response_schema=_SCHEMA))
    except ModelOutputError:
        spent.append(Usage(model_calls=1))  # it has answered; how many tokens it took is not known
        raise
    spent.append(result.usage)
    return result


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
        verdict = await revise(
            context.model,
            context.messages,
            before,
            after,
            language,
            trace=context.trace,
            remark=context.guidance,
            zone=context.zone,
        )
        context.trace.usage += verdict.usage
        if verdict.ok:
            return "everything is in, nothing is repeated, nothing contradicts"
        return "\n".join(["to be corrected:", *(f"- {' '.join(problem.split())}" for problem in verdict.problems)])


_SCHEMA = ResponseSchema(name="verdict", schema=parameters_of(_WrittenVerdict))


def _questions(
    messages: Sequence[Message],
    before: Sequence[Memory],
    after: Sequence[Memory],
    language: Language,
    *,
    remark: str,
    zone: tzinfo,
) -> list[Message]:
    task = load_prompt(_PACKAGE, "revise_task", language).fill(
        {
            "conversation": fence("conversation", conversation_lines(messages, zone=zone)),
            "before": fence("before", "\n".join(memory_line(memory, zone) for memory in before)),
            "after": fence("after", "\n".join(memory_line(memory, zone) for memory in after)),
        }
    )
    told = f"{task}\n\n{remark}" if remark else task
    return [_message("system", load_prompt(_PACKAGE, "revise", language).text), _message("user", told)]


def _message(role: str, text: str) -> Message:
    return Message.model_validate({"role": role, "content": (TextBlock(text=text),)})


def _read(result: ChatResult) -> _WrittenVerdict:
    raw = result.message.full_text
    if result.finish_reason == "length":
        msg = "the answer was cut off at its limit: name the problems more shortly"
        raise ModelOutputError(msg, raw=raw)
    try:
        answer = _WrittenVerdict.model_validate(result.parsed)
    except ValidationError as exc:
        raise ModelOutputError(describe(exc, "verdict"), raw=raw) from exc
    if not answer.ok and not answer.problems:
        msg = "verdict: ok is false and no problem is named: name it, or say true"
        raise ModelOutputError(msg, raw=raw)
    return answer
