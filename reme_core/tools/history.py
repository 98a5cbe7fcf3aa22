"""The tools for what was said: keep messages, and read those that a block or a memory comes from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from reme_core.errors import (
    BlockNotFoundError,
    InvalidInputError,
    MemoryNotFoundError,
    MessageNotFoundError,
    ToolFeedback,
)
from reme_core.ports import AppendMessages, ScoredMessage, ToolContext
from reme_core.retrieval.hits import message_hit
from reme_core.schema import Block, Memory, Message, StoredMessage, UtcTime, new_id, parse_messages
from reme_core.schema.checks import Id, Text
from reme_core.steps.provenance import READ_SCORE, note_hits
from reme_core.steps.slicing import block_from
from reme_core.steps.targets import may_touch, target_of
from reme_core.text import conversation_lines, json_line, prompt_time
from reme_core.tools.base import BaseMemoryToolOp, ToolItem

ANSWER_CHARS = 24_000
"""What one answer shows of messages: some 6,000 tokens, so that a few answers fit a window of 32,000."""

_MESSAGE_CHARS = 4000
# Clocks of two machines differ; what is dated later than this was dated wrongly.
_CLOCK_SKEW = timedelta(days=1)


def _spoken(value: str) -> str:
    if not value.strip():
        msg = "is empty: leave the message out"
        raise ValueError(msg)
    return value


class HistoryMessage(ToolItem):
    """A message to be kept."""

    role: Literal["system", "user", "assistant", "tool"] = Field(description="Who speaks.")
    content: Annotated[Text, AfterValidator(_spoken)] = Field(description="What was said, word for word.")
    name: Annotated[Text, Field(max_length=512)] | None = Field(default=None, description="The speaker's name.")
    created_at: UtcTime | None = Field(default=None, description="When it was said (UTC); left out: now.")


class AddHistoryItem(ToolItem):
    """Messages to be kept."""

    messages: list[HistoryMessage] = Field(min_length=1, max_length=500, description="The messages, in order.")


class AddHistoryMemoryOp(BaseMemoryToolOp[AddHistoryItem]):
    """Keeps messages as one block, in a session of its own."""

    name = "add_history_memory"
    description = "Keep messages word for word. Answers with the id under which read_history_memory finds them."
    item = AddHistoryItem

    async def execute(self, items: Sequence[AddHistoryItem], context: ToolContext) -> str:
        """Append the messages; see `BaseMemoryToolOp.execute`. They are durable at once, whatever the run comes to."""
        messages = _read_messages([message for item in items for message in item.messages], context)
        session_id = new_id()
        request = AppendMessages(
            session_id=session_id,
            messages=messages,
            want_vectors=context.embedder is not None,
            slicer=lambda waiting: [block_from(session_id, waiting, created_at=context.clock.now())],
        )
        appended = await context.store.append(context.scope, request)
        [block] = appended.blocks
        return json_line({"memory_id": block.block_id, "messages": len(messages)})


class ReadHistoryItem(ToolItem):
    """What to read."""

    memory_id: Id = Field(description="The id of a block, or of a memory whose origin is to be read.")


class ReadHistoryMemoryOp(BaseMemoryToolOp[ReadHistoryItem]):
    """Reads the messages of blocks, or of those that memories come from."""

    name = "read_history_memory"
    description = "Read word for word what was said: by the id of a memory that comes from it, or by the id of a block."
    item = ReadHistoryItem
    items_name = "memory_ids"
    plain_items = True
    is_concurrent = True

    async def execute(self, items: Sequence[ReadHistoryItem], context: ToolContext) -> str:
        """Read the messages, each once; see `BaseMemoryToolOp.execute`."""
        found: dict[str, StoredMessage] = {}
        for memory_id in dict.fromkeys(item.memory_id for item in items):
            for stored in await _origin(memory_id, context):
                found.setdefault(stored.message.message_id, stored)
        return show_messages(context, list(found.values())) or "the messages that this comes from are not kept here"


def show_messages(context: ToolContext, messages: Sequence[StoredMessage]) -> str:
    """Write messages as JSON lines, as many as an answer holds, and say what is left out; the trace gets the shown."""
    lines: list[str] = []
    size = 0
    for number, stored in enumerate(messages, 1):
        line = conversation_lines([stored.message], first=number, max_chars=_MESSAGE_CHARS)
        size += len(line)
        if lines and size > ANSWER_CHARS:
            break
        lines.append(line)
    shown, rest = messages[: len(lines)], messages[len(lines) :]
    note_hits(context, (message_hit(context.scope, ScoredMessage(stored=s, score=0.0), READ_SCORE) for s in shown))
    if rest:
        lines.append(_left_out([stored.message for stored in rest]))
    return "\n".join(lines)


async def block_of(block_id: str, context: ToolContext) -> Block:
    """Return a block of the scope (ToolFeedback from a BlockNotFoundError, if there is none)."""
    try:
        [block] = await context.store.get_blocks(context.scope, [block_id])
    except BlockNotFoundError as exc:
        msg = f"no block {block_id!r}: use a block id that was shown to you"
        raise ToolFeedback(msg) from exc
    return block


async def messages_of(message_ids: Iterable[str], context: ToolContext) -> list[StoredMessage]:
    """Return those of the messages that the scope holds, in the order asked."""
    wanted = list(dict.fromkeys(message_ids))
    if not wanted:
        return []
    try:
        return await context.store.get_messages(context.scope, wanted)
    except MessageNotFoundError as exc:  # sources may be named by hand, or come from an import without messages
        return await messages_of([name for name in wanted if name not in exc.missing], context)


async def _origin(memory_id: str, context: ToolContext) -> list[StoredMessage]:
    """Return the messages of a block, or of the sources of a memory that the call may read.

    Raises:
        ToolFeedback: There is neither.
    """
    blocks = await _find_blocks([memory_id], context)
    if blocks:
        return await messages_of(blocks[0].message_ids, context)
    memory = await _readable(memory_id, context)
    held = await _find_blocks([source.block_id for source in memory.sources if source.block_id], context)
    ids = [name for block in held for name in block.message_ids]
    return await messages_of([*ids, *(name for source in memory.sources for name in source.message_ids)], context)


async def _readable(memory_id: str, context: ToolContext) -> Memory:
    missing = f"no memory and no block {memory_id!r}: use an id that was shown to you"
    try:
        [memory] = await context.store.get(context.scope, [memory_id])
    except MemoryNotFoundError as exc:
        raise ToolFeedback(missing) from exc
    if not may_touch(context, target_of(memory)):
        raise ToolFeedback(missing) from MemoryNotFoundError([memory_id])
    return memory


async def _find_blocks(block_ids: Sequence[str], context: ToolContext) -> list[Block]:
    wanted = list(dict.fromkeys(block_ids))
    if not wanted:
        return []
    try:
        return await context.store.get_blocks(context.scope, wanted)
    except BlockNotFoundError as exc:
        return await _find_blocks([name for name in wanted if name not in exc.missing], context)


def _read_messages(items: Sequence[HistoryMessage], context: ToolContext) -> tuple[Message, ...]:
    now = context.clock.now()
    late = next((item for item in items if item.created_at is not None and item.created_at > now + _CLOCK_SKEW), None)
    if late is not None:
        msg = f"created_at of {late.content[:60]!r} lies in the future; nothing was kept: correct it, or leave it out"
        raise ToolFeedback(msg)
    try:
        return parse_messages([item.model_dump(exclude_none=True) for item in items], now=context.clock.now)
    except InvalidInputError as exc:
        msg = f"nothing was kept: {exc}"
        raise ToolFeedback(msg) from exc


def _left_out(messages: Sequence[Message]) -> str:
    times = sorted(message.created_at for message in messages)
    return (
        f"[{len(messages)} more messages are not shown, said from {prompt_time(times[0])} to {prompt_time(times[-1])} "
        "UTC: read on by these times or by a key word, where a tool takes them]"
    )
