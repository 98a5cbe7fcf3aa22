"""Increment of a context by a reply; the notes that show an agent what is known, their search and their ledger."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from agentscope.message import AssistantMsg, ContentBlock, HintBlock, Msg, TextBlock, ToolCallBlock, ToolResultBlock
from agentscope.state import AgentState
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reme_agentscope._shared.recorded_text import digest_of, is_injection
from reme_agentscope.v2.messages import from_agentscope
from reme_core.adapting import BLOCK_TOOLS, RELOAD_TOOL
from reme_core.schema import Message, found_line, found_text

if TYPE_CHECKING:
    from reme_core import ReMe
    from reme_core.schema import Hit


SEARCH_TOOL: Final = "memory_search"
ADD_TOOL: Final = "add_memory"
_OURS = frozenset({SEARCH_TOOL, ADD_TOOL, RELOAD_TOOL, *BLOCK_TOOLS})
_MESSAGE = "message:"


def keys_in(context: Sequence[Msg]) -> list[str]:
    """Return what names each message and block of a context."""
    keys = []
    seen: Counter[str] = Counter()
    for message in context:
        keys += [_MESSAGE + message.id, *_block_keys(message, seen)]
    return list(dict.fromkeys(keys))


def known_after(known: Iterable[str], context: Sequence[Msg]) -> list[str]:
    """Return what is known once everything of a context is recorded.

    Messages stay known when they have left: what grows later under the id of one is another message.
    """
    return list(dict.fromkeys([*(key for key in known if key.startswith(_MESSAGE)), *keys_in(context)]))


def added(context: Sequence[Msg], known: Iterable[str]) -> list[Message]:
    """Return what somebody said or did since, in order: no hints, no text that AgentScope wrote, no memories shown.

    The first part of a message has its id, each later part one that follows from its first block.
    """
    there = set(known)
    seen: Counter[str] = Counter()
    parts = []
    for message in context:
        keys = _block_keys(message, seen)
        new = [
            (key, block)
            for key, block in zip(keys, message.content, strict=True)
            if key not in there and is_said(block)
        ]
        if new:
            is_first = _MESSAGE + message.id not in there
            part_id = message.id if is_first else _part_id(message.id, new[0][0])
            parts.append(message.model_copy(update={"id": part_id, "content": [block for _, block in new]}))
        there.add(_MESSAGE + message.id)
    return from_agentscope(parts)


def is_said(block: ContentBlock) -> bool:
    """Tell whether a block belongs to the talk: neither a hint, nor a text of AgentScope's, nor of our own tools.

    What `memory_search` found is in the memory already, and would be found twice.
    """
    if isinstance(block, HintBlock):
        return False
    if isinstance(block, TextBlock):
        return bool(block.text.strip()) and not is_injection(name=None, text=block.text)
    return not (isinstance(block, ToolCallBlock | ToolResultBlock) and block.name in _OURS)


def _block_keys(message: Msg, seen: Counter[str]) -> list[str]:
    """Name blocks: a result has the id of its call, and some models give the same call ids in each step."""
    keys = []
    for block in message.content:
        name = f"{message.id}/{block.type}:{block.id}"
        seen[name] += 1
        keys.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return keys


def _part_id(message_id: str, key: str) -> str:
    return uuid.uuid5(uuid.NAMESPACE_OID, json.dumps([message_id, key])).hex


NOTE_NAME: Final = "memory"
"""The name of the message, as in AgentScope's own memory middlewares."""

_SOURCE = "reme"
_HEAD = "## Relevant memories from past conversations\nUse them only where they are pertinent to the current request."
# Of one memory; messages may have millions of characters.
_MEMORY_CHARS = 1_000


def note_text(hits: Sequence[Hit]) -> str:
    """Return what a note says."""
    return f"{_HEAD}\n{found_text(hits, max_chars=_MEMORY_CHARS)}"


def note_of(hits: Sequence[Hit]) -> tuple[Msg, dict[str, str]]:
    """Return the note, and for the digest of each memory the block that shows it."""
    block = HintBlock(hint=note_text(hits), source=_SOURCE)
    return AssistantMsg(name=NOTE_NAME, content=[block]), {digest_of(hit.memory): block.id for hit in hits}


def notes_in(context: Sequence[Msg]) -> frozenset[str]:
    """Return the ids of the blocks that are notes of ours."""
    blocks = (block for message in context if message.name == NOTE_NAME for block in message.content)
    return frozenset(block.id for block in blocks if isinstance(block, HintBlock))


def line_of(hit: Hit) -> str:
    """Return a result as one line for a model, with its day."""
    return found_line(hit.model_copy(update={"memory": " ".join(hit.memory.split())}), max_chars=_MEMORY_CHARS)


class NoteLedger(BaseModel):
    """The notes of one agent.

    Attributes:
        shown: For the digest of each memory that stands in the context, the block that shows it.
        known: What the context held when the reply began, or was recorded since; None outside a reply.
        blocks: The revisions of the memory blocks that the system prompt has shown.
    """

    model_config = ConfigDict(extra="ignore")

    shown: dict[str, str] = Field(default_factory=dict)
    known: list[str] | None = None
    blocks: dict[str, int] = Field(default_factory=dict)

    def forget_gone(self, context: Sequence[Msg]) -> None:
        """Forget what is no longer shown: it left the context."""
        there = notes_in(context)
        self.shown = {digest: block for digest, block in self.shown.items() if block in there}


def read_ledger(state: AgentState, key: str) -> NoteLedger:
    """Return what was kept; what is not ours, as of a state from elsewhere, counts as nothing."""
    try:
        return NoteLedger.model_validate(state.middle_context.get(key, {}))
    except ValidationError:
        return NoteLedger()


def write_ledger(state: AgentState, key: str, ledger: NoteLedger) -> None:
    """Keep it, as JSON."""
    state.middle_context[key] = ledger.model_dump(mode="json", exclude_none=True)


_SPARE_HITS = 20  # found besides, in the place of what is left out
_MOST_HITS = 10_000  # that `retrieve` gives at once


async def search_memories(
    memory: ReMe, query: str, *, user_id: str, limit: int, spare: int = _SPARE_HITS, min_score: float | None = None
) -> list[Hit]:
    """Return up to `limit` results and some spare ones, best first.

    Left out are passages of what was offloaded: they are parts of a context with everything that was put into it, and
    only the session that they left can load the rest.

    Raises:
        ReMeError: What `retrieve` raises.
    """
    most = min(limit + max(spare, _SPARE_HITS), _MOST_HITS)
    found = await memory.retrieve(query, user_id=user_id, limit=most, min_score=min_score)
    return [hit for hit in found.results if hit.reference is None]
