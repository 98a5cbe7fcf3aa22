"""Messages in the form of OpenAI's chat completions, as endpoints and their clients take them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from pydantic import JsonValue

from reme_core.schema.blobs import is_embedded
from reme_core.schema.content_blocks import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from reme_core.schema.messages import Message
from reme_core.schema.trust import TrustClass

_NOT_IN_NAMES = re.compile(r"[\s<|\\/>]+")
"""OpenAI refuses names with these characters."""


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
    role = "assistant" if calls else _role(message)  # only an assistant calls tools
    wire: dict[str, JsonValue] = {"role": role, "content": _content(blocks, role)}
    if message.name:
        wire["name"] = _NOT_IN_NAMES.sub("_", message.name)[:64]
    if calls:
        wire["tool_calls"] = calls
    return [wire]


def _role(message: Message) -> str:
    """Return whose words texts are: beside a tool's result, or with a mark of less trust, no instruction of anybody."""
    is_lowered = message.role == "system" and message.trust is not TrustClass.USER
    return "user" if message.role == "tool" or is_lowered else message.role


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
                texts.append(f"[image: {block.said or _reference(block.url)}]")
            case FileBlock():
                texts.append(f"[file: {block.said or _reference(block.url)}]")
            case _:
                continue
    if parts:
        return parts + _text_parts(texts)
    return "\n".join(texts) if texts else None


def _text_parts(texts: Sequence[str]) -> list[JsonValue]:
    return [{"type": "text", "text": "\n".join(texts)}] if texts else []


def _reference(url: str) -> str:
    return "embedded data" if is_embedded(url) else url


def _tool_call(block: ToolCallBlock) -> dict[str, JsonValue]:
    arguments = block.arguments
    # Many endpoints refuse a conversation with arguments that are no JSON object, so malformed ones go inside one.
    sent = {"malformed": arguments} if isinstance(arguments, str) else arguments
    return {
        "id": block.call_id,
        "type": "function",
        "function": {"name": block.name, "arguments": json.dumps(sent, ensure_ascii=False)},
    }
