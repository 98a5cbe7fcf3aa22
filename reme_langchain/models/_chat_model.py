"""LangChain's chat models as a chat model of the core: requests, answers, and the calls between."""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor
from pydantic import JsonValue

from reme_core import json_instruction, parse_answer
from reme_core.errors import InvalidInputError, ModelError, ModelOutputError, ModelRejectedError, ModelUnavailableError
from reme_core.ports import ChatRequest, ChatResult, ToolSpec
from reme_core.schema import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    Message,
    OtherBlock,
    TextBlock,
    ToolCallBlock,
    Usage,
    new_id,
    shown,
)
from reme_core.schema.plain import as_object, clean_json, clean_text, is_kept, usable_id
from reme_langchain.messages import to_langchain
from reme_langchain.models._embedder import NamedModel, is_async, translated

_NOT_IN_NAMES = re.compile(r"[\s<|\\/>]+")
_MAX_NAME = 64


def sent_messages(request: ChatRequest) -> list[BaseMessage]:
    """Return the messages to send, with the schema of the answer where one is asked for.

    Thinking and vendor data are not sent. Images go with a user's message where they have a web or data URL; in other
    places, and other references everywhere, are told in words.

    Raises:
        InvalidInputError: There is nothing to send.
    """
    messages = [cleared for message in request.messages if (cleared := _cleared(message)) is not None]
    if not messages:
        msg = "messages: nothing to send: give at least one message with a text, an image, a tool call or a tool result"
        raise InvalidInputError(msg)
    if request.response_schema is not None:
        messages = _instructed(messages, json_instruction(request.response_schema))
    return to_langchain(messages)


def _cleared(message: Message) -> Message | None:
    blocks = [_said(block, message.role) for block in message.content if block.type != "other"]
    if not blocks:
        return None
    name = _NOT_IN_NAMES.sub("_", message.name)[:_MAX_NAME] if message.name else None
    return message.model_copy(update={"content": tuple(_joined(blocks)), "name": name, "metadata": {}})


def _said(block: ContentBlock, role: str) -> ContentBlock:
    match block:
        case ImageBlock() if role == "user" and block.url.startswith(("http://", "https://", "data:")):
            return block
        case ImageBlock():
            return TextBlock(text=f"[image: {block.caption or _reference(block.url)}]")
        case FileBlock():
            return TextBlock(text=f"[file: {block.name or _reference(block.url)}]")
        case ToolCallBlock() if isinstance(block.arguments, str):
            # Many endpoints refuse a conversation with arguments that are no JSON object.
            return block.model_copy(update={"arguments": {"malformed": block.arguments}})
        case _:
            return block


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


def _reference(url: str) -> str:
    return "embedded data" if url.startswith("data:") else url


def _instructed(messages: Sequence[Message], instruction: str) -> list[Message]:
    first = messages[0]
    if first.role == "system":
        told = (TextBlock(text=f"{first.text}\n\n{instruction}"),)
        return [first.model_copy(update={"content": told}), *messages[1:]]
    return [Message(role="system", content=(TextBlock(text=instruction),)), *messages]


Reason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "other"]

# As OpenAI, Anthropic, Google, Mistral, Cohere, Bedrock and Ollama call them, in lower case.
_REASON_FIELDS = ("finish_reason", "stop_reason", "finishReason", "stopReason", "done_reason")
_REASONS: Mapping[str, Reason] = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "complete", "eos", "end"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens"), "length"),
    **dict.fromkeys(("tool_calls", "tool_use", "tool_call", "function_call"), "tool_calls"),
    **dict.fromkeys(("content_filter", "safety", "refusal", "recitation", "prohibited_content"), "content_filter"),
}
_ADVICE: Mapping[Reason, str] = {
    "length": "all tokens went elsewhere, such as into thinking: raise `max_tokens`",
    "content_filter": "the provider's filter held the answer back",
}


def result_of(said: object, request: ChatRequest, name: str) -> ChatResult:
    """Return the core's result; its usage has no time yet.

    Raises:
        ModelOutputError: It is no message and no text, nothing was said, or no JSON where it was asked for.
    """
    answer = AIMessage(content=said) if isinstance(said, str) else said
    if not isinstance(answer, BaseMessage):
        msg = f"{name}: wanted a message or a text, found {shown(said)}"
        raise ModelOutputError(msg, raw=shown(said))
    text = clean_text(str(answer.text))
    calls = _calls(answer) if isinstance(answer, AIMessage) else []
    reason = _reason(answer.response_metadata, has_calls=bool(calls))
    if not text.strip() and not calls:
        msg = f"{name}: the model said nothing (finish reason {reason!r}): {_ADVICE.get(reason, 'ask again')}"
        raise ModelOutputError(msg, raw=text)
    thoughts = clean_text(_thoughts(answer))
    blocks: list[ContentBlock] = [OtherBlock(kind="thinking", data=thoughts)] if thoughts else []
    blocks += [TextBlock(text=text)] if text else []
    try:
        message = Message(role="assistant", content=(*blocks, *calls))
    except ValueError as exc:  # larger than a message may be
        msg = f"{name}: the model's message can't be kept: it is larger than a message may be"
        raise ModelOutputError(msg, raw=text) from exc
    # A model may call tools before it gives the JSON that was asked for.
    wanted = None if calls else request.response_schema
    parsed = parse_answer(text, wanted.schema) if wanted else None
    return ChatResult(message=message, usage=_usage(answer), finish_reason=reason, parsed=parsed)


def _calls(answer: AIMessage) -> list[ToolCallBlock]:
    """Read tool calls, malformed ones last. Ids that are missing or given twice are replaced: each needs its own."""
    given: list[tuple[str | None, str | None, dict[str, JsonValue] | str]] = [
        (call["id"], call["name"], _arguments(call["args"])) for call in answer.tool_calls
    ]
    given += [(call["id"], call["name"], clean_text(call["args"] or "")) for call in answer.invalid_tool_calls]
    return list(_blocks(given))


def _blocks(given: Iterable[tuple[str | None, str | None, dict[str, JsonValue] | str]]) -> Iterable[ToolCallBlock]:
    seen: set[str] = set()
    for call_id, name, arguments in given:
        own = usable_id(call_id) if call_id else ""
        if not own or own in seen:
            own = f"call_{new_id()}"
        seen.add(own)
        yield ToolCallBlock(call_id=own, name=clean_text(name or ""), arguments=arguments)


def _arguments(args: Mapping[str, object]) -> dict[str, JsonValue] | str:
    cleaned = {clean_text(key): clean_json(item) for key, item in as_object(args).items()}
    return cleaned if is_kept(cleaned) else shown(cleaned)


def _thoughts(answer: BaseMessage) -> str:
    """Return what the model thought, in the form of most providers; other forms are not read."""
    parts = [part for part in answer.content if isinstance(part, dict)] if isinstance(answer.content, list) else []
    texts = [part.get(str(part["type"])) for part in parts if part.get("type") in {"reasoning", "thinking"}]
    texts.append(answer.additional_kwargs.get("reasoning_content"))
    return "\n".join(text for text in texts if isinstance(text, str))


def _usage(answer: BaseMessage) -> Usage:
    tokens = answer.usage_metadata if isinstance(answer, AIMessage) else None
    if tokens is None:
        return Usage(model_calls=1)
    return Usage(model_calls=1, prompt_tokens=tokens["input_tokens"], completion_tokens=tokens["output_tokens"])


def _reason(metadata: Mapping[str, object], *, has_calls: bool) -> Reason:
    """Return why the answer ended; a provider that says nothing has simply stopped."""
    told = next((value for field in _REASON_FIELDS if isinstance(value := metadata.get(field), str) and value), "stop")
    reason = _REASONS.get(told.lower(), "other")
    return "tool_calls" if has_calls and reason == "stop" else reason


Messages: TypeAlias = list[BaseMessage]
Said: TypeAlias = str | AIMessage
ChatFunction: TypeAlias = Callable[[Messages], Said] | Callable[[Messages], Awaitable[Said]]
Source: TypeAlias = Runnable[Messages, object] | ChatFunction


class LangChainChat:
    """A chat model, runnable or function of LangChain behind the core's port. Bound to no event loop."""

    def __init__(
        self,
        model: Runnable[Messages, object] | ChatFunction | NamedModel[BaseChatModel],
        metadata: Mapping[str, object],
    ) -> None:
        """Keep them; nothing is called."""
        self._model = model
        self._metadata = dict(metadata)
        self._refused: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        """Name the model."""
        return f"LangChainChat({self._name})"

    @property
    def _name(self) -> str:
        model = self._model
        if isinstance(model, NamedModel):
            return model.name
        # A function has a name, an object with __call__ none.
        return (
            type(model).__name__
            if isinstance(model, Runnable)
            else getattr(model, "__qualname__", type(model).__name__)
        )

    async def chat(self, request: ChatRequest) -> ChatResult:
        """Answer a request. A temperature or limit of tokens that the model refuses is left out from then on.

        Raises:
            InvalidInputError: There is nothing to send, or `tool_choice` names no tool of the request.
            ModelUnavailableError: No answer, or none in time; it may pass.
            ModelRejectedError: The model refuses the request as it is, or failed.
            ModelOutputError: The answer has no usable form; `raw` keeps it.
            ContextTooLongError: The request doesn't fit the context window.
        """
        messages = sent_messages(request)
        # Making a model imports the provider's library, which takes seconds.
        model = await asyncio.to_thread(self._model.get) if isinstance(self._model, NamedModel) else self._model
        started = time.perf_counter()
        said = await self._said(model, messages, request)
        result = result_of(said, request, self._name)
        spent = (time.perf_counter() - started) * 1000
        return replace(result, usage=result.usage.model_copy(update={"milliseconds": spent}))

    async def _said(self, model: Source, messages: Messages, request: ChatRequest) -> object:
        while True:
            options = self._options(request)
            bound = self._bound(model, request, options)
            try:
                async with asyncio.timeout(request.timeout_s):
                    return await self._ask(bound, messages)
            except ModelError:
                raise
            except TimeoutError as exc:
                msg = f"{self._name}: no answer in time: raise `timeout_s`, or try again later"
                raise ModelUnavailableError(msg) from exc
            except Exception as exc:  # providers share no base error; each is mapped, none is dropped
                refused = frozenset(name for name in options if name in str(exc))
                if not refused:
                    raise translated(exc, self._name) from exc
                self._refused |= refused

    def _options(self, request: ChatRequest) -> dict[str, object]:
        options: dict[str, object] = {"temperature": request.temperature, "max_tokens": request.max_tokens}
        return {name: value for name, value in options.items() if value is not None and name not in self._refused}

    async def _ask(self, model: Source, messages: Messages) -> object:
        if isinstance(model, Runnable):
            config: RunnableConfig | None = {"metadata": dict(self._metadata)} if self._metadata else None
            return await model.ainvoke(messages, config)
        if is_async(model):
            answer = model(messages)
        else:
            answer = await run_in_executor(None, model, messages)  # unlike asyncio's, it survives a StopIteration
        return await answer if inspect.isawaitable(answer) else answer

    def _bound(self, model: Source, request: ChatRequest, options: Mapping[str, object]) -> Source:
        """Return the model with the request's tools and options."""
        choice = _tool_choice(request)
        if not isinstance(model, Runnable):
            if request.tools:
                raise ModelRejectedError(_no_tools(self._name))
            return model
        # Of runnables chat models alone bind tools, and those that pass their attributes on, such as configured ones.
        bind_tools = getattr(model, "bind_tools", None)
        bound: Runnable[Messages, object] = model
        if request.tools:
            if bind_tools is None:
                raise ModelRejectedError(_no_tools(self._name))
            chosen = {} if choice is None else {"tool_choice": choice}
            try:
                bound = bind_tools([_tool(tool) for tool in request.tools], **chosen)
            except Exception as exc:  # NotImplementedError of a model without tools, and whatever providers raise
                raise ModelRejectedError(_no_tools(self._name)) from exc
        return bound.bind(**options) if options and bind_tools is not None else bound


def _no_tools(name: str) -> str:
    return f"{name}: takes no tools: give a chat model that has `bind_tools`, or use the strategies without agents"


def _tool(tool: ToolSpec) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _tool_choice(request: ChatRequest) -> str | None:
    """Return LangChain's word; None leaves it to the model.

    `none` is left to it as well: not all providers have a word for it, and some take it for the name of a tool.
    """
    names = [tool.name for tool in request.tools]
    choice = request.tool_choice
    if choice in names:
        return choice
    if choice == "required" and names:
        return "any"
    if choice in {"auto", "none"}:
        return None
    msg = f"tool_choice {choice!r}: wanted 'auto', 'none', 'required' or one of the request's tools {names!r}"
    raise InvalidInputError(msg)
