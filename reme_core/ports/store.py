"""The port of the store: everything that a memory keeps, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from reme_core.ports.embeddings import NewVectors, Reembedding, ReembedPage, TextsToReembed
from reme_core.ports.items import GetItems, IndexedBy, Item, ItemNamespaces, ListItemNamespaces, SearchItems, WriteItems
from reme_core.ports.memory_store import (
    ChangesPage,
    ChangesQuery,
    Counts,
    EventQuery,
    ListMemories,
    MemorySearch,
    ScoredMemory,
    Target,
    UseMemory,
    WriteBatch,
)
from reme_core.ports.offloads import (
    CleanOffloads,
    HoldOffloads,
    ListOffloads,
    OffloadPage,
    OffloadSearch,
    PutOffloads,
    ScoredOffload,
)
from reme_core.ports.transcript import (
    AddedToolCalls,
    Appended,
    AppendMessages,
    BlockPage,
    ClaimJob,
    FindMessages,
    ListBlocks,
    ListToolCalls,
    ListTools,
    MessagePage,
    MessageSearch,
    MessageVector,
    PendingText,
    ScoredBlock,
    ScoredMessage,
    SettleJob,
    ToolCallPage,
    ToolPage,
)
from reme_core.schema import (
    Blob,
    Block,
    CleanedOffloads,
    Erased,
    Event,
    Job,
    JobState,
    Memory,
    MemoryPage,
    OffloadRecord,
    Scope,
    StoredMessage,
    ToolCallResult,
    ToolStatistics,
)


@runtime_checkable
class Store(Protocol):
    """Memories, messages, blocks, jobs, offloads, tool calls and items of many scopes.

    Every call sees and touches one scope alone, and answers with values. It returns after what it says is on disk. A
    write is atomic; nothing acknowledged is lost. Any call raises `StoreError` (see its subclasses); none answers a
    failure with an empty list.

    Calls of items take the memory space instead, and reach no item of another one. Inside it the namespace is the
    boundary: a prefix covers whole labels, literally. Memories are reached by an `ItemRecord` or `RecordPlace` alone,
    which the caller builds from its own rules and never from what a model wrote. Deleting an item deletes its memory,
    deleting the memory its item, vectors included; a memory that was superseded is no item any more.
    """

    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        """Write a batch and return the stored memories of its puts, in their order.

        A memory's space and user must be those of `scope`. The store sets `revision`, and keeps `created_at`, `freq`
        and `utility` on updates. It lowers `trust` to that of the least trusted message that the sources name, as far
        as it holds these; a source without messages names all of its block.

        Raises:
            InvalidInputError: A memory of another scope, or a vector that is not finite, not of unit norm.
            MemoryNotFoundError: A delete names an id that this scope doesn't hold.
            ConflictError: An expected revision that isn't there, a duplicate that may not be, or an update that would
                make two equal current memories.
            DimensionMismatchError: A vector of another length than those stored.
            EmbeddingModelMismatchError: A vector of another model than those stored. So it is with every call that
                takes vectors and is told their model (`embedded_by`).
        """

    async def put_and_settle(self, scope: Scope, batch: WriteBatch, settle: SettleJob) -> list[Memory]:
        """Do `put` and `settle_job`, or neither; raises what they raise."""

    async def record_uses(self, scope: Scope, uses: Sequence[UseMemory]) -> list[Memory]:
        """Add to the counts of memories, all or none, and return the memories in the order given.

        Additions of several callers, in other processes too, all count. One that is named twice counts twice.

        Raises:
            MemoryNotFoundError: Naming every id that this scope doesn't hold.
            InvalidInputError: A count below zero, or none at all.
        """

    async def get(self, scope: Scope, memory_ids: Sequence[str]) -> list[Memory]:
        """Return memories by id, in the order asked, current or replaced.

        Raises:
            MemoryNotFoundError: Naming every id that this scope doesn't hold.
        """

    async def search(self, scope: Scope, search: MemorySearch) -> list[ScoredMemory]:
        """Return the best memories, highest score first; ties: newest first, then by id.

        Without text and vector there is nothing to rank by: InvalidInputError.

        Raises:
            UnsupportedFilterError: This store can't honour the filter.
            DimensionMismatchError: The query's vector has another length than those stored.
        """

    async def list_memories(self, scope: Scope, query: ListMemories) -> MemoryPage:
        """Return one page; pages of any size partition what does not change meanwhile.

        Raises:
            InvalidInputError: A cursor that is not one of ours.
            UnsupportedFilterError: This store can't honour the filter.
        """

    async def count_targets(self, scope: Scope) -> dict[Target, int]:
        """Return the number of current memories of each target, `meta` ones apart."""

    async def events(self, scope: Scope, query: EventQuery) -> list[Event]:
        """Return what happened, oldest first unless told otherwise.

        Events of deleted memories stay until the scope is erased.
        """

    async def memory_changes(self, scope: Scope, query: ChangesQuery) -> ChangesPage:
        """Return what an index of memories lacks since a position; vectors that came later are changes, too.

        Taking over page after page until `is_last` gives the state of the store at the time of the last one.
        """

    async def append(self, scope: Scope, request: AppendMessages) -> Appended:
        """Add messages, all or none. Adding the same message again changes nothing.

        Bytes of images and files that stand in them are kept apart in the same write, once a scope by their content;
        the message then holds their reference.

        Raises:
            BlobNotFoundError: A reference to bytes that this scope doesn't hold.
            InvalidInputError: Bytes that are broken, or more than `MAX_BLOB_BYTES`.
            ConflictError: An id of this scope that belongs to a message with other content or another session, unless
                `on_conflict` says to rename it.
        """

    async def get_messages(self, scope: Scope, message_ids: Sequence[str]) -> list[StoredMessage]:
        """Return messages by id, in the order asked.

        Raises:
            MessageNotFoundError: Naming every id that this scope doesn't hold.
        """

    async def get_blob(self, scope: Scope, ref: str) -> Blob:
        """Return an image or a file that a message refers to.

        Raises:
            BlobNotFoundError: This scope holds no such bytes.
            CorruptDataError: They are not those that were written.
        """

    async def find_messages(self, scope: Scope, query: FindMessages) -> MessagePage:
        """Return one page of the messages that meet all conditions."""

    async def search_messages(self, scope: Scope, search: MessageSearch) -> list[ScoredMessage]:
        """Return the best messages, highest score first; ties: newest first. Messages without vector have words.

        Raises:
            InvalidInputError: There is neither text nor vector, and the search is not by time.
        """

    async def put_blocks(self, scope: Scope, blocks: Sequence[Block]) -> None:
        """Add blocks, all or none; their messages then lie in them. Adding an equal block again changes nothing.

        One of which the index says something else by now, here or where it comes from, is equal.

        Raises:
            MessageNotFoundError: A message that this scope doesn't hold in that session.
            ConflictError: The id of a block with other content; or a message, those that the block repeats apart, that
                lies in another block already: so two writers never slice the same messages twice.
        """

    async def get_blocks(self, scope: Scope, block_ids: Sequence[str]) -> list[Block]:
        """Return blocks by id, in the order asked.

        Raises:
            BlockNotFoundError: Naming every id that this scope doesn't hold.
        """

    async def list_blocks(self, scope: Scope, query: ListBlocks) -> BlockPage:
        """Return one page of blocks in the order of slicing."""

    async def search_blocks(self, scope: Scope, search: MessageSearch) -> list[ScoredBlock]:
        """Return the best blocks by their summaries, highest score first."""

    async def pending_texts(self, scope: Scope, limit: int) -> list[PendingText]:
        """Return texts that wait for vectors, memories first, each oldest first: `limit` and what a last message adds.

        Fewer than `limit` are all there are.
        """

    async def waiting_scopes(self, memory_space: str) -> list[Scope]:
        """Return the scopes of one memory space that have texts waiting for vectors, after a crash or a failure."""

    async def put_vectors(self, scope: Scope, vectors: Sequence[MessageVector]) -> None:
        """Store vectors, all or none; their texts then wait no longer. This is no change of a memory: it has no event.

        What was erased meanwhile, or says something else by now, is passed over. Vectors can be made again from what
        is durable: a power cut may take the last of them, and their texts then wait again.

        Raises:
            DimensionMismatchError: A vector of another length than those stored.
            InvalidInputError: A vector that is not finite or not of unit norm, or a key that is not one of ours.
        """

    async def add_jobs(self, scope: Scope, jobs: Sequence[Job]) -> None:
        """Add jobs, all or none. Adding the same job again changes nothing (ConflictError for another one)."""

    async def claim_job(self, scope: Scope, claim: ClaimJob) -> Job | None:
        """Take the oldest job (by `created_at`, then in the order of adding) that may be begun; None if there is none.

        It is then `running`, with one more attempt.
        """

    async def settle_job(self, scope: Scope, settle: SettleJob) -> None:
        """End, prolong or give back a job.

        Raises:
            JobNotFoundError: This scope holds no such job: it was done, or the scope was erased.
            ConflictError: Somebody else holds it, or with owner None: somebody does.
        """

    async def list_jobs(self, scope: Scope, states: tuple[JobState, ...] | None = None) -> list[Job]:
        """Return the scope's jobs, oldest first; of these states, if given."""

    async def job_scopes(self, memory_space: str) -> list[Scope]:
        """Return the scopes of a memory space that have jobs, dead ones included."""

    async def put_offloads(self, scope: Scope, put: PutOffloads) -> list[str]:
        """Keep offloads, all or none; return their references in order.

        Raises:
            ConflictError: A reference that this scope has for something else.
            MessageNotFoundError: A pointer at messages that this scope doesn't hold.
        """

    async def get_offload(self, scope: Scope, reference: str) -> OffloadRecord:
        """Return an offload with its text.

        Raises:
            OffloadNotFoundError: This scope has no such reference: it never had, or its text was cleaned up.
        """

    async def list_offloads(self, scope: Scope, query: ListOffloads) -> OffloadPage:
        """Return one page of what there is, without the texts."""

    async def search_offloads(self, scope: Scope, search: OffloadSearch) -> list[ScoredOffload]:
        """Return the best passage of each offload that holds a word of the query, highest score first; ties: newest."""

    async def hold_offloads(self, scope: Scope, hold: HoldOffloads) -> None:
        """Say what an open session refers to. References that this scope doesn't have are passed over."""

    async def clean_offloads(self, scope: Scope, clean: CleanOffloads) -> CleanedOffloads:
        """Remove texts that may go, never one that an open session holds, and say which."""

    async def add_tool_calls(self, scope: Scope, calls: Sequence[ToolCallResult]) -> AddedToolCalls:
        """Record calls, all or none. Recording the same call again changes nothing.

        A call whose `create_time` was left out (it is not in `model_fields_set`) is the same whenever it was made.

        Raises:
            ConflictError: An id of this scope that belongs to a call with other content.
        """

    async def get_tool_calls(self, scope: Scope, call_ids: Sequence[str]) -> list[ToolCallResult]:
        """Return calls by id, in the order asked.

        Raises:
            ToolCallNotFoundError: Naming every id that this scope doesn't hold.
        """

    async def tool_statistics(self, scope: Scope, tool_names: Sequence[str]) -> list[ToolStatistics]:
        """Add up the calls of each tool, in the order asked; one without calls has zero of them."""

    async def list_tool_calls(self, scope: Scope, query: ListToolCalls) -> ToolCallPage:
        """Return one page of calls (InvalidInputError: a cursor that is not one of ours)."""

    async def list_tools(self, scope: Scope, query: ListTools) -> ToolPage:
        """Return one page of the tools that were called (InvalidInputError: a cursor that is not one of ours)."""

    async def get_items(self, memory_space: str, get: GetItems) -> list[Item | None]:
        """Return the items in the order asked, None where there is none."""

    async def search_items(self, memory_space: str, search: SearchItems) -> list[Item]:
        """Return a page; pages of any size partition what does not change meanwhile.

        Raises:
            InvalidInputError: A negative limit or offset, or a vector that is not finite or not of unit norm.
            DimensionMismatchError: The vector has another length than those stored.
        """

    async def list_item_namespaces(self, memory_space: str, query: ListItemNamespaces) -> ItemNamespaces:
        """Return where there are items."""

    async def write_items(self, memory_space: str, write: WriteItems) -> None:
        """Write all or nothing; an address that is emptied may be empty.

        A put keeps `created_at` of the item it replaces, and moves `updated_at` forward in any case.

        Raises:
            InvalidInputError: An address, a value or vectors that can't be stored, naming it.
            DimensionMismatchError: Vectors of another length than those stored.
        """

    async def sweep_items(self, memory_space: str, at: datetime) -> int:
        """Remove the items whose time is over, with their memories and vectors; return how many."""

    async def find_index(self, memory_space: str) -> IndexedBy | None:
        """Return what makes the vectors of a memory space, None while none were made."""

    async def claim_index(self, memory_space: str, indexed: IndexedBy) -> IndexedBy:
        """Record what makes the vectors of a memory space, unless that stands there; return what stands there.

        Vectors of no known model (`IndexedBy.model` is None) become those of the first one that claims them.

        Raises:
            DimensionMismatchError: They have no known model, and another dimension.
        """

    async def begin_reembedding(self, memory_space: str, target: IndexedBy) -> Reembedding:
        """Begin, or go on, to replace all vectors of a memory space by those of another model; say how far that is.

        Searches and writes go on with the old vectors. What is put by `put_new_vectors` is durable, and counts only
        when `end_reembedding` takes over all of it at once.

        Raises:
            ConflictError: A change to another model is under way.
        """

    async def texts_to_reembed(self, memory_space: str, page: ReembedPage) -> TextsToReembed:
        """Return texts that have an old vector and no new one; none where no change is under way.

        Behind the last page others may have come.
        """

    async def put_new_vectors(self, memory_space: str, put: NewVectors) -> None:
        """Keep vectors of the new model, all or none. What was erased meanwhile is passed over.

        Where another process has ended the change meanwhile, this does nothing.

        Raises:
            ConflictError: No change to this model is under way, nor has one ended.
            DimensionMismatchError: A vector of another length than that of the new model.
            InvalidInputError: A vector that is not finite or not of unit norm, or a key that is not one of ours.
        """

    async def end_reembedding(self, memory_space: str, target: IndexedBy | None) -> bool:
        """Take over all new vectors of a model in place of the old ones, at once; False where some items lack theirs.

        Messages and memories that lack one wait for it, as new ones do. None gives the change up: the old vectors stay.
        Where another process has ended the change meanwhile, this does nothing.

        Raises:
            ConflictError: No change to this model is under way, nor has one ended.
        """

    async def count(self, scope: Scope) -> Counts:
        """Return how much the scope holds."""

    async def erase(self, scope: Scope) -> Erased:
        """Remove everything of the scope for good: memories, vectors, texts, events. Nothing of it stays readable."""

    async def close(self) -> None:
        """Release what is held; later calls raise `StoreClosedError`. Closing twice is harmless."""
