"""Fields of LangChain's messages that ours have no place for, carried along and found again."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from reme_core.schema import ContentBlock, Message, OtherBlock, TextBlock
from reme_core.schema.checks import check_metadata
from reme_core.schema.fitting import SPARE_BYTES, block_bytes, fit_blocks
from reme_core.schema.messages import MAX_MESSAGE_BYTES
from reme_core.schema.plain import ascii_json
from reme_langchain.messages._content_parts import CARRIER, PartForm

KEY = "langchain"
"""The key in a message's metadata."""


class LangChainFields(BaseModel):
    """The fields of a message that its blocks do not show, or show otherwise. Texts stand as they came.

    Attributes:
        type: Of a message of one of the rarer types.
        role: Of a `ChatMessage`.
        id: Where it can't be our id.
        name: Where it can't be our name.
        tool_call_id: Where it can't be our id of a call.
        text: The content, where it was a text that the core can't keep.
        parts: The form of each part, where the content was a list; None for a plain text.
        calls: The tool calls that the blocks do not show exactly, each at its place.
        left_out: What was too large to be kept: what, and of how many bytes or characters.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: str | None = None
    role: str | None = None
    id: str | None = None
    name: str | None = None
    tool_call_id: str | None = None
    text: str | None = None
    parts: list[PartForm | None] | None = None
    calls: list[dict[str, JsonValue] | None] = Field(default_factory=list)
    invalid_tool_calls: list[dict[str, JsonValue]] = Field(default_factory=list)
    additional_kwargs: dict[str, JsonValue] = Field(default_factory=dict)
    response_metadata: dict[str, JsonValue] = Field(default_factory=dict)
    usage_metadata: dict[str, JsonValue] | None = None
    artifact: JsonValue = None
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    left_out: list[str] = Field(default_factory=list)


def pack(carried: LangChainFields, blocks: Sequence[ContentBlock]) -> tuple[dict[str, JsonValue], list[ContentBlock]]:
    """Return metadata and content of a message that carries it.

    It goes into the metadata, or into a block where metadata can't hold it. What is too large for a message is left
    out, the fields first, and the text of a block that ends with a note saying so.
    """
    kept, left_out = fit_blocks(blocks)
    fields = carried.model_copy(update={"left_out": left_out}).model_dump(exclude_defaults=True)
    if not fields:
        return {}, [*kept, *_stand_in(kept)]
    try:
        return check_metadata({KEY: fields}), [*kept, *_stand_in(kept)]
    except ValueError:
        text = ascii_json(fields)
    room = MAX_MESSAGE_BYTES - SPARE_BYTES - sum(map(block_bytes, kept))
    if len(text) > room:
        note = f"additional fields, {len(text)} characters as JSON"
        text = ascii_json({"left_out": [*left_out, note]})
    return {}, [*kept, OtherBlock(kind=CARRIER, data=text)]


def unpack(message: Message) -> tuple[LangChainFields, list[ContentBlock]]:
    """Return what a message carries, and its content without the carrier; nothing where it is not from LangChain."""
    blocks = [block for block in message.content if not _is_carrier(block)]
    for block in message.content:
        if isinstance(block, OtherBlock) and _is_carrier(block) and isinstance(block.data, str):
            return _read_json(block.data), blocks
    fields = message.metadata.get(KEY)
    try:
        return LangChainFields.model_validate(fields if isinstance(fields, dict) else {}), blocks
    except ValidationError:  # a user's own metadata under this key: no message of ours
        return LangChainFields(), blocks


def _read_json(text: str) -> LangChainFields:
    try:
        return LangChainFields.model_validate(json.loads(text))  # Python's JSON knows NaN and escaped lone surrogates
    except (ValueError, RecursionError):  # a block of somebody else under this kind
        return LangChainFields()


def _is_carrier(block: ContentBlock) -> bool:
    return isinstance(block, OtherBlock) and block.kind == CARRIER


def _stand_in(blocks: Sequence[ContentBlock]) -> list[ContentBlock]:
    """Return the block without which a message that says nothing could not be kept."""
    says = any(not isinstance(block, TextBlock) or block.text.strip() for block in blocks)
    return [] if says else [OtherBlock(kind=CARRIER)]
