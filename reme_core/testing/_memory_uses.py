# asserts are what a contract suite is made of
"""Promises of a memory store about the counts of uses: who may change them, and that none is lost."""

from __future__ import annotations

import asyncio
import math

import pytest

from reme_core.errors import ConflictError, InvalidInputError, MemoryNotFoundError, StoreClosedError
from reme_core.ports import (
    DeleteMemory,
    EventQuery,
    MemoryFilter,
    MemorySearch,
    PutMemory,
    Store,
    Uselessness,
    UseMemory,
)
from reme_core.schema import Memory, Scope
from reme_core.testing._memory_writes import add, cosine_with_first_axis, everything
from reme_core.testing.store_values import (
    ALICE,
    BOB,
    ELSEWHERE,
    LOOKALIKES,
    SHARED,
    Opener,
    StoreCapabilities,
    at_once,
    axis,
    batch,
    changed,
    closed,
    in_new_process,
    in_threads,
    leaning,
    memory,
    opened,
    require,
)

OTHERS = (BOB, SHARED, ELSEWHERE, *LOOKALIKES)
USES = 20


def useless(min_freq: int, max_utility: float) -> Uselessness:
    """Build the condition of a delete."""
    return Uselessness(min_freq=min_freq, max_utility=max_utility)


def use(value: Memory | str, uses: int = 1, helpful: float = 0.0) -> UseMemory:
    """Build the use of a memory."""
    name = value if isinstance(value, str) else value.memory_id
    return UseMemory(memory_id=name, uses=uses, helpful=helpful)


async def counts(store: Store, *memories: Memory, scope: Scope = ALICE) -> list[tuple[int, float]]:
    """Return `freq` and `utility` of memories."""
    found = await store.get(scope, [item.memory_id for item in memories])
    return [(item.freq, item.utility) for item in found]


class MemoryCounts:
    """What writes do with counts."""

    async def test_a_new_memory_brings_its_counts_and_an_update_leaves_them(self, store: Store) -> None:
        [first] = await add(store, changed(memory("fact"), {"freq": 7, "utility": 2.5}))
        assert (first.freq, first.utility) == (7, 2.5)
        [edited] = await add(store, changed(first, {"content": "edited", "freq": 0, "utility": 99.0}))
        assert (edited.content, edited.freq, edited.utility, edited.revision) == ("edited", 7, 2.5, 2)
        [ended] = await add(store, changed(closed(edited, minute=5), {"freq": 1, "utility": 0.0}))
        assert (ended.freq, ended.utility) == (7, 2.5)
        assert await everything(store) == [ended]
        events = await store.events(ALICE, EventQuery())
        assert [event.after for event in events] == [first, edited, ended]

    async def test_a_memory_that_takes_a_freed_id_brings_its_own_counts(self, store: Store) -> None:
        [first] = await add(store, changed(memory("fact"), {"freq": 7, "utility": 2.5}))
        [new] = await store.put(
            ALICE,
            batch(
                changed(memory("another", memory_id=first.memory_id), {"freq": 1}),
                deletes=(DeleteMemory(memory_id=first.memory_id),),
            ),
        )
        assert (new.freq, new.utility) == (1, 0.0)

    @pytest.mark.parametrize("limits", [(9, 0.5), (8, 0.25), (8, 0.1)])
    async def test_a_delete_of_a_memory_that_is_not_useless_is_refused_with_all_of_its_batch(
        self, store: Store, limits: tuple[int, float]
    ) -> None:
        first, other = await add(store, changed(memory("fact"), {"freq": 8, "utility": 2.0}), memory("other"))
        deletes = (
            DeleteMemory(memory_id=other.memory_id),
            DeleteMemory(memory_id=first.memory_id, only_if_useless=useless(*limits)),
        )
        with pytest.raises(ConflictError, match=first.memory_id):
            await store.put(ALICE, batch(memory("new"), deletes=deletes))
        assert {item.memory_id for item in await everything(store)} == {first.memory_id, other.memory_id}
        right = DeleteMemory(memory_id=first.memory_id, only_if_useless=useless(8, 0.26), expected_revision=1)
        await store.put(ALICE, batch(deletes=(right,)))
        assert await everything(store) == [other]

    async def test_what_was_never_used_is_not_useless(self, store: Store) -> None:
        [fact] = await add(store, memory("fact"))
        for least in (0, 1):
            gone = DeleteMemory(memory_id=fact.memory_id, only_if_useless=useless(least, 1.0))
            with pytest.raises(ConflictError):
                await store.put(ALICE, batch(deletes=(gone,)))
        assert await everything(store) == [fact]


class MemoryUses:
    """Counting uses, of a store that is `Store`."""

    async def test_uses_add_up_and_change_nothing_else(self, store: Store) -> None:
        start = changed(memory("fact 海象", metadata={"a": 1}), {"freq": 3, "utility": 0.5})
        first, other = await add(store, PutMemory(memory=start, vector=leaning(0.5)), memory("other"))
        before = await store.events(ALICE, EventQuery())
        [one] = await store.record_uses(ALICE, [use(first)])
        [two] = await store.record_uses(ALICE, [use(first, 2, 0.1)])
        [three] = await store.record_uses(ALICE, [use(first, 0, 0.2)])
        assert one == changed(first, {"freq": 4})
        assert two == changed(first, {"freq": 6, "utility": 0.5 + 0.1})
        assert three == changed(first, {"freq": 6, "utility": 0.5 + 0.1 + 0.2})
        assert await store.get(ALICE, [first.memory_id, other.memory_id]) == [three, other]
        assert await store.events(ALICE, EventQuery()) == before
        assert await cosine_with_first_axis(store, first.memory_id) == pytest.approx(0.5, abs=1e-5)

    async def test_every_reading_call_shows_the_counts_at_once(self, store: Store) -> None:
        [fact] = await add(store, PutMemory(memory=memory("fact", metadata={"a": 1}), vector=axis(0)))
        narrowed = MemoryFilter(metadata={"a": 1}, keyword="fact")
        for expected in (1, 2, 3):
            await store.record_uses(ALICE, [use(fact)])
            for search in (MemorySearch(text="fact"), MemorySearch(vector=axis(0), filter=narrowed)):
                assert [item.memory.freq for item in await store.search(ALICE, search)] == [expected]
            assert [item.freq for item in await everything(store)] == [expected]

    async def test_memories_come_back_in_the_order_given_and_count_as_often_as_named(self, store: Store) -> None:
        a, b = await add(store, memory("a"), closed(memory("b"), minute=5))
        found = await store.record_uses(ALICE, [use(b), use(a, 5), use(b, 1, 1.0)])
        assert [(item.memory_id, item.freq, item.utility) for item in found] == [
            (b.memory_id, 2, 1.0),
            (a.memory_id, 5, 0.0),
            (b.memory_id, 2, 1.0),
        ]
        assert await store.record_uses(ALICE, []) == []

    async def test_unknown_memories_are_all_named_and_nothing_is_counted(self, store: Store) -> None:
        [fact] = await add(store, memory("fact"))
        with pytest.raises(MemoryNotFoundError) as caught:
            await store.record_uses(ALICE, [use("x"), use(fact), use("y"), use("x")])
        assert list(caught.value.missing) == ["x", "y"]
        assert await counts(store, fact) == [(0, 0.0)]

    async def test_what_is_no_count_is_refused_and_nothing_is_counted(self, store: Store) -> None:
        [fact] = await add(store, memory("fact"))
        bad = [(-1, 0.0), (1, -0.5), (0, 0.0), (1, math.nan), (1, math.inf), (1 << 54, 0.0), (0, 1e300), (-1, 5.0)]
        for uses, helpful in bad:
            with pytest.raises(InvalidInputError, match=r"uses\[1\]"):
                await store.record_uses(ALICE, [use(fact), use(fact, uses, helpful)])
        with pytest.raises(InvalidInputError, match=fact.memory_id):
            await store.record_uses(ALICE, [use(fact), use(fact, 1 << 53)])
        assert await counts(store, fact) == [(0, 0.0)]

    async def test_another_scope_cannot_use_a_memory(self, store: Store) -> None:
        [mine] = await add(store, memory("fact", memory_id="same"))
        for number, scope in enumerate(OTHERS, start=1):
            with pytest.raises(MemoryNotFoundError):
                await store.record_uses(scope, [use("same")])
            await add(store, memory("fact", memory_id="same", scope=scope), scope=scope)
            await store.record_uses(scope, [use("same", number)])
        assert await counts(store, mine) == [(0, 0.0)]
        for number, scope in enumerate(OTHERS, start=1):
            assert await counts(store, mine, scope=scope) == [(number, 0.0)]

    async def test_what_is_returned_of_a_use_is_a_copy(self, store: Store) -> None:
        [fact] = await add(store, memory("fact", metadata={"list": [1]}))
        [found] = await store.record_uses(ALICE, [use(fact)])
        found.metadata["list"] = "changed"
        [again] = await store.get(ALICE, [fact.memory_id])
        assert again.metadata == {"list": [1]}

    async def test_an_update_from_what_was_read_before_a_use_keeps_the_use(self, store: Store) -> None:
        [first] = await add(store, memory("fact"))
        await store.record_uses(ALICE, [use(first, 3, 1.5)])
        edit = PutMemory(memory=changed(first, {"content": "edited"}), expected_revision=1)
        [edited] = await add(store, edit)
        assert (edited.content, edited.revision, edited.freq, edited.utility) == ("edited", 2, 3, 1.5)
        [back] = await add(store, first)
        assert back == replace_counts(first, revision=3, freq=3, utility=1.5)

    async def test_a_delete_of_what_is_useless_is_refused_after_a_use_that_helped_and_not_after_one_in_vain(
        self, store: Store
    ) -> None:
        [fact] = await add(store, changed(memory("fact"), {"freq": 4, "utility": 1.0}))
        gone = DeleteMemory(memory_id=fact.memory_id, only_if_useless=useless(4, 0.5))
        await store.record_uses(ALICE, [use(fact, 0, 1.0)])
        with pytest.raises(ConflictError, match=fact.memory_id):
            await store.put(ALICE, batch(deletes=(gone,)))
        await store.record_uses(ALICE, [use(fact)])
        await store.put(ALICE, batch(deletes=(gone,)))
        [_, deleted] = await store.events(ALICE, EventQuery())
        assert deleted.before == changed(fact, {"freq": 5, "utility": 2.0})
        with pytest.raises(MemoryNotFoundError):
            await store.record_uses(ALICE, [use(fact)])

    async def test_of_many_uses_and_updates_at_once_none_is_lost(self, store: Store) -> None:
        one, two = await add(store, memory("one"), memory("two"))
        uses = [store.record_uses(ALICE, [use(one, 1, 0.5), use(two, 2)]) for _ in range(USES)]
        updates = [add(store, changed(one, {"content": f"edit {n}"})) for n in range(USES)]
        await at_once(*(work for pair in zip(uses, updates, strict=True) for work in pair))
        assert await counts(store, one, two) == [(USES, USES / 2), (2 * USES, 0.0)]
        [found] = await store.get(ALICE, [one.memory_id])
        assert found.revision == USES + 1
        events = await store.events(ALICE, EventQuery(memory_id=one.memory_id))
        assert [event.after.revision for event in events if event.after] == list(range(1, USES + 2))

    async def test_threads_that_use_a_memory_at_once_lose_no_use(self, store: Store) -> None:
        [fact] = await add(store, memory("fact"))

        async def work(_: int) -> None:
            for _ in range(10):
                await store.record_uses(ALICE, [use(fact, 1, 1.0)])

        await in_threads(work, count=4)
        assert await counts(store, fact) == [(40, 40.0)]

    async def test_uses_cancelled_at_any_moment_count_once_or_not_at_all(self, store: Store) -> None:
        for steps in range(6):
            one, two = await add(store, memory(f"one {steps}"), memory(f"two {steps}"))
            task = asyncio.create_task(store.record_uses(ALICE, [use(one), use(two)]))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await store.record_uses(ALICE, [use(one, 10), use(two, 10)])  # goes through the same lock
            assert await counts(store, one, two) in ([(10, 0.0)] * 2, [(11, 0.0)] * 2)

    async def test_using_a_memory_of_a_closed_store_says_that_it_is_closed(self, store: Store) -> None:
        [fact] = await add(store, memory("fact"))
        await store.close()
        with pytest.raises(StoreClosedError):
            await store.record_uses(ALICE, [use(fact)])


def replace_counts(value: Memory, *, revision: int, freq: int, utility: float) -> Memory:
    """Return a memory with the fields that a store keeps."""
    return changed(value, {"revision": revision, "freq": freq, "utility": utility})


class MemoryUsesDurability:
    """What a new process finds of uses, and several that use at once. Declared by `capabilities`."""

    capabilities = StoreCapabilities()

    async def test_a_store_opened_again_goes_on_counting(self, store: Store, request: pytest.FixtureRequest) -> None:
        require(declared=self.capabilities.persistent, capability="persistent")
        opener: Opener[Store] = request.getfixturevalue("opener")
        [fact] = await add(store, memory("fact"))
        [here] = await store.record_uses(ALICE, [use(fact, 2, 0.1)])
        await store.close()
        there, after = await _used(opener, fact, 1)
        assert there == here
        assert (after.freq, after.utility) == (3, 0.1 + 0.25)

    async def test_processes_that_use_a_memory_at_once_lose_no_use(
        self, store: Store, request: pytest.FixtureRequest
    ) -> None:
        require(declared=self.capabilities.shared, capability="shared")
        opener: Opener[Store] = request.getfixturevalue("opener")
        [fact] = await add(store, memory("fact"))
        await at_once(*(in_new_process(_use_some, opener, fact, 10) for _ in range(2)))
        for number in range(5):
            await add(store, changed(fact, {"content": f"edit {number}"}))
            await store.record_uses(ALICE, [use(fact)])
        assert await counts(store, fact) == [(25, 5.0)]


async def _used(opener: Opener[Store], fact: Memory, times: int) -> tuple[Memory, Memory]:
    store = await opened(opener)
    [before] = await store.get(ALICE, [fact.memory_id])
    after = before
    for _ in range(times):
        [after] = await store.record_uses(ALICE, [use(fact, 1, 0.25)])
    await store.close()
    return before, after


def _use_some(opener: Opener[Store], fact: Memory, times: int) -> tuple[Memory, Memory]:
    return asyncio.run(_used(opener, fact, times))
