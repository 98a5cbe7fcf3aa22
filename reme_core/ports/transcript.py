"""The port of what was said and done: messages, blocks and tool calls; and of the work that follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from pydantic import JsonValue

from reme_core.ports.memory_store import Vector
from reme_core.schema import Block, Job, Message, StoredMessage, ToolCallResult, TrustClass, bounded_query
from reme_core.schema.mapping import told_items

WAITING = 256
"""Texts that an append hands back to be embedded."""

OnConflict: TypeAlias = Literal["raise", "rename"]

Slicer: TypeAlias = Callable[[Sequence[Message]], Sequence[Block]]

Planner: TypeAlias = Callable[[Sequence[Message], Sequence[Block]], Sequence[Job]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingText:
    """A message, or a memory, that waits for its vector.

    `key` is the store's own and goes back with the vector; `text` is what to embed: `Name: text`, the role in place of
    a missing name; of a memory its `index_text`. A long text waits in passages, each with the name before it. Windows
    of several messages need no vectors of their own: what stands nearby is scored from the vectors of the messages,
    which measured no worse (docs/retrieval.md).
    """

    key: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendMessages:
    """Messages to be added at the end of a session, in order.

    Attributes:
        session_id: The session.
        messages: The messages; may be empty, to slice what is left.
        want_vectors: Marks them as waiting for vectors; see `Store.pending_texts`.
        slicer: Cuts the session's messages that lie in no block yet, these included, into blocks, which are added in
            the same write. It is called within that write, so it must neither wait nor touch the transcript.
        planner: Says which jobs follow from the blocks just made (with the messages that were cut into them); they are
            added in the same write. Called as the slicer is, and only where there is one.
        on_conflict: Of a message whose id belongs to other content or to another session: `raise` refuses all of them,
            `rename` keeps it under the first of `renamings` that is free, or knows it there already.
    """

    session_id: str
    messages: Sequence[Message]
    want_vectors: bool = False
    slicer: Slicer | None = None
    planner: Planner | None = None
    on_conflict: OnConflict = "raise"


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What an append did.

    Attributes:
        added: Ids of the messages that were added.
        known: Ids of those that were there already, unchanged.
        blocks: The blocks that the slicer made.
        waiting: Where vectors are wanted: what `pending_texts` gives of `WAITING`.
        jobs: The jobs that the planner asked for.
        renamed: Of those that lie under another id than their own: that id, by their own.
    """

    added: tuple[str, ...]
    known: tuple[str, ...]
    blocks: tuple[Block, ...] = ()
    waiting: tuple[PendingText, ...] = ()
    jobs: tuple[Job, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindMessages:
    """Which messages of a scope; every condition holds at once, None means any.

    Attributes:
        keyword: The text holds every word of this one (words as the index sees them: stemmed, case ignored).
        session_id: Of this session.
        said_from: Said at this time or later.
        said_to: Said before this time.
        unsliced: Only those that lie in no block yet.
        limit: At most this many.
        cursor: From the page before.
        newest_first: Order: that of appending, or its reverse.
    """

    keyword: str | None = None
    session_id: str | None = None
    said_from: datetime | None = None
    said_to: datetime | None = None
    unsliced: bool = False
    limit: int = 50
    cursor: str | None = None
    newest_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    """One page of messages; `next_cursor` is None on the last."""

    messages: tuple[StoredMessage, ...]
    next_cursor: str | None = None

    def __str__(self) -> str:
        """Tell how many there are, and the first of them, a line each."""
        return told_items(f"MessagePage(messages=[{len(self.messages)}])", self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListBlocks:
    """Which blocks of a scope, in the order of slicing; times overlap [said_from, said_to)."""

    session_id: str | None = None
    said_from: datetime | None = None
    said_to: datetime | None = None
    limit: int = 100
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPage:
    """One page of blocks; `next_cursor` is None on the last."""

    blocks: tuple[Block, ...]
    next_cursor: str | None = None

    def __str__(self) -> str:
        """Tell how many there are, and the first of them, a line each."""
        return told_items(f"BlockPage(blocks=[{len(self.blocks)}])", self.blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSummary:
    """What the block index is to say of a block; the block itself and its messages stay as they are.

    Attributes:
        block_id: The block.
        summary: The entry.
        author: Who wrote it; not `extractive`.
    """

    block_id: str
    summary: str
    author: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSearch:
    """A search over messages or blocks.

    Attributes:
        text: The query as asked: its words, and the speaker and dates that it names. Empty means by vector or time.
        vector: Its vector; None means by words alone.
        limit: At most this many, at least 1.
        session_id: Of this session only.
        said_from: Said at this time or later.
        said_to: Said before this time.
        now: The time of asking, for relative dates in the query.
        lifts: Additions in [0, 1] to the scores of messages, by message id: sources of memories that were found.
        trust: Messages of one of these classes; see `TrustClass`. Blocks have none, and know no such filter.
        by_time: List what lies in the time that `text` names, or everything that the filters let through where it names
            none, the most telling first, people before tools; no word is compared, `vector` and `lifts` count nothing.
        on_degraded: As in `MemorySearch`.
        embedded_by: As in `MemorySearch`.
        explain: As in `MemorySearch`.
        only: As in `MemorySearch`.
    """

    text: str
    vector: Vector | None = None
    limit: int = 10
    session_id: str | None = None
    said_from: datetime | None = None
    said_to: datetime | None = None
    now: datetime | None = None
    lifts: Mapping[str, float] = field(default_factory=dict)
    trust: tuple[TrustClass, ...] | None = None
    by_time: bool = False
    on_degraded: Callable[[str], None] | None = None
    embedded_by: str | None = None
    explain: bool = False
    only: str | None = None

    def __post_init__(self) -> None:
        """Take the beginning of a pasted text; see `bounded_query`."""
        object.__setattr__(self, "text", bounded_query(self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredMessage:
    """A message found.

    Attributes:
        stored: The message.
        score: At most 1.0, higher is better.
        passage: Of a long text, where in its `full_text` the passage stands that says most: the number of its first
            character, and that behind its last. None: the text is short.
        similarity: The cosine with the query; None where either has no vector.
        parts: Add up to the score, where the search asks for them.
        place: Among all, from 1, where the search asks for it.
    """

    stored: StoredMessage
    score: float
    passage: tuple[int, int] | None = None
    similarity: float | None = None
    parts: Mapping[str, float] | None = None
    place: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredBlock:
    """A block found by its summary, and its score: at most 1.0, higher is better; the rest as in `ScoredMessage`."""

    block: Block
    score: float
    parts: Mapping[str, float] | None = None
    place: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageVector:
    """The vector of a `PendingText`, which it names; None gives up: message or memory is left to its words.

    `embedded_by` names the model of the vector, where that is known.
    """

    pending: PendingText
    vector: Vector | None
    embedded_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedToolCalls:
    """What an addition did.

    Attributes:
        added: Ids of the calls that were recorded.
        known: Ids of those that were recorded already.
    """

    added: tuple[str, ...]
    known: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListToolCalls:
    """Which calls of a scope; every condition holds at once, None means any.

    Attributes:
        tool_name: Of this tool, compared character by character.
        success: Those that succeeded, or those that failed.
        error: Failures of this kind, as `ToolError.error` names it.
        limit: At most this many, at least 1.
        cursor: From the page before, of the same query.
        newest_first: Latest `create_time` first, ties: recorded last first; otherwise the reverse.
    """

    tool_name: str | None = None
    success: bool | None = None
    error: str | None = None
    limit: int = 100
    cursor: str | None = None
    newest_first: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallPage:
    """One page of calls; `next_cursor` is None on the last."""

    calls: tuple[ToolCallResult, ...]
    next_cursor: str | None = None

    def __str__(self) -> str:
        """Tell how many there are, and the first of them, a line each."""
        return told_items(f"ToolCallPage(calls=[{len(self.calls)}])", self.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTools:
    """A page of the tools that were called: by name (code points). `cursor` comes from the page before."""

    limit: int = 100
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPage:
    """One page of tools with the number of their calls; `next_cursor` is None on the last."""

    tools: tuple[tuple[str, int], ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimJob:
    """Asks for the oldest job that may be begun.

    At most one job of a scope runs at a time: as long as one is held, no other is given out. A job is held while
    `held_until` lies ahead and its owner is not gone; one that is not held any more is begun anew.

    Attributes:
        owner: Who asks: a process and a place in it.
        now: The time of asking.
        hold: For how long, unless renewed.
        is_gone: Tells of an owner whether it certainly is no more; called within the write, so it must not wait.
        kinds: Jobs of these kinds.
        waiting: Also those that are not due yet.
        skip: Not these jobs.
    """

    owner: str
    now: datetime
    hold: timedelta
    is_gone: Callable[[str], bool]
    kinds: tuple[str, ...]
    waiting: bool = False
    skip: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleJob:
    """Ends, prolongs or gives back a job.

    Attributes:
        job_id: Which.
        owner: Who holds it. None: nobody does; to revive or drop one by hand.
        outcome: `done` or `drop`: it is removed. `retry`: pending from `due_at` on. `release`: the same, and the
            attempt doesn't count. `renew`: held until `held_until`. `dead`: given up. `revive`: pending as if new.
        due_at: For `retry`, `release` and `revive`.
        held_until: For `renew`.
        error: For `retry` and `dead`: why.
        raw: For `retry` and `dead`: the model's answer, if that was why.
        payload: Replaces the payload, if given (what is left to do), and gives the job a new run id.
        summaries: Entries of the block index that are written with it, where the queue keeps blocks as well. One of a
            block that is gone is passed over.
    """

    job_id: str
    owner: str | None
    outcome: Literal["done", "drop", "retry", "release", "renew", "dead", "revive"]
    due_at: datetime | None = None
    held_until: datetime | None = None
    error: str = ""
    raw: str = ""
    payload: Mapping[str, JsonValue] | None = None
    summaries: Sequence[BlockSummary] = ()
