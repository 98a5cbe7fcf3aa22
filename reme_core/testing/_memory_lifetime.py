# asserts are what a contract suite is made of
"""Promises of a memory store about tasks, threads, processes and its own end."""

from __future__ import annotations

import asyncio

import pytest

from reme_core.errors import ConflictError, StoreClosedError
from reme_core.ports import (
    DeleteMemory,
    EventQuery,
    ListMemories,
    MemoryFilter,
    MemorySearch,
    PutMemory,
    Store,
)
from reme_core.schema import Event, Memory, MemoryType, new_id
from reme_core.testing._memory_writes import add, everything
from reme_core.testing.store_values import (
    ALICE,
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

TASKS = 50
THREADS = 16


class MemoryConcurrency:
    """Many writers at once, cancellation, and closing."""

    async def test_many_identical_adds_at_once_make_one_memory_and_one_event(self, store: Store) -> None:
        answers = await at_once(*(add(store, memory("the same fact")) for _ in range(TASKS)))
        held = await everything(store)
        assert len(held) == 1
        assert answers == [held] * TASKS
        assert len(await store.events(ALICE, EventQuery())) == 1

    async def test_of_many_adds_at_once_that_may_not_repeat_one_succeeds(self, store: Store) -> None:
        async def attempt() -> bool:
            try:
                await add(store, PutMemory(memory=memory("the same fact"), on_duplicate="raise"))
            except ConflictError:
                return False
            return True

        assert sum(await at_once(*(attempt() for _ in range(TASKS)))) == 1
        assert len(await everything(store)) == 1

    async def test_of_many_memory_blocks_of_one_label_at_once_there_is_one_whatever_they_say(
        self, store: Store
    ) -> None:
        async def attempt(text: str) -> bool:
            block = memory(text, memory_type=MemoryType.BLOCK, target="human")
            try:
                await add(store, PutMemory(memory=block, on_duplicate="raise"))
            except ConflictError:
                return False
            return True

        assert sum(await at_once(*(attempt(f"text {n}" if n else "") for n in range(TASKS)))) == 1
        [held] = await everything(store)
        await add(store, memory("another label", memory_type=MemoryType.BLOCK, target="persona"))
        [edited] = await store.put(ALICE, batch(changed(held, {"content": ""})))
        assert (edited.content, edited.revision) == ("", 2)
        assert await store.count_targets(ALICE) == {}
        blocks = MemoryFilter(types=(MemoryType.BLOCK,), targets=("human",))
        assert (await store.list_memories(ALICE, ListMemories(filter=blocks))).memories == (edited,)

    async def test_many_distinct_adds_at_once_are_all_kept(self, store: Store) -> None:
        await at_once(
            *(add(store, PutMemory(memory=memory(f"fact {n}"), vector=leaning(n / TASKS))) for n in range(TASKS))
        )
        assert {item.content for item in await everything(store)} == {f"fact {n}" for n in range(TASKS)}
        events = await store.events(ALICE, EventQuery())
        assert len({event.sequence for event in events}) == TASKS
        assert len(await store.search(ALICE, MemorySearch(vector=axis(0), limit=100))) == TASKS

    async def test_of_many_updates_at_once_that_expect_a_revision_one_succeeds(self, store: Store) -> None:
        [first] = await add(store, memory("fact"))

        async def attempt(number: int) -> bool:
            edit = changed(first, {"content": f"edit {number}"})
            try:
                await add(store, PutMemory(memory=edit, expected_revision=1))
            except ConflictError:
                return False
            return True

        assert sum(await at_once(*(attempt(number) for number in range(20)))) == 1
        assert (await everything(store))[0].revision == 2
        assert len(await store.events(ALICE, EventQuery())) == 2

    async def test_no_update_is_lost_when_many_write_the_same_memory(self, store: Store) -> None:
        [first] = await add(store, memory("fact"))
        await at_once(*(add(store, changed(first, {"freq": n})) for n in range(20)))
        assert (await everything(store))[0].revision == 21
        events = await store.events(ALICE, EventQuery())
        assert [event.after.revision for event in events if event.after] == list(range(1, 22))
        assert [event.before for event in events[1:]] == [event.after for event in events[:-1]]

    async def test_threads_with_event_loops_of_their_own_share_one_store(self, store: Store) -> None:
        async def work(number: int) -> list[str]:
            [same] = await add(store, memory("the same fact"))
            [own] = await add(store, PutMemory(memory=memory(f"fact {number}"), vector=leaning(number / THREADS)))
            assert await store.get(ALICE, [own.memory_id]) == [own]
            assert own in [item.memory for item in await store.search(ALICE, MemorySearch(text=f"{number} fact"))] or (
                len(await store.search(ALICE, MemorySearch(text=f"{number} fact"))) == 10
            )
            return [same.memory_id, own.memory_id]

        answers = await in_threads(work, count=THREADS)
        assert len({same for same, _ in answers}) == 1
        assert {item.content for item in await everything(store)} == {
            "the same fact",
            *(f"fact {number}" for number in range(THREADS)),
        }
        assert len(await store.events(ALICE, EventQuery())) == THREADS + 1

    async def test_a_store_used_in_another_event_loop_still_works_in_this_one(self, store: Store) -> None:
        [mine] = await add(store, memory("mine"))

        async def work(number: int) -> list[Memory]:
            return await add(store, memory(f"theirs {number}"))

        [[first]] = await in_threads(work, count=1)
        [[second]] = await in_threads(work, count=1)
        assert {item.memory_id for item in await everything(store)} == {mine.memory_id, first.memory_id} | {
            second.memory_id
        }

    async def test_a_write_cancelled_at_any_moment_is_whole_or_absent(self, store: Store) -> None:
        for steps in range(12):
            target = f"target {steps}"
            [old] = await add(store, memory("old", target=target))
            before = len(await store.events(ALICE, EventQuery()))
            new = [PutMemory(memory=memory(f"new {n}", target=target), vector=axis(n)) for n in range(3)]
            write = batch(*new, deletes=(DeleteMemory(memory_id=old.memory_id),))
            task = asyncio.create_task(store.put(ALICE, write))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await add(store, memory(f"written after {steps}"))  # goes through the same lock as the cancelled write
            page = await store.list_memories(ALICE, ListMemories(filter=MemoryFilter(targets=(target,))))
            contents = {item.content for item in page.memories}
            events = len(await store.events(ALICE, EventQuery())) - before - 1
            assert (contents, events) in (({"old"}, 0), ({"new 0", "new 1", "new 2"}, 4))
            if not task.cancelled():
                assert len(contents) == 3  # acknowledged, so it is there

    async def test_reads_cancelled_at_any_moment_leave_the_store_usable(self, store: Store) -> None:
        [fact] = await add(store, PutMemory(memory=memory("fact"), vector=axis(0)))
        for steps in range(6):
            task = asyncio.create_task(store.search(ALICE, MemorySearch(text="fact", vector=axis(0))))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert await store.get(ALICE, [fact.memory_id]) == [fact]

    async def test_every_call_after_closing_says_that_it_is_closed(self, store: Store) -> None:
        [fact] = await add(store, memory("fact"))
        await store.close()
        await store.close()
        with pytest.raises(StoreClosedError):
            await add(store, memory("other"))
        with pytest.raises(StoreClosedError):
            await store.get(ALICE, [fact.memory_id])
        with pytest.raises(StoreClosedError):
            await store.search(ALICE, MemorySearch(text="fact"))
        with pytest.raises(StoreClosedError):
            await store.list_memories(ALICE, ListMemories())
        with pytest.raises(StoreClosedError):
            await store.events(ALICE, EventQuery())
        with pytest.raises(StoreClosedError):
            await store.erase(ALICE)
        await store.close()


class MemoryDurability:
    """What a new process finds, and several processes at once. Declared by `capabilities`."""

    capabilities = StoreCapabilities()

    @pytest.fixture
    def opener(self) -> Opener[Store]:
        """Return what opens the same store again; to be overridden by a backend that declares a capability."""
        pytest.fail("this backend declares a capability that needs the fixture `opener`")

    async def test_a_new_process_finds_everything(self, store: Store, request: pytest.FixtureRequest) -> None:
        require(declared=self.capabilities.persistent, capability="persistent")
        opener: Opener[Store] = request.getfixturevalue("opener")
        first, second, third = await add(
            store, PutMemory(memory=memory("她喜欢打网球 🎾"), vector=leaning(0.5)), memory("two"), memory("three")
        )
        await add(store, changed(first, {"metadata": {"edited": True}}))
        await add(store, closed(second, minute=5))
        await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id=third.memory_id),)))
        ids = [second.memory_id, first.memory_id]
        here = (await store.get(ALICE, ids), await store.events(ALICE, EventQuery()))
        await store.close()
        memories, events, by_vector, by_words = await in_new_process(_look, opener, ids)
        assert (memories, events) == here
        assert by_vector == {first.memory_id: pytest.approx(0.5, abs=1e-5)}
        assert by_words == [first.memory_id]

    async def test_a_new_process_goes_on_with_revisions_duplicates_and_events(
        self, store: Store, request: pytest.FixtureRequest
    ) -> None:
        require(declared=self.capabilities.persistent, capability="persistent")
        opener: Opener[Store] = request.getfixturevalue("opener")
        [first] = await add(store, memory("fact"))
        await store.close()
        same, edited, sequences = await in_new_process(_go_on, opener, first)
        assert same == first
        assert (edited.revision, edited.created_at) == (2, first.created_at)
        assert len(sequences) == 2
        assert sequences == sorted(set(sequences))

    async def test_processes_that_write_at_the_same_time_lose_and_repeat_nothing(
        self, store: Store, request: pytest.FixtureRequest
    ) -> None:
        require(declared=self.capabilities.shared, capability="shared")
        opener: Opener[Store] = request.getfixturevalue("opener")
        [first] = await add(store, memory("counter"))
        same = await at_once(*(in_new_process(_write_some, opener, name, first) for name in ("a", "b")))
        own = {f"fact {name} {n}" for name in ("a", "b") for n in range(20)}
        common = {f"common {n}" for n in range(20)}
        held = await everything(store)
        assert {item.content for item in held} == own | common | {"counter"}
        assert len(held) == len(own | common) + 1
        assert same[0] == same[1]
        assert (await store.get(ALICE, [first.memory_id]))[0].revision == 41
        assert len({event.sequence for event in await store.events(ALICE, EventQuery())}) == len(held) + 40


async def _looked(
    opener: Opener[Store], ids: list[str]
) -> tuple[list[Memory], list[Event], dict[str, float], list[str]]:
    store = await opened(opener)
    by_vector = await store.search(ALICE, MemorySearch(vector=axis(0)))
    by_words = await store.search(ALICE, MemorySearch(text="网球"))
    answer = (
        await store.get(ALICE, ids),
        await store.events(ALICE, EventQuery()),
        {item.memory.memory_id: item.score for item in by_vector},
        [item.memory.memory_id for item in by_words],
    )
    await store.close()
    return answer


def _look(opener: Opener[Store], ids: list[str]) -> tuple[list[Memory], list[Event], dict[str, float], list[str]]:
    return asyncio.run(_looked(opener, ids))


async def _gone_on(opener: Opener[Store], first: Memory) -> tuple[Memory, Memory, list[int]]:
    store = await opened(opener)
    [same] = await add(store, memory("FACT"))
    [edited] = await add(store, PutMemory(memory=changed(first, {"content": "new"}), expected_revision=1))
    sequences = [event.sequence for event in await store.events(ALICE, EventQuery())]
    await store.close()
    return same, edited, sequences


def _go_on(opener: Opener[Store], first: Memory) -> tuple[Memory, Memory, list[int]]:
    return asyncio.run(_gone_on(opener, first))


async def _written(opener: Opener[Store], name: str, counter: Memory) -> list[str]:
    store = await opened(opener)
    ids = []
    for number in range(20):
        await add(store, memory(f"fact {name} {number}"))
        [common] = await add(store, memory(f"common {number}", memory_id=new_id()))
        await add(store, changed(counter, {"freq": number}))
        ids.append(common.memory_id)
    await store.close()
    return ids


def _write_some(opener: Opener[Store], name: str, counter: Memory) -> list[str]:
    return asyncio.run(_written(opener, name, counter))
