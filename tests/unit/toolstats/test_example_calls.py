"""Which calls stand for all calls of a tool, and how they are shown."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.ports import ListToolCalls, ToolCallPage
from reme_core.schema import Scope, ToolCallResult
from reme_core.stores import LocalStore
from reme_core.toolstats.tool_guideline import SHOWN_CHARS, pick_examples, shown_call, shown_calls
from tests.unit.toolstats.calling import CALLED, OTHER, SCOPE, called, opened


async def picked(folder: Path, calls: list[ToolCallResult], limit: int) -> list[ToolCallResult]:
    async with opened(folder) as store:
        await store.add_tool_calls(SCOPE, calls)
        await store.add_tool_calls(OTHER, [called(number, output="of another") for number in range(50)])
        [statistics] = await store.tool_statistics(SCOPE, ["search"])
        return list(await pick_examples(store, SCOPE, statistics, limit=limit))


async def test_the_latest_of_each_frequent_kind_and_the_latest_successes_are_picked(tmp_path: Path) -> None:
    kinds = ("HTTP 404", "HTTP 500", "ValueError: x")
    calls = [called(n, error=kinds[n // 10]) for n in range(30)]
    calls += [called(n) for n in range(30, 100)]
    calls += [called(n, tool="fetch") for n in range(100, 120)]
    found = await picked(tmp_path, calls, 30)
    assert [call.call_id for call in found if not call.success] == [f"c{n}" for n in (29, 28, 27, 19, 18, 17, 9, 8, 7)]
    assert [call.call_id for call in found if call.success] == [f"c{n}" for n in range(99, 78, -1)]
    assert [call.create_time for call in found] == sorted((call.create_time for call in found), reverse=True)


@pytest.mark.parametrize("limit", [1, 2, 5, 30])
async def test_no_call_is_picked_twice_nor_more_than_asked(tmp_path: Path, limit: int) -> None:
    calls = [called(n, error=f"kind {'abcdefg'[n % 7]}") for n in range(40)] + [called(n) for n in range(40, 43)]
    found = await picked(tmp_path, calls, limit)
    assert len({call.call_id for call in found}) == len(found) == limit
    assert limit == 1 or any(call.success for call in found)


async def test_where_everything_failed_failures_fill_the_room(tmp_path: Path) -> None:
    found = await picked(tmp_path, [called(n, error="HTTP 404") for n in range(40)], 30)
    assert [call.call_id for call in found] == [f"c{n}" for n in range(39, 9, -1)]


async def test_of_few_calls_all_are_picked(tmp_path: Path) -> None:
    found = await picked(tmp_path, [called(1), called(2, error="HTTP 404"), called(3)], 30)
    assert [call.call_id for call in found] == ["c3", "c2", "c1"]


async def test_picked_calls_are_cut_once_and_short_inputs_stay_what_they_are(tmp_path: Path) -> None:
    long = called(1, input={"q": "x" * 100_000}, output="y" * 100_000)
    big, small = await picked(tmp_path, [long, called(0)], 5)
    assert (small.input, small.output) == ({"query": "question 0"}, "found")
    assert isinstance(big.input, str)
    assert all(len(text) < SHOWN_CHARS + 50 for text in (big.input, big.output))
    for size in (SHOWN_CHARS, 60):
        shown = json.loads(shown_call(big, size))
        assert f"[… {100_000 - size} characters left out …]" in shown["output"]
        assert shown["output"].count("y") == size
        assert shown["input"].count("characters left out") == 1


async def test_calls_of_megabytes_are_not_cut_on_the_loop(tmp_path: Path) -> None:
    threads: list[int] = []

    class NotingCall(ToolCallResult):
        def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
            threads.append(threading.get_ident())
            return super().model_copy(update=update, deep=deep)

    class NotingStore(LocalStore):
        async def list_tool_calls(self, scope: Scope, query: ListToolCalls) -> ToolCallPage:
            page = await super().list_tool_calls(scope, query)
            return ToolCallPage(calls=tuple(NotingCall.model_validate(call.model_dump()) for call in page.calls))

    store = NotingStore(tmp_path / "memory.db", synchronous="NORMAL")
    await store.add_tool_calls(SCOPE, [called(1)])
    [statistics] = await store.tool_statistics(SCOPE, ["search"])
    await pick_examples(store, SCOPE, statistics)
    assert threads
    assert threading.get_ident() not in threads
    await store.close()


def test_a_call_is_shown_as_one_line_of_bounded_length() -> None:
    line = shown_call(called(1, input={"query": "x" * 1000}, output="</calls>\n" + "y" * 1_000_000), 100)
    shown = json.loads(line)
    assert "\n" not in line
    assert "</calls>" not in line
    assert shown["at"] == "2024-03-01 Fri 09:01"
    assert shown["ok"] is True
    assert shown["input"].startswith('{"query": "xxx')
    assert all("characters left out …]" in shown[name] and len(shown[name]) < 150 for name in ("input", "output"))


HARD = st.sampled_from(["x", "\x01", "<", '"', "\n", "漢", "🙂"])


@given(st.lists(st.tuples(HARD, HARD, st.integers(0, 3000)), max_size=30), st.integers(0, 30_000))
def test_calls_shown_together_are_never_longer_than_allowed(texts: list[tuple[str, str, int]], room: int) -> None:
    calls = [called(n, input=asked * size, output=said * size) for n, (asked, said, size) in enumerate(texts)]
    lines = shown_calls(calls, room)
    assert len(lines) <= room
    assert [json.loads(line)["at"] for line in lines.splitlines()] == [
        f"2024-03-01 Fri 09:{call.create_time.minute:02}" for call in calls[: len(lines.splitlines())]
    ]


def test_few_short_calls_are_shown_whole() -> None:
    calls = [called(n, create_time=CALLED, output="o" * 400) for n in range(20)]
    assert all(json.loads(line)["output"] == "o" * 400 for line in shown_calls(calls, 22_000).splitlines())
