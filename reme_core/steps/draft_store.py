"""Store over another one that collects changes, to be written as one batch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

import numpy as np

from reme_core.errors import (
    ConfigurationError,
    DimensionMismatchError,
    InvalidInputError,
    MemoryNotFoundError,
    UnsupportedFilterError,
)
from reme_core.ports import (
    DeleteMemory,
    EventQuery,
    ListMemories,
    MemorySearch,
    PutMemory,
    ScoredMemory,
    Store,
    Target,
    Uselessness,
    Vector,
    WrappedStore,
    WriteBatch,
)
from reme_core.rules import (
    Change,
    WritePlan,
    check_batch,
    check_filter,
    claim_of,
    claims_of,
    ids_of,
    matches,
    plan_batch,
    reason_for,
    run_for,
)
from reme_core.schema import NO_STATEMENTS, Erased, Event, Memory, MemoryPage, Scope, parse_time
from reme_core.schema.checks import check_id
from reme_core.steps.message_lines import find_all
from reme_core.steps.similar_memories import find_equal_memories
from reme_core.text import query_terms, terms

# How a search weighs vector and words; see `MemorySearch`.
_VECTOR_WEIGHT, _TEXT_WEIGHT = 0.7, 0.4
# Events of a draft come after all those of the store below it.
_FIRST_SEQUENCE = 1 << 62


class DraftStore(WrappedStore):
    """A store over another one that keeps the changes of one scope to itself; somebody else writes its batch.

    Reads show the store below with the changes over it. A write is checked as a store would check it, so a tool learns
    at once of a repetition or an unknown id; `batch` is the net effect. Tasks of one event loop may share a draft.
    """

    def __init__(self, store: Store) -> None:
        """Begin without changes; `store` stays open, and no memory of it is written."""
        super().__init__(store)
        self._lock = asyncio.Lock()
        self._scope: Scope | None = None
        self._changes: list[Change] = []
        self._outcome: dict[str, Change] = {}
        self._events: list[Event] = []
        self._strict: set[str] = set()
        self._limits: dict[str, Uselessness | None] = {}

    @property
    def changes(self) -> tuple[Change, ...]:
        """What happens to each memory touched, from its state in the store below to that in the draft."""
        return tuple(change for change in self._outcome.values() if not _is_nothing(change))

    @property
    def is_empty(self) -> bool:
        """Whether writing the draft would change nothing."""
        return not self.changes

    def batch(self, *, reason: str, run_id: str | None, actor: str, at: datetime) -> WriteBatch:
        """Return the net effect: one put or delete for each memory touched, against the revisions that were read.

        What was added and deleted again is not in it. Replaced memories come before those that are changed, and these
        before the new ones; a text is freed before another memory takes it (where texts change places in a ring, one
        memory is superseded and taken back for that). An add that somebody else has made meanwhile is answered with
        theirs, unless another memory of the batch was replaced by it: that is a `ConflictError`. What was to go only
        while it is useless goes under that condition, and a change keeps the reason of its own.
        """
        changes = self.changes
        linked = {change.after.superseded_by for change in changes if change.after is not None}
        puts = [
            PutMemory(
                memory=after,
                vector=change.vector,
                wants_vector=change.wants_vector,
                expected_revision=0 if change.before is None else change.before.revision,
                on_duplicate="raise" if after.memory_id in linked | self._strict else "existing",
                reason=change.reason,
                run_id=change.run_id,
            )
            for change in _ordered(changes)
            if (after := change.after) is not None
        ]
        deletes = [
            DeleteMemory(
                memory_id=change.memory_id,
                expected_revision=change.before.revision,
                only_if_useless=self._limits.get(change.memory_id),
                reason=change.reason,
            )
            for change in changes
            if change.after is None and change.before is not None
        ]
        return WriteBatch(puts=puts, deletes=deletes, reason=reason, run_id=run_id, actor=actor, at=at)

    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        """Keep a batch in the draft; see `Store.put`.

        Raises:
            InvalidInputError: Also for another scope than that of the changes so far.
        """
        checked = check_batch(scope, batch)
        if any(delete.erase for delete in checked.deletes):
            await self.erase(scope)
        async with self._lock:  # what is read below must still be so when the changes are kept
            if self._scope not in {None, scope}:
                msg = f"this draft is for {self._scope!r} and not for {scope!r}: make one for each scope"
                raise InvalidInputError(msg)
            plan = plan_batch(checked, await self._touched(scope, checked))
            self._scope = scope
            self._keep(plan, checked)
        return [memory.detached() for memory in plan.answers]

    async def get(self, scope: Scope, memory_ids: Sequence[str]) -> list[Memory]:
        """Return memories by id; see `Store.get`."""
        touched = self._touched_in(scope)
        below = await self._find(scope, [name for name in memory_ids if name not in touched])
        found = {**below, **_states(self._touched_in(scope))}
        missing = [name for name in dict.fromkeys(memory_ids) if name not in found]
        if missing:
            raise MemoryNotFoundError(missing)
        return [found[name].detached() for name in memory_ids]

    async def search(self, scope: Scope, search: MemorySearch) -> list[ScoredMemory]:
        """Return the best memories; see `Store.search`.

        What the draft has changed is scored by its vector and by the share of the query's words that it holds.
        """
        _check_limit(search.limit)
        wanted = check_filter(search.filter)
        more = len(self._touched_in(scope))
        below = await self._store.search(scope, replace(search, limit=search.limit + more))
        touched = self._touched_in(scope)
        found = [item for item in below if item.memory.memory_id not in touched]
        scores = {item.memory.memory_id: item.score for item in below}
        for change in touched.values():
            if change.after is None or not matches(change.after, wanted):
                continue
            score = _score(change, search, scores.get(change.memory_id))
            if score is not None and (search.min_score is None or score >= search.min_score):
                found.append(ScoredMemory(memory=change.after.detached(), score=score))
        return sorted(found, key=lambda item: (-item.score, _place(item.memory)))[: search.limit]

    async def list_memories(self, scope: Scope, query: ListMemories) -> MemoryPage:
        """Return one page; see `Store.list_memories`.

        It is made of pages of the store below, a page or two for each, and of what the draft has between them.
        """
        _check_limit(query.limit)
        wanted, (after, cursor) = check_filter(query.filter), _read_cursor(query.cursor)
        page: list[Memory] = []
        while True:
            below = await self._store.list_memories(scope, replace(query, cursor=cursor))
            touched = self._touched_in(scope)
            end = _place(below.memories[-1]) if below.next_cursor is not None and below.memories else None
            found = [memory for memory in below.memories if memory.memory_id not in touched]
            found += [memory.detached() for memory in _states(touched).values() if matches(memory, wanted)]
            found = [memory for memory in found if _is_between(after, _place(memory), end)]
            room = query.limit - len(page)
            page += sorted(found, key=_place)[:room]
            if len(found) > room or (len(found) == room and below.next_cursor is not None):
                # What is left of this page of the store is read again, from behind the last memory given out.
                here = cursor if len(found) > room else below.next_cursor
                return MemoryPage(memories=tuple(page), next_cursor=_cursor(page[-1], here))
            if below.next_cursor is None:
                return MemoryPage(memories=tuple(page))
            after, cursor = end or after, below.next_cursor

    async def events(self, scope: Scope, query: EventQuery) -> list[Event]:
        """Return what happened below, then what the draft has changed, oldest first.

        Raises:
            UnsupportedFilterError: A condition beyond memory, run and place: nobody who drafts asks for one.
        """
        plain = EventQuery(memory_id=query.memory_id, run_id=query.run_id, after=query.after, limit=query.limit)
        if query != plain:
            msg = "a draft lists events by memory and run: ask the store itself for more"
            raise UnsupportedFilterError(msg)
        below = await self._store.events(scope, query)
        own = [
            event.detached()
            for event in (self._events if scope == self._scope else [])
            if event.sequence > query.after
            and (query.memory_id is None or event.memory_id == query.memory_id)
            and (query.run_id is None or event.run_id == query.run_id)
        ]
        return [*below, *own][: query.limit]

    async def count_targets(self, scope: Scope) -> dict[Target, int]:
        """Return the number of current memories of each target; see `Store.count_targets`."""
        counts = await self._store.count_targets(scope)
        for change in self._touched_in(scope).values():
            for memory, step in ((change.before, -1), (change.after, 1)):
                if memory is not None and memory.is_current and memory.memory_type not in NO_STATEMENTS:
                    target = Target(memory.memory_type, memory.memory_target)
                    counts[target] = counts.get(target, 0) + step
        return {target: count for target, count in counts.items() if count > 0}

    async def erase(self, scope: Scope) -> Erased:
        """Refuse: a draft is of memories, and erasing leaves none to come back to (ConfigurationError)."""
        msg = f"a draft can't erase {scope!r}: erase it in the store itself"
        raise ConfigurationError(msg)

    async def close(self) -> None:
        """Do nothing: whoever opened the store below closes it."""

    def _keep(self, plan: WritePlan, batch: WriteBatch) -> None:
        self._changes += plan.changes
        self._outcome = WritePlan(answers=(), changes=tuple(self._changes)).outcome
        self._strict |= {put.memory.memory_id for put in batch.puts if put.on_duplicate == "raise"}
        for item in batch.deletes:  # the first one is of the memory below; a later one of what the draft put there
            self._limits.setdefault(item.memory_id, item.only_if_useless)
        for change in plan.changes:
            event = Event(
                sequence=_FIRST_SEQUENCE + len(self._events),
                operation=change.operation,
                memory_id=change.memory_id,
                before=change.before,
                after=change.after,
                reason=reason_for(change.reason, batch),
                run_id=run_for(change.run_id, batch),
                actor=batch.actor,
                at=batch.at,
            )
            self._events.append(event.detached())

    def _touched_in(self, scope: Scope) -> Mapping[str, Change]:
        return self._outcome if scope == self._scope else {}

    async def _touched(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        """Return the memories, as the draft has them, that a batch names or may repeat."""
        touched = self._touched_in(scope)
        below = await self._find(scope, [name for name in ids_of(batch) if name not in touched])
        equal = await find_equal_memories(self._store, scope, claims_of(batch))
        below |= {memory.memory_id: memory for memory in equal.values()}
        own = [memory for name, memory in below.items() if name not in touched]
        return own + list(_states(touched).values())

    async def _find(self, scope: Scope, memory_ids: Sequence[str]) -> dict[str, Memory]:
        """Return those of the memories that the store below holds."""
        found = await find_all(partial(self._store.get, scope), memory_ids)
        return {memory.memory_id: memory for memory in found}


def _states(touched: Mapping[str, Change]) -> dict[str, Memory]:
    return {name: change.after for name, change in touched.items() if change.after is not None}


def _is_nothing(change: Change) -> bool:
    """Whether a memory is back where it was, apart from the marks that every write leaves."""
    before, after = change.before, change.after
    if before is None or after is None:
        return before is after
    return after.model_copy(update={"revision": before.revision, "updated_at": before.updated_at}) == before


def _ordered(changes: Iterable[Change]) -> list[Change]:
    """Put changes into an order in which no memory takes a text that another one still has."""
    waiting = sorted((change for change in changes if change.after is not None), key=_rank)
    ordered: list[Change] = []
    while waiting:
        held = {claim: change.memory_id for change in waiting if change.before and (claim := claim_of(change.before))}
        blocked: list[Change] = []
        for change in waiting:
            claim = claim_of(change.after) if change.after is not None else None
            if claim is not None and held.get(claim, change.memory_id) != change.memory_id:
                blocked.append(change)
                continue
            ordered.append(change)
            freed = None if change.before is None else claim_of(change.before)
            if freed is not None:
                del held[freed]
        if len(blocked) == len(waiting):  # texts change places in a ring: one memory steps aside
            aside = _aside(blocked[0])
            ordered.append(aside)
            blocked[0] = replace(blocked[0], before=aside.after)
        waiting = blocked
    return ordered


def _rank(change: Change) -> int:
    if change.before is None:
        return 2
    return 0 if change.after is not None and not change.after.is_current else 1


def _aside(change: Change) -> Change:
    before = change.before
    assert before is not None  # noqa: S101  # only what has a text already can be part of a ring
    aside = {"superseded_by": before.memory_id, "revision": before.revision + 1}
    return replace(change, after=before.model_copy(update=aside), vector=None, keeps_vector=True)


def _score(change: Change, search: MemorySearch, below: float | None) -> float | None:
    """Return the score of a memory of the draft, as a store would score it; None where the query doesn't touch it."""
    before, after = change.before, change.after
    assert after is not None  # noqa: S101  # asked of memories that are there
    if below is not None and change.keeps_vector and before is not None and before.index_text == after.index_text:
        return below
    cosine = _cosine(change.vector, search.vector)
    if not search.text.strip():
        return cosine
    asked = set(query_terms(search.text))
    share = len(asked & set(terms(after.index_text))) / len(asked) if asked else 0.0
    if search.vector is None:
        return share or None
    if cosine is None and not share:
        return None
    return min((_VECTOR_WEIGHT * (cosine or 0.0) + _TEXT_WEIGHT * share) / (_VECTOR_WEIGHT + _TEXT_WEIGHT), 1.0)


def _cosine(own: Vector | None, asked: Vector | None) -> float | None:
    if own is None or asked is None:
        return None
    if len(own) != len(asked):
        raise DimensionMismatchError(expected=len(own), found=len(asked), what="the query's vector")
    return min(float(np.dot(own, asked)), 1.0)


def _place(memory: Memory) -> tuple[float, str]:
    return -memory.created_at.timestamp(), memory.memory_id


def _is_between(after: tuple[float, str] | None, place: tuple[float, str], end: tuple[float, str] | None) -> bool:
    return (after is None or place > after) and (end is None or place <= end)


def _cursor(memory: Memory, below: str | None) -> str:
    """Write where a page has ended: its last memory, and the page of the store below that goes on from there."""
    return json.dumps([memory.created_at.isoformat(), memory.memory_id, below])


def _read_cursor(cursor: str | None) -> tuple[tuple[float, str] | None, str | None]:
    if cursor is None:
        return None, None
    try:
        moment, memory_id, below = json.loads(cursor)
        place = -parse_time(moment).timestamp(), check_id(memory_id)
        return place, None if below is None else str(below)
    except (ValueError, TypeError, RecursionError) as exc:
        msg = f"cursor: {cursor!r:.60} is not one of this list: pass next_cursor of the page before, or None"
        raise InvalidInputError(msg) from exc


def _check_limit(limit: int) -> None:
    if limit < 1:
        msg = f"limit: wanted at least 1, found {limit}"
        raise InvalidInputError(msg)
