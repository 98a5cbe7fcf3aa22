"""Calls of chat models behind other frameworks: what is sent, the time that they have, and what they said as ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from pydantic import JsonValue

from reme_core.errors import InvalidInputError, ModelError, ModelOutputError, ModelUnavailableError
from reme_core.models.endpoint_failures import json_instruction
from reme_core.models.foreign_failures import model_error
from reme_core.models.json_text import parse_answer
from reme_core.ports import ChatRequest, ChatResult, ToolSpec
from reme_core.schema import ContentBlock, Message, OtherBlock, TextBlock, ToolCallBlock, Usage, new_id
from reme_core.schema.plain import clean_text, usable_id

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "other"]

_ADVICE: Mapping[FinishReason, str] = {
    "length": "all tokens went elsewhere, such as into thinking: raise `max_tokens`",
    "content_filter": "the provider's filter held the answer back",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenCall:
    """A tool call as a model said it; an id may be missing, or given twice."""

    call_id: str | None
    name: str
    arguments: dict[str, JsonValue] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenAnswer:
    """What a model said, whatever the framework's form of it."""

    text: str = ""
    thoughts: str = ""
    calls: Sequence[SpokenCall] = ()
    usage: Usage = field(default_factory=lambda: Usage(model_calls=1))
    reason: FinishReason = "stop"


class CallOptions:
    """Temperature and bound of the answer, in a model's words. What it refuses is left out from then on.

    Some endpoints take no temperature, or know the bound by another name.
    """

    def __init__(self, limits: Sequence[str] = ("max_tokens",)) -> None:
        """Keep the names of the bound, best first; nothing is called."""
        self._limits = limits
        self._refused: frozenset[str] = frozenset()

    def of(self, request: ChatRequest) -> dict[str, object]:
        """Return the keywords that go with a request."""
        limit = next((name for name in self._limits if name not in self._refused), None)
        wanted = {"temperature": request.temperature, **({} if limit is None else {limit: request.max_tokens})}
        return {name: value for name, value in wanted.items() if value is not None and name not in self._refused}

    def refuse(self, given: Mapping[str, object], error: Exception) -> bool:
        """Leave out from now on what an error names of the keywords given; return whether it names any."""
        found = frozenset(name for name in given if name in str(error))
        self._refused |= found
        return bool(found)


def sent_messages(
    request: ChatRequest, *, said: Callable[[ContentBlock, Message], ContentBlock | None]
) -> list[Message]:
    """Return the messages to send, with the schema of the answer where one is asked for.

    Args:
        request: What is asked.
        said: Returns what is sent of a block of a message; None for nothing. Neighbouring texts become one.

    Raises:
        InvalidInputError: There is nothing to send.
    """
    messages = []
    for message in request.messages:
        blocks = _joined([part for block in message.content if (part := said(block, message)) is not None])
        if blocks:
            messages.append(message.model_copy(update={"content": tuple(blocks), "metadata": {}}))
    if not messages:
        msg = "messages: nothing to send: give at least one message with a text, an image, a tool call or a tool result"
        raise InvalidInputError(msg)
    if request.response_schema is None:
        return messages
    instruction = json_instruction(request.response_schema)
    first = messages[0]
    if first.role == "system":
        told = (TextBlock(text=f"{first.text}\n\n{instruction}"),)
        return [first.model_copy(update={"content": told}), *messages[1:]]
    return [Message(role="system", content=(TextBlock(text=instruction),)), *messages]


def _joined(blocks: Sequence[ContentBlock]) -> list[ContentBlock]:
    """Return the blocks with neighbouring texts as one, so that a message of texts is a text."""
    joined: list[ContentBlock] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if isinstance(block, TextBlock) and isinstance(last, TextBlock):
            joined[-1] = TextBlock(text=f"{last.text}\n{block.text}")
        else:
            joined.append(block)
    return joined


def function_schema(tool: ToolSpec) -> dict[str, object]:
    """Return a tool as frameworks take it, in the form of OpenAI's."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def checked_choice(request: ChatRequest) -> str:
    """Return the choice of tools (InvalidInputError: it names no tool of the request)."""
    names = [tool.name for tool in request.tools]
    choice = request.tool_choice
    if choice not in {"auto", "none", "required", *names} or (choice == "required" and not names):
        msg = f"tool_choice {choice!r}: wanted 'auto', 'none', 'required' or one of the request's tools {names!r}"
        raise InvalidInputError(msg)
    return choice


async def foreign_chat(
    request: ChatRequest,
    who: str,
    options: CallOptions,
    ask: Callable[[Mapping[str, object]], Awaitable[SpokenAnswer]],
    translated: Callable[[Exception, str], ModelError] = model_error,
) -> ChatResult:
    """Ask in time, again without an option that is refused, and return the core's result.

    Args:
        request: What is asked.
        who: The model, for errors.
        options: Those of this model.
        ask: Asks with these keywords; providers share no base error.
        translated: Makes the core's error of a provider's.

    Raises:
        ModelError: As `ChatModel.chat`.
    """
    started = time.perf_counter()
    try:
        async with asyncio.timeout(request.timeout_s):
            spoken = await _ask_with(options, request, ask)
    except ModelError:
        raise
    except TimeoutError as exc:
        msg = f"{who}: no answer in time: raise `timeout_s`, or try again later"
        raise ModelUnavailableError(msg) from exc
    except Exception as exc:  # providers share no base error; each is mapped, none is dropped
        raise translated(exc, who) from exc
    result = _result(spoken, request, who)
    spent = (time.perf_counter() - started) * 1000
    return replace(result, usage=result.usage.model_copy(update={"milliseconds": spent}))


async def _ask_with(
    options: CallOptions, request: ChatRequest, ask: Callable[[Mapping[str, object]], Awaitable[SpokenAnswer]]
) -> SpokenAnswer:
    while True:
        given = options.of(request)
        try:
            return await ask(given)
        except (ModelError, TimeoutError, ConnectionError):
            raise
        except Exception as exc:  # providers share no base error
            if not options.refuse(given, exc):
                raise


def _result(spoken: SpokenAnswer, request: ChatRequest, who: str) -> ChatResult:
    text, reason = clean_text(spoken.text), spoken.reason
    if not text.strip() and not spoken.calls:
        advice = _ADVICE.get(reason, "ask again, or allow more completion tokens")
        msg = f"{who}: the model said nothing (finish reason {reason!r}): {advice}"
        raise ModelOutputError(msg, raw=text)
    thoughts = clean_text(spoken.thoughts)
    blocks: list[ContentBlock] = [OtherBlock(kind="thinking", data=thoughts)] if thoughts else []
    blocks += [TextBlock(text=text)] if text else []
    try:
        message = Message(role="assistant", content=(*blocks, *_calls(spoken.calls)))
    except ValueError as exc:  # larger than a message may be
        msg = f"{who}: the model's message can't be kept: it is larger than a message may be"
        raise ModelOutputError(msg, raw=text) from exc
    # A model may call tools before it gives the JSON that was asked for.
    wanted = None if spoken.calls else request.response_schema
    return ChatResult(
        message=message,
        usage=spoken.usage,
        finish_reason="tool_calls" if spoken.calls and reason == "stop" else reason,
        parsed=parse_answer(text, wanted.schema) if wanted else None,
    )


def _calls(calls: Sequence[SpokenCall]) -> list[ToolCallBlock]:
    """Return the calls. Ids that are missing or given twice are replaced: each needs its own."""
    blocks: dict[str, ToolCallBlock] = {}
    for call in calls:
        own = usable_id(call.call_id) if call.call_id else ""
        if not own or own in blocks:
            own = f"call_{new_id()}"
        blocks[own] = ToolCallBlock(call_id=own, name=clean_text(call.name), arguments=call.arguments)
    return list(blocks.values())
