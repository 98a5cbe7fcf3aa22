# asserts are what a contract suite is made of
"""Promises of a tool call store about lists of calls and of tools, and about what calls add up to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reme_core.errors import InvalidInputError
from reme_core.ports import ListToolCalls, ListTools
from reme_core.schema import ToolCallResult, ToolStatistics
from reme_core.testing.store_values import ALICE, at
from reme_core.text import error_class
from tests.contract.suites.tool_call_keeping import NAMES
from tests.contract.suites.tool_call_values import (
    FAILURES,
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

SOME_TOOLS = ("search", "read", "write", "工具")


class ToolCallListing:
    """Pages of calls and of tools."""

    async def test_calls_are_listed_by_time_and_of_one_time_by_recording(self, store: Store) -> None:
        await add(store, call("late", minute=9), call("z", minute=5), call("a", minute=5))
        await add(store, call("m", "other", minute=5), call("early", minute=-9))
        wanted = ["early", "z", "a", "m", "late"]
        assert ids(await listed(store, ListToolCalls(newest_first=False))) == wanted
        assert ids(await listed(store)) == wanted[::-1]
        assert ids(await listed(store, ListToolCalls(tool_name=TOOL))) == ["late", "a", "z", "early"]

    async def test_of_two_microseconds_the_later_is_newer(self, store: Store) -> None:
        first, second = call("a"), call("b").model_copy(update={"create_time": at(0).replace(microsecond=1)})
        await add(store, second, first)
        assert await listed(store) == [second, first]

    async def test_pages_of_any_size_partition_the_calls(self, store: Store) -> None:
        calls = random_calls(1, 40, SOME_TOOLS)
        await add(store, *calls)
        for tool_name in (None, "read"):
            wanted = [item for item in calls if tool_name in {None, item.tool_name}]
            wanted.sort(key=lambda item: item.create_time)
            for limit in (1, 3, 40, 1000):
                newest = ListToolCalls(tool_name=tool_name, limit=limit)
                assert ids(await listed(store, newest)) == ids(wanted[::-1])
                assert ids(await listed(store, replace(newest, newest_first=False))) == ids(wanted)

    async def test_a_list_is_of_one_tool_one_outcome_and_one_error_at_once(self, store: Store) -> None:
        calls = random_calls(2, 120, SOME_TOOLS)
        await add(store, *calls)
        for tool_name in (None, "read", "Read"):
            for success in (None, True, False):
                for error in (None, error_class(FAILURES[0]), error_class(FAILURES[6]), "no such error"):
                    query = ListToolCalls(tool_name=tool_name, success=success, error=error, limit=7)
                    assert {item.call_id for item in await listed(store, query)} == {
                        item.call_id
                        for item in calls
                        if tool_name in {None, item.tool_name}
                        and success in {None, item.success}
                        and (error is None or (not item.success and error_class(item.output) == error))
                    }

    async def test_a_success_has_no_error_whatever_it_says(self, store: Store) -> None:
        await add(store, call("fine", output="HTTP 503"), failed("HTTP 503", "failed"))
        assert ids(await listed(store, ListToolCalls(error="HTTP 503"))) == ["failed"]

    async def test_tools_are_listed_by_name_with_the_number_of_their_calls(self, store: Store) -> None:
        for number, name in enumerate(NAMES, start=1):
            await add(store, *(call(tool_name=name) for _ in range(number)))
        wanted = sorted((name, number) for number, name in enumerate(NAMES, start=1))
        for limit in (1, 2, len(NAMES), 1000):
            assert await tools(store, limit=limit) == wanted

    async def test_a_cursor_that_is_not_ours_is_refused(self, store: Store) -> None:
        await add(store, call())
        for cursor in ("", "x", "bm9uZQ==", "[]", "é"):
            with pytest.raises(InvalidInputError, match="cursor"):
                await store.list_tool_calls(ALICE, ListToolCalls(cursor=cursor))
            with pytest.raises(InvalidInputError, match="cursor"):
                await store.list_tools(ALICE, ListTools(cursor=cursor))

    async def test_a_cursor_of_another_list_is_refused(self, store: Store) -> None:
        await add(store, call(tool_name="a"), call(tool_name="b"))
        of_calls = (await store.list_tool_calls(ALICE, ListToolCalls(limit=1))).next_cursor
        of_tools = (await store.list_tools(ALICE, ListTools(limit=1))).next_cursor
        with pytest.raises(InvalidInputError, match="cursor"):
            await store.list_tool_calls(ALICE, ListToolCalls(cursor=of_tools))
        with pytest.raises(InvalidInputError, match="cursor"):
            await store.list_tools(ALICE, ListTools(cursor=of_calls))

    async def test_a_limit_below_one_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidInputError, match="limit"):
            await store.list_tool_calls(ALICE, ListToolCalls(limit=0))
        with pytest.raises(InvalidInputError, match="limit"):
            await store.list_tools(ALICE, ListTools(limit=0))


class ToolCallStatistics:
    """What the calls of a tool add up to."""

    async def test_statistics_are_those_of_adding_everything_up_anew(self, store: Store) -> None:
        calls: list[ToolCallResult] = []
        asked = [*SOME_TOOLS[::-1], "never called", SOME_TOOLS[0]]
        for seed, count in enumerate((7, 60, 300, 700)):
            fresh = random_calls(seed, count, SOME_TOOLS)
            await add(store, *fresh)
            calls += fresh
            assert await store.tool_statistics(ALICE, asked) == [added_up(calls, name) for name in asked]

    async def test_a_tool_without_calls_has_zero_of_them(self, store: Store) -> None:
        await add(store, call())
        assert await statistics(store, "Search") == ToolStatistics(tool_name="Search")
        assert await store.tool_statistics(ALICE, []) == []

    async def test_the_percentile_is_the_nearest_rank(self, store: Store) -> None:
        for count, rank in ((1, 1), (2, 2), (19, 19), (20, 19), (21, 20), (40, 38), (100, 95)):
            name = f"tool of {count}"
            timed = [call(tool_name=name, time_cost=float(count - n)) for n in range(count)]
            await add(store, *timed, call(tool_name=name))
            found = await statistics(store, name)
            assert (found.calls, found.timed_calls, found.p95_time_s) == (count + 1, count, float(rank))

    async def test_a_sum_is_exact_where_adding_one_by_one_is_not(self, store: Store) -> None:
        times = [*[1e-8] * 100, 1e9, *[1e-8] * 100]
        await add(store, *(call(time_cost=time) for time in times), *(call(token_cost=1 << 53) for _ in range(1030)))
        await add(store, call(token_cost=1))
        found = await statistics(store)
        assert found.mean_time_s == 1000000000.000002 / 201
        assert found.tokens == 1030 * (1 << 53) + 1
        assert found.mean_tokens == (1030 * (1 << 53) + 1) / 1031

    async def test_the_five_most_frequent_errors_are_named_and_of_equal_ones_the_latest(self, store: Store) -> None:
        kinds = [error_class(output) for output in FAILURES]
        assert len(set(kinds)) == 7
        for output, minutes in zip(FAILURES, [(1, 2), (3,), (5,), (4, 0), (2,), (5,), (9, 8, 1)], strict=True):
            await add(store, *(failed(output, minute=minute) for minute in minutes))
        found = await statistics(store)
        named = [(kind.error, kind.count, kind.last_at) for kind in found.errors]
        tied = sorted([kinds[2], kinds[5]])
        assert named == [
            (kinds[6], 3, at(9)),
            (kinds[3], 2, at(4)),
            (kinds[0], 2, at(2)),
            (tied[0], 1, at(5)),
            (tied[1], 1, at(5)),
        ]
        assert (found.other_errors, found.successes, found.success_rate) == (2, 0, 0.0)
