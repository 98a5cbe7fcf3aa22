"""One message of LangChain as ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, FunctionMessage, ToolCall, ToolMessage

from reme_core.schema import ContentBlock, Message, Role, TextBlock, ToolCallBlock, ToolResultBlock, new_id
from reme_core.schema.plain import as_json, as_object, clean_text, usable_id, usable_name
from reme_langchain.messages._carried_fields import LangChainFields, pack
from reme_langchain.messages._content_parts import PLAIN, PartForm, read_part
from reme_langchain.messages._tool_calls import read_call, write_call

_ROLES: Mapping[str, Role] = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
}
_CHAT_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
}


def read_message(message: BaseMessage) -> Message:
    """Return one message of LangChain in our form."""
    message_id = new_id() if not message.id else usable_id(message.id)
    name = None if message.name is None else usable_name(message.name)
    content, parts = _read_content(message.content)
    fields = _common_fields(message, message_id=message_id, name=name)
    blocks: list[ContentBlock] = content
    if isinstance(message, ToolMessage):
        blocks, parts = _read_result(message, content, parts)
        call_id = usable_id(message.tool_call_id)
        fields["tool_call_id"] = None if call_id == message.tool_call_id else message.tool_call_id
        fields["artifact"] = as_json(message.artifact)
    elif isinstance(message, AIMessage):
        calls = [read_call(call, message_id, place) for place, call in enumerate(message.tool_calls)]
        blocks = [*content, *calls]
        originals = [None if write_call(block) == call else as_object(call) for block, call in _pairs(calls, message)]
        fields["calls"] = originals if any(originals) else []
        fields["invalid_tool_calls"] = [as_object(call) for call in message.invalid_tool_calls]
        fields["usage_metadata"] = None if message.usage_metadata is None else as_object(message.usage_metadata)
    if isinstance(message.content, str) and clean_text(message.content) != message.content:
        fields["text"] = message.content
    metadata, kept = pack(LangChainFields.model_validate({**fields, "parts": parts}), blocks)
    return Message(message_id=message_id, role=_role(message), name=name, content=tuple(kept), metadata=metadata)


def _pairs(calls: Sequence[ToolCallBlock], message: AIMessage) -> Iterator[tuple[ToolCallBlock, ToolCall]]:
    return zip(calls, message.tool_calls, strict=True)


def _common_fields(message: BaseMessage, *, message_id: str, name: str | None) -> dict[str, object]:
    return {
        "type": message.type if isinstance(message, ChatMessage | FunctionMessage) else None,
        "role": message.role if isinstance(message, ChatMessage) else None,
        "id": None if message.id == message_id else message.id,
        "name": None if message.name == name else message.name,
        "additional_kwargs": as_object(message.additional_kwargs),
        "response_metadata": as_object(message.response_metadata),
        "extra": as_object(message.model_extra or {}),
    }


def _role(message: BaseMessage) -> Role:
    if isinstance(message, ChatMessage):
        return _CHAT_ROLES.get(message.role.lower(), "user")
    return _ROLES.get(message.type, "user")


def _read_content(content: str | Sequence[object]) -> tuple[list[ContentBlock], list[PartForm | None] | None]:
    """Return the blocks and, of a list, the form of each part (None where it is the usual one of a text)."""
    if isinstance(content, str):
        return ([TextBlock(text=clean_text(content))] if content else []), None
    read = [read_part(part) for part in content]
    return [block for block, _ in read], [None if form == PLAIN else form for _, form in read]


def _read_result(
    message: ToolMessage, content: Sequence[ContentBlock], parts: Sequence[PartForm | None] | None
) -> tuple[list[ContentBlock], list[PartForm | None] | None]:
    """Return the result, its texts as one, with the parts that are no text behind it."""
    texts = [block.text for block in content if isinstance(block, TextBlock)]
    result = ToolResultBlock(
        call_id=usable_id(message.tool_call_id),
        name=None if message.name is None else usable_name(message.name),
        output="\n".join(texts),
        is_error=message.status == "error",
    )
    others = [block for block in content if not isinstance(block, TextBlock)]
    if parts is None:
        return [result, *others], None
    forms = [
        (form or PLAIN).model_copy(update={"chars": len(block.text)}) if isinstance(block, TextBlock) else form
        for block, form in zip(content, parts, strict=True)
    ]
    return [result, *others], forms
