# asserts are what a contract suite is made of
"""Promises of a tool call store about scopes, threads, processes and its own end."""

from __future__ import annotations

import asyncio

import pytest

from reme_core.errors import StoreClosedError, ToolCallNotFoundError
from reme_core.ports import ListToolCalls, ListTools, ToolPage
from reme_core.schema import Scope, ToolCallResult, ToolStatistics
from reme_core.testing.store_values import (
    ALICE,
    BOB,
    ELSEWHERE,
    LOOKALIKES,
    SHARED,
    Opener,
    StoreCapabilities,
    at_once,
    in_new_process,
    in_threads,
    opened,
    require,
)
from tests.contract.suites.tool_call_values import (
    TOOL,
    Store,
    add,
    added_up,
    call,
    failed,
    ids,
    listed,
    random_calls,
    statistics,
    tools,
)

OTHERS = (BOB, SHARED, ELSEWHERE, *LOOKALIKES)
THREADS = 8


class ToolCallIsolation:
    """Two scopes never meet."""

    async def test_the_same_id_in_two_scopes_is_two_calls(self, store: Store) -> None:
        for number, scope in enumerate((ALICE, *OTHERS)):
            assert (await add(store, call("same", output=f"of {number}"), scope=scope)).added == ("same",)
        for number, scope in enumerate((ALICE, *OTHERS)):
            [found] = await store.get_tool_calls(scope, ["same"])
            assert found.output == f"of {number}"
            assert await listed(store, scope=scope) == [found]

    async def test_another_scope_sees_counts_and_removes_no_call(self, store: Store) -> None:
        kept = failed("HTTP 503", "a")
        await add(store, kept)
        for scope in OTHERS:
            with pytest.raises(ToolCallNotFoundError):
                await store.get_tool_calls(scope, ["a"])
            assert await listed(store, scope=scope) == []
            assert await listed(store, ListToolCalls(tool_name=TOOL, error="HTTP 503"), scope=scope) == []
            assert await tools(store, scope=scope) == []
            assert await statistics(store, scope=scope) == ToolStatistics(tool_name=TOOL)
        for scope in (BOB, LOOKALIKES[0]):
            assert (await store.erase(scope)).tool_calls == 0
        assert await listed(store) == [kept]

    async def test_a_cursor_shows_nothing_of_the_scope_that_it_comes_from(self, store: Store) -> None:
        await add(store, call(minute=1), call(minute=2), call(tool_name="a"))
        await add(store, call("of Bob", "z"), scope=BOB)
        cursor = (await store.list_tool_calls(ALICE, ListToolCalls(limit=1))).next_cursor
        page = await store.list_tool_calls(BOB, ListToolCalls(cursor=cursor))
        assert set(ids(page.calls)) <= {"of Bob"}
        after = (await store.list_tools(ALICE, ListTools(limit=1))).next_cursor
        assert await store.list_tools(BOB, ListTools(cursor=after)) == ToolPage(tools=(("z", 1),))

    async def test_erasing_a_scope_removes_its_calls_and_no_others(self, store: Store) -> None:
        calls = {scope: random_calls(number, 20, ("a", "b")) for number, scope in enumerate((ALICE, BOB))}
        for scope, own in calls.items():
            await add(store, *own, scope=scope)
        assert (await store.erase(ALICE)).tool_calls == 20
        assert (await listed(store), await tools(store)) == ([], [])
        assert await statistics(store, "a") == ToolStatistics(tool_name="a")
        assert await statistics(store, "a", scope=BOB) == added_up(calls[BOB], "a")
        assert len(await listed(store, scope=BOB)) == 20
        assert (await store.erase(ALICE)).tool_calls == 0
        again = call(calls[ALICE][0].call_id, output="another")
        assert (await add(store, again)).added == (again.call_id,)

    async def test_a_store_that_counts_counts_calls_of_the_scope_alone(self, store: Store) -> None:
        await add(store, call(), call(), call(tool_name="other"))
        await add(store, call(), scope=BOB)
        assert ((await store.count(ALICE)).tool_calls, (await store.count(BOB)).tool_calls) == (3, 1)


class ToolCallConcurrency:
    """Many at once, and closing."""

    async def test_of_many_that_record_the_same_call_one_records_it(self, store: Store) -> None:
        answers = await at_once(*(add(store, call("same"), call(f"own {n}")) for n in range(30)))
        assert sum("same" in answer.added for answer in answers) == 1
        assert sum("same" in answer.known for answer in answers) == 29
        assert (await statistics(store)).calls == 31

    async def test_threads_that_record_at_once_lose_nothing(self, store: Store) -> None:
        async def work(number: int) -> list[ToolCallResult]:
            own = random_calls(number, 30, ("a", "b"))
            for item in own:
                await add(store, item)
                assert await store.get_tool_calls(ALICE, [item.call_id]) == [item]
            return own

        calls = [item for part in await in_threads(work, count=THREADS) for item in part]
        assert await store.tool_statistics(ALICE, ["a", "b"]) == [added_up(calls, "a"), added_up(calls, "b")]
        assert sorted(ids(await listed(store))) == sorted(ids(calls))

    async def test_recording_that_is_cancelled_at_any_moment_records_all_or_nothing(self, store: Store) -> None:
        for steps in range(8):
            scope = Scope(memory_space="space", user_id=f"user {steps}")
            task = asyncio.create_task(add(store, call("one"), call("two"), scope=scope))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await add(store, call("three", minute=1), scope=scope)  # goes through the same lock as what was cancelled
            found = ids(await listed(store, ListToolCalls(newest_first=False), scope=scope))
            assert found in (["three"], ["one", "two", "three"])
            if not task.cancelled():
                assert len(found) == 3  # acknowledged, so it is there

    async def test_every_call_about_tool_calls_after_closing_says_that_it_is_closed(self, store: Store) -> None:
        await add(store, call("a"))
        await store.close()
        with pytest.raises(StoreClosedError):
            await add(store, call("b"))
        with pytest.raises(StoreClosedError):
            await add(store)
        with pytest.raises(StoreClosedError):
            await store.get_tool_calls(ALICE, ["a"])
        with pytest.raises(StoreClosedError):
            await store.tool_statistics(ALICE, [TOOL])
        with pytest.raises(StoreClosedError):
            await store.list_tool_calls(ALICE, ListToolCalls())
        with pytest.raises(StoreClosedError):
            await store.list_tools(ALICE, ListTools())
        await store.close()


class ToolCallDurability:
    """What a new process finds, and several processes at once. Declared by `capabilities`."""

    capabilities = StoreCapabilities()

    @pytest.fixture
    def opener(self) -> Opener[Store]:
        """Return what opens the same store again; to be overridden by a backend that declares a capability."""
        pytest.fail("this backend declares a capability that needs the fixture `opener`")

    async def test_a_new_process_finds_every_call_and_what_they_add_up_to(
        self, store: Store, request: pytest.FixtureRequest
    ) -> None:
        require(declared=self.capabilities.persistent, capability="persistent")
        opener: Opener[Store] = request.getfixturevalue("opener")
        calls = random_calls(5, 50, ("a", "工具 🔨"))
        await add(store, *calls)
        here = await listed(store, ListToolCalls(limit=7))
        await store.close()
        there, found, known = await in_new_process(_look, opener, calls)
        assert there == here
        assert found == [added_up(calls, "a"), added_up(calls, "工具 🔨")]
        assert known == tuple(ids(calls))

    async def test_processes_that_record_at_once_lose_nothing(
        self, store: Store, request: pytest.FixtureRequest
    ) -> None:
        require(declared=self.capabilities.shared, capability="shared")
        opener: Opener[Store] = request.getfixturevalue("opener")
        await add(store, call("before"))
        await at_once(*(in_new_process(_work, opener, number) for number in (1, 2)))
        calls = [call("before"), call("the same"), *random_calls(1, 20, (TOOL,)), *random_calls(2, 20, (TOOL,))]
        assert await statistics(store) == added_up(calls, TOOL)


async def _looked(
    opener: Opener[Store], calls: list[ToolCallResult]
) -> tuple[list[ToolCallResult], list[ToolStatistics], tuple[str, ...]]:
    store = await opened(opener)
    found = await listed(store, ListToolCalls(limit=7))
    counted = await store.tool_statistics(ALICE, ["a", "工具 🔨"])
    known = (await add(store, *calls)).known
    await store.close()
    return found, counted, known


def _look(
    opener: Opener[Store], calls: list[ToolCallResult]
) -> tuple[list[ToolCallResult], list[ToolStatistics], tuple[str, ...]]:
    return asyncio.run(_looked(opener, calls))


async def _worked(opener: Opener[Store], seed: int) -> None:
    store = await opened(opener)
    for item in random_calls(seed, 20, (TOOL,)):
        await add(store, item, call("the same"))
    await store.close()


def _work(opener: Opener[Store], seed: int) -> None:
    asyncio.run(_worked(opener, seed))
