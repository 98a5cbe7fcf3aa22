"""Tool calls of LangChain's messages, and the blocks that show them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

from langchain_core.messages import InvalidToolCall, ToolCall
from pydantic import JsonValue

from reme_core.schema import ToolCallBlock, shown
from reme_core.schema.plain import as_object, clean_json, clean_text, is_kept, usable_id
from reme_langchain.messages._carried_fields import LangChainFields


def read_call(call: Mapping[str, object], message_id: str, place: int) -> ToolCallBlock:
    """Return the block of a tool call. One without an id gets one of its own: each call needs it."""
    call_id, name, args = call.get("id"), call.get("name"), call.get("args")
    arguments = {key: clean_json(item) for key, item in as_object(args if isinstance(args, dict) else {}).items()}
    arguments = {clean_text(key): item for key, item in arguments.items()}
    return ToolCallBlock(
        call_id=usable_id(call_id) if isinstance(call_id, str) else f"{usable_id(message_id)[:480]}-call-{place}",
        name=clean_text(str(name or "")),
        arguments=arguments if is_kept(arguments) else shown(arguments),
    )


def write_calls(
    blocks: Sequence[ToolCallBlock], carried: LangChainFields, message_id: str
) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    valid: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for place, block in enumerate(blocks):
        original = carried.calls[place] if place < len(carried.calls) else None
        call = write_call(block) if original is None else _original_call(original, block, message_id, place)
        if call is not None:
            valid.append(call)
        else:
            arguments = block.arguments if isinstance(block.arguments, str) else None
            invalid.append(
                InvalidToolCall(name=block.name, args=arguments, id=block.call_id, error=None, type="invalid_tool_call")
            )
    for given in carried.invalid_tool_calls:
        name, args, call_id, error = (_text(given.get(key)) for key in ("name", "args", "id", "error"))
        invalid.append(InvalidToolCall(name=name, args=args, id=call_id, error=error, type="invalid_tool_call"))
    return valid, invalid


def write_call(block: ToolCallBlock) -> ToolCall | None:
    """Return the call; None where its arguments are no object."""
    if isinstance(block.arguments, str):
        return None
    return ToolCall(name=block.name, args=copy.deepcopy(block.arguments), id=block.call_id, type="tool_call")


def _original_call(
    original: Mapping[str, JsonValue], block: ToolCallBlock, message_id: str, place: int
) -> ToolCall | None:
    """Return the call as it came, if the block still shows it."""
    if read_call(original, message_id, place) != block:
        return write_call(block)
    args = original.get("args")
    arguments = copy.deepcopy(args) if isinstance(args, dict) else {}
    return ToolCall(
        name=_text(original.get("name")) or "", args=arguments, id=_text(original.get("id")), type="tool_call"
    )


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
