"""Chat of both generations with the core: the messages that are sent, and the result of an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from reme_agentscope._shared.content_blocks import text_of
from reme_core import json_instruction, model_error, parse_answer
from reme_core.errors import InvalidInputError, ModelError, ModelOutputError, ModelUnavailableError
from reme_core.ports import ChatRequest, ChatResult, ToolSpec
from reme_core.schema import ContentBlock, Message, OtherBlock, TextBlock, ToolCallBlock, ToolResultBlock, Usage, new_id
from reme_core.schema.plain import clean_text, usable_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenCall:
    """A tool call as a model said it."""

    call_id: str
    name: str
    arguments: dict[str, JsonValue] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenAnswer:
    """What a model said, whatever the generation of its blocks."""

    text: str = ""
    thoughts: str = ""
    calls: Sequence[SpokenCall] = ()
    input_tokens: int = 0
    output_tokens: int = 0


async def chat(request: ChatRequest, who: str, ask: Callable[[], Awaitable[SpokenAnswer]]) -> ChatResult:
    """Ask in time, and return the core's result; raises as `ChatModel.chat`."""
    started = time.perf_counter()
    try:
        async with asyncio.timeout(request.timeout_s):
            spoken = await ask()
    except ModelError:
        raise
    except TimeoutError as exc:
        msg = f"{who}: no answer in time: raise `timeout_s`, or try again later"
        raise ModelUnavailableError(msg) from exc
    except Exception as exc:  # providers share no base error; each is mapped, none is dropped
        raise model_error(exc, who) from exc
    result = _result(spoken, request, who)
    spent = (time.perf_counter() - started) * 1000
    return replace(result, usage=result.usage.model_copy(update={"milliseconds": spent}))


def sent_messages(request: ChatRequest) -> list[Message]:
    """Return the messages to send, with the schema of the answer where one is asked for.

    They hold texts, tool calls and results alone: thinking and vendor data are not sent, media are told in words.

    Raises:
        InvalidInputError: There is nothing to send.
    """
    messages = [cleared for message in request.messages if (cleared := _cleared(message)) is not None]
    if not messages:
        msg = "messages: nothing to send: give at least one message with a text, a tool call or a tool result"
        raise InvalidInputError(msg)
    if request.response_schema is None:
        return messages
    instruction = json_instruction(request.response_schema)
    first = messages[0]
    if first.role == "system":
        told = (TextBlock(text=f"{first.text}\n\n{instruction}"),)
        return [first.model_copy(update={"content": told}), *messages[1:]]
    return [Message(role="system", content=(TextBlock(text=instruction),)), *messages]


def tool_schema(tool: ToolSpec) -> dict[str, object]:
    """Return a tool as both generations take it."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def tool_choice(request: ChatRequest) -> str | None:
    """Return the choice as both generations call it; None leaves it to the model, and where there are no tools.

    Raises:
        InvalidInputError: It names no tool of the request.
    """
    names = [tool.name for tool in request.tools]
    choice = request.tool_choice
    if choice not in {"auto", "none", "required", *names} or (choice == "required" and not names):
        msg = f"tool_choice {choice!r}: wanted 'auto', 'none', 'required' or one of the request's tools {names!r}"
        raise InvalidInputError(msg)
    return None if choice == "auto" or not names else choice


def no_answer(who: str) -> ModelOutputError:
    """Return the error of a stream that ended without a word."""
    return ModelOutputError(f"{who}: the stream ended without an answer: ask again", raw="")


def _cleared(message: Message) -> Message | None:
    blocks: list[ContentBlock] = []
    for block in message.content:
        if isinstance(block, OtherBlock):
            continue
        said = block if isinstance(block, ToolCallBlock | ToolResultBlock) else TextBlock(text=text_of(block))
        last = blocks[-1] if blocks else None
        if isinstance(said, TextBlock) and isinstance(last, TextBlock):
            blocks[-1] = TextBlock(text=f"{last.text}\n{said.text}")
        else:
            blocks.append(said)
    return message.model_copy(update={"content": tuple(blocks), "metadata": {}}) if blocks else None


def _result(spoken: SpokenAnswer, request: ChatRequest, who: str) -> ChatResult:
    text = clean_text(spoken.text)
    if not text.strip() and not spoken.calls:
        msg = f"{who}: the model said nothing: ask again, or allow more completion tokens"
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
        usage=Usage(model_calls=1, prompt_tokens=spoken.input_tokens, completion_tokens=spoken.output_tokens),
        finish_reason="tool_calls" if spoken.calls else "stop",
        parsed=parse_answer(text, wanted.schema) if wanted else None,
    )


def _calls(calls: Iterable[SpokenCall]) -> Iterable[ToolCallBlock]:
    """Yield the calls. Ids that are missing or given twice are replaced: each needs its own."""
    seen: set[str] = set()
    for call in calls:
        own = usable_id(call.call_id) if call.call_id else ""
        if not own or own in seen:
            own = f"call_{new_id()}"
        seen.add(own)
        yield ToolCallBlock(call_id=own, name=clean_text(call.name), arguments=call.arguments)
