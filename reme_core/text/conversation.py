"""Conversations in prompts: one JSON line for each message, inside a fence that no text can close or forge."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import get_args

from pydantic import JsonValue

from reme_core.schema import ContentBlock, FileBlock, ImageBlock, Message, Role, TextBlock

# What ends a line for some reader and is not escaped by JSON; and the character that every fence begins with.
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<\x7f\x85\u2028\u2029"}
_ROLES = get_args(Role)
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# Of a text that is cut, this share is its head; what a message is about is mostly said first.
_HEAD_SHARE = 2 / 3


def conversation_lines(
    messages: Sequence[Message], *, first: int = 1, max_chars: int = 8000, zone: tzinfo = UTC
) -> str:
    r"""Write messages as JSON lines, numbered from `first`: `{"n":1,"at":"2023-05-08 Mon 13:56","by":"Alice",...}`.

    Each message is one line, whatever its text holds: breaks are escaped, and every "<" is written `\u003c`, so that a
    text can neither forge a line nor close the fence around them. `role` is left out where `by` is the role, and for
    users with a name that is no role. Tool calls and results stand as text. A text of more than `max_chars` characters
    is shown as its head and its tail, with the number of characters left out between them.
    """
    return "\n".join(_line(message, number, max_chars, zone) for number, message in enumerate(messages, first))


def with_media_told(message: Message) -> Message:
    """Return a message whose images and files stand in its text, marked as such: `[image: a red door]`."""
    if all(block.type not in {"image", "file"} for block in message.content):
        return message
    told = (TextBlock(text=_told(block)) if block.type in {"image", "file"} else block for block in message.content)
    return message.model_copy(update={"content": tuple(told)})


def _told(block: ContentBlock) -> str:
    match block:
        case ImageBlock():
            said = block.caption or block.url
        case FileBlock():
            said = block.name or block.url
        case _:
            return ""
    return f"[{block.type}]" if said.startswith("data:") else f"[{block.type}: {said}]"


def json_line(value: Mapping[str, JsonValue]) -> str:
    """Write an object as one line of JSON that stays one line in a fence, whatever its texts hold."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)


def fence(name: str, body: str) -> str:
    r"""Put a body between `<name>` and `</name>`.

    Tags of this name inside the body lose their "<" to `\u003c`; JSON lines hold none anyway.
    """
    tag = re.compile(rf"<(?=\s*/?\s*{re.escape(name)}\b)", re.IGNORECASE)
    return f"<{name}>\n{tag.sub(lambda _: _ESCAPES[ord('<')], body)}\n</{name}>"


def prompt_time(moment: datetime, zone: tzinfo = UTC) -> str:
    """Write a time as prompts show it: `2023-05-08 Mon 13:56`, in other zones than UTC with the offset behind it."""
    moment = moment.astimezone(zone)
    offset = "" if zone is UTC else moment.isoformat(timespec="minutes")[len("2023-05-08T13:56") :]
    return f"{moment:%Y-%m-%d} {_WEEKDAYS[moment.weekday()]} {moment:%H:%M}{offset}"


def shortened(text: str, max_chars: int) -> str:
    """Return a text, or its head and tail of `max_chars` characters together, and how many were left out."""
    if len(text) <= max_chars:
        return text
    head = int(max_chars * _HEAD_SHARE)
    tail = max_chars - head
    left_out = len(text) - max_chars
    return f"{text[:head]} [… {left_out} characters left out …] {text[len(text) - tail :]}"


def _line(message: Message, number: int, max_chars: int, zone: tzinfo) -> str:
    fields: dict[str, JsonValue] = {"n": number, "at": prompt_time(message.created_at, zone), "by": message.speaker}
    if message.speaker != message.role and (message.role != "user" or message.speaker in _ROLES):
        fields["role"] = message.role
    fields["text"] = shortened(message.full_text, max_chars)
    return json_line(fields)
