"""Answers of the facade's calls; each can also be read like a dictionary."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field, JsonValue

from reme_core.schema.mapping import MappingModel
from reme_core.schema.memories import Memory, MemoryType
from reme_core.schema.notes import found_text
from reme_core.schema.times import TimePrecision
from reme_core.schema.usage import Usage

Layer = Literal["memory", "summary", "message"]


class Hit(MappingModel):
    """Something found.

    Attributes:
        memory: The text.
        layer: `memory` (a distilled statement), `summary` (a block's index entry) or `message` (what was said).
        score: In [0, 1], higher is better; comparable within one answer.
        memory_id: Of a memory.
        block_id: Of a summary; for a message, the block it lies in.
        message_ids: The messages it comes from; a message names itself.
        block_ids: The blocks it comes from.
        memory_type: Of a memory.
        memory_target: Of a memory.
        when_to_use: Of a memory: in which situation it helps, where that is said.
        name: Who said it (a message).
        role: The role of who said it (a message).
        session_id: The session of a message or a block.
        passage: Of a long message, where in its text the passage stands that says most: the number of its first
            character, and that behind its last.
        is_passage: Whether `memory` is no more than this passage, since a budget had no room for all of it, with "[…]"
            where it was cut; `get_messages` has the rest.
        reference: Of a passage of an offloaded text, layer `message`: what `reload_context` takes.
        user_id: Whose it is; empty where it comes from the shared scope.
        created_at: When it was said (message), stored (memory) or begun (block).
        observed_at: When what a memory states was said.
        valid_from: Since when a memory holds.
        valid_from_precision: How much of that was told; see `Memory`.
        valid_to: Until when a memory holds or held; its own time, which may be over.
        valid_to_precision: How much of that was told.
        superseded_by: The memory that has replaced it; found where replaced ones are asked for.
        metadata: That of the memory or message.
    """

    memory: str
    layer: Layer
    score: float
    memory_id: str | None = None
    block_id: str | None = None
    message_ids: tuple[str, ...] = ()
    block_ids: tuple[str, ...] = ()
    memory_type: MemoryType | None = None
    memory_target: str | None = None
    when_to_use: str = ""
    name: str | None = None
    role: str | None = None
    session_id: str | None = None
    passage: tuple[int, int] | None = None
    is_passage: bool = False
    reference: str | None = None
    user_id: str = ""
    created_at: datetime | None = None
    observed_at: datetime | None = None
    valid_from: datetime | None = None
    valid_from_precision: TimePrecision = TimePrecision.EXACT
    valid_to: datetime | None = None
    valid_to_precision: TimePrecision = TimePrecision.EXACT
    superseded_by: str | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)


class RetrieveResult(MappingModel):
    """The answer of `retrieve`, best first.

    Attributes:
        results: What was found.
        answer: The text of an agentic retriever; None for the simple one.
        by_time: Whether the question was about a time alone: what lies there is listed, no word was compared.
        usage: What it cost.
        degraded: What could not do all, one short sentence each; empty where everything could.
    """

    results: tuple[Hit, ...] = ()
    answer: str | None = None
    by_time: bool = False
    usage: Usage = Usage()
    degraded: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The results ready for a prompt: dated, with who said them, quoted as data; "" where nothing was found.

        Days, speakers and the two lines around it come on top of a `token_budget`: some 10 tokens a result.
        """
        return found_text(self.results)


class RejectedFact(MappingModel):
    """Something that a model wrote as a fact and that could not be used.

    Attributes:
        content: What it says, or all of it where that can't be told; cut to some 300 characters.
        reason: What is wrong with it.
    """

    content: str
    reason: str


class SummaryResult(MappingModel):
    """The answer of `summary`; all of it is on disk when it is returned.

    Attributes:
        session_id: The session that the messages were added to.
        message_ids: The messages handed in, in order, by the ids under which they lie.
        known_message_ids: Those of them that were there already, and so were not added again.
        block_ids: The blocks that were sliced.
        memories: The memories written.
        run_id: The run that wrote them, for `undo`; None where no memory was written.
        run_ids: All of them: a call of many messages is more than one run.
        job_ids: Work on these messages that is still to be done, in the background or after a failure.
        rejected: Facts that the model wrote twice in a form that can't be used; the others are kept. What another
            process has left out is not told.
        usage: What it cost.
        degraded: What failed and was done without, one short sentence each; empty where nothing did.
    """

    session_id: str
    message_ids: tuple[str, ...] = ()
    known_message_ids: tuple[str, ...] = ()
    block_ids: tuple[str, ...] = ()
    memories: tuple[Memory, ...] = ()
    run_id: str | None = None
    run_ids: tuple[str, ...] = ()
    job_ids: tuple[str, ...] = ()
    rejected: tuple[RejectedFact, ...] = ()
    usage: Usage = Usage()
    degraded: tuple[str, ...] = ()


class ChatReply(MappingModel):
    """The answer of `chat`.

    Attributes:
        text: What was answered.
        session_id: The session; hand it in to go on with it.
        results: What the agent looked up, in the order in which it was found; if it looked up nothing, what was found
            for it before.
        job_ids: Work on this turn that goes on in the background.
        usage: What it cost, the background apart.
        degraded: What failed and was done without, one short sentence each; empty where nothing did.
    """

    text: str
    session_id: str
    results: tuple[Hit, ...] = ()
    job_ids: tuple[str, ...] = ()
    usage: Usage = Usage()
    degraded: tuple[str, ...] = ()


class MemoryPage(MappingModel):
    """One page of memories; `next_cursor` asks for the next one and is None on the last."""

    memories: tuple[Memory, ...] = ()
    next_cursor: str | None = None


class UndoResult(MappingModel):
    """What `undo` took back: memories put back as they were, and memories removed that the run had added."""

    run_id: str
    undo_run_id: str
    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class Erased(MappingModel):
    """What a deletion of a whole scope removed."""

    memories: int = 0
    messages: int = 0
    blocks: int = 0
    events: int = 0
    jobs: int = 0
    offloads: int = 0
    tool_calls: int = 0
