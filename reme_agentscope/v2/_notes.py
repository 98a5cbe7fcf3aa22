"""Notes that show an agent what is known, once for each memory and context; the search for them and their ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agentscope.message import AssistantMsg, HintBlock, Msg
from agentscope.state import AgentState
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reme_agentscope.v2._increment import added
from reme_core.schema import found_line, found_text

if TYPE_CHECKING:
    from reme_core import ReMe
    from reme_core.schema import Hit


NOTE_NAME: Final = "memory"
"""The name of the message, as in AgentScope's own memory middlewares."""

_SOURCE = "reme"
_HEAD = "## Relevant memories from past conversations\nUse them only where they are pertinent to the current request."
# Of one memory; messages may have millions of characters.
_MEMORY_CHARS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesInContext:
    """What a context says itself, by message and by content."""

    message_ids: frozenset[str]
    digests: frozenset[str]

    def holds(self, hit: Hit) -> bool:
        """Tell whether all that a result says was said in this context."""
        says_nothing_else = bool(hit.message_ids) and self.message_ids.issuperset(hit.message_ids)
        return says_nothing_else or digest_of(hit.memory) in self.digests


def held_in(context: Sequence[Msg]) -> NotesInContext:
    """Return what a context says."""
    said = added(context, ())
    return NotesInContext(
        message_ids=frozenset(message.message_id for message in said),
        digests=frozenset(digest_of(message.text) for message in said),
    )


def digest_of(text: str) -> str:
    """Return what a content is known by; letter case and blanks don't make another one."""
    words = " ".join(text.casefold().split())
    return hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def choose(hits: Sequence[Hit], *, shown: Collection[str], held: NotesInContext, limit: int) -> list[Hit]:
    """Return the best results that the context neither shows nor says, each content once."""
    chosen: dict[str, Hit] = {}
    for hit in hits:
        digest = digest_of(hit.memory)
        if digest not in shown and digest not in chosen and not held.holds(hit):
            chosen[digest] = hit
    return list(chosen.values())[:limit]


def note_of(hits: Sequence[Hit]) -> tuple[Msg, dict[str, str]]:
    """Return the note, and for the digest of each memory the block that shows it."""
    block = HintBlock(hint=f"{_HEAD}\n{found_text(hits, max_chars=_MEMORY_CHARS)}", source=_SOURCE)
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
    """

    model_config = ConfigDict(extra="ignore")

    shown: dict[str, str] = Field(default_factory=dict)
    known: list[str] | None = None

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


# Found besides, in the place of what is left out.
_SPARE_HITS = 20
_MOST_HITS = 10_000  # that `retrieve` gives at once


async def search_memories(memory: ReMe, query: str, *, user_id: str, limit: int) -> list[Hit]:
    """Return up to `limit` results and some spare ones, best first.

    Left out are passages of what was offloaded: they are parts of a context with everything that was put into it, and
    only the session that they left can load the rest.

    Raises:
        ReMeError: What `retrieve` raises.
    """
    found = await memory.retrieve(query, user_id=user_id, limit=min(limit + _SPARE_HITS, _MOST_HITS))
    return [hit for hit in found.results if hit.reference is None]
