"""How memories are counted, moved by feedback and forgotten."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core.errors import ConflictError, InvalidInputError, MemoryNotFoundError
from reme_core.ports import (
    DeleteMemory,
    EventQuery,
    MemorySearch,
    PutMemory,
    Store,
    UseMemory,
    WrappedStore,
    WriteBatch,
)
from reme_core.remember.memory_editor import undo_run
from reme_core.schema import STATEMENTS, Event, Feedback, Memory, MemoryType, Scope, Verdict
from reme_core.stores import LocalStore
from reme_core.tasks.memory_utility import MAX_COUNT, PATIENCE_S, forget, observe, parse_feedback, record_use
from reme_core.testing import HashedEmbedder
from tests.support.temporary_store import TemporaryStore
from tests.support.virtual_clock import TimelessStore, VirtualLoop
from tests.unit.remember.distilling import NOW, OTHER, SCOPE, all_of, contents, known, store_of

WEIGHTS = st.floats(0, 1, exclude_min=True)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    yield store
    await store.close()


class Between(WrappedStore):
    """A store over another one, in which something happens before a write is done."""

    def __init__(self, store: LocalStore, *happens: Callable[[], Awaitable[object]]) -> None:
        super().__init__(store)
        self._happens = list(happens)
        self.writes = 0

    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        self.writes += 1
        if self._happens:
            await self._happens.pop(0)()
        return await super().put(scope, batch)


def used(content: str, freq: int, utility: float = 0.0, **fields: Any) -> Memory:
    basis: dict[str, Any] = {"memory_type": MemoryType.PROCEDURAL, "memory_target": "coding"}
    return known(content, freq=freq, utility=utility, **{**basis, **fields})


async def forgotten(store: Store, **options: Any) -> Any:
    basis: dict[str, Any] = {
        "types": (MemoryType.PROCEDURAL,),
        "targets": None,
        "min_freq": 5,
        "max_utility": 0.5,
        "dry_run": False,
        "at": NOW,
        "reason": "tidying",
    }
    return await forget(store, SCOPE, **{**basis, **options})


async def events_of(store: Store, run_id: str | None = None) -> list[Event]:
    return await store.events(SCOPE, EventQuery(run_id=run_id))


def seen(memory: Memory, verdict: str, weight: float = 0.5, reason: str = "") -> Feedback:
    return Feedback(memory_id=memory.memory_id, verdict=Verdict(verdict), weight=weight, reason=reason)


# Uses


async def test_uses_and_helpful_uses_are_added_without_a_change_of_the_memory(store: LocalStore) -> None:
    one, two = used("a", 0), used("b", 3, 1.5)
    await store_of(one, two, into=store)
    before = await events_of(store)
    await record_use(store, SCOPE, [one.memory_id, two.memory_id], uses=2, helpful=0.5)
    answered = await record_use(store, SCOPE, [two.memory_id, one.memory_id], uses=0, helpful=True)
    assert [(memory.content, memory.freq, memory.utility) for memory in answered] == [("b", 5, 3.0), ("a", 2, 1.5)]
    assert await store.get(SCOPE, [two.memory_id, one.memory_id]) == answered
    assert [memory.revision for memory in answered] == [1, 1]
    assert await events_of(store) == before


BAD_USES: dict[str, tuple[Any, Any, Any, str]] = {
    "no ids": ([], 1, 0, "memory_ids"),
    "one id for a list": ("m1", 1, 0, "memory_ids"),
    "an id that is none": ([""], 1, 0, r"memory_ids\[0\]"),
    "uses below zero": (["m1"], -1, 0, "uses"),
    "too many uses": (["m1"], MAX_COUNT + 1, 0, "uses"),
    "a part of a use": (["m1"], 0.5, 0, "uses"),
    "true for a number of uses": (["m1"], True, 0, "uses"),
    "help below zero": (["m1"], 1, -0.1, "helpful"),
    "too much help": (["m1"], 1, MAX_COUNT + 1, "helpful"),
    "help that is no number": (["m1"], 1, math.nan, "helpful"),
    "help without end": (["m1"], 1, math.inf, "helpful"),
    "help in words": (["m1"], 1, "1", "helpful"),
    "nothing to count": (["m1"], 0, 0, "uses and helpful"),
}


@pytest.mark.parametrize(("ids", "uses", "helpful", "named"), BAD_USES.values(), ids=BAD_USES.keys())
async def test_uses_that_cannot_be_counted_are_refused_and_nothing_is(
    store: LocalStore, ids: Any, uses: Any, helpful: Any, named: str
) -> None:
    memory = used("a", 1, memory_id="m1")
    await store_of(memory, into=store)
    with pytest.raises(InvalidInputError, match=f"^{named}: "):
        await record_use(store, SCOPE, ids, uses=uses, helpful=helpful)
    assert [memory.freq for memory in await all_of(store)] == [1]


async def test_a_memory_of_another_user_is_not_found_and_none_is_counted(store: LocalStore) -> None:
    own, other = used("a", 1), used("b", 1, scope=OTHER)
    await store_of(own, other, into=store)
    with pytest.raises(MemoryNotFoundError) as caught:
        await record_use(store, SCOPE, [own.memory_id, other.memory_id], uses=1, helpful=1)
    assert caught.value.missing == (other.memory_id,)
    assert [memory.freq for memory in [*await all_of(store), *await all_of(store, OTHER)]] == [1, 1]


# Forgetting


async def test_what_was_used_often_and_seldom_helped_is_removed_and_the_rest_stays(store: LocalStore) -> None:
    memories = {
        "never used": used("never used", 0),
        "seldom used": used("seldom used", 4),
        "useless": used("useless", 5, 2.4),
        "at the threshold": used("at the threshold", 10, 5.0),
        "helpful": used("helpful", 100, 80.0),
        "personal": used("personal", 9, memory_type=MemoryType.PERSONAL),
        "replaced": used("replaced", 9, superseded_by="another"),
        "other": used("other", 9, scope=OTHER),
    }
    await store_of(*memories.values(), into=store)
    answer = await forgotten(store)
    assert [memory.content for memory in answer.memories] == ["useless"]
    assert (answer.dry_run, answer.run_id is None) == (False, False)
    kept = contents(await all_of(store, current=False))
    assert kept == sorted(set(memories) - {"useless", "other"})
    assert contents(await all_of(store, OTHER)) == ["other"]
    [event] = await events_of(store, answer.run_id)
    assert (event.operation, event.reason, event.actor, event.at) == ("delete", "tidying", "forgetting", NOW)


async def test_without_a_type_every_one_but_entries_of_the_routing_table_may_be_forgotten(store: LocalStore) -> None:
    await store_of(*(used(kind, 9, memory_type=kind) for kind in MemoryType), into=store)
    answer = await forgotten(store, types=None)
    assert {memory.memory_type for memory in answer.memories} == set(STATEMENTS)


async def test_targets_narrow_what_is_forgotten_and_the_newest_comes_first(store: LocalStore) -> None:
    memories = [used(f"{n}", 9, at=NOW + timedelta(minutes=n % 3), memory_target=f"t{n % 2}") for n in range(6)]
    await store_of(*memories, into=store)
    answer = await forgotten(store, targets=("t1",))
    assert [memory.content for memory in answer.memories] == ["5", "1", "3"]
    assert contents(await all_of(store)) == ["0", "2", "4"]


async def test_a_dry_run_says_what_would_go_and_writes_nothing(store: LocalStore) -> None:
    await store_of(used("useless", 9), used("helpful", 9, 9.0), into=store)
    before = await events_of(store)
    watched = Between(store)
    answer = await forgotten(watched, dry_run=True)
    assert [memory.content for memory in answer.memories] == ["useless"]
    assert (answer.dry_run, answer.run_id, watched.writes) == (True, None, 0)
    assert await events_of(store) == before
    assert contents(await all_of(store)) == ["helpful", "useless"]


async def test_nothing_to_forget_is_no_write_and_no_run(store: LocalStore) -> None:
    await store_of(used("helpful", 9, 9.0), into=store)
    watched = Between(store)
    answer = await forgotten(watched)
    assert (answer.memories, answer.run_id, watched.writes) == ((), None, 0)


async def test_what_was_forgotten_comes_back_with_its_counts(store: LocalStore) -> None:
    embedder = HashedEmbedder()
    memory = used("useless", 9, 1.5)
    await store_of(memory, embedder=embedder, into=store)
    [before] = await all_of(store)
    answer = await forgotten(store)
    assert await all_of(store) == []
    await undo_run(store, embedder, SCOPE, answer.run_id, at=NOW)
    [after] = await all_of(store)
    assert (after.memory_id, after.content, after.freq, after.utility) == (before.memory_id, "useless", 9, 1.5)


async def test_a_memory_that_became_helpful_meanwhile_stays(store: LocalStore) -> None:
    turned, useless = used("turned", 9), used("useless", 9)
    await store_of(turned, useless, into=store)

    async def helps() -> None:
        await store.record_uses(SCOPE, [UseMemory(memory_id=turned.memory_id, uses=1, helpful=9)])

    watched = Between(store, helps)
    answer = await forgotten(watched)
    assert [memory.content for memory in answer.memories] == ["useless"]
    assert contents(await all_of(store)) == ["turned"]
    assert watched.writes == 2
    assert len(await events_of(store, answer.run_id)) == 1


async def test_memories_that_are_used_in_vain_meanwhile_all_go_in_the_first_write(store: LocalStore) -> None:
    memories = [used(f"useless {n}", 9) for n in range(5)]
    await store_of(*memories, into=store)

    async def fails() -> None:
        await store.record_uses(SCOPE, [UseMemory(memory_id=memory.memory_id) for memory in memories])

    watched = Between(store, *[fails] * 20)
    answer = await forgotten(watched)
    assert (len(answer.memories), watched.writes) == (5, 1)
    assert await all_of(store) == []
    gone = [event.before for event in await events_of(store, answer.run_id)]
    assert [memory.freq for memory in gone if memory] == [10] * 5


async def test_of_memories_that_become_helpful_one_by_one_the_rest_still_goes(store: LocalStore) -> None:
    memories = [used(f"{n}", 9) for n in range(12)]
    await store_of(*memories, into=store)

    def helps(memory: Memory) -> Callable[[], Awaitable[object]]:
        return lambda: store.record_uses(SCOPE, [UseMemory(memory_id=memory.memory_id, uses=1, helpful=9)])

    answer = await forgotten(Between(store, *(helps(memory) for memory in memories[:9])))
    assert contents(answer.memories) == ["10", "11", "9"]
    assert len(await all_of(store)) == 9


async def test_a_memory_that_someone_else_removes_meanwhile_keeps_nothing_from_being_forgotten(
    store: LocalStore,
) -> None:
    gone, useless = used("gone", 9), used("useless", 9)
    await store_of(gone, useless, into=store)

    async def removed() -> None:
        await store.put(SCOPE, WriteBatch(deletes=[DeleteMemory(memory_id=gone.memory_id)], at=NOW))

    answer = await forgotten(Between(store, removed))
    assert [memory.content for memory in answer.memories] == ["useless"]


async def test_memories_that_change_each_time_end_in_a_conflict_and_nothing_is_removed(store: LocalStore) -> None:
    await store_of(used("useless", 9), used("busy", 9), into=store)

    async def edited() -> None:
        [busy] = [memory for memory in await all_of(store) if memory.content == "busy"]
        changed = busy.model_copy(update={"importance": busy.importance / 2})
        await store.put(SCOPE, WriteBatch(puts=[PutMemory(memory=changed)], at=NOW))

    watched = Between(store, *[edited] * 12)
    with pytest.raises(ConflictError):
        await forgotten(watched)
    assert watched.writes == 10
    assert contents(await all_of(store)) == ["busy", "useless"]


BAD_THRESHOLDS: list[tuple[str, Any]] = [
    ("min_freq", 0),
    ("min_freq", -1),
    ("min_freq", 1.5),
    ("min_freq", True),
    ("max_utility", 0),
    ("max_utility", 1.01),
    ("max_utility", -0.5),
    ("max_utility", math.nan),
    ("max_utility", "0.5"),
    ("max_utility", True),
]


@pytest.mark.parametrize(("name", "value"), BAD_THRESHOLDS)
async def test_thresholds_that_would_forget_all_or_nothing_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=f"^{name}: "):
        await forgotten(TemporaryStore(), **{name: value})


async def test_the_thresholds_are_the_reason_unless_one_is_given(store: LocalStore) -> None:
    await store_of(used("useless", 9), into=store)
    answer = await forgotten(store, reason="")
    [event] = await events_of(store, answer.run_id)
    assert event.reason == "used 5 times or more, helped in less than 0.5 of the uses"


# Feedback


async def test_feedback_moves_importance_and_confidence_by_its_weight_in_order(store: LocalStore) -> None:
    one, two = used("a", 3, 1.0, importance=0.5, confidence=0.8), used("b", 0)
    await store_of(one, two, into=store)
    items = [
        seen(one, "helpful", 0.5, "it passed"),
        seen(two, "unhelpful", 0.2),
        seen(one, "unhelpful", 0.2, "it passed"),
        seen(one, "refuted", 0.25),
        seen(one, "confirmed", 1.0),
    ]
    first, second = await observe(store, SCOPE, items, at=NOW)
    assert [first.content, second.content] == ["a", "b"]
    assert [first.importance, second.importance] == pytest.approx([0.6, 0.4])
    assert [first.confidence, second.confidence] == [1.0, 1.0]
    assert (first.freq, first.utility, first.revision, first.updated_at) == (3, 1.0, 2, NOW)
    assert await store.get(SCOPE, [first.memory_id, second.memory_id]) == [first, second]
    events = (await events_of(store))[-2:]
    assert {(event.memory_id, event.actor, event.reason) for event in events} == {
        (one.memory_id, "feedback", "it passed; refuted; confirmed"),
        (two.memory_id, "feedback", "unhelpful"),
    }
    assert len({event.run_id for event in events} - {None}) == 1


async def test_a_memory_that_was_moved_keeps_its_vector(store: LocalStore) -> None:
    embedder = HashedEmbedder()
    memory = used("parse a date", 0)
    await store_of(memory, embedder=embedder, into=store)
    calls = len(embedder.calls)
    await observe(store, SCOPE, [seen(memory, "refuted")], at=NOW)
    assert len(embedder.calls) == calls
    vector = (await embedder.embed(["parse a date"]))[0]
    [found] = await store.search(SCOPE, MemorySearch(vector=vector))
    assert found.score == pytest.approx(1.0, abs=1e-5)
    assert found.memory.confidence == 0.5


async def test_no_feedback_is_no_write(store: LocalStore) -> None:
    watched = Between(store)
    assert await observe(watched, SCOPE, [], at=NOW) == []
    assert watched.writes == 0


async def test_feedback_on_the_memory_of_another_user_is_not_found_and_nothing_moves(store: LocalStore) -> None:
    own, other = used("a", 0), used("b", 0, scope=OTHER)
    await store_of(own, other, into=store)
    with pytest.raises(MemoryNotFoundError) as caught:
        await observe(store, SCOPE, [seen(own, "helpful"), seen(other, "helpful")], at=NOW)
    assert caught.value.missing == (other.memory_id,)
    assert [memory.importance for memory in [*await all_of(store), *await all_of(store, OTHER)]] == [0.5, 0.5]


async def test_a_hundred_at_once_on_one_memory_all_count(store: LocalStore) -> None:
    memory = used("a", 0, importance=0.0, confidence=1.0)
    await store_of(memory, into=store)

    async def tell(number: int) -> None:
        verdict = "helpful" if number % 2 else "refuted"
        await observe(store, SCOPE, [seen(memory, verdict, 0.1, f"by {number}")], at=NOW)

    async with asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(tell(number))
    [after] = await all_of(store)
    assert after.importance == pytest.approx(1 - 0.9**50)
    assert after.confidence == pytest.approx(0.9**50)
    assert after.revision == 101
    reasons = [event.reason for event in await events_of(store)][1:]
    assert sorted(reasons) == sorted(f"by {number}" for number in range(100))


async def test_an_edit_meanwhile_is_kept_and_the_feedback_comes_on_top(store: LocalStore) -> None:
    memory = used("a", 0)
    await store_of(memory, into=store)

    async def edited() -> None:
        changed = memory.model_copy(update={"content": "better", "importance": 0.8})
        await store.put(SCOPE, WriteBatch(puts=[PutMemory(memory=changed)], at=NOW))

    [after] = await observe(Between(store, edited), SCOPE, [seen(memory, "helpful", 0.5)], at=NOW)
    assert after.content == "better"
    assert after.importance == pytest.approx(0.9)


def test_a_memory_that_is_never_left_alone_ends_in_a_conflict_when_patience_does(tmp_path: Path) -> None:
    memory = used("a", 0)

    async def run() -> tuple[int, float]:
        store = TimelessStore(tmp_path / "memory.db", synchronous="NORMAL")
        await store_of(memory, into=store)

        async def edited() -> None:
            await store.put(SCOPE, WriteBatch(puts=[PutMemory(memory=memory)], at=NOW))

        watched = Between(store, *[edited] * 1000)
        with pytest.raises(ConflictError):
            await observe(watched, SCOPE, [seen(memory, "helpful")], at=NOW)
        assert [item.importance for item in await all_of(store)] == [0.5]
        await store.close()
        return watched.writes, asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        writes, seconds = runner.run(run())
    assert 20 <= writes < 200
    assert PATIENCE_S <= seconds < PATIENCE_S + 1


async def test_without_patience_the_first_conflict_is_the_last(store: LocalStore) -> None:
    memory = used("a", 0)
    await store_of(memory, into=store)

    async def edited() -> None:
        await store.put(SCOPE, WriteBatch(puts=[PutMemory(memory=memory)], at=NOW))

    watched = Between(store, edited)
    with pytest.raises(ConflictError):
        await observe(watched, SCOPE, [seen(memory, "helpful")], at=NOW, patience_s=0)
    assert watched.writes == 1


async def test_feedback_on_many_memories_is_looked_at_once_for_each(store: LocalStore) -> None:
    looks = 0

    class Watched(list[Feedback]):
        def __iter__(self) -> Iterator[Feedback]:
            nonlocal looks
            looks += 1
            return super().__iter__()

    memories = [used(f"{n}", 0) for n in range(30)]
    await store_of(*memories, into=store)
    await observe(store, SCOPE, Watched(seen(memory, "helpful") for memory in memories), at=NOW)
    assert looks == 1
    assert [item.importance for item in await all_of(store)] == [0.75] * 30


async def test_the_reasons_of_many_items_are_bounded_in_each_event(store: LocalStore) -> None:
    memory = used("a", 0)
    await store_of(memory, into=store)
    await observe(store, SCOPE, [seen(memory, "helpful", 0.1, f"{n}" * 4000) for n in range(9)], at=NOW)
    assert len((await events_of(store))[-1].reason) < 9000


async def test_feedback_is_taken_back_by_undo(store: LocalStore) -> None:
    memory = used("a", 2)
    await store_of(memory, into=store)
    await observe(store, SCOPE, [seen(memory, "refuted", 1.0)], at=NOW)
    run_id = (await events_of(store))[-1].run_id
    assert run_id is not None
    await undo_run(store, None, SCOPE, run_id, at=NOW)
    assert [item.confidence for item in await all_of(store)] == [1.0]


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0, 1),
    st.floats(0, 1),
    st.lists(st.tuples(st.sampled_from(list(Verdict)), WEIGHTS), min_size=1, max_size=8),
)
def test_whatever_is_seen_values_stay_between_zero_and_one_and_go_the_right_way(
    importance: float, confidence: float, seen_things: list[tuple[Verdict, float]]
) -> None:
    async def run() -> list[tuple[float, float]]:
        memory = used("a", 0, importance=importance, confidence=confidence)
        store = await store_of(memory)
        values = [(importance, confidence)]
        for verdict, weight in seen_things:
            [moved] = await observe(store, SCOPE, [seen(memory, verdict, weight)], at=NOW)
            values.append((moved.importance, moved.confidence))
        together = await store_of(memory)
        items = [seen(memory, verdict, weight) for verdict, weight in seen_things]
        [moved] = await observe(together, SCOPE, items, at=NOW)
        assert (moved.importance, moved.confidence) == values[-1]
        return values

    values = asyncio.run(run())
    assert all(0 <= value <= 1 for pair in values for value in pair)
    for (verdict, weight), before, after in zip(seen_things, values, values[1:], strict=False):
        place = 0 if verdict in {Verdict.HELPFUL, Verdict.UNHELPFUL} else 1
        assert before[1 - place] == after[1 - place]
        if verdict in {Verdict.HELPFUL, Verdict.CONFIRMED}:
            assert after[place] >= before[place]
            assert weight < 1 or after[place] == 1
        else:
            assert after[place] <= before[place]
            assert weight < 1 or after[place] == 0


# Reading feedback


def test_feedback_is_read_from_objects_and_dictionaries() -> None:
    given_one = Feedback(memory_id="m1", verdict=Verdict.HELPFUL)
    items = parse_feedback(
        item for item in [given_one, {"memory_id": "m1", "verdict": "refuted", "weight": None, "reason": "no"}]
    )
    assert items == (given_one, Feedback(memory_id="m1", verdict=Verdict.REFUTED, weight=0.2, reason="no"))
    assert parse_feedback([]) == ()


class Rated(Feedback):
    stars: int = 5


BAD_FEEDBACK: dict[str, tuple[Any, str]] = {
    "a text": ("helpful", "feedback: wanted a list"),
    "a single dictionary": ({"memory_id": "m1", "verdict": "helpful"}, "feedback: wanted a list"),
    "a single object": (Feedback(memory_id="m1", verdict=Verdict.HELPFUL), "feedback: wanted a list"),
    "nothing": (None, "feedback: wanted a list"),
    "a pair": ([("m1", "helpful")], r"feedback\[0\]: wanted a Feedback"),
    "no id": ([{"verdict": "helpful"}], r"feedback\[0\]\.memory_id"),
    "an empty id": ([{"memory_id": "", "verdict": "helpful"}], r"feedback\[0\]\.memory_id"),
    "a verdict that is none": ([{"memory_id": "m1", "verdict": "nice"}], r"feedback\[0\]\.verdict"),
    "a weight of nothing": ([{"memory_id": "m1", "verdict": "helpful", "weight": 0}], r"feedback\[0\]\.weight"),
    "a weight above one": ([{"memory_id": "m1", "verdict": "helpful", "weight": 2}], r"feedback\[0\]\.weight"),
    "a field that is none": ([{"memory_id": "m1", "verdict": "helpful", "user_id": "b"}], r"feedback\[0\]\.user_id"),
    "an object of another type": ([Rated(memory_id="m1", verdict=Verdict.HELPFUL)], r"feedback\[0\]\.stars"),
    "an object that was changed": (
        [Feedback(memory_id="m1", verdict=Verdict.HELPFUL).model_copy(update={"weight": 7})],
        r"feedback\[0\]\.weight",
    ),
    "the second one": (
        [{"memory_id": "m1", "verdict": "helpful"}, {"memory_id": "m1", "verdict": "helpful", "weight": math.nan}],
        r"feedback\[1\]\.weight",
    ),
}


@pytest.mark.parametrize(("items", "named"), BAD_FEEDBACK.values(), ids=BAD_FEEDBACK.keys())
def test_feedback_that_cannot_be_read_is_refused_naming_the_place(items: Any, named: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{named}"):
        parse_feedback(items)
