# asserts are what a contract suite is made of
"""Promises of a store that fills in vectors later."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reme_core.errors import DimensionMismatchError, InvalidInputError
from reme_core.ports import (
    DeleteMemory,
    EventQuery,
    MemorySearch,
    MessageVector,
    PutMemory,
    Store,
    Vector,
)
from reme_core.schema import Memory, Scope
from reme_core.testing._memory_writes import add
from reme_core.testing.store_values import ALICE, BOB, at, axis, bad_vectors, batch, changed, memory


async def waits(store: Store, scope: Scope = ALICE) -> list[str]:
    """Return the texts that wait."""
    return [item.text for item in await store.pending_texts(scope, 100)]


async def fill(store: Store, vector: Vector | None, *, scope: Scope = ALICE) -> None:
    """Answer all texts that wait with one vector."""
    pending = await store.pending_texts(scope, 100)
    await store.put_vectors(scope, [MessageVector(pending=item, vector=vector) for item in pending])


async def nearest(store: Store, vector: Vector) -> Sequence[str]:
    """Return the contents of memories that are exactly there."""
    found = await store.search(ALICE, MemorySearch(vector=vector, min_score=0.99))
    return [item.memory.content for item in found]


def wanting(value: Memory) -> PutMemory:
    """Build a put of a memory that waits for its vector."""
    return PutMemory(memory=value, wants_vector=True)


class MemoryWaiting:
    """A memory that was written without the vector it wants waits for it."""

    async def test_a_memory_waits_until_its_vector_is_there(self, store: Store) -> None:
        first, second, plain = memory("one", minute=1), memory("two", minute=2), memory("three", minute=3)
        await add(store, wanting(first), wanting(second), plain, PutMemory(memory=memory("four"), vector=axis(2)))
        assert await waits(store) == ["one", "two"]
        assert [item.text for item in await store.pending_texts(ALICE, 1)] == ["one"]
        assert await store.waiting_scopes(ALICE.memory_space) == [ALICE]
        await fill(store, axis(0))
        assert await waits(store) == []
        assert await store.waiting_scopes(ALICE.memory_space) == []
        assert sorted(await nearest(store, axis(0))) == ["one", "two"]

    async def test_filling_in_is_no_change_of_the_memory(self, store: Store) -> None:
        [stored] = await add(store, wanting(memory("one")))
        await fill(store, axis(0))
        assert await store.get(ALICE, [stored.memory_id]) == [stored]
        assert len(await store.events(ALICE, EventQuery())) == 1

    async def test_what_waits_is_found_by_its_words(self, store: Store) -> None:
        await add(store, wanting(memory("fact: tea")), PutMemory(memory=memory("fact: rain"), vector=axis(1)))
        found = await store.search(ALICE, MemorySearch(text="tea", vector=axis(0)))
        assert "fact: tea" in [item.memory.content for item in found]

    async def test_a_vector_that_is_given_up_is_waited_for_no_more(self, store: Store) -> None:
        await add(store, wanting(memory("one")))
        await fill(store, None)
        assert await waits(store) == []

    async def test_a_change_of_the_text_decides_anew_and_another_one_does_not(self, store: Store) -> None:
        [first] = await add(store, wanting(memory("one")))
        [second] = await add(store, changed(first, {"importance": 0.9, "updated_at": at(5)}))
        assert await waits(store) == ["one"]
        [third] = await add(store, wanting(changed(second, {"content": "two"})))
        assert await waits(store) == ["two"]
        [fourth] = await add(store, changed(third, {"content": "three"}))
        assert await waits(store) == []
        [fifth] = await add(store, wanting(changed(fourth, {"content": "four"})))
        await add(store, PutMemory(memory=fifth, vector=axis(0)))
        assert await waits(store) == []

    async def test_a_vector_stays_where_the_text_does(self, store: Store) -> None:
        [first] = await add(store, PutMemory(memory=memory("one"), vector=axis(0)))
        await add(store, wanting(changed(first, {"importance": 0.9})))
        assert await waits(store) == []
        assert await nearest(store, axis(0)) == ["one"]

    async def test_a_vector_of_what_says_something_else_by_now_is_passed_over(self, store: Store) -> None:
        [first, second] = await add(store, wanting(memory("one", minute=1)), wanting(memory("two", minute=2)))
        pending = await store.pending_texts(ALICE, 10)
        await add(store, wanting(changed(first, {"content": "three"})))
        await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id=second.memory_id),)))
        await store.put_vectors(ALICE, [MessageVector(pending=item, vector=axis(0)) for item in pending])
        assert await waits(store) == ["three"]
        assert await nearest(store, axis(0)) == []

    async def test_what_waits_is_a_matter_of_one_scope(self, store: Store) -> None:
        await add(store, wanting(memory("one")))
        pending = await store.pending_texts(ALICE, 10)
        assert await waits(store, BOB) == []
        await store.put_vectors(BOB, [MessageVector(pending=item, vector=axis(0)) for item in pending])
        assert await waits(store) == ["one"]
        assert await store.waiting_scopes("elsewhere") == []
        await store.erase(ALICE)
        assert await store.waiting_scopes(ALICE.memory_space) == []

    @pytest.mark.parametrize("vector", bad_vectors().values(), ids=bad_vectors())
    async def test_a_vector_that_is_none_is_refused_and_the_memory_waits_on(self, store: Store, vector: Vector) -> None:
        await add(store, PutMemory(memory=memory("one"), vector=axis(1)), wanting(memory("two")))
        with pytest.raises((InvalidInputError, DimensionMismatchError)):
            await fill(store, vector)
        assert await waits(store) == ["two"]
