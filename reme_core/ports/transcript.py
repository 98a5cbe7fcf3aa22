"""The ports of the two lower layers: messages as they were said, and blocks with their index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from reme_core.ports.memory_store import Vector
from reme_core.schema import Block, Erased, Job, Message, Scope, StoredMessage, bounded_query

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
        want_vectors: Marks them as waiting for vectors; see `TranscriptIndex.pending_texts`.
        slicer: Cuts the session's messages that lie in no block yet, these included, into blocks, which are added in
            the same write. It is called within that write, so it must neither wait nor touch the transcript.
        planner: Says which jobs follow from the blocks just made (with the messages that were cut into them); they are
            added in the same write. Called as the slicer is, and only where there is one. For a transcript that is a
            `JobQueue` as well; another one must refuse it (UnsupportedFilterError).
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


class Transcript(Protocol):
    """Messages and blocks of many scopes: appended, never rewritten. Guarantees as `MemoryStore`.

    The entry that the index has of a block is written anew with the end of a job (`SettleJob.summaries`), where the
    transcript is a `JobQueue` as well.
    """

    async def append(self, scope: Scope, request: AppendMessages) -> Appended:
        """Add messages, all or none. Adding the same message again changes nothing.

        Raises:
            ConflictError: An id of this scope that belongs to a message with other content or another session, unless
                `on_conflict` says to rename it.
        """
        ...

    async def get_messages(self, scope: Scope, message_ids: Sequence[str]) -> list[StoredMessage]:
        """Return messages by id, in the order asked.

        Raises:
            MessageNotFoundError: Naming every id that this scope doesn't hold.
        """
        ...

    async def find_messages(self, scope: Scope, query: FindMessages) -> MessagePage:
        """Return one page of the messages that meet all conditions."""
        ...

    async def put_blocks(self, scope: Scope, blocks: Sequence[Block]) -> None:
        """Add blocks, all or none; their messages then lie in them. Adding an equal block again changes nothing.

        One of which the index says something else by now, here or where it comes from, is equal.

        Raises:
            MessageNotFoundError: A message that this scope doesn't hold in that session.
            ConflictError: The id of a block with other content; or a message, those that the block repeats apart, that
                lies in another block already: so two writers never slice the same messages twice.
        """
        ...

    async def get_blocks(self, scope: Scope, block_ids: Sequence[str]) -> list[Block]:
        """Return blocks by id, in the order asked.

        Raises:
            BlockNotFoundError: Naming every id that this scope doesn't hold.
        """
        ...

    async def list_blocks(self, scope: Scope, query: ListBlocks) -> BlockPage:
        """Return one page of blocks in the order of slicing."""
        ...

    async def erase(self, scope: Scope) -> Erased:
        """Remove everything of the scope for good. Nothing of it stays readable."""
        ...

    async def close(self) -> None:
        """Release what is held; later calls raise `StoreClosedError`. Closing twice is harmless."""
        ...


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
        by_time: List what lies in the time that `text` names, or everything that the filters let through where it names
            none, the most telling first, people before tools; no word is compared, `vector` and `lifts` count nothing.
        on_degraded: As in `MemorySearch`.
    """

    text: str
    vector: Vector | None = None
    limit: int = 10
    session_id: str | None = None
    said_from: datetime | None = None
    said_to: datetime | None = None
    now: datetime | None = None
    lifts: Mapping[str, float] = field(default_factory=dict)
    by_time: bool = False
    on_degraded: Callable[[str], None] | None = None

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
    """

    stored: StoredMessage
    score: float
    passage: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredBlock:
    """A block found by its summary, and its score: at most 1.0, higher is better."""

    block: Block
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageVector:
    """The vector of a `PendingText`, which it names; None gives up: message or memory is left to its words."""

    pending: PendingText
    vector: Vector | None


@runtime_checkable
class FillsVectors(Protocol):
    """A store that knows which of its texts have no vector yet, and takes it later.

    Every transcript that is searched does. A memory store may: what `PutMemory.wants_vector` marks then waits. One that
    does not leaves such memories to their words. A store of both tells both.
    """

    async def pending_texts(self, scope: Scope, limit: int) -> list[PendingText]:
        """Return texts that wait for vectors, memories first, each oldest first: `limit` and what a last message adds.

        Fewer than `limit` are all there are.
        """
        ...

    async def waiting_scopes(self, memory_space: str) -> list[Scope]:
        """Return the scopes of one memory space that have texts waiting for vectors, after a crash or a failure."""
        ...

    async def put_vectors(self, scope: Scope, vectors: Sequence[MessageVector]) -> None:
        """Store vectors, all or none; their texts then wait no longer. This is no change of a memory: it has no event.

        What was erased meanwhile, or says something else by now, is passed over. Vectors can be made again from what
        is durable: a power cut may take the last of them, and their texts then wait again.

        Raises:
            DimensionMismatchError: A vector of another length than those stored.
            InvalidInputError: A vector that is not finite or not of unit norm, or a key that is not one of ours.
        """
        ...


class TranscriptIndex(FillsVectors, Protocol):
    """Ranked search over a transcript. Kept apart, so that a plain transcript is easy to write."""

    async def search_messages(self, scope: Scope, search: MessageSearch) -> list[ScoredMessage]:
        """Return the best messages, highest score first; ties: newest first. Messages without vector have words.

        Raises:
            InvalidInputError: There is neither text nor vector, and the search is not by time.
        """
        ...

    async def search_blocks(self, scope: Scope, search: MessageSearch) -> list[ScoredBlock]:
        """Return the best blocks by their summaries, highest score first."""
        ...


class IndexedTranscript(Transcript, TranscriptIndex, Protocol):
    """A transcript that can be searched."""
