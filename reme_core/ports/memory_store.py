"""The port of memories: of those that a store keeps, and of an index beside it that can be built anew from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from reme_core.schema import Memory, MemoryType, Scope, TrustClass, bounded_query
from reme_core.schema.mapping import MappingModel

Vector: TypeAlias = npt.NDArray[np.float32]
"""Shape (d,), unit norm."""

Matrix: TypeAlias = npt.NDArray[np.float32]
"""Shape (n, d), rows of unit norm."""

Scalar: TypeAlias = str | int | float | bool | None


class Target(NamedTuple):
    """What memories are about, within a scope: a type and a name."""

    memory_type: MemoryType
    memory_target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilter:
    """Which memories of a scope are meant. Every condition holds at once; None means any.

    Attributes:
        types: One of these types.
        targets: One of these targets.
        as_of: Those that held at this time (valid_from <= as_of < valid_to), replaced since or not. None: the current
            ones, those that nothing has replaced, whatever their own time.
        include_superseded: Also those that were replaced; not together with `as_of`.
        observed_from: Said at this time or later.
        observed_to: Said before this time.
        during_from: Said at this time or later, or beginning at it or later, or holding at it and ending later. What
            began before and holds without an end is of no time.
        during_to: Said, or beginning, before this time.
        metadata: These keys of the metadata have exactly these values (true is not 1; 1 equals 1.0).
        keyword: The indexed text holds every word of this one.
        trust: Of one of these classes; see `TrustClass`.
        telling_relations: It tells relations.
    """

    types: tuple[MemoryType, ...] | None = None
    targets: tuple[str, ...] | None = None
    as_of: datetime | None = None
    include_superseded: bool = False
    observed_from: datetime | None = None
    observed_to: datetime | None = None
    during_from: datetime | None = None
    during_to: datetime | None = None
    metadata: Mapping[str, Scalar] = field(default_factory=dict)
    keyword: str | None = None
    trust: tuple[TrustClass, ...] | None = None
    telling_relations: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PutMemory:
    """One memory to be written.

    Attributes:
        memory: The new state. Its id decides: unknown in the scope is an add, known an update.
        vector: The vector of `memory.index_text`. None keeps the stored one while that text is unchanged, and drops it
            when it changed: the memory is then found by its words.
        wants_vector: One that has none afterwards, and says something new, waits for it; see `Store.put_vectors`.
        expected_revision: 0: must not exist; n: must have this revision; None: whatever is there.
        on_duplicate: For an add whose normalised content is a current memory of the same type and target already:
            answer with that one, unchanged, or raise. To answer is right for what repeats it: where the own time of one
            ends before that of the other begins, both are kept, and the earlier one is superseded by the later one.
        reason: Why this memory is written, where that is not the reason of its batch; None: the batch's.
        run_id: The run that this is part of, where a batch writes several; None: the batch's.
    """

    memory: Memory
    vector: Vector | None = None
    wants_vector: bool = False
    expected_revision: int | None = None
    on_duplicate: Literal["existing", "raise"] = "existing"
    reason: str | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Uselessness:
    """What a memory is that was used often and seldom helped: `freq >= min_freq`, `utility / freq < max_utility`.

    Attributes:
        min_freq: At least 1; one that was never used is not useless.
        max_utility: Above 0: from this share of helpful uses on it is not.
    """

    min_freq: int
    max_utility: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMemory:
    """One memory to be removed.

    Attributes:
        memory_id: Which.
        expected_revision: As in `PutMemory`.
        only_if_useless: Only while its counts make it so (ConflictError); None: whatever they are.
        reason: As in `PutMemory`.
        erase: Its history goes as well, that of an earlier deletion too, and nothing of it stays readable in the file.
            Such a deletion is no event, and can't be undone.
    """

    memory_id: str
    expected_revision: int | None = None
    only_if_useless: Uselessness | None = None
    reason: str | None = None
    erase: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UseMemory:
    """A memory that was used: what is added to its counts.

    Attributes:
        memory_id: Which.
        uses: Added to `freq`, 0 or more.
        helpful: Added to `utility`, 0 or more.
    """

    memory_id: str
    uses: int = 1
    helpful: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBatch:
    """Changes that become visible and durable together, or not at all; deletes first, then puts in their order.

    So a batch that closes a memory and adds the one that replaces it may add the same content, and a put may take the
    id that a delete of the batch freed. Each change becomes one event with this actor, and with its own reason or
    else this one; puts likewise with their own run. `embedded_by` names the model of the vectors, where that is known.
    """

    puts: Sequence[PutMemory] = ()
    deletes: Sequence[DeleteMemory] = ()
    reason: str = ""
    run_id: str | None = None
    actor: str = "user"
    at: datetime
    embedded_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySearch:
    """A search by vector, by words, or by both (0.7 cosine + 0.4 text, divided by the sum of the weights in use).

    Attributes:
        text: The query's words; empty means by vector alone.
        vector: The query's vector; None means by words alone.
        limit: At most this many, at least 1.
        filter: Applied inside the search, before the limit.
        min_score: Leaves out what scores lower. By vector alone the score is the cosine.
        on_degraded: Is told, in a short sentence, what was not searched, where an answer in time can't be of everything
            (an index that is still being loaded). None: the search takes the time it needs.
        embedded_by: The model that made the vector, where that is known.
        explain: Whether the parts of each score are asked for; a store that keeps no account of them gives none.
        only: Answer with what has this id alone, if it is found, and with its place among all that are.
    """

    text: str = ""
    vector: Vector | None = None
    limit: int = 10
    filter: MemoryFilter = MemoryFilter()
    min_score: float | None = None
    on_degraded: Callable[[str], None] | None = None
    embedded_by: str | None = None
    explain: bool = False
    only: str | None = None

    def __post_init__(self) -> None:
        """Take the beginning of a pasted text; see `bounded_query`."""
        object.__setattr__(self, "text", bounded_query(self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredMemory:
    """A memory found, its score (at most 1.0, higher is better), and its cosine with the query where both have one.

    `parts` add up to the score, and `place` is that among all, from 1, where the search asks for them.
    `told` are terms of the query that relations of other memories tell of it: of "Lea works at the bakery" that Lea is
    a sister.
    """

    memory: Memory
    score: float
    similarity: float | None = None
    parts: Mapping[str, float] | None = None
    place: int | None = None
    told: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListMemories:
    """A page of memories: newest `created_at` first, ties by `memory_id`. `cursor` comes from the page before."""

    filter: MemoryFilter = MemoryFilter()
    limit: int = 100
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery:
    """Which events of a scope, oldest first unless told otherwise. Every condition holds at once; None means any.

    Attributes:
        memory_id: Those of this memory.
        run_id: Those of this run.
        after: Behind this sequence number, such as that of the last one seen.
        limit: At most so many.
        memory_ids: Those of these memories.
        before: Ahead of this sequence number.
        since: Written at this time or later. Times need not rise with the sequence: clocks differ.
        until: Written before this time.
        take: Of the events of each memory that meet the conditions above, the first or the last one alone.
        types: The memory, as the event leaves it or as it was before its deletion, is of one of these types.
        targets: Likewise, about one of these targets.
        newest_first: Highest sequence number first.
    """

    memory_id: str | None = None
    run_id: str | None = None
    after: int = 0
    limit: int = 1000
    memory_ids: tuple[str, ...] | None = None
    before: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    take: Literal["all", "first", "last"] = "all"
    types: tuple[MemoryType, ...] | None = None
    targets: tuple[str, ...] | None = None
    newest_first: bool = False


class Counts(MappingModel):
    """How much a scope holds; a store leaves at zero what it doesn't keep.

    `current_memories` counts those that nothing has replaced, by type; `memories` all; `waiting_for_vectors` messages
    and memories; `jobs` all of them, and `dead_jobs` those given up; `offload_bytes` the texts of `offloads`;
    `tool_calls` those recorded; `blobs` images and files, each once, and `blob_bytes` all of theirs.
    """

    current_memories: dict[MemoryType, int] = Field(default_factory=dict)
    memories: int = 0
    messages: int = 0
    waiting_for_vectors: int = 0
    blocks: int = 0
    sessions: int = 0
    events: int = 0
    jobs: int = 0
    dead_jobs: int = 0
    offloads: int = 0
    offload_bytes: int = 0
    tool_calls: int = 0
    blobs: int = 0
    blob_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """A memory as an index takes it.

    Attributes:
        key: The store's own, unique in the scope, and never used again for another memory.
        memory: The memory; what it says need not be kept in readable form.
        vector: The vector of its `index_text`, if it has one.
    """

    key: str
    memory: Memory
    vector: Vector | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesQuery:
    """Which changes of a scope: those after `position`, from the beginning for None; about `limit` entries a page.

    With `with_total` the page says how many entries there are in all.
    """

    position: str | None = None
    limit: int = 500
    with_total: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesPage:
    """A page of changes.

    Attributes:
        entries: Memories that are new or say something else, as they are now.
        gone: Keys of those that are no more, or not searched any more.
        position: Where the next page begins.
        starts_over: What the index holds of the scope has to go first: the position asked for is of another file, of
            a scope that was erased since, or too old.
        is_last: Nothing follows by now.
        total: How many entries an index has that took over all changes by now, where the query asks for that.
    """

    entries: Sequence[IndexEntry]
    gone: Sequence[str]
    position: str
    starts_over: bool
    is_last: bool
    total: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertEntries:
    """Entries to be added or replaced by key, and the position of the store that the index then has reached."""

    entries: Sequence[IndexEntry]
    position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteEntries:
    """Entries to be removed by key; None: all of the scope, its position first."""

    keys: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexHit:
    """A memory found, by its id, its score (at most 1.0, higher is better), and its cosine with the query, if known."""

    memory_id: str
    score: float
    similarity: float | None = None


class MemoryIndex(Protocol):
    """Memories of many scopes, for searching alone: the store keeps them, and what it does not hold is no hit.

    Every call sees and touches one scope alone, and raises `StoreUnavailableError` where the engine can't be reached.
    """

    async def find_position(self, scope: Scope) -> str | None:
        """Return the position that the last `upsert` brought the scope to; None: it holds nothing that counts."""

    async def count(self, scope: Scope) -> int:
        """Return how many entries the scope has."""

    async def upsert(self, scope: Scope, upsert: UpsertEntries) -> None:
        """Write entries, and then the position; both are durable and searchable when this returns.

        Raises:
            DimensionMismatchError: A vector of another length than those of the index.
        """

    async def delete(self, scope: Scope, delete: DeleteEntries) -> None:
        """Remove entries; keys that aren't there are passed over."""

    async def search(self, scope: Scope, search: MemorySearch) -> list[IndexHit]:
        """Return the best memories, highest score first; ties: newest first, then by id. Scores as in `MemorySearch`.

        Raises:
            InvalidInputError: There is neither text nor vector.
            UnsupportedFilterError: The index can't honour the filter.
            DimensionMismatchError: The query's vector has another length than those of the index.
        """

    async def close(self) -> None:
        """Release what is held; later calls raise `StoreClosedError`. Closing twice is harmless."""
