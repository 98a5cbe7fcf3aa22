"""Which calls are recorded, and which are known already."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reme_core.errors import ConflictError, InvalidInputError
from reme_core.ports import AddedToolCalls
from reme_core.schema import Scope, ToolCallResult
from reme_core.stores import LocalStore
from reme_core.toolstats.record_calls import read_handed_in, read_tool_calls, record, unrecorded
from tests.unit.toolstats.calling import NOW, OTHER, SCOPE, called, calls_tool, opened, results


class RacedStore(LocalStore):
    """A store into which somebody else records just before the first addition."""

    first: Sequence[ToolCallResult] = ()

    async def add_tool_calls(self, scope: Scope, calls: Sequence[ToolCallResult]) -> AddedToolCalls:
        first, self.first = self.first, ()
        if first:
            await super().add_tool_calls(scope, first)
        return await super().add_tool_calls(scope, calls)


async def outputs(store: LocalStore, calls: Sequence[ToolCallResult]) -> list[str]:
    return [call.output for call in await store.get_tool_calls(SCOPE, [call.call_id for call in calls])]


async def test_known_ids_are_told_from_new_ones_whatever_is_recorded_under_them(tmp_path: Path) -> None:
    calls = [called(n) for n in range(50)]
    async with opened(tmp_path) as store:
        await store.add_tool_calls(SCOPE, calls[10:45])
        await store.add_tool_calls(OTHER, calls)
        fresh, known = await unrecorded(store, SCOPE, [called(n, output="cut") for n in range(50)])
        assert [call.call_id for call in fresh] == [f"c{n}" for n in (*range(10), *range(45, 50))]
        assert known == {f"c{n}" for n in range(10, 45)}
        assert await unrecorded(store, SCOPE, []) == ((), frozenset())


async def test_messages_whose_outputs_were_cut_since_bring_only_their_new_calls(tmp_path: Path) -> None:
    asked = calls_tool("m1", ("a", "search"), ("b", "search"))
    first = read_tool_calls([asked, results("m2", ("a", "found " * 100))]).calls
    later = read_tool_calls([asked, results("m2", ("a", "found …")), results("m3", ("b", "new"))]).calls
    async with opened(tmp_path) as store:
        assert await record(store, SCOPE, (), first) == frozenset()
        assert await record(store, SCOPE, (), later) == {first[0].call_id}
        assert await outputs(store, later) == ["found " * 100, "new"]


async def test_who_recorded_the_same_conversation_meanwhile_is_no_conflict(tmp_path: Path) -> None:
    store = RacedStore(tmp_path / "memory.db", synchronous="NORMAL")
    store.first = [called(1, output="whole")]
    known = await record(store, SCOPE, [called(7)], [called(1, output="cut"), called(2)])
    assert known == {"c1"}
    assert await outputs(store, [called(1), called(2), called(7)]) == ["whole", "found", "found"]
    await store.close()


async def test_another_call_under_an_id_that_was_given_is_a_conflict_and_nothing_is_recorded(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.add_tool_calls(SCOPE, [called(1)])
        with pytest.raises(ConflictError, match="'c1'"):
            await record(store, SCOPE, [called(1, output="other")], [called(2)])
        assert (await store.tool_statistics(SCOPE, ["search"]))[0].calls == 1
        assert await record(store, SCOPE, [called(1), called(3)], [called(3, output="cut")]) == {"c1", "c3"}


@pytest.mark.parametrize(
    ("handed_in", "said"),
    [
        (([called(1, create_time=NOW + timedelta(days=2))], []), r"results\[0\].create_time: .* future"),
        (([], [results("m1", ("a", "found"), name="search", at=NOW + timedelta(days=2))]), "created_at of 'm1'"),
    ],
)
def test_a_call_from_the_future_is_refused(handed_in: tuple[Any, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        read_handed_in(*handed_in, NOW)


def test_clocks_may_differ_by_a_day_and_times_that_were_left_out_are_none_of_the_future() -> None:
    soon = called(1, create_time=NOW + timedelta(hours=23))
    given, read = read_handed_in(
        [soon, {"tool_name": "search", "output": "Error: x", "success": None}],
        [("user", "hi"), {"role": "tool", "tool_call_id": "a", "name": "search", "content": "found"}],
        NOW,
    )
    assert [call.success for call in given] == [True, False]
    assert len(read.calls) == 1
