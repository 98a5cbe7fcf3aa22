# asserts are what a contract suite is made of
"""Promises of a memory store about scopes: no call shows, changes or removes anything of another one."""

from __future__ import annotations

from typing import Literal, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reme_core.errors import ConflictError, InvalidInputError, MemoryNotFoundError
from reme_core.ports import DeleteMemory, EventQuery, ListMemories, MemoryFilter, MemorySearch, PutMemory, Store
from reme_core.schema import Erased, Memory, Scope, new_id
from reme_core.testing._memory_writes import EVERYTHING, add, everything
from reme_core.testing.store_values import (
    ALICE,
    BOB,
    ELSEWHERE,
    LOOKALIKES,
    SHARED,
    axis,
    batch,
    changed,
    closed,
    leaning,
    memory,
)

OTHERS = (BOB, SHARED, ELSEWHERE, *LOOKALIKES)
# Examples use scopes of their own in the store of one test, and each backend runs the same function in its own class.
SUPPRESSED = (HealthCheck.function_scoped_fixture, HealthCheck.differing_executors)

Step: TypeAlias = tuple[int, Literal["put", "close", "delete", "erase", "search"], int, int]


async def visible(store: Store, scope: Scope) -> list[Memory]:
    """Return everything that any reading call shows of a scope."""
    seen = await everything(store, scope)
    for search in (
        MemorySearch(text="fact", limit=1000),
        MemorySearch(vector=axis(0), limit=1000),
        MemorySearch(text="fact", vector=axis(0), limit=1000, filter=MemoryFilter(include_superseded=True)),
    ):
        seen += [item.memory for item in await store.search(scope, search)]
    for event in await store.events(scope, EventQuery()):
        seen += [item for item in (event.before, event.after) if item is not None]
    return seen


class MemoryIsolation:
    """Two scopes never meet."""

    async def test_the_same_text_in_two_scopes_is_two_memories(self, store: Store) -> None:
        for scope in (ALICE, *OTHERS):
            put = PutMemory(memory=memory("fact", scope=scope), vector=axis(0), on_duplicate="raise")
            [written] = await add(store, put, scope=scope)
            assert written.scope == scope
        for scope in (ALICE, *OTHERS):
            assert [item.scope for item in await everything(store, scope)] == [scope]

    async def test_the_same_id_in_two_scopes_is_two_memories(self, store: Store) -> None:
        for scope in (ALICE, *OTHERS):
            put = PutMemory(memory=memory("fact", scope=scope, memory_id="same"), vector=axis(0), expected_revision=0)
            await add(store, put, scope=scope)
        await add(store, changed(memory("fact", memory_id="same"), {"content": "changed fact"}))
        await store.put(BOB, batch(deletes=(DeleteMemory(memory_id="same"),)))
        assert (await store.get(ALICE, ["same"]))[0].content == "changed fact"
        for scope in OTHERS[1:]:
            [item] = await store.get(scope, ["same"])
            assert (item.scope, item.content, item.revision) == (scope, "fact", 1)

    async def test_no_reading_call_shows_anything_of_another_scope(self, store: Store) -> None:
        for number, scope in enumerate((ALICE, *OTHERS)):
            item = memory("fact", scope=scope, memory_id=f"id {number}")
            await add(store, PutMemory(memory=item, vector=leaning(0.5)), scope=scope)
        for scope in (ALICE, *OTHERS):
            seen = await visible(store, scope)
            assert len(seen) == 5
            assert {item.scope for item in seen} == {scope}

    async def test_a_scope_without_memories_shows_none_of_another(self, store: Store) -> None:
        fact = memory("fact", memory_id="id")
        await add(store, PutMemory(memory=fact, vector=axis(0)))
        for scope in OTHERS:
            assert await visible(store, scope) == [], scope
            with pytest.raises(MemoryNotFoundError):
                await store.get(scope, ["id"])
            assert await store.events(scope, EventQuery(memory_id="id")) == [], scope

    async def test_deleting_another_scopes_memory_is_not_found(self, store: Store) -> None:
        [fact] = await add(store, memory("fact"))
        for scope in OTHERS:
            for name in (fact.memory_id, "*", ""):
                with pytest.raises(MemoryNotFoundError):
                    await store.put(scope, batch(deletes=(DeleteMemory(memory_id=name),)))
            assert await everything(store) == [fact], scope
        assert len(await store.events(ALICE, EventQuery())) == 1

    async def test_a_memory_of_another_scope_is_not_written(self, store: Store) -> None:
        [fact] = await add(store, memory("fact"))
        for scope in OTHERS:
            with pytest.raises(InvalidInputError):
                await add(store, changed(fact, {"content": "hijacked"}), scope=scope)
            with pytest.raises(InvalidInputError):
                await add(store, memory("planted", scope=scope))
            assert await everything(store) == [fact], scope
            assert await everything(store, scope) == [], scope

    async def test_erasing_a_scope_leaves_every_other_alone(self, store: Store) -> None:
        [fact] = await add(store, PutMemory(memory=memory("fact"), vector=axis(0)))
        for scope in OTHERS:
            await add(store, memory("fact", scope=scope), scope=scope)
            assert _counts(await store.erase(scope)) == (1, 1), scope
            assert await visible(store, scope) == [], scope
            assert len(await visible(store, ALICE)) == 5, scope
            assert await store.get(ALICE, [fact.memory_id]) == [fact], scope

    async def test_erasing_removes_memories_vectors_texts_and_events(self, store: Store) -> None:
        first, second = await add(store, PutMemory(memory=memory("fact one"), vector=axis(0)), memory("fact two"))
        await add(store, closed(first, minute=9))
        await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id=second.memory_id),)))
        assert _counts(await store.erase(ALICE)) == (1, 4)
        assert await visible(store, ALICE) == []
        assert await store.events(ALICE, EventQuery(memory_id=second.memory_id)) == []
        assert _counts(await store.erase(ALICE)) == (0, 0)

    async def test_an_erased_memory_takes_its_history_with_it(self, store: Store) -> None:
        first, second = await add(store, PutMemory(memory=memory("fact one"), vector=axis(0)), memory("fact two"))
        await add(store, changed(first, {"content": "fact"}))
        await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id=first.memory_id, erase=True),)))
        assert await store.events(ALICE, EventQuery(memory_id=first.memory_id)) == []
        assert len(await store.events(ALICE, EventQuery())) == 1
        assert [hit.memory for hit in await store.search(ALICE, MemorySearch(text="fact"))] == [second]

    async def test_an_erased_scope_starts_anew(self, store: Store) -> None:
        [first] = await add(store, PutMemory(memory=memory("fact"), vector=axis(0)))
        await add(store, changed(first, {"metadata": {"a": 1}}))
        await store.erase(ALICE)
        put = PutMemory(memory=memory("fact", memory_id=first.memory_id, minute=3), on_duplicate="raise")
        [again] = await add(store, put)
        assert again.revision == 1
        assert await store.search(ALICE, MemorySearch(vector=axis(0))) == []
        assert len(await store.events(ALICE, EventQuery())) == 1

    async def test_a_cursor_of_another_scope_shows_nothing_of_it(self, store: Store) -> None:
        await add(store, *(memory(f"fact {n}", minute=n) for n in range(5)))
        await add(store, *(memory(f"fact {n}", scope=BOB, minute=n) for n in range(5)), scope=BOB)
        cursor = (await store.list_memories(ALICE, ListMemories(limit=2))).next_cursor
        assert cursor is not None
        try:
            page = await store.list_memories(BOB, ListMemories(limit=10, cursor=cursor))
        except InvalidInputError:
            return
        assert {item.scope for item in page.memories} <= {BOB}

    async def test_statistics_of_another_scope_do_not_move_scores(self, store: Store) -> None:
        await add(store, memory("the zebra of the zoo"), memory("a zoo in the town"))
        search = MemorySearch(text="zebra zoo")
        before = await store.search(ALICE, search)
        await add(store, *(memory(f"zebra zebra {n}", scope=BOB) for n in range(30)), scope=BOB)
        after = await store.search(ALICE, search)
        assert [item.memory for item in after] == [item.memory for item in before]
        assert [item.score for item in after] == pytest.approx([item.score for item in before])

    @given(
        st.lists(
            st.tuples(
                st.integers(0, 1),
                st.sampled_from(["put", "put", "put", "close", "delete", "erase", "search"]),
                st.integers(0, 4),
                st.integers(0, 3),
            ),
            max_size=20,
        )
    )
    @settings(max_examples=25, deadline=None, suppress_health_check=SUPPRESSED)
    async def test_no_sequence_of_calls_mixes_two_scopes(self, store: Store, steps: list[Step]) -> None:
        space = new_id()
        scopes = (Scope(memory_space=space, user_id="a"), Scope(memory_space=space, user_id="*"))
        model: tuple[dict[str, Memory], dict[str, Memory]] = ({}, {})
        for which, action, name, text in steps:
            scope, held = scopes[which], model[which]
            await _take_step(store, scope, held, (which, action, name, text))
            for other_scope, other in zip(scopes, model, strict=True):
                page = await store.list_memories(other_scope, EVERYTHING)
                assert {item.memory_id: item for item in page.memories} == other
                for event in await store.events(other_scope, EventQuery()):
                    assert all(item is None or item.scope == other_scope for item in (event.before, event.after))


async def _take_step(store: Store, scope: Scope, held: dict[str, Memory], step: Step) -> None:
    """Do one step to the store and to the model of it."""
    _, action, name, text = step
    memory_id = f"id {name}"
    match action:
        case "put" | "close":
            item = memory(f"fact {text}", scope=scope, memory_id=memory_id)
            item = closed(item, minute=5, by="newer") if action == "close" else item
            try:
                [written] = await store.put(scope, batch(PutMemory(memory=item, vector=leaning(text / 4))))
            except ConflictError:
                assert any(other.content == item.content and other.is_current for other in held.values())
            else:
                held[written.memory_id] = written
        case "delete":
            try:
                await store.put(scope, batch(deletes=(DeleteMemory(memory_id=memory_id),)))
            except MemoryNotFoundError:
                assert memory_id not in held
            else:
                del held[memory_id]
        case "erase":
            assert (await store.erase(scope)).memories == len(held)
            held.clear()
        case "search":
            found = await store.search(scope, MemorySearch(text="fact", vector=axis(0), limit=100))
            current = {key: item for key, item in held.items() if item.is_current}
            assert {item.memory.memory_id: item.memory for item in found} == current


def _counts(erased: Erased) -> tuple[int, int]:
    return erased.memories, erased.events
