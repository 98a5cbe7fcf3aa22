# asserts are what a contract suite is made of
"""Promises of a memory store about its events: which of them a query means, in which order, and whose."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

from reme_core.ports import DeleteMemory, EventQuery, PutMemory, Store, WriteBatch
from reme_core.schema import Event, MemoryType
from reme_core.testing.store_values import ALICE, BOB, NOW, changed, memory

_ALL = EventQuery(limit=1000)
_TYPES = (MemoryType.PERSONAL, MemoryType.PROCEDURAL, MemoryType.META)
_TARGETS = ("Ana", "安娜", "Rui")


async def _fill(store: Store) -> None:
    """Write events whose times neither rise nor have the same number of digits, beside those of somebody else."""
    chance = random.Random(7)  # noqa: S311  # for the same events each time
    for step in range(60):
        moment = NOW + timedelta(seconds=chance.randint(-3, 3), microseconds=chance.choice((0, 5, 500_000)))
        name, scope = f"m{chance.randint(0, 9)}", chance.choice((ALICE, ALICE, BOB))
        value = memory(
            f"fact {step}",
            scope=scope,
            memory_id=name,
            memory_type=chance.choice(_TYPES),
            target=chance.choice(_TARGETS),
        )
        batch = WriteBatch(puts=[PutMemory(memory=value)], at=moment, run_id=f"run {step % 7}")
        if chance.random() < 0.2:
            known = {event.memory_id for event in await store.events(scope, _ALL) if event.after is not None}
            last = {event.memory_id: event for event in await store.events(scope, _ALL)}
            if name in known and last[name].after is not None:
                batch = replace(batch, puts=(), deletes=[DeleteMemory(memory_id=name)])
        await store.put(scope, batch)


def _meant(events: list[Event], query: EventQuery) -> list[Event]:
    """Return what a query means, read from all events."""
    found = [
        event
        for event in events
        if event.sequence > query.after
        and (query.before is None or event.sequence < query.before)
        and (query.memory_id is None or event.memory_id == query.memory_id)
        and (query.memory_ids is None or event.memory_id in query.memory_ids)
        and (query.run_id is None or event.run_id == query.run_id)
        and (query.since is None or event.at >= query.since)
        and (query.until is None or event.at < query.until)
    ]
    if query.take != "all":
        ordered = found if query.take == "last" else found[::-1]
        ends = {event.memory_id: event for event in ordered}
        found = [event for event in found if ends[event.memory_id] == event]
    states = [(event, event.after or event.before) for event in found]
    found = [
        event
        for event, state in states
        if state is not None
        and (query.types is None or state.memory_type in query.types)
        and (query.targets is None or state.memory_target in query.targets)
    ]
    return (found[::-1] if query.newest_first else found)[: query.limit]


class MemoryEventQueries:
    """Reading what happened."""

    async def test_a_query_means_the_events_that_meet_all_its_conditions(self, store: Store) -> None:
        await _fill(store)
        everything, chance = await store.events(ALICE, _ALL), random.Random(8)  # noqa: S311
        assert {event.memory_id for event in everything} >= {f"m{number}" for number in range(9)}
        for _ in range(150):
            query = EventQuery(
                memory_id=chance.choice((None, None, None, "m1")),
                run_id=chance.choice((None, None, None, "run 2")),
                after=chance.choice((0, 0, everything[5].sequence)),
                limit=chance.choice((1, 7, 1000)),
                memory_ids=chance.choice((None, None, ("m1", "m2", "m3", "none"), ())),
                before=chance.choice((None, None, everything[-9].sequence)),
                since=chance.choice((None, NOW - timedelta(seconds=1), NOW, NOW + timedelta(microseconds=5))),
                until=chance.choice((None, NOW + timedelta(seconds=1), NOW + timedelta(seconds=1, microseconds=5))),
                take=chance.choice(("all", "all", "first", "last")),
                types=chance.choice((None, None, _TYPES[:2])),
                targets=chance.choice((None, None, _TARGETS[:2], ("nobody",))),
                newest_first=chance.random() < 0.5,
            )
            assert await store.events(ALICE, query) == _meant(everything, query), query

    async def test_the_newest_events_are_read_in_pages_from_the_end(self, store: Store) -> None:
        await _fill(store)
        everything, found = await store.events(ALICE, _ALL), list[Event]()
        query = EventQuery(newest_first=True, limit=7)
        while page := await store.events(ALICE, query):
            found += page
            query = replace(query, before=page[-1].sequence)
        assert found == everything[::-1]

    async def test_events_of_another_scope_are_not_found_by_any_condition(self, store: Store) -> None:
        value = memory("mine", memory_id="m1")
        await store.put(ALICE, WriteBatch(puts=[PutMemory(memory=value)], at=NOW, run_id="run"))
        await store.put(ALICE, WriteBatch(puts=[PutMemory(memory=changed(value, {"content": "new"}))], at=NOW))
        for query in (
            EventQuery(newest_first=True),
            EventQuery(take="last"),
            EventQuery(take="first", memory_ids=("m1",)),
            EventQuery(since=NOW, targets=("self",)),
        ):
            assert await store.events(ALICE, query)
            assert await store.events(BOB, query) == []
