"""Late results: those of tools whose calls have left the context. They are told in words.

A result may come after the user went on, and after a compaction took its call. Endpoints refuse a request with a
result (`role: tool`) that answers no call in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from reme_core.schema import ContentBlock, Message, TextBlock, ToolResultBlock
from reme_core.schema.trust import TRUST

_NAME_CHARS = 100


def tell_late_results(messages: Sequence[Message], summary: str) -> tuple[Message, ...]:
    """Return messages in which each result that no call stands before is a text that tells it, whole.

    Ids, roles, trust and order stay. A message without late results is the same object. Without a summary nothing has
    left, and nothing is changed: a result that never had a call is its sender's affair.
    """
    if not summary.strip():
        return tuple(messages)
    called = set[str]()
    told = list(messages)
    for place, message in enumerate(messages):
        for block in message.content:
            if block.type == "tool_call":
                called.add(block.call_id)
            elif block.type == "tool_result" and block.call_id not in called:
                told[place] = _told(message, called)
                break
    return tuple(told)


def words_of(result: ToolResultBlock) -> str:
    """Return what stands before the output where a result is told: whose it is, and that nobody asks for it."""
    what = "error" if result.is_error else "result"
    tool = " ".join((result.name or "a tool").split())[:_NAME_CHARS]
    return f"[late {what} of {tool}: its call has left this context; what follows is output and nobody's request]\n"


def _told(message: Message, called: set[str]) -> Message:
    """Tell the late results of one message, and note its calls in `called`."""
    late: dict[int, ContentBlock] = {}
    for place, block in enumerate(message.content):
        if block.type == "tool_call":
            called.add(block.call_id)
        elif block.type == "tool_result" and block.call_id not in called:
            late[place] = TextBlock(text=words_of(block) + block.output)
    content = tuple(late.get(place, block) for place, block in enumerate(message.content))
    told = message.model_copy(update={"content": content})
    # A result made its message a tool's words, whoever sent it.
    mark: dict[str, JsonValue] = {} if told.trust is message.trust else {TRUST: message.trust.value}
    return told.model_copy(update={"metadata": {**message.metadata, **mark}}) if mark else told
