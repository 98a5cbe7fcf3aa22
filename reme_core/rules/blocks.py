"""The block of some messages, with the entry that the index has of it without a model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from reme_core.schema import Block, Message, utc_now
from reme_core.text import extractive_summary

SUMMARY_CHARS = 400


def block_from(
    session_id: str, messages: Sequence[Message], *, repeats: int = 0, created_at: datetime | None = None
) -> Block:
    """Make the block of messages, at least one; its index entry is taken from them word for word."""
    times = [message.created_at for message in messages]
    return Block(
        session_id=session_id,
        message_ids=tuple(message.message_id for message in messages),
        repeats=repeats,
        started_at=min(times),
        ended_at=max(times),
        summary=extractive_summary([(m.speaker, m.full_text) for m in messages], limit_chars=SUMMARY_CHARS),
        created_at=created_at or utc_now(),
    )
