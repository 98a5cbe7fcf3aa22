"""Fields of AgentScope's messages that ours have no place for, carried along, and their local times."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from reme_core.schema import ContentBlock, Message, parse_time
from reme_core.schema.plain import FieldCarrier, fit_blocks


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


CARRIER = FieldCarrier("agentscope", "agentscope_fields")


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


def pack(carried: AgentScopeFields, blocks: Sequence[ContentBlock]) -> tuple[dict[str, JsonValue], list[ContentBlock]]:
    """Return metadata and content of a message that carries it.

    It goes into the metadata, or into a block where metadata can't hold it. What is too large for a message is left
    out, the fields first, and the text of a block that ends with a note saying so.
    """
    kept, left_out = fit_blocks(blocks)
    if left_out:
        carried = carried.model_copy(update={"left_out": left_out, "forms": []})
    return CARRIER.pack(carried.model_dump(exclude_defaults=True), kept, {"generation": carried.generation})


def unpack(message: Message) -> tuple[AgentScopeFields | None, list[ContentBlock]]:
    """Return what a message carries, None where it is not AgentScope's, and its content without the carrier."""
    fields, blocks = CARRIER.unpack(message)
    try:
        return AgentScopeFields.model_validate(fields), blocks
    except ValidationError:  # a user's own metadata under this key: no message of ours
        return None, blocks
