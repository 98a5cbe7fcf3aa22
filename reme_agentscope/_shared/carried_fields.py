"""Fields of AgentScope's messages that ours have no place for, carried along, and their local times."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from reme_core.schema import ContentBlock, Message, OtherBlock, TextBlock, parse_time
from reme_core.schema.checks import check_metadata
from reme_core.schema.messages import MAX_MESSAGE_BYTES
from reme_core.schema.plain import SPARE_BYTES, ascii_json, block_bytes, fit_blocks


def read_local(text: JsonValue) -> datetime | None:
    """Return a point in time in UTC, None for what is none; what has no zone is read as local time."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        parse_time(moment)  # the years that the core takes
        return parse_time(moment.astimezone())
    except (ValueError, OverflowError, OSError):
        return None


def local_time(moment: datetime) -> datetime:
    """Return a point in time as local time without a zone."""
    return moment.astimezone().replace(tzinfo=None)


KEY = "agentscope"
"""The key in a message's metadata."""

CARRIER = "agentscope_fields"
"""The kind of the block that carries what metadata can't hold."""


class BlockForm(BaseModel):
    """How a block was written, beside the value that ours shows.

    Attributes:
        at: The path of the value in the block; empty: `rest` is the whole block.
        rest: The block without the value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: list[str | int] = Field(default_factory=list)
    rest: dict[str, JsonValue]


class AgentScopeFields(BaseModel):
    """The fields of a message that ours does not show, or shows otherwise. Texts stand as they came.

    Attributes:
        generation: Of AgentScope.
        fields: Of the message, where they are not what ours would give.
        is_text: The content was a text and no list.
        text: That text, where the core can't keep it.
        forms: Of each block, where it is not what ours would give.
        of: The id of the message that this is a part of.
        part: Which part, from 0.
        left_out: What was too large to be kept: what, and of how many bytes or characters.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    generation: Literal[1, 2]
    fields: dict[str, JsonValue] = Field(default_factory=dict)
    is_text: bool = False
    text: str | None = None
    forms: list[BlockForm | None] = Field(default_factory=list)
    of: str | None = None
    part: int = 0
    left_out: list[str] = Field(default_factory=list)


_Unpacked: TypeAlias = tuple[AgentScopeFields | None, list[ContentBlock]]


def pack(carried: AgentScopeFields, blocks: Sequence[ContentBlock]) -> tuple[dict[str, JsonValue], list[ContentBlock]]:
    """Return metadata and content of a message that carries it.

    It goes into the metadata, or into a block where metadata can't hold it. What is too large for a message is left
    out, the fields first, and the text of a block that ends with a note saying so.
    """
    kept, left_out = fit_blocks(blocks)
    if left_out:
        carried = carried.model_copy(update={"left_out": left_out, "forms": []})
    fields = carried.model_dump(exclude_defaults=True)
    try:
        return check_metadata({KEY: fields}), [*kept, *_stand_in(kept)]
    except ValueError:
        text = ascii_json(fields)
    if len(text) > MAX_MESSAGE_BYTES - SPARE_BYTES - sum(map(block_bytes, kept)):
        note = f"additional fields, {len(text)} characters as JSON"
        text = ascii_json({"generation": carried.generation, "left_out": [*left_out, note]})
    return {}, [*kept, OtherBlock(kind=CARRIER, data=text)]


def unpack(message: Message) -> _Unpacked:
    """Return what a message carries, None where it is not AgentScope's, and its content without the carrier."""
    blocks = [block for block in message.content if not _is_carrier(block)]
    for block in message.content:
        if isinstance(block, OtherBlock) and _is_carrier(block) and isinstance(block.data, str):
            return _read_json(block.data), blocks
    return _validated(message.metadata.get(KEY)), blocks


def _read_json(text: str) -> AgentScopeFields | None:
    try:
        return _validated(json.loads(text))  # Python's JSON knows NaN and escaped lone surrogates
    except (ValueError, RecursionError):  # a block of somebody else under this kind
        return None


def _validated(fields: object) -> AgentScopeFields | None:
    try:
        return AgentScopeFields.model_validate(fields)
    except ValidationError:  # a user's own metadata under this key: no message of ours
        return None


def _is_carrier(block: ContentBlock) -> bool:
    return isinstance(block, OtherBlock) and block.kind == CARRIER


def _stand_in(blocks: Sequence[ContentBlock]) -> list[ContentBlock]:
    """Return the block without which a message that says nothing could not be kept."""
    says = any(not isinstance(block, TextBlock) or block.text.strip() for block in blocks)
    return [] if says else [OtherBlock(kind=CARRIER)]
