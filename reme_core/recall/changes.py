"""Changes of memories between two times, and what was known at one: both read from the events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from reme_core.errors import InvalidInputError
from reme_core.ports import EventQuery, MemoryFilter, Store
from reme_core.rules import check_filter, is_unchanged, matches
from reme_core.schema import ChangedMemories, ChangeKind, Event, Memory, MemoryChange, MemoryPage, MemoryType, Scope
from reme_core.schema.checks import shown

_FEWEST, _MOST = 20, 500
"""Events that are read at once: two memories of 1 KB each, so at most a megabyte."""
_KNOWN = 5000
"""As many at once where all are needed: each reading looks for the last event of every memory anew."""
_MAX_DIGITS = 18  # of a whole number of 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesRequest:
    """Which changes of a scope are meant.

    Attributes:
        since: Written at this time or later; None: from the beginning.
        until: Written before this time; None: all there are.
        types: Of memories of these types, as the change leaves them.
        targets: Likewise, about these targets; None means any.
        every: Each change for itself; otherwise what they come to for each memory.
        limit: At most so many, at least 1.
        cursor: From the page before.
    """

    since: datetime | None
    until: datetime | None
    types: tuple[MemoryType, ...]
    targets: tuple[str, ...] | None
    every: bool
    limit: int
    cursor: str | None


async def list_changes(store: Store, scope: Scope, request: ChangesRequest) -> ChangedMemories:
    """Return a page of changes, newest first. Pages of any size partition what was there when the first one was asked.

    Raises:
        InvalidInputError: A cursor that is not of this list.
    """
    end, place = await _begin(store, scope) if request.cursor is None else _read_cursor(request.cursor)
    log = _Log(store, scope, end, request)
    found: list[tuple[int, MemoryChange]] = []
    while len(found) <= request.limit:
        size = min(max(request.limit + 1 - len(found), _FEWEST), _MOST)
        events = await log.newest(before=place, limit=size)
        found += await log.changes(events)
        if len(events) < size:
            break
        place = events[-1].sequence
    page = found[: request.limit]
    return ChangedMemories(
        changes=tuple(change for _, change in page),
        since=request.since,
        until=request.until,
        every=request.every,
        next_cursor=f"{end}.{page[-1][0]}" if len(found) > request.limit else None,
    )


async def told_events(store: Store, scope: Scope, events: Sequence[Event]) -> list[MemoryChange]:
    """Tell events of a scope, which are in order, each as a change for itself; those of memories that were erased not.

    What replaced a memory is told as it was after the last of them.
    """
    if not events:
        return []
    types = tuple(MemoryType)
    request = ChangesRequest(since=None, until=None, types=types, targets=None, every=True, limit=1, cursor=None)
    log = _Log(store, scope, events[-1].sequence + 1, request)
    return [change for _, change in await log.changes(events)]


async def list_known(
    store: Store, scope: Scope, wanted: MemoryFilter, *, at: datetime, limit: int, cursor: str | None
) -> MemoryPage:
    """Return a page of what a scope held at a time, newest first: the state that the events before it have left.

    Each page reads the events of all memories of the types and targets asked for.

    Raises:
        InvalidInputError: A cursor that is not of this list.
        UnsupportedFilterError: A filter that can't be honoured.
    """
    checked, begin = check_filter(wanted), 0 if cursor is None else _number(str(cursor), cursor)
    query = EventQuery(until=at, take="last", types=wanted.types, targets=wanted.targets, limit=_KNOWN)
    known: list[Memory] = []
    while events := await store.events(scope, query):
        known += [event.after for event in events if event.after is not None and matches(event.after, checked)]
        query = replace(query, after=events[-1].sequence)
    known.sort(key=lambda memory: memory.memory_id)
    known.sort(key=lambda memory: memory.created_at, reverse=True)
    rest = known[begin + limit :]
    return MemoryPage(memories=tuple(known[begin : begin + limit]), next_cursor=str(begin + limit) if rest else None)


@dataclass(frozen=True, slots=True)
class _Log:
    """The events of a scope as they were when the first page was asked for: those before `end`."""

    store: Store
    scope: Scope
    end: int
    request: ChangesRequest

    async def newest(self, *, before: int, limit: int) -> list[Event]:
        """Return the next events that are asked for, newest first."""
        asked = self.request
        query = EventQuery(
            since=asked.since,
            until=asked.until,
            types=asked.types,
            targets=asked.targets,
            before=before,
            limit=limit,
            newest_first=True,
        )
        return await self.store.events(self.scope, query)

    async def changes(self, events: Sequence[Event]) -> list[tuple[int, MemoryChange]]:
        """Return what events come to, each with its sequence number; one that another has followed to nothing."""
        pairs = [(event, event) for event in events] if self.request.every else await self._spans(events)
        new = {first.memory_id for first, _ in pairs if first.before is None}
        origins = await self._ends(new, EventQuery(take="first"))
        told: list[tuple[ChangeKind, Event, Event]] = []
        for first, last in pairs:
            is_known = first.memory_id in origins and origins[first.memory_id].sequence < first.sequence
            kind = change_kind(first, last, is_known=is_known)
            if kind is None and self.request.every:
                kind = ChangeKind.UPDATED
            if kind is not None:
                told.append((kind, first, last))
        successors = await self._successors(last.after for _, _, last in told)
        found = []
        for kind, first, last in told:
            successor = _successor(last.after, successors, follow=not self.request.every)
            found.append((last.sequence, _change(kind, first, last, successor)))
        return found

    async def _spans(self, events: Sequence[Event]) -> list[tuple[Event, Event]]:
        """Return the first and the last event of each memory whose last one is among these."""
        span = EventQuery(since=self.request.since, until=self.request.until)
        ids = {event.memory_id for event in events}
        lasts = await self._ends(ids, replace(span, take="last"))
        ending = [event for event in events if event.memory_id in lasts and lasts[event.memory_id] == event]
        firsts = await self._ends({event.memory_id for event in ending}, replace(span, take="first"))
        return [(firsts.get(event.memory_id, event), event) for event in ending]  # none: it was erased meanwhile

    async def _successors(self, states: Iterable[Memory | None]) -> dict[str, Memory | None]:
        """Return what replaced memories at the end of the time, by id: None where it was deleted."""
        found: dict[str, Memory | None] = {}
        wanted = _replacing(states)
        while wanted := wanted - found.keys():
            lasts = await self._ends(wanted, EventQuery(until=self.request.until, take="last"))
            found |= {name: lasts[name].after if name in lasts else None for name in wanted}
            wanted = set() if self.request.every else _replacing(found[name] for name in wanted)
        return found

    async def _ends(self, memory_ids: set[str], query: EventQuery) -> dict[str, Event]:
        """Return the first or the last event of memories, by id."""
        ids = tuple(sorted(memory_ids))
        asked = replace(query, memory_ids=ids, before=self.end, limit=max(len(ids), 1))
        return {event.memory_id: event for event in await self.store.events(self.scope, asked)} if ids else {}


def change_kind(first: Event, last: Event, *, is_known: bool) -> ChangeKind | None:
    """Tell what became of a memory between two of its events, both included; None where nothing did.

    What counts is which statements are current. One that came and went is nothing; one that was written as replaced
    from the beginning was added. `is_known` says that it has events before the first one.
    """
    before, after = first.before, last.after
    was, is_now = before is not None and before.is_current, after is not None and after.is_current
    new = ChangeKind.RESTORED if is_known else ChangeKind.ADDED
    if was and not is_now:
        return ChangeKind.DELETED if after is None else ChangeKind.REPLACED
    if is_now and not was:
        return new
    if before is not None and after is not None:
        return None if is_unchanged(before, after) else ChangeKind.UPDATED
    if before is not None:
        return ChangeKind.DELETED
    is_past = first.after is not None and not first.after.is_current
    return new if after is not None and is_past else None


def _replacing(states: Iterable[Memory | None]) -> set[str]:
    return {state.superseded_by for state in states if state is not None and state.superseded_by is not None}


def _change(kind: ChangeKind, first: Event, last: Event, successor: Memory | None) -> MemoryChange:
    state = last.after or last.before
    assert state is not None  # noqa: S101  # an event has one of the two
    return MemoryChange(
        kind=kind,
        memory_id=last.memory_id,
        memory_type=state.memory_type,
        memory_target=state.memory_target,
        before=first.before,
        after=last.after,
        replaced_by=successor,
        reason=last.reason,
        actor=last.actor,
        run_id=last.run_id,
        at=last.at,
    )


def _successor(state: Memory | None, successors: dict[str, Memory | None], *, follow: bool) -> Memory | None:
    """Return what replaced a memory, or, to be followed, what stands in its place at the end."""
    seen: set[str] = set()
    while state is not None and state.superseded_by in successors and state.superseded_by not in seen:
        seen.add(state.superseded_by)
        state = successors[state.superseded_by]
        if not follow:
            break
    return state if seen else None


async def _begin(store: Store, scope: Scope) -> tuple[int, int]:
    """Return the place behind all events that there are, twice: where a list ends, and where its first page begins."""
    newest = await store.events(scope, EventQuery(newest_first=True, limit=1))
    end = newest[0].sequence + 1 if newest else 1
    return end, end


def _read_cursor(cursor: str) -> tuple[int, int]:
    end, _, place = str(cursor).partition(".")
    return _number(end, cursor), _number(place, cursor)


def _number(text: str, cursor: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
        return int(text)
    msg = f"cursor: {shown(cursor)} is none of this list: pass next_cursor of the page before, or None"
    raise InvalidInputError(msg)
