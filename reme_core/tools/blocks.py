"""The tools of the lower layers: a block, messages by word and time, everything of a range of time.

Messages and blocks have no target: whoever is given these tools may read all that was said in the scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, tzinfo

from pydantic import Field

from reme_core.errors import InvalidInputError, ToolFeedback, UnsupportedFilterError
from reme_core.ports import FindMessages, ListBlocks, ListMemories, ScoredBlock, ScoredMemory, ToolContext
from reme_core.retrieval.hits import block_hit, memory_hit
from reme_core.schema import STATEMENTS, Block, Memory
from reme_core.schema.checks import Id, Text
from reme_core.steps.provenance import READ_SCORE, note_hits
from reme_core.steps.targets import reachable
from reme_core.text import json_line, prompt_time, query_terms, shortened
from reme_core.tools.base import BaseMemoryToolOp, ToolItem
from reme_core.tools.clock import END_HELP, START_HELP, End, Start, check_range
from reme_core.tools.history import block_of, messages_of, show_messages
from reme_core.tools.search import memory_line

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
