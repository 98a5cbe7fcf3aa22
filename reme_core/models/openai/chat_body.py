"""Conversion of a `ChatRequest` into the body of a chat completion."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from pydantic import JsonValue

from reme_core.errors import InvalidInputError
from reme_core.models.openai.endpoint_dialect import EndpointDialect, JsonObject, json_instruction, response_format
from reme_core.ports import ChatRequest, ToolSpec
from reme_core.schema import ContentBlock, FileBlock, ImageBlock, Message, TextBlock, ToolCallBlock, ToolResultBlock

_NOT_IN_NAMES = re.compile(r"[\s<|\\/>]+")
"""OpenAI refuses names with these characters."""


def chat_body(request: ChatRequest, *, model: str, temperature: float | None, dialect: EndpointDialect) -> JsonObject:
    """Build the body, in the endpoint's dialect.

    Raises:
        InvalidInputError: There is nothing to send, or a tool choice that names no tool of the request.
    """
    messages = [part for message in request.messages for part in wire_messages(message)]
    if not messages:
        msg = "messages: nothing to send: give at least one message with a text, an image, a tool call or a tool result"
        raise InvalidInputError(msg)
    body: JsonObject = {"model": model, "messages": _with_instruction(messages, request, dialect)}
    warmth = temperature if request.temperature is None else request.temperature
    if warmth is not None and dialect.temperature:
        body["temperature"] = warmth
    if request.max_tokens is not None and (dialect.tokens_below is None or request.max_tokens < dialect.tokens_below):
        body[dialect.tokens_option] = request.max_tokens
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    choice = _tool_choice(request.tool_choice, request.tools)
    if choice is not None:
        body["tool_choice"] = choice
    schema = request.response_schema
    wanted = response_format(schema, dialect.mode_of(schema)) if schema else None
    if wanted is not None:
        body["response_format"] = wanted
    return body


def streaming(body: JsonObject, dialect: EndpointDialect) -> JsonObject:
    """Return the body that asks for the same answer in pieces."""
    options: JsonObject = {"stream_options": {"include_usage": True}} if dialect.stream_usage else {}
    return {**body, "stream": True, **options}


def wire_messages(message: Message) -> list[JsonValue]:
    """Return the messages that say what ours says, in order: each tool result is a message of its own.

    Thinking and vendor data are not sent. Images go with a user's message where they have a web or data URL; in other
    places, and other references everywhere, are told in words.
    """
    sent: list[JsonValue] = []
    run: list[ContentBlock] = []
    for block in message.content:
        if isinstance(block, ToolResultBlock):
            sent += _flush(message, run)
            sent.append({"role": "tool", "tool_call_id": block.call_id, "content": block.output})
        else:
            run.append(block)
    return sent + _flush(message, run)


def _flush(message: Message, run: list[ContentBlock]) -> list[JsonValue]:
    """Turn the blocks gathered so far into one message, or none, and forget them."""
    blocks = [block for block in run if block.type != "other"]
    run.clear()
    if not blocks:
        return []
    calls: list[JsonValue] = [_tool_call(block) for block in blocks if isinstance(block, ToolCallBlock)]
    # Only an assistant calls tools; and what stands beside a tool's result is no answer to a call: the user tells it.
    role = "assistant" if calls else "user" if message.role == "tool" else message.role
    wire: JsonObject = {"role": role, "content": _content(blocks, role)}
    if message.name:
        wire["name"] = _NOT_IN_NAMES.sub("_", message.name)[:64]
    if calls:
        wire["tool_calls"] = calls
    return [wire]


def _content(blocks: Sequence[ContentBlock], role: str) -> JsonValue:
    parts: list[JsonValue] = []
    texts: list[str] = []
    for block in blocks:
        match block:
            case TextBlock():
                texts.append(block.text)
            case ImageBlock() if role == "user" and block.url.startswith(("http://", "https://", "data:")):
                parts += _text_parts([*texts, *([block.caption] if block.caption else [])])
                texts.clear()
                parts.append({"type": "image_url", "image_url": {"url": block.url}})
            case ImageBlock():
                texts.append(f"[image: {block.caption or _reference(block.url)}]")
            case FileBlock():
                texts.append(f"[file: {block.name or _reference(block.url)}]")
            case _:
                continue
    if parts:
        return parts + _text_parts(texts)
    return "\n".join(texts) if texts else None


def _text_parts(texts: Sequence[str]) -> list[JsonValue]:
    return [{"type": "text", "text": "\n".join(texts)}] if texts else []


def _reference(url: str) -> str:
    return "embedded data" if url.startswith("data:") else url


def _tool_call(block: ToolCallBlock) -> JsonObject:
    arguments = block.arguments
    # Many endpoints refuse a conversation with arguments that are no JSON object, so malformed ones go inside one.
    sent = {"malformed": arguments} if isinstance(arguments, str) else arguments
    return {
        "id": block.call_id,
        "type": "function",
        "function": {"name": block.name, "arguments": json.dumps(sent, ensure_ascii=False)},
    }


def _tool(tool: ToolSpec) -> JsonObject:
    function: JsonObject = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def _tool_choice(choice: str, tools: Sequence[ToolSpec]) -> JsonValue:
    """Return the option `tool_choice`; None where it says nothing new."""
    names = [tool.name for tool in tools]
    if choice in names:
        return {"type": "function", "function": {"name": choice}}
    if choice in {"auto", "none"} or (choice == "required" and tools):
        return choice if tools and choice != "auto" else None
    msg = f"tool_choice {choice!r}: wanted 'auto', 'none', 'required' or one of the request's tools {names!r}"
    raise InvalidInputError(msg)


def _with_instruction(messages: list[JsonValue], request: ChatRequest, dialect: EndpointDialect) -> list[JsonValue]:
    """Add the schema to the system message where the endpoint is not given it otherwise."""
    if request.response_schema is None or dialect.mode_of(request.response_schema) == "schema":
        return messages
    instruction = json_instruction(request.response_schema)
    first = messages[0]
    if isinstance(first, dict) and first["role"] == "system" and isinstance(first["content"], str):
        return [{**first, "content": f"{first['content']}\n\n{instruction}"}, *messages[1:]]
    return [{"role": "system", "content": instruction}, *messages]
