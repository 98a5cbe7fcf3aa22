"""Messages of LangChain as ours, and back.

What a `Message` has no place for (ids and texts that the core can't keep, the form of content lists, artifact, usage,
`additional_kwargs`, `response_metadata`) is carried in its metadata under `langchain`, or in a block that nobody reads
where metadata can't hold it. So a message comes back as it was, with these exceptions:

- A message without an id comes back with the random one that it was given.
- Values that are not JSON, as an artifact may hold them, come back as JSON: tuples as lists, pydantic models as
  objects, other objects, and what is nested deeper than 64 levels, as a short text. Nothing is pickled.
- A chunk comes back as the message that it is a chunk of, a subclass as its base.
- What does not fit into 8 MiB is left out, and a note says so.

Where the core has changed a block since, the changed one comes back. Of messages that never were LangChain's, the time
and the metadata have no place in LangChain and are not handed over.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    MessageLikeRepresentation,
    RemoveMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    convert_to_messages,
    message_chunk_to_message,
)
from langchain_core.prompt_values import PromptValue
from pydantic import ValidationError

from reme_core.errors import InvalidInputError
from reme_core.schema import ContentBlock, Message, Role, TextBlock, ToolCallBlock, ToolResultBlock, new_id, shown
from reme_core.schema.plain import as_json, as_object, clean_text, usable_id, usable_name
from reme_langchain._message_parts import (
    PLAIN,
    LangChainFields,
    Part,
    PartForm,
    pack,
    plain_part,
    read_call,
    read_part,
    unpack,
    write_call,
    write_calls,
    write_part,
)

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


def write_message(message: Message) -> list[BaseMessage]:
    """Return one message; several where ours answers several tool calls, or says more than an answer."""
    carried, blocks = unpack(message)
    try:
        return _write(message, carried, blocks)
    except (ValidationError, TypeError):  # fields that LangChain does not take: they were never a message of its
        return _write(message, LangChainFields(), blocks)


def _write(message: Message, carried: LangChainFields, blocks: Sequence[ContentBlock]) -> list[BaseMessage]:
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    if len(results) == 1 and blocks[0] is results[0] and message.role == "tool":
        return [_write_result(message, carried, results[0], blocks[1:])]
    if not results:
        return [_write_said(message, carried, blocks)]
    written: list[BaseMessage] = []
    for run in _runs(blocks):
        part = message.model_copy(update={"message_id": message.message_id + (f"-{len(written)}" if written else "")})
        if isinstance(run[0], ToolResultBlock):
            written.append(_write_result(part, LangChainFields(), run[0], ()))
        else:
            written.append(_write_said(part, LangChainFields(), run))
    return written


def _runs(blocks: Sequence[ContentBlock]) -> Iterator[Sequence[ContentBlock]]:
    """Yield each tool result alone, and what stands between two of them together."""
    run: list[ContentBlock] = []
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            if run:
                yield run
            yield [block]
            run = []
        else:
            run.append(block)
    if run:
        yield run


def _write_said(message: Message, carried: LangChainFields, blocks: Sequence[ContentBlock]) -> BaseMessage:
    calls = [block for block in blocks if isinstance(block, ToolCallBlock)]
    content = _write_content([block for block in blocks if not isinstance(block, ToolCallBlock)], carried)
    fields = _fields(message, carried)
    if carried.type == "chat" and carried.role is not None:
        return ChatMessage(content=content, role=carried.role, **fields)
    if carried.type == "function" and fields["name"] is not None:
        return FunctionMessage(content=content, **fields)
    if message.role == "assistant" or calls:
        valid, invalid = write_calls(calls, carried, message.message_id)
        usage = copy.deepcopy(carried.usage_metadata)
        return AIMessage(content=content, tool_calls=valid, invalid_tool_calls=invalid, usage_metadata=usage, **fields)
    if message.role == "system":
        return SystemMessage(content=content, **fields)
    return HumanMessage(content=content, **fields)  # also what stands in a tool's turn and answers no call


def _write_result(
    message: Message, carried: LangChainFields, result: ToolResultBlock, others: Sequence[ContentBlock]
) -> ToolMessage:
    call_id = carried.tool_call_id
    fields = _fields(message, carried)
    return ToolMessage(
        content=_write_output(result.output, others, carried),
        tool_call_id=call_id if call_id is not None and usable_id(call_id) == result.call_id else result.call_id,
        status="error" if result.is_error else "success",
        artifact=copy.deepcopy(carried.artifact),
        **{**fields, "name": result.name if fields["name"] is None else fields["name"]},
    )


def _fields(message: Message, carried: LangChainFields) -> dict[str, object]:
    """Return the fields that all messages have, and those that LangChain does not know."""
    own_id, own_name = carried.id, carried.name
    return {
        **copy.deepcopy(carried.extra),
        "id": own_id if own_id == "" or (own_id and usable_id(own_id) == message.message_id) else message.message_id,
        "name": own_name if own_name is not None and usable_name(own_name) == message.name else message.name,
        "additional_kwargs": copy.deepcopy(carried.additional_kwargs),
        "response_metadata": copy.deepcopy(carried.response_metadata),
    }


def _write_content(blocks: Sequence[ContentBlock], carried: LangChainFields) -> str | list[Part]:
    if carried.parts is not None and len(carried.parts) == len(blocks):
        parts = [write_part(block, form) for block, form in zip(blocks, carried.parts, strict=True)]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):
            return known
    if not blocks:
        return ""
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
        return _original(blocks[0].text, carried)
    return [plain_part(block) for block in blocks]


def _original(text: str, carried: LangChainFields) -> str:
    return carried.text if carried.text is not None and clean_text(carried.text) == text else text


def _write_output(output: str, others: Sequence[ContentBlock], carried: LangChainFields) -> str | list[Part]:
    """Return the content of a tool's message: of a list, with its parts where the output has not changed its length."""
    forms = carried.parts
    if forms is None:
        return _original(output, carried) if not others else [*_told(output), *map(plain_part, others)]
    lengths = [form.chars for form in forms if form is not None and form.chars is not None]
    rest = iter(others)
    if sum(lengths) + max(0, len(lengths) - 1) != len(output) or len(forms) - len(lengths) != len(others):
        return [*_told(output), *map(plain_part, others)]
    content: list[Part] = []
    begin = 0
    for form in forms:
        if form is not None and form.chars is not None:
            block: ContentBlock = TextBlock(text=output[begin : begin + form.chars])
            begin += form.chars + 1
        else:
            block = next(rest)
        part = write_part(block, form)
        content.append(plain_part(block) if part is None else part)
    return content


def _told(output: str) -> list[Part]:
    return [{"type": "text", "text": output}] if output else []


def from_langchain(messages: Iterable[MessageLikeRepresentation] | PromptValue) -> list[Message]:
    """Return messages of LangChain in our form; nothing that is handed in is changed.

    Args:
        messages: Messages, dictionaries, `(role, text)` pairs and texts of the user. A `RemoveMessage` is passed over.

    Raises:
        InvalidInputError: LangChain can't read one of them; names it.
    """
    if isinstance(messages, PromptValue):
        messages = messages.to_messages()
    given: object = messages
    if isinstance(given, str | bytes | Mapping | BaseMessage) or not isinstance(given, Iterable):
        msg = f"messages: wanted a list of messages, found {type(given).__name__}: put it into a list"
        raise InvalidInputError(msg)
    read = (_coerce(item, place) for place, item in enumerate(messages))
    return [read_message(message) for message in read if not isinstance(message, RemoveMessage)]


def untimed(message: Message) -> Message:
    """Return a message whose time is ours, not its sender's: the same said again at another time is the same."""
    message.model_fields_set.discard("created_at")
    return message


def to_langchain(messages: Iterable[Message]) -> list[BaseMessage]:
    """Return messages in LangChain's form, each with its id, independent of ours.

    One of ours that answers several tool calls, or says something beside an answer, becomes several: the first keeps
    the id, the others add `-1`, `-2` to it.

    Raises:
        InvalidInputError: Something in the list is not a `Message`.
    """
    written: list[BaseMessage] = []
    items: Iterable[object] = messages
    for place, message in enumerate(items):
        if not isinstance(message, Message):
            msg = f"messages[{place}]: wanted a Message of reme, found {shown(message)}"
            raise InvalidInputError(msg)
        written += write_message(message)
    return written


def _coerce(item: MessageLikeRepresentation, place: int) -> BaseMessage:
    try:
        [message] = convert_to_messages([item])
        return message_chunk_to_message(message)
    # What LangChain raises for dictionaries of a wrong form is not stated, and depends on what is wrong.
    except (ValueError, TypeError, KeyError, AttributeError, NotImplementedError) as exc:
        msg = f"messages[{place}]: LangChain can't read {shown(item)}: {type(exc).__name__}: {str(exc)[:200]}"
        raise InvalidInputError(msg) from exc


__all__ = ["from_langchain", "to_langchain"]
