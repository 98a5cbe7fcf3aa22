"""One of our messages as those of LangChain that say the same."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from pydantic import ValidationError

from reme_core.schema import ContentBlock, Message, TextBlock, ToolCallBlock, ToolResultBlock
from reme_core.schema.plain import clean_text, usable_id, usable_name
from reme_langchain.messages._carried_fields import LangChainFields, unpack
from reme_langchain.messages._content_parts import Part, plain_part, write_part
from reme_langchain.messages._tool_calls import write_calls


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
