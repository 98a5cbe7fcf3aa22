"""Selection of the messages that concern a target, for the agent of that target."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reme_core.ports import Target
from reme_core.schema import MemoryType, Message


def concerning(target: Target, messages: Sequence[Message]) -> list[int]:
    """Return the places of the messages that concern a target, with their neighbours; all where that is not clear.

    Of a person who speaks that is what they say and what names them; of a tool, its calls, their results and what names
    it. About somebody who is only spoken of much is said without the name, and a kind of task may be anywhere.
    """
    found = set(_about(target, messages))
    if not found:
        return list(range(len(messages)))
    return [place for place in range(len(messages)) if found & {place - 1, place, place + 1}]


def _about(target: Target, messages: Sequence[Message]) -> Iterator[int]:
    if target.memory_type is MemoryType.TOOL:
        uses = _using(target.memory_target, messages)
    elif target.memory_type is MemoryType.PERSONAL:
        uses = [_folded(message.name or "") == _folded(target.memory_target) for message in messages]
    else:
        return
    if not any(uses):
        return
    named = _naming(target.memory_target)
    for place, message in enumerate(messages):
        if uses[place] or named.search(message.full_text):
            yield place


def _using(tool: str, messages: Sequence[Message]) -> list[bool]:
    """Tell of each message whether it calls a tool or answers a call of it; many results don't name their tool."""
    blocks = [
        [block for block in message.content if block.type in {"tool_call", "tool_result"}] for message in messages
    ]
    calls = {block.call_id for found in blocks for block in found if block.name == tool}
    return [any(block.call_id in calls for block in found) for found in blocks]


def _naming(name: str) -> re.Pattern[str]:
    """Match a name or a word of it; scripts without blanks between words have names within words."""
    words = "|".join(re.escape(word) for word in sorted({name, *name.split()}, key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{words})(?!\w)" if name.isascii() else words, re.IGNORECASE)


def _folded(name: str) -> str:
    return name.strip().casefold()
