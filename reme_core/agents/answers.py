"""Faults of a model's answer, and the messages that tell the model about them."""

from __future__ import annotations

import re
from collections import Counter

from reme_core.ports import ChatResult
from reme_core.schema import Message, TextBlock, ToolCallBlock, ToolResultBlock
from reme_core.text.conversation import shortened

MAX_CALLS = 64
"""Tool calls of one answer; a model that asks for more has lost its way (as `MAX_ITEMS` of tools)."""

# Other names are refused by endpoints once they stand in a conversation (OpenAI API reference, function names).
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SHOWN_CHARS = 2000


def tool_calls(message: Message) -> list[ToolCallBlock]:
    """Return the tool calls of an answer, in order."""
    return [block for block in message.content if isinstance(block, ToolCallBlock)]


def tool_results(message: Message) -> list[ToolResultBlock]:
    """Return the answers to tool calls in a message, in order."""
    return [block for block in message.content if isinstance(block, ToolResultBlock)]


def fault_of(result: ChatResult, *, may_call: bool) -> str | None:
    """Say what makes an answer unusable, in words for the model; None if it can be used."""
    calls = tool_calls(result.message)
    if result.finish_reason == "length":
        return "it was cut off at the length limit: write less, and fewer tool calls at once"
    if not calls:
        return None if result.message.text.strip() else "it was empty: call a tool, or answer in words"
    if not may_call:
        return "it called a tool, and there are no more tool calls: answer in words, from what you know now"
    if len(calls) > MAX_CALLS:
        return f"it had {len(calls)} tool calls; at most {MAX_CALLS} are allowed in one answer"
    if twice := [call_id for call_id, count in Counter(call.call_id for call in calls).items() if count > 1]:
        return f"{len(twice)} ids of tool calls were given twice: each call needs an id of its own"
    if any(_TOOL_NAME.fullmatch(call.name) is None for call in calls):
        return "the name of a tool held other characters than letters, digits, '_', '-' and '.'"
    if result.message.result_ids:
        return "it held the result of a tool: call the tool, and its result will be given to you"
    return None


def complaint(said: Message | None, fault: str) -> list[Message]:
    """Return what is said instead of an unusable answer: its text without its calls, and what was wrong with it.

    So no call stays unanswered, and the roles alternate, as some chat templates demand.
    """
    text = "" if said is None else said.text.strip()
    return [
        Message(role="assistant", content=(TextBlock(text=shortened(text, _SHOWN_CHARS) or "(unusable answer)"),)),
        Message(role="user", content=(TextBlock(text=f"Your last answer can't be used: {fault}. Answer again."),)),
    ]
