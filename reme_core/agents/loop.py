"""The agent loop: a model, tools, messages and limits in; the answer, all that was said and its cost out."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from reme_core.agents.calls import answer_calls, complaint, fault_of, tool_calls, tool_results
from reme_core.errors import (
    BudgetExceededError,
    ConfigurationError,
    InvalidInputError,
    ModelOutputError,
    StepLimitError,
)
from reme_core.ports import (
    AgentResult,
    ChatModel,
    ChatRequest,
    ChatResult,
    StreamingChatModel,
    Tool,
    ToolContext,
    ToolSpec,
)
from reme_core.schema import Message, ToolCallBlock, Usage
from reme_core.text import estimate_tokens
from reme_core.tools.base import parameters_of

OnText: TypeAlias = Callable[[str], Awaitable[None] | None]
"""Takes the pieces of what the model says, as they come; awaited where it is a coroutine function."""

LastStep: TypeAlias = Literal["answer", "raise"]

# What chat formats add to a message: OpenAI cookbook, "How to count tokens with tiktoken".
_TOKENS_PER_MESSAGE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may use up.

    Attributes:
        max_steps: Model calls; the repetition of a call whose answer could not be used comes on top.
        max_tokens: Prompt and completion tokens in all. Checked before each call, with an estimate of its prompt: a
            run goes over it by no more than one answer.
        max_seconds: Wall-clock time.
        max_answer_tokens: Completion tokens of one model call. None leaves it to the model: a number that suits one
            model is refused by another, and cuts off the thoughts of a third.
    """

    max_steps: int = 12
    max_tokens: int = 200_000
    max_seconds: float = 300.0
    max_answer_tokens: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            InvalidInputError: Naming the first that makes no sense.
        """
        for name, value in (
            ("max_steps", self.max_steps),
            ("max_tokens", self.max_tokens),
            ("max_answer_tokens", 1 if self.max_answer_tokens is None else self.max_answer_tokens),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                msg = f"{name}: wanted a whole number of at least 1, found {value!r}"
                raise InvalidInputError(msg)
        if not (math.isfinite(self.max_seconds) and self.max_seconds > 0):
            msg = f"max_seconds: wanted a finite number above 0, found {self.max_seconds!r}"
            raise InvalidInputError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRule:
    """When a run ends without another answer, and when an answer in words does not end it.

    Attributes:
        final_tools: An answer that calls only these ends the run if every call of it succeeds: nothing is left to ask.
        needed_tools: Of these, as far as the run has them, each has to have succeeded before a run ends like that.
        one_call_ends: Whether an answer of a single call does. False where tools take one item: more may follow.
        missing: Asked when the model answers in words; says in words for it what it still has to do, or None. It is
            told once; the second time the run has failed.
    """

    final_tools: frozenset[str] = frozenset()
    needed_tools: frozenset[str] = frozenset()
    one_call_ends: bool = True
    missing: Callable[[], str | None] = lambda: None


async def run_loop(
    model: ChatModel,
    tools: Sequence[Tool],
    messages: Sequence[Message],
    context: ToolContext,
    limits: Limits,
    *,
    last_step: LastStep = "raise",
    ending: StopRule | None = None,
    last_tools: frozenset[str] = frozenset(),
    on_text: OnText | None = None,
) -> AgentResult:
    """Let a model call tools until it answers in words, or until its calls leave nothing to ask (`ending`).

    Nothing is kept between runs, and any number may be under way at once. An answer that can't be used (empty, cut
    off, ids given twice …) is asked for again once, with what was wrong; it stays out of the transcript but for its
    text. When a run fails or is cancelled, what its model calls have cost so far is added to `context.trace.usage`.

    Args:
        model: The model.
        tools: What it may call.
        messages: What it is told at first; at least one.
        context: Handed to the tools.
        limits: What may be used up.
        last_step: What happens at the last allowed step. "answer": the model may call no tool, so that it has to
            answer. The tools stay in the request with `tool_choice="none"`: what endpoints have cached of the prompt
            begins with them, and some refuse a conversation that holds tool calls without them. Where the model
            calls one anyway (some servers ignore the choice), it is asked once more without them. "raise": a model
            that still calls tools has failed; those calls are not made.
        ending: When the run ends without another answer; None: never.
        last_tools: Their calls are made after the other calls of the same answer, wherever they stand in it.
        on_text: Is given what the model says while it says it, if it can stream, else each text at once: what it says
            beside its tool calls too, and two line breaks between two answers. What it was given of an answer that
            turns out unusable can't be taken back.

    Raises:
        StepLimitError: The steps are used up.
        BudgetExceededError: The tokens or the seconds are used up.
        ModelOutputError: The model answered twice what can't be used, or in words while something was `missing` (`raw`
            is the second), or its answer was held back by a filter.
        ConfigurationError: Two tools have one name.
        ReMeError: What the model or a tool raises.
    """
    run = _LoopState(
        model, _by_name(tools), list(messages), context, limits, last_step, ending or StopRule(), last_tools, on_text
    )
    deadline = asyncio.timeout(limits.max_seconds)
    result: AgentResult | None = None
    try:
        async with deadline:
            result = await run.to_the_end()
    except TimeoutError as exc:
        if not deadline.expired():
            raise  # a tool's own
        msg = f"the run used up its {limits.max_seconds:g} seconds: allow more by Limits(max_seconds=…)"
        raise BudgetExceededError(msg) from exc
    finally:
        if result is None:
            context.trace.usage += run.usage
    return result


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    named = {tool.name: tool for tool in tools}
    if len(named) < len(tools):
        msg = f"two tools of one agent have the same name: {sorted(tool.name for tool in tools)}"
        raise ConfigurationError(msg)
    return named


@dataclass(slots=True)
class _LoopState:
    """The state of one run; made for a call of `run_loop`, and gone with it."""

    model: ChatModel
    tools: Mapping[str, Tool]
    said: list[Message]
    context: ToolContext
    limits: Limits
    last_step: LastStep
    ending: StopRule
    last_tools: frozenset[str]
    on_text: OnText | None
    usage: Usage = field(default_factory=Usage)
    tokens: int = 0
    has_spoken: bool = False
    is_told: bool = False
    done_tools: set[str] = field(default_factory=set)
    specs: tuple[ToolSpec, ...] = ()
    spec_tokens: int = 0

    def __post_init__(self) -> None:
        """Describe the tools, once for all calls."""
        self.specs = tuple(
            ToolSpec(name=tool.name, description=tool.description, parameters=parameters_of(tool.arguments))
            for tool in self.tools.values()
        )
        self.spec_tokens = sum(
            estimate_tokens(f"{spec.name} {spec.description} {json.dumps(dict(spec.parameters), ensure_ascii=False)}")
            for spec in self.specs
        )

    async def to_the_end(self) -> AgentResult:
        """Go step by step until the model has finished."""
        for step in range(1, self.limits.max_steps + 1):
            is_last = step == self.limits.max_steps
            is_forced = is_last and self.last_step == "answer" and bool(self.specs)
            result = await self._ask(may_call=not is_forced)
            calls = tool_calls(result.message)
            if not calls:
                missing = self.ending.missing()
                if missing is None:
                    self.said.append(result.message)
                    return self._result(result, "limit" if is_forced else "answer")
                self._tell(result.message, missing, is_last=is_last)
            elif not is_last:
                answers = await answer_calls(calls, self.tools, self.context, last=self.last_tools)
                self.said += [result.message, *answers]
                if self._leaves_nothing(calls, answers):
                    return self._result(result, "calls")
        msg = f"the model still calls tools after {self.limits.max_steps} steps: allow more by Limits(max_steps=…)"
        raise StepLimitError(msg)

    def _result(self, result: ChatResult, stop_reason: str) -> AgentResult:
        return AgentResult(
            answer=result.message.text.strip(), transcript=tuple(self.said), usage=self.usage, stop_reason=stop_reason
        )

    def _tell(self, said: Message, missing: str, *, is_last: bool) -> None:
        """Tell the model what it still has to do (ModelOutputError: it was told before, or has no step left for it)."""
        if self.is_told or is_last:
            msg = f"the model has ended too early: {missing}"
            raise ModelOutputError(msg, raw=said.model_dump_json())
        self.is_told = True
        self.said += complaint(said, missing)

    def _leaves_nothing(self, calls: Sequence[ToolCallBlock], answers: Sequence[Message]) -> bool:
        """Tell whether the run ends with these calls; see `StopRule`."""
        failed = {block.call_id for answer in answers for block in tool_results(answer) if block.is_error}
        self.done_tools |= {call.name for call in calls if call.call_id not in failed}
        called, ending = {call.name for call in calls}, self.ending
        return (
            not failed
            and called <= ending.final_tools
            and ending.needed_tools & self.tools.keys() <= self.done_tools
            and (ending.one_call_ends or len(calls) > 1)
        )

    async def _ask(self, *, may_call: bool) -> ChatResult:
        """Ask for an answer, and once more where it can't be used."""
        request = self._request(may_call=may_call)
        result, fault, raw = await self._attempt(request, may_call=may_call)
        if fault is not None:
            self.said += complaint(None if result is None else result.message, fault)
            request = self._request(may_call=may_call)
            if not may_call:
                request = replace(request, tools=(), tool_choice="auto")
            result, fault, raw = await self._attempt(request, may_call=may_call)
        if fault is not None or result is None:
            msg = f"the model's answer can't be used, and neither can its second: {fault}"
            raise ModelOutputError(msg, raw=raw)
        return result

    def _request(self, *, may_call: bool) -> ChatRequest:
        return ChatRequest(
            messages=tuple(self.said),
            tools=self.specs,
            tool_choice="auto" if may_call else "none",
            max_tokens=self.limits.max_answer_tokens,
        )

    async def _attempt(self, request: ChatRequest, *, may_call: bool) -> tuple[ChatResult | None, str | None, str]:
        """Call the model once; return its answer, what makes it unusable, and its raw text for that case."""
        estimate = self._estimate(request)
        if self.tokens + estimate > self.limits.max_tokens:
            msg = (
                f"the run used {self.tokens} of its {self.limits.max_tokens} tokens and needs about {estimate} for its "
                "next step: allow more by Limits(max_tokens=…), or hand in less"
            )
            raise BudgetExceededError(msg)
        try:
            result = await self._call(request)
        except ModelOutputError as exc:
            self._count(Usage(model_calls=1), estimate)
            return None, exc.message, exc.raw
        self._count(result.usage, estimate)
        if result.finish_reason == "content_filter":
            msg = "the endpoint's content filter held the model's answer back: hand in other messages, or another model"
            raise ModelOutputError(msg, raw=result.message.model_dump_json())
        fault = fault_of(result, may_call=may_call)
        return result, fault, "" if fault is None else result.message.model_dump_json()

    def _estimate(self, request: ChatRequest) -> int:
        said = sum(estimate_tokens(message.full_text) + _TOKENS_PER_MESSAGE for message in request.messages)
        return said + (self.spec_tokens if request.tools else 0)

    def _count(self, usage: Usage, estimate: int) -> None:
        """Add up a call; where an endpoint reports no tokens, the budget goes by the estimate."""
        self.usage += usage
        self.tokens += (usage.prompt_tokens or estimate) + usage.completion_tokens

    async def _call(self, request: ChatRequest) -> ChatResult:
        if self.on_text is None:
            return await self.model.chat(request)
        if not isinstance(self.model, StreamingChatModel):
            result = await self.model.chat(request)
            await self._hand_on(result.message.text, begins=True)
            return result
        begins = True
        async with aclosing(self.model.stream(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, ChatResult):
                    return piece
                await self._hand_on(piece, begins=begins)
                begins = begins and not piece
        msg = "the model's stream ended without its result"
        raise ModelOutputError(msg, raw="")

    async def _hand_on(self, text: str, *, begins: bool) -> None:
        if not text or self.on_text is None:
            return
        outcome = self.on_text(f"\n\n{text}" if begins and self.has_spoken else text)
        self.has_spoken = True
        if inspect.isawaitable(outcome):
            await outcome
