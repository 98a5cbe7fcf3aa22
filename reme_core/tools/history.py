"""Tools for what was said: keep messages, read blocks and what a memory comes from, find by word and by time.

Messages and blocks have no target: whoever is given these tools may read all that was said in the scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from reme_core.errors import (
    BlockNotFoundError,
    InvalidInputError,
    MemoryNotFoundError,
    ToolFeedback,
    UnsupportedFilterError,
)
from reme_core.ports import (
    AppendMessages,
    FindMessages,
    ListBlocks,
    ListMemories,
    ScoredBlock,
    ScoredMemory,
    ScoredMessage,
    ToolContext,
)
from reme_core.retrieval.hits import block_hit, memory_hit, message_hit
from reme_core.schema import STATEMENTS, Block, Memory, Message, StoredMessage, UtcTime, new_id, parse_messages
from reme_core.schema.checks import Id, Text
from reme_core.steps.message_lines import find_all, find_messages_by_id
from reme_core.steps.slicing import block_from
from reme_core.steps.targets import READ_SCORE, may_touch, note_hits, reachable, target_of
from reme_core.steps.user_input import check_not_future
from reme_core.text import conversation_lines, json_line, prompt_time, query_terms, shortened
from reme_core.tools.base import BaseMemoryToolOp, ToolItem
from reme_core.tools.search import memory_line
from reme_core.tools.without_memory import END_HELP, START_HELP, End, Start, check_range

ANSWER_CHARS = 24_000
"""What one answer shows of messages: some 6,000 tokens, so that a few answers fit a window of 32,000."""

_MESSAGE_CHARS = 4000


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
        line = conversation_lines([stored.message], first=number, max_chars=_MESSAGE_CHARS, zone=context.zone)
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
    return list((await find_messages_by_id(context.store, context.scope, message_ids)).values())


async def _origin(memory_id: str, context: ToolContext) -> list[StoredMessage]:
    """Return the messages of a block, or of the sources of a memory that the call may read.

    Raises:
        ToolFeedback: There is neither.
    """
    read_blocks = partial(context.store.get_blocks, context.scope)
    blocks = await find_all(read_blocks, [memory_id])
    if blocks:
        return await messages_of(blocks[0].message_ids, context)
    memory = await _readable(memory_id, context)
    held = await find_all(read_blocks, [source.block_id for source in memory.sources if source.block_id])
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


def _read_messages(items: Sequence[HistoryMessage], context: ToolContext) -> tuple[Message, ...]:
    try:
        messages = parse_messages([item.model_dump(exclude_none=True) for item in items], now=context.clock.now)
        check_not_future(messages, context.clock.now())
    except InvalidInputError as exc:
        msg = f"nothing was kept: {exc}"
        raise ToolFeedback(msg) from exc
    return messages


def _left_out(messages: Sequence[Message]) -> str:
    times = sorted(message.created_at for message in messages)
    return (
        f"[{len(messages)} more messages are not shown, said from {prompt_time(times[0])} to {prompt_time(times[-1])} "
        "UTC: read on by these times or by a key word, where a tool takes them]"
    )


MAX_MESSAGES = 200
_MOST_BLOCKS = _MOST_MEMORIES = 50
_SUMMARY_CHARS = 600


class RetrieveBlockItem(ToolItem):
    """A block."""

    block_id: Id = Field(description="The id of the block, as a search or a list has shown it.")


class RetrieveBlockOp(BaseMemoryToolOp[RetrieveBlockItem]):
    """Reads one block: its entry in the index, and its messages."""

    name = "retrieve_block"
    description = "Read a block: what the index says of it, and its messages word for word."
    item = RetrieveBlockItem
    is_concurrent = True

    async def execute(self, items: Sequence[RetrieveBlockItem], context: ToolContext) -> str:
        """Read the block; see `BaseMemoryToolOp.execute`."""
        parts = []
        for item in items:
            block = await block_of(item.block_id, context)
            parts += [
                block_line(block, context.zone),
                show_messages(context, await messages_of(block.message_ids, context)),
            ]
        return "\n".join(parts)


class RetrieveMessageItem(ToolItem):
    """Which messages."""

    key_word: Text | None = Field(default=None, description="Only messages that hold every word of this one.")
    start_time: Start | None = Field(default=None, description=START_HELP)
    end_time: End | None = Field(default=None, description=END_HELP)
    limit: int = Field(default=50, ge=1, le=MAX_MESSAGES, description="At most this many, the latest ones.")


class RetrieveMessageOp(BaseMemoryToolOp[RetrieveMessageItem]):
    """Finds messages by a key word and by time."""

    name = "retrieve_message"
    description = "Find messages by a key word, by the time when they were said, or by both; shown in order."
    item = RetrieveMessageItem
    is_concurrent = True

    async def execute(self, items: Sequence[RetrieveMessageItem], context: ToolContext) -> str:
        """Find the messages; see `BaseMemoryToolOp.execute`."""
        parts: list[str] = []
        for item in items:
            check_range(item.start_time, item.end_time)
            _check_word(item.key_word)
            query = FindMessages(
                keyword=item.key_word,
                said_from=item.start_time,
                said_to=item.end_time,
                limit=item.limit,
                newest_first=True,
            )
            try:
                page = await context.store.find_messages(context.scope, query)
            except (InvalidInputError, UnsupportedFilterError) as exc:
                raise ToolFeedback(str(exc)) from exc
            parts.append(show_messages(context, page.messages[::-1]) or "no messages found")
            if page.next_cursor is not None:
                parts.append("[earlier messages are not shown: ask again with an earlier end_time]")
        return "\n".join(parts)


class TimeRangeItem(ToolItem):
    """A range of time."""

    start_time: Start = Field(description=START_HELP)
    end_time: End = Field(description=END_HELP)


class TimeAwareRetrieveOp(BaseMemoryToolOp[TimeRangeItem]):
    """Lists what was said and learned in a range of time: blocks by their index, memories that the call may read."""

    name = "time_aware_retrieve"
    description = "List what was talked about, and what was remembered, in a range of time."
    item = TimeRangeItem
    is_concurrent = True

    async def execute(self, items: Sequence[TimeRangeItem], context: ToolContext) -> str:
        """List blocks, then memories; see `BaseMemoryToolOp.execute`."""
        parts: list[str] = []
        for item in items:
            check_range(item.start_time, item.end_time)
            parts += await _blocks(item.start_time, item.end_time, context)
            parts += await _memories(item.start_time, item.end_time, context)
        return "\n".join(parts) or "nothing was said and nothing learned in this time"


def block_line(block: Block, zone: tzinfo) -> str:
    """Write a block's entry in the index on one line."""
    begun, ended = prompt_time(block.started_at, zone), prompt_time(block.ended_at, zone)
    fields = {"block_id": block.block_id, "from": begun, "to": ended}
    return json_line({**fields, "summary": shortened(block.summary, _SUMMARY_CHARS)})


async def _blocks(start: datetime, end: datetime, context: ToolContext) -> list[str]:
    query = ListBlocks(said_from=start, said_to=end, limit=_MOST_BLOCKS)
    page = await context.store.list_blocks(context.scope, query)
    found = (ScoredBlock(block=block, score=0.0) for block in page.blocks)
    note_hits(context, (block_hit(context.scope, item, READ_SCORE) for item in found))
    lines = [block_line(block, context.zone) for block in page.blocks]
    return [*lines, _more("blocks")] if page.next_cursor is not None else lines


async def _memories(start: datetime, end: datetime, context: ToolContext) -> list[str]:
    memories: list[Memory] = []
    has_more = False
    for wanted in reachable(context, STATEMENTS):
        of_it = replace(wanted, during_from=start, during_to=end)
        query = ListMemories(filter=of_it, limit=_MOST_MEMORIES)
        page = await context.store.list_memories(context.scope, query)
        memories += page.memories
        has_more = has_more or page.next_cursor is not None
    memories.sort(key=lambda memory: memory.observed_at)
    note_hits(context, (memory_hit(ScoredMemory(memory=memory, score=0.0), READ_SCORE) for memory in memories))
    lines = [memory_line(memory, context.zone) for memory in memories]
    return [*lines, _more("memories")] if has_more else lines


def _more(what: str) -> str:
    return f"[more {what} are not shown: ask for a shorter range]"


def _check_word(word: str | None) -> None:
    if word is not None and not query_terms(word):
        msg = (
            f"key_word {word!r:.60} has no word to look for (only blanks, signs or words like 'the'): name another one"
        )
        raise ToolFeedback(msg)
