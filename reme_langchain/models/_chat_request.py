"""Conversion of a `ChatRequest` into the messages that a chat model of LangChain is sent."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from reme_core import json_instruction
from reme_core.errors import InvalidInputError
from reme_core.ports import ChatRequest
from reme_core.schema import ContentBlock, FileBlock, ImageBlock, Message, TextBlock, ToolCallBlock
from reme_langchain.messages import to_langchain

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
