"""Increment of a context by a reply, as the core's messages: compared by block, as a resumed reply goes on growing."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from agentscope.message import ContentBlock, HintBlock, Msg, TextBlock, ToolCallBlock, ToolResultBlock

from reme_agentscope._shared.recorded_text import is_injection
from reme_agentscope.v2.messages import from_agentscope
from reme_core.adapting import RELOAD_TOOL
from reme_core.schema import Message

SEARCH_TOOL: Final = "memory_search"
ADD_TOOL: Final = "add_memory"
_OURS = frozenset({SEARCH_TOOL, ADD_TOOL, RELOAD_TOOL})
_MESSAGE = "message:"


def keys_in(context: Sequence[Msg]) -> list[str]:
    """Return what names each message and block of a context."""
    keys = []
    seen: Counter[str] = Counter()
    for message in context:
        keys += [_MESSAGE + message.id, *_block_keys(message, seen)]
    return list(dict.fromkeys(keys))


def known_after(known: Iterable[str], context: Sequence[Msg]) -> list[str]:
    """Return what is known once everything of a context is recorded.

    Messages stay known when they have left: what grows later under the id of one is another message.
    """
    return list(dict.fromkeys([*(key for key in known if key.startswith(_MESSAGE)), *keys_in(context)]))


def added(context: Sequence[Msg], known: Iterable[str]) -> list[Message]:
    """Return what somebody said or did since, in order: no hints, no text that AgentScope wrote, no memories shown.

    The first part of a message has its id, each later part one that follows from its first block.
    """
    there = set(known)
    seen: Counter[str] = Counter()
    parts = []
    for message in context:
        keys = _block_keys(message, seen)
        new = [
            (key, block)
            for key, block in zip(keys, message.content, strict=True)
            if key not in there and is_said(block)
        ]
        if new:
            is_first = _MESSAGE + message.id not in there
            part_id = message.id if is_first else _part_id(message.id, new[0][0])
            parts.append(message.model_copy(update={"id": part_id, "content": [block for _, block in new]}))
        there.add(_MESSAGE + message.id)
    return from_agentscope(parts)


def is_said(block: ContentBlock) -> bool:
    """Tell whether a block belongs to the talk: neither a hint, nor a text of AgentScope's, nor of our own tools.

    What `memory_search` found is in the memory already, and would be found twice.
    """
    if isinstance(block, HintBlock):
        return False
    if isinstance(block, TextBlock):
        return bool(block.text.strip()) and not is_injection(name=None, text=block.text)
    return not (isinstance(block, ToolCallBlock | ToolResultBlock) and block.name in _OURS)


def _block_keys(message: Msg, seen: Counter[str]) -> list[str]:
    """Name blocks: a result has the id of its call, and some models give the same call ids in each step."""
    keys = []
    for block in message.content:
        name = f"{message.id}/{block.type}:{block.id}"
        seen[name] += 1
        keys.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return keys


def _part_id(message_id: str, key: str) -> str:
    return uuid.uuid5(uuid.NAMESPACE_OID, json.dumps([message_id, key])).hex
