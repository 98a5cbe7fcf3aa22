"""Cutting a session into blocks. Pure: messages in, slices out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from reme_core.errors import ConfigurationError
from reme_core.schema import Block, Message, utc_now
from reme_core.text import extractive_summary

_SUMMARY_CHARS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Slicing:
    """When a new block begins; besides, one begins with each message that is marked `starts_block`.

    Attributes:
        max_gap_s: After a silence longer than this.
        max_messages: When the block has this many messages.
        max_chars: When the block has at least this many characters.
        overlap: How many messages of the block before are repeated at the beginning.
    """

    max_gap_s: float = 1800.0
    max_messages: int = 20
    max_chars: int = 8000
    overlap: int = 0

    def __post_init__(self) -> None:
        """Check the numbers (ConfigurationError)."""
        if self.max_gap_s <= 0 or self.max_messages < 1 or self.max_chars < 1:
            msg = "slicing: max_gap_s, max_messages and max_chars must be above zero"
            raise ConfigurationError(msg)
        if not 0 <= self.overlap < self.max_messages:
            msg = f"slicing: overlap must lie between 0 and max_messages - 1, found {self.overlap}"
            raise ConfigurationError(msg)


@dataclass(frozen=True, slots=True)
class Slice:
    """Messages of one block; the first `repeats` of them are repeated from the one before."""

    messages: tuple[Message, ...]
    repeats: int


def slice_messages(messages: Sequence[Message], slicing: Slicing) -> list[Slice]:
    """Cut messages into slices that join to the whole (repeated ones left out).

    A tool call and its result are never cut apart, whatever the sizes.
    """
    closed = _cut_points(messages)
    slices: list[Slice] = []
    start, size = 0, 0
    for index, message in enumerate(messages):
        if index > start and index in closed and _is_boundary(messages, start, index, size, slicing):
            slices.append(_with_overlap(messages, start, index, slicing, closed))
            start, size = index, 0
        size += len(message.full_text)
    if start < len(messages):
        slices.append(_with_overlap(messages, start, len(messages), slicing, closed))
    return slices


def _cut_points(messages: Sequence[Message]) -> set[int]:
    """Return the places before which no tool call waits for a result that comes later."""
    answered_at: dict[str, int] = {}
    for index, message in enumerate(messages):
        answered_at.update(dict.fromkeys(message.result_ids, index))
    points: set[int] = set()
    open_until = 0
    for index, message in enumerate(messages):
        if index >= open_until:
            points.add(index)
        for call_id in message.call_ids:
            open_until = max(open_until, answered_at.get(call_id, -1) + 1)
    return points


def _is_boundary(messages: Sequence[Message], start: int, index: int, size: int, slicing: Slicing) -> bool:
    silence = (messages[index].created_at - messages[index - 1].created_at).total_seconds()
    return (
        messages[index].starts_block
        or silence > slicing.max_gap_s
        or index - start >= slicing.max_messages
        or size >= slicing.max_chars
    )


def _with_overlap(messages: Sequence[Message], start: int, end: int, slicing: Slicing, closed: set[int]) -> Slice:
    first = max(0, start - slicing.overlap)
    while first not in closed and first < start:
        first += 1
    return Slice(tuple(messages[first:end]), start - first)


def open_tail(messages: Sequence[Message]) -> int:
    """Return where the unanswered tool calls at the end begin, which the next messages may answer.

    A call that something else than a result followed was given up: it does not count.
    """
    answered = {call_id for message in messages for call_id in message.result_ids}
    for index in range(len(messages) - 1, -1, -1):
        if set(messages[index].call_ids) - answered:
            return index
        if not messages[index].result_ids:
            break
    return len(messages)


def make_block(session_id: str, piece: Slice) -> Block:
    """Make the block of a slice."""
    return block_from(session_id, piece.messages, repeats=piece.repeats)


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
        summary=extractive_summary([(m.speaker, m.full_text) for m in messages], limit_chars=_SUMMARY_CHARS),
        created_at=created_at or utc_now(),
    )
