"""A chat model that says what a test wrote down for it."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self, TypeAlias

from reme_core.models.json_text import parse_answer
from reme_core.ports import ChatRequest, ChatResult
from reme_core.schema import Message, TextBlock, Usage
from reme_core.text import estimate_tokens

Said: TypeAlias = ChatResult | Message | str | BaseException
Step: TypeAlias = Said | Callable[[ChatRequest], Said | Awaitable[Said]]

_TOKENS_PER_MESSAGE = 4
"""What chat formats add to a message. Source: OpenAI cookbook, "How to count tokens with tiktoken"."""


class ScriptedChatModel:
    """Answers each call with the next step; a `ChatModel` for tests. More calls than steps, or fewer, are failures.

    A step is a whole `ChatResult`; a message, tool calls included; a text; an exception, which is raised; or a function
    of the request that returns one of these, awaited where it must be. Where a response schema is asked for, the JSON
    in a text is parsed as a real model's would be. Usage is estimated from the texts, the same in each run.

    Used with `with` or `async with`, it checks on leaving that every step was used.

    Attributes:
        requests: The requests so far, in order.
    """

    def __init__(self, steps: Sequence[Step] = ()) -> None:
        """Write down the steps."""
        self._steps = list(steps)
        self._lock = threading.Lock()
        self._surprises = 0
        self._usage = Usage()
        self.requests: list[ChatRequest] = []

    @property
    def model(self) -> str:
        """The name."""
        return "scripted"

    @property
    def usage(self) -> Usage:
        """The cost of all calls so far."""
        with self._lock:
            return self._usage

    async def chat(self, request: ChatRequest) -> ChatResult:
        """Answer with the next step.

        Raises:
            AssertionError: There is none left.
            BaseException: The step is an exception.
        """
        said: object = self._next(request)
        if callable(said):
            said = said(request)
        if inspect.isawaitable(said):
            said = await said
        if isinstance(said, BaseException):
            raise said
        result = _result(said, request)
        with self._lock:
            self._usage += result.usage
        return result

    def assert_done(self) -> None:
        """Check that every step was used, and that no call found none.

        Raises:
            AssertionError: Saying how many are left, or were missing.
        """
        used = len(self.requests) - self._surprises
        if self._surprises or used < len(self._steps):
            msg = (
                f"the script has {len(self._steps)} steps, the model was called {len(self.requests)} times: "
                f"{len(self._steps) - used} steps left over, {self._surprises} calls too many"
            )
            raise AssertionError(msg)

    def __enter__(self) -> Self:
        """Return the model itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Check that every step was used, unless something else has failed already."""
        if error is None:
            self.assert_done()

    async def __aenter__(self) -> Self:
        """Return the model itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Check that every step was used, unless something else has failed already."""
        if error is None:
            self.assert_done()

    def _next(self, request: ChatRequest) -> Step:
        with self._lock:
            self.requests.append(request)
            at = len(self.requests) - 1 - self._surprises
            if at < len(self._steps):
                return self._steps[at]
            self._surprises += 1
        last = request.messages[-1].full_text[:200] if request.messages else ""
        msg = f"call {len(self.requests)} of a script of {len(self._steps)} steps; its last message is {last!r}"
        raise AssertionError(msg)


def _result(said: object, request: ChatRequest) -> ChatResult:
    if isinstance(said, ChatResult):
        return said if said.usage != Usage() else replace(said, usage=_usage(request, said.message))
    if isinstance(said, str):
        said = Message(role="assistant", content=(TextBlock(text=said),))
    if not isinstance(said, Message):
        msg = f"a step is a ChatResult, a Message, a text or an exception, not {type(said).__name__}"
        raise TypeError(msg)
    calls = bool(said.call_ids)
    schema = request.response_schema
    parsed = parse_answer(said.text, schema.schema) if schema and not calls else None
    return ChatResult(
        message=said,
        usage=_usage(request, said),
        finish_reason="tool_calls" if calls else "stop",
        parsed=parsed,
    )


def _usage(request: ChatRequest, answer: Message) -> Usage:
    """Estimate what the call would cost; the time is what 100 tokens a second take."""
    tools = sum(estimate_tokens(f"{tool.name} {tool.description} {dict(tool.parameters)}") for tool in request.tools)
    prompt = sum(estimate_tokens(message.full_text) + _TOKENS_PER_MESSAGE for message in request.messages)
    completion = max(1, estimate_tokens(answer.full_text))
    return Usage(
        model_calls=1,
        prompt_tokens=prompt + tools,
        completion_tokens=completion,
        milliseconds=10.0 * completion,
    )
