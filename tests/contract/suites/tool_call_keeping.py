# asserts are what a contract suite is made of
"""Promises of a tool call store about recording calls, and about reading them one by one."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from reme_core.errors import ConflictError, ToolCallNotFoundError
from reme_core.ports import AddedToolCalls
from reme_core.schema import ToolCallResult
from reme_core.schema.tool_calls import MAX_CALL_BYTES
from reme_core.testing.store_values import ALICE, at
from tests.contract.suites.tool_call_values import Store, add, call, failed, ids, listed, statistics

NAMES = (
    "search",
    "Search",
    "search_",
    "%",
    "s%",
    'say "hi"',
    "it's; DROP TABLE tool_calls; --",
    "工具🔨",
    "é",
    "e\u0301",
    "*",
)
"""Names of tools that patterns, quotes, case folding or normalisation would mix up."""
INPUTS: tuple[JsonValue, ...] = (
    {"query": "海象 🎉", "deep": [1, 2.5, True, None, {"a.b": ""}], "": "empty key"},
    [1, "two"],
    "not JSON {",
    "",
    10**4000,
    1e300,
    0.1,
    False,
    {},
    [],
)

OTHER_CONTENTS = (
    call("a", minute=1, arguments={"n": 1}),
    call("a", "other", arguments={"n": 1}),
    call("a", output="other", arguments={"n": 1}),
    call("a", success=False, arguments={"n": 1}),
    call("a", token_cost=0, arguments={"n": 1}),
    call("a", time_cost=0.0, arguments={"n": 1}),
    call("a", arguments={"n": 1.0}),
    call("a", arguments={"n": True}),
    call("a", arguments={"n": "1"}),
    call("a", arguments={"n": 1}).model_copy(update={"metadata": {"x": None}}),
    call("a", arguments={"n": 1}).model_copy(update={"message_ids": ("m",)}),
)
"""Calls that differ from `call("a", arguments={"n": 1})`, some of them only to those who look at types."""


class ToolCallKeeping:
    """Recording, and reading by id."""

    async def test_a_call_comes_back_as_it_was_recorded(self, store: Store) -> None:
        for place, arguments in enumerate(INPUTS):
            wanted = self._call(place, arguments)
            assert await add(store, wanted) == AddedToolCalls(added=(wanted.call_id,))
            [found] = await store.get_tool_calls(ALICE, [wanted.call_id])
            assert found == wanted
            assert found.model_dump_json() == wanted.model_dump_json()
            assert (await statistics(store, wanted.tool_name)).last_at == wanted.create_time

    def _call(self, place: int, arguments: JsonValue) -> ToolCallResult:
        return ToolCallResult(
            call_id=f"call {place}",
            create_time=at(3.0000001 + place),
            tool_name="工具 'x' \"y\" %",
            input=arguments,
            output="found\n海象 🎉 \x01 \\u0000",
            token_cost=1 << 53,
            success=place % 2 == 0,
            time_cost=0.1 + place,
            message_ids=("m", "n"),
            metadata={"键": ["值", 1.0, 1, True]},
        )

    async def test_what_nobody_measured_stays_unknown(self, store: Store) -> None:
        await add(store, call("unknown"), call("nothing", token_cost=0, time_cost=0.0))
        unknown, nothing = await store.get_tool_calls(ALICE, ["unknown", "nothing"])
        assert (unknown.token_cost, unknown.time_cost) == (None, None)
        assert (nothing.token_cost, nothing.time_cost) == (0, 0.0)

    async def test_calls_are_read_in_the_order_asked_and_as_often(self, store: Store) -> None:
        await add(store, *(call(name) for name in "abc"))
        assert ids(await store.get_tool_calls(ALICE, ["c", "a", "c"])) == ["c", "a", "c"]
        assert await store.get_tool_calls(ALICE, []) == []

    async def test_every_unknown_call_is_named_once(self, store: Store) -> None:
        await add(store, call("a"))
        with pytest.raises(ToolCallNotFoundError) as caught:
            await store.get_tool_calls(ALICE, ["x", "a", "y", "x"])
        assert list(caught.value.missing) == ["x", "y"]

    async def test_a_call_whose_time_was_left_out_is_the_same_whenever_it_was_made(self, store: Store) -> None:
        made, again, timed = (
            ToolCallResult(call_id="a", tool_name="search", output="found"),
            ToolCallResult(call_id="a", tool_name="search", output="found"),
            ToolCallResult(call_id="a", tool_name="search", output="found", create_time=at(1)),
        )
        await add(store, made)
        assert await add(store, again) == AddedToolCalls(added=(), known=("a",))
        with pytest.raises(ConflictError):
            await add(store, timed)
        assert (await store.get_tool_calls(ALICE, ["a"]))[0].create_time == made.create_time

    async def test_the_same_call_again_is_known_and_changes_nothing(self, store: Store) -> None:
        first = call("a", arguments={"one": 1, "two": 2}, token_cost=5)
        turned = call("a", arguments={"two": 2, "one": 1}, token_cost=5)
        assert await add(store, first, call("b")) == AddedToolCalls(added=("a", "b"))
        assert await add(store, call("c"), turned) == AddedToolCalls(added=("c",), known=("a",))
        assert await add(store, first) == AddedToolCalls(added=(), known=("a",))
        assert await add(store, call("d"), call("d")) == AddedToolCalls(added=("d",), known=("d",))
        assert (await statistics(store)).calls == 4

    async def test_an_id_of_other_content_is_a_conflict(self, store: Store) -> None:
        first = call("a", arguments={"n": 1})
        await add(store, first)
        for other in OTHER_CONTENTS:
            with pytest.raises(ConflictError, match="'a'"):
                await add(store, other)
        assert await listed(store) == [first]

    async def test_of_calls_recorded_together_all_or_none_are_kept(self, store: Store) -> None:
        await add(store, call("taken"))
        for calls in (
            [call("x"), call("taken", minute=1)],
            [call("taken", minute=1), call("x")],
            [call("x"), call("y"), call("x", minute=1)],
        ):
            with pytest.raises(ConflictError):
                await add(store, *calls)
            assert ids(await listed(store)) == ["taken"]

    async def test_recording_nothing_is_fine(self, store: Store) -> None:
        assert await add(store) == AddedToolCalls(added=())
        assert await listed(store) == []

    async def test_what_is_returned_is_a_copy(self, store: Store) -> None:
        arguments: dict[str, JsonValue] = {"list": [1]}
        handed_in = call("a", arguments=arguments)
        await add(store, handed_in)
        for value in (handed_in, *(await store.get_tool_calls(ALICE, ["a"])), *(await listed(store))):
            assert isinstance(value.input, dict)
            value.input["list"] = "changed"
            value.metadata["new"] = 1
        [found] = await store.get_tool_calls(ALICE, ["a"])
        assert (found.input, found.metadata) == ({"list": [1]}, {})

    async def test_tools_whose_names_look_alike_are_apart(self, store: Store) -> None:
        for number, name in enumerate(NAMES, start=1):
            await add(store, *(call(tool_name=name, token_cost=1) for _ in range(number)))
        found = await store.tool_statistics(ALICE, NAMES)
        assert [(item.tool_name, item.calls, item.tokens) for item in found] == [
            (name, number, number) for number, name in enumerate(NAMES, start=1)
        ]

    async def test_an_output_of_the_largest_size_is_kept_and_counted(self, store: Store) -> None:
        large = failed("海" * ((MAX_CALL_BYTES - 100) // 3), "large")
        await add(store, large)
        [found] = await store.get_tool_calls(ALICE, ["large"])
        assert found.output == large.output
        [kind] = (await statistics(store)).errors
        assert len(kind.error) <= 100

    async def test_three_thousand_calls_at_once_are_all_recorded(self, store: Store) -> None:
        calls = [call(f"{n:04d}", f"tool {n % 7}", minute=n) for n in range(3000)]
        assert (await add(store, *calls)).added == tuple(ids(calls))
        assert (await add(store, *calls)).known == tuple(ids(calls))
        assert sum(item.calls for item in await store.tool_statistics(ALICE, [f"tool {n}" for n in range(7)])) == 3000
