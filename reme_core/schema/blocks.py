"""Blocks: slices of a session, and the index entry that tells what is in each."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from reme_core.schema.checks import Id, Text
from reme_core.schema.ids import new_id
from reme_core.schema.messages import Message
from reme_core.schema.times import UtcTime, utc_now

EXTRACTIVE = "extractive"


class Block(BaseModel):
    """A slice of one session's messages with its entry in the block index; appended, never rewritten.

    Attributes:
        block_id: Random, unique within the scope.
        session_id: The session it is a slice of.
        message_ids: Its messages, in order.
        repeats: How many of them, at the beginning, are repeated from the block before (overlap).
        started_at: The time of the first message.
        ended_at: The time of the last message.
        summary: What the index says of it.
        summary_author: `extractive` (sentences taken from the messages) or the name of the agent that wrote it.
        created_at: When it was sliced.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    block_id: Id = Field(default_factory=new_id)
    session_id: Id
    message_ids: Annotated[tuple[Id, ...], Field(min_length=1)]
    repeats: Annotated[int, Field(ge=0)] = 0
    started_at: UtcTime
    ended_at: UtcTime
    summary: Text = ""
    summary_author: Text = EXTRACTIVE
    created_at: UtcTime = Field(default_factory=utc_now)


class StoredMessage(BaseModel):
    """A message with the session and the block that it lies in (None while it is not sliced yet)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    message: Message
    session_id: Id
    block_id: Id | None = None
