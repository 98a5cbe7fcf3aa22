"""The reference implementation of `MemoryStore`: plain dictionaries in this process, written to be read.

Nothing is durable, and each search looks at every memory of the scope. Use it to learn the port, and in tests.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from reme_core.errors import DimensionMismatchError, InvalidInputError, MemoryNotFoundError, StoreClosedError
from reme_core.ports import (
    EventQuery,
    ListMemories,
    MemorySearch,
    MessageVector,
    PendingText,
    ScoredMemory,
    Target,
    UseMemory,
    Vector,
    WriteBatch,
)
from reme_core.retrieval import Query, RankingIndex, Weights, plain_rows
from reme_core.rules import (
    Change,
    check_batch,
    check_filter,
    check_uses,
    check_vector,
    matches,
    plan_batch,
    reason_for,
    used,
)
from reme_core.schema import Erased, Event, Memory, MemoryPage, MemoryType, Scope
from reme_core.stores._cursors import check_limit
from reme_core.stores._pages import cut_page, place_of, read_place
from reme_core.text import pack_terms, terms

VECTOR_WEIGHT = 0.7
TEXT_WEIGHT = 0.4
_TEXT_ALONE = Weights(
    vector=0.0, vector_nearby=0.0, text=1.0, text_nearby=0.0, answers=0.0, speaker=0.0, length=0.0, date=0.0
)


@dataclass(slots=True)
class _Partition:
    """What one scope holds."""

    memories: dict[str, Memory] = field(default_factory=dict)
    vectors: dict[str, Vector] = field(default_factory=dict)
    waiting: dict[str, None] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)


class InMemoryStore:
    """Memories in the memory of this process; gone with it.

    Every call does its work under one lock without waiting for anything, so a call is done or not begun, in whatever
    thread and event loop it comes.
    """

    def __init__(self, *, dimension: int | None = None) -> None:
        """Start empty. Without `dimension`, the first vector sets it."""
        self._partitions: dict[Scope, _Partition] = {}
        self._dimension = dimension
        self._lock = threading.Lock()
        self._closed = False

    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        """Write a batch; see `MemoryStore.put`."""
        self._check_open()
        checked = check_batch(scope, batch)
        with self._lock:
            held = self._partitions.get(scope, _Partition())
            plan = plan_batch(checked, held.memories.values())
            dimension = self._common_dimension([put.vector for put in checked.puts])
            self._dimension = dimension
            if plan.changes:
                self._partitions[scope] = held
            for change in plan.changes:
                _apply(held, change)
                held.events.append(_event(len(held.events) + 1, change, checked))
        return [_copy(memory) for memory in plan.answers]

    async def record_uses(self, scope: Scope, uses: Sequence[UseMemory]) -> list[Memory]:
        """Add to the counts of memories; see `CountsUses.record_uses`. There are no other processes to count with."""
        checked = check_uses(uses)
        held = self._partition(scope)
        with self._lock:
            names = dict.fromkeys(use.memory_id for use in checked)
            missing = [name for name in names if name not in held.memories]
            if missing:
                raise MemoryNotFoundError(missing)
            held.memories.update(used([held.memories[name] for name in names], checked))
            return [_copy(held.memories[use.memory_id]) for use in checked]

    async def get(self, scope: Scope, memory_ids: Sequence[str]) -> list[Memory]:
        """Return memories by id; see `MemoryStore.get`."""
        held = self._partition(scope)
        with self._lock:
            missing = [name for name in dict.fromkeys(memory_ids) if name not in held.memories]
            if missing:
                raise MemoryNotFoundError(missing)
            return [_copy(held.memories[name]) for name in memory_ids]

    async def search(self, scope: Scope, search: MemorySearch) -> list[ScoredMemory]:
        """Return the best memories; see `MemoryStore.search`."""
        check_limit(search.limit)
        wanted = check_filter(search.filter)
        vector = None if search.vector is None else check_vector(search.vector, "the query's vector")
        if vector is None and not search.text.strip():
            msg = "a search needs a text or a vector: there is nothing to rank by"
            raise InvalidInputError(msg)
        held = self._partition(scope)
        with self._lock:
            self._common_dimension([vector])
            scores = _scores(held, search.text, vector)
            found = [
                ScoredMemory(memory=_copy(memory), score=scores[name])
                for name, memory in held.memories.items()
                if name in scores and matches(memory, wanted)
            ]
        floor = search.min_score
        kept = [item for item in found if floor is None or item.score >= floor]
        return sorted(kept, key=lambda item: (-item.score, place_of(item.memory)))[: search.limit]

    async def list_memories(self, scope: Scope, query: ListMemories) -> MemoryPage:
        """Return one page; see `MemoryStore.list_memories`."""
        check_limit(query.limit)
        wanted, after = check_filter(query.filter), read_place(query.cursor)
        held = self._partition(scope)
        with self._lock:
            found = [_copy(memory) for memory in held.memories.values() if matches(memory, wanted)]
        return cut_page(found, after, query.limit)

    async def events(self, scope: Scope, query: EventQuery) -> list[Event]:
        """Return what happened, oldest first; see `MemoryStore.events`."""
        held = self._partition(scope)
        with self._lock:
            found = [
                event
                for event in held.events
                if event.sequence > query.after
                and (query.memory_id is None or event.memory_id == query.memory_id)
                and (query.run_id is None or event.run_id == query.run_id)
            ]
            return [event.detached() for event in found[: query.limit]]

    async def pending_texts(self, scope: Scope, limit: int) -> list[PendingText]:
        """Return memories that wait for vectors; see `FillsVectors.pending_texts`."""
        held = self._partition(scope)
        with self._lock:
            names = list(held.waiting)[:limit]
            return [PendingText(key=name, text=held.memories[name].index_text) for name in names]

    async def waiting_scopes(self, memory_space: str) -> list[Scope]:
        """Return scopes with memories that wait for vectors; see `FillsVectors.waiting_scopes`."""
        self._check_open()
        with self._lock:
            items = self._partitions.items()
            return [scope for scope, held in items if scope.memory_space == memory_space and held.waiting]

    async def put_vectors(self, scope: Scope, vectors: Sequence[MessageVector]) -> None:
        """Store vectors of memories that wait; see `FillsVectors.put_vectors`."""
        held = self._partition(scope)
        given = [(item, _checked(item)) for item in vectors]
        with self._lock:
            self._dimension = self._common_dimension([vector for _, vector in given])
            for item, vector in given:
                name = item.pending.key
                if name in held.waiting and held.memories[name].index_text == item.pending.text:
                    del held.waiting[name]
                    if vector is not None:
                        held.vectors[name] = vector

    async def count_targets(self, scope: Scope) -> dict[Target, int]:
        """Return the number of current memories of each target; see `ListsTargets`."""
        held = self._partition(scope)
        with self._lock:
            counts = Counter(
                Target(memory.memory_type, memory.memory_target)
                for memory in held.memories.values()
                if memory.is_current and memory.memory_type is not MemoryType.META
            )
        return dict(counts)

    async def erase(self, scope: Scope) -> Erased:
        """Remove everything of the scope; see `MemoryStore.erase`."""
        self._check_open()
        with self._lock:
            gone = self._partitions.pop(scope, _Partition())
        return Erased(memories=len(gone.memories), events=len(gone.events))

    async def close(self) -> None:
        """Let go of everything; later calls raise `StoreClosedError`."""
        with self._lock:
            self._closed = True
            self._partitions.clear()

    def _partition(self, scope: Scope) -> _Partition:
        self._check_open()
        return self._partitions.get(scope, _Partition())

    def _check_open(self) -> None:
        if self._closed:
            msg = "this store was closed: open a new one"
            raise StoreClosedError(msg)

    def _common_dimension(self, vectors: Sequence[Vector | None]) -> int | None:
        expected = self._dimension
        for vector in vectors:
            if vector is not None and expected is not None and len(vector) != expected:
                raise DimensionMismatchError(expected=expected, found=len(vector), what="the vector")
            expected = expected if vector is None else len(vector)
        return expected


def _copy(memory: Memory) -> Memory:
    return memory.detached()


def _checked(item: MessageVector) -> Vector | None:
    return None if item.vector is None else check_vector(item.vector, "the vector of a memory")


def _apply(held: _Partition, change: Change) -> None:
    name = change.memory_id
    if change.after is None:
        del held.memories[name]
    else:
        held.memories[name] = _copy(change.after)
    if change.vector is not None:
        held.vectors[name] = change.vector
    elif not change.keeps_vector:
        held.vectors.pop(name, None)
    if change.wants_vector:
        held.waiting[name] = None
    elif not change.keeps_vector:
        held.waiting.pop(name, None)


def _event(sequence: int, change: Change, batch: WriteBatch) -> Event:
    return Event(
        sequence=sequence,
        operation=change.operation,
        memory_id=change.memory_id,
        before=change.before,
        after=change.after,
        reason=reason_for(change.reason, batch),
        run_id=batch.run_id,
        actor=batch.actor,
        at=batch.at,
    ).detached()


def _scores(held: _Partition, text: str, vector: Vector | None) -> dict[str, float]:
    """Score all memories that the query says something about; by words alone, those that hold one of them."""
    cosines = {} if vector is None else {name: float(np.dot(own, vector)) for name, own in held.vectors.items()}
    if not text.strip():
        return {name: min(cosine, 1.0) for name, cosine in cosines.items()}
    words = _text_scores(held.memories, text)
    if vector is None:
        return {name: score for name, score in words.items() if score > 0}
    total = VECTOR_WEIGHT + TEXT_WEIGHT
    return {
        name: min((VECTOR_WEIGHT * cosines.get(name, 0.0) + TEXT_WEIGHT * words[name]) / total, 1.0)
        for name in held.memories
        if name in cosines or words[name] > 0
    }


def _text_scores(memories: dict[str, Memory], text: str) -> dict[str, float]:
    """Rank by BM25, divided by the best."""
    if not memories:
        return {}
    index = RankingIndex(_TEXT_ALONE)
    packed = [pack_terms(terms(memory.index_text)) for memory in memories.values()]
    index.extend(plain_rows(np.arange(len(packed)), packed))
    return dict(zip(memories, index.evidence(Query(text=text)).tolist(), strict=True))
