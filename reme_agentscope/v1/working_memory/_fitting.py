"""Grouping and shortening of messages for compaction, and the use of a window: pure functions over messages."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from agentscope.message import Msg

from reme_agentscope._shared.recorded_text import is_injection

# Around a message, and for what is no text. Source: OpenAI cookbook, "How to count tokens with tiktoken"; an image of
# middle size takes about this.
_MESSAGE_TOKENS, _MEDIA_TOKENS = 4, 800
_MEDIA = frozenset({"image", "audio", "video"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A message as it would be sent.

    Attributes:
        msg: It, with long tool results shortened.
        tokens: What it takes.
        is_hint: It is a hint of the agent, and goes after the next prompt.
    """

    msg: Msg
    tokens: int
    is_hint: bool


def estimate(text: str) -> int:
    """Return about how many tokens a text has: four ASCII characters each, one of any other character."""
    ascii_chars = len(text.encode("ascii", "ignore"))
    return math.ceil(ascii_chars / 4) + len(text) - ascii_chars


def estimate_message(msg: Msg) -> int:
    """Return about how many tokens a message has."""
    return _MESSAGE_TOKENS + estimate(readable(msg)) + media_tokens(msg)


def media_tokens(msg: Msg) -> int:
    """Return about how many tokens its images, recordings and films take."""
    return _MEDIA_TOKENS * sum(1 for block in _all_blocks(msg) if block.get("type") in _MEDIA)


def readable(msg: Msg) -> str:
    """Return everything in a message that is sent as text, a line break between two blocks; no base64."""
    if isinstance(msg.content, str):
        return msg.content
    return "\n".join(_block_text(dict(block)) for block in msg.content)


def result_text(block: dict[str, object]) -> str:
    """Return the text of a tool result."""
    output = block.get("output")
    if isinstance(output, str):
        return output
    parts = output if isinstance(output, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and part.get("type") == "text")


def with_result_texts(msg: Msg, texts: dict[int, str]) -> Msg:
    """Return a copy of a message with other texts in the tool results at these places of its content."""
    blocks: list[object] = []
    for place, block in enumerate(msg.content):
        if place not in texts:
            blocks.append(block)
            continue
        changed = dict(block)
        output = changed.get("output")
        text = {"type": "text", "text": texts[place]}
        others = [part for part in output if part.get("type") != "text"] if isinstance(output, list) else []
        changed["output"] = texts[place] if isinstance(output, str) else [text, *others]
        blocks.append(changed)
    view = copy(msg)
    view.content = blocks
    return view


def results_of(msg: Msg) -> dict[int, dict[str, object]]:
    """Return the tool results of a message, by their place in its content."""
    if isinstance(msg.content, str):
        return {}
    return {place: dict(block) for place, block in enumerate(msg.content) if block.get("type") == "tool_result"}


def shortened(text: str, limit_chars: int, reference: str) -> str:
    """Return head and tail of a text, and between them what loads it again; about `limit_chars` long."""
    head = text[: math.ceil(limit_chars * 0.6)]
    tail = text[len(text) - int(limit_chars * 0.4) :]
    left = len(text) - len(head) - len(tail)
    return f"{head}\n[… {left:,} of {len(text):,} characters left out here; all of it: reload {reference} …]\n{tail}"


def groups_of(msgs: Sequence[Msg]) -> tuple[list[frozenset[int]], frozenset[int]]:
    """Return for each message the places that it belongs with, and the places of calls that wait for a result.

    A result belongs to the nearest call before it with its id, since some models use ids again.
    """
    together = [{place} for place in range(len(msgs))]
    calls: dict[str, int] = {}
    waiting: dict[str, int] = {}
    for place, msg in enumerate(msgs):
        for block in _blocks(msg):
            call_id = str(block.get("id"))
            if block.get("type") == "tool_use":
                calls[call_id] = waiting[call_id] = place
            elif block.get("type") == "tool_result" and call_id in calls:
                waiting.pop(call_id, None)
                _join(together, calls[call_id], place)
    return [frozenset(group) for group in together], frozenset(waiting.values())


def last_said(counted: Sequence[Counted]) -> int | None:
    """Return the place of the last message of a user, not of what an agent has written in a user's name."""
    for place in range(len(counted) - 1, -1, -1):
        msg = counted[place].msg
        metadata = msg.metadata if isinstance(msg.metadata, dict) else None
        if (
            msg.role == "user"
            and not counted[place].is_hint
            and not is_injection(name=msg.name, text=readable(msg), metadata=metadata)
        ):
            return place
    return None


def places_to_keep(counted: Sequence[Counted], *, keep_recent: int, room: int) -> frozenset[int]:
    """Return the places of what stays when the rest leaves for a summary.

    That is the last user message, calls that wait for their result, and hints, whatever they take; then the newest
    messages, up to `keep_recent` of them, as long as `room` tokens hold them. A call and its results stay together.
    """
    groups, waiting = groups_of([item.msg for item in counted])
    said = last_said(counted)
    hints = {place for place, item in enumerate(counted) if item.is_hint}
    kept = _closed({*waiting, *hints, *(() if said is None else (said,))}, groups)
    recent = [place for place in range(len(counted)) if place not in hints]
    for place in reversed(recent[len(recent) - min(keep_recent, len(recent)) :]):
        more = kept | groups[place]
        if sum(counted[index].tokens for index in more) > room:
            break
        kept = more
    return kept


def _closed(places: Iterable[int], groups: Sequence[frozenset[int]]) -> frozenset[int]:
    return frozenset[int]().union(*(groups[place] for place in places))


def _join(together: list[set[int]], first: int, second: int) -> None:
    if together[first] is together[second]:
        return
    together[first] |= together[second]
    for place in together[second]:
        together[place] = together[first]


def _blocks(msg: Msg) -> list[dict[str, object]]:
    return [] if isinstance(msg.content, str) else [dict(block) for block in msg.content]


def _all_blocks(msg: Msg) -> Iterable[dict[str, object]]:
    for block in _blocks(msg):
        yield block
        output = block.get("output")
        if isinstance(output, list):
            yield from (part for part in output if isinstance(part, dict))


def _block_text(block: dict[str, object]) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "thinking":
            return str(block.get("thinking", ""))
        case "tool_use":
            return f"{block.get('name')}({json.dumps(block.get('input'), ensure_ascii=False, default=str)})"
        case "tool_result":
            return result_text(block)
        case kind if kind in _MEDIA:
            return ""
        case _:
            return json.dumps(block, ensure_ascii=False, default=str)


_PREVIEW_CHARS = 100


def use_of(msgs: Sequence[Msg], counts: Sequence[int], summary: int, max_input_length: int | None) -> dict[str, Any]:
    """Return figures by name; `context_usage_ratio` is in percent of the window. `summary`: its tokens."""
    details = [
        {"role": msg.role, "name": msg.name, "total_tokens": tokens, "preview": readable(msg)[:_PREVIEW_CHARS]}
        for msg, tokens in zip(msgs, counts, strict=True)
    ]
    tokens = sum(counts) + summary
    return {
        "total_messages": len(details),
        "compressed_summary_tokens": summary,
        "messages_tokens": sum(counts),
        "estimated_tokens": tokens,
        "max_input_length": max_input_length or 0,
        "context_usage_ratio": tokens / max_input_length * 100 if max_input_length else 0.0,
        "messages_detail": details,
    }


def history_of(use: dict[str, Any]) -> str:
    """Return what `use_of` found as a text."""
    head = [
        "**Conversation History**\n",
        f"- Total messages: {use['total_messages']}",
        f"- Estimated tokens: {use['estimated_tokens']}",
        f"- Max input length: {use['max_input_length']}",
        f"- Context usage: {use['context_usage_ratio']:.1f}%",
        f"- Compressed summary tokens: {use['compressed_summary_tokens']}",
    ]
    lines = [
        f"[{number}] **{detail['role']}** (total_tokens={detail['total_tokens']})\n    preview: {detail['preview']}"
        for number, detail in enumerate(use["messages_detail"], 1)
    ]
    return "\n".join(head) + "\n\n" + "\n\n".join(lines)
