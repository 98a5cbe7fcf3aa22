"""Flows: what `>>` and `|` promise, whatever stages they are made of."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.errors import ModelUnavailableError, StoreError
from reme_core.steps.flow import Stage, for_each, stage

Words = tuple[str, ...]
Flow = Stage[Words, Words, str]


def adding(name: str) -> Flow:
    """A stage that marks each word, and adds one: the order and the number of runs show in the result."""

    async def run(words: Words, context: str) -> Words:
        return (*(f"{word}{name}" for word in words), context)

    return stage(run, name)


NAMES = ("a", "b", "c", "d")
STAGES = {name: adding(name) for name in NAMES}
NAMED = {"both": (STAGES["a"] | STAGES["b"]).named("both"), "chain": (STAGES["c"] >> STAGES["d"]).named("chain")}

leaves = st.sampled_from([*STAGES.values(), *NAMED.values()])
flows = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda one, other: one >> other, inner, inner),
        st.builds(lambda one, other: one | other, inner, inner),
    ),
    max_leaves=6,
)


def run(flow: Flow, words: Words = ("x", "y")) -> Words:
    async def main() -> Words:
        return await flow(words, "!")

    return asyncio.run(main())


@given(flows, flows, flows)
def test_brackets_around_then_make_no_difference(one: Flow, two: Flow, three: Flow) -> None:
    left, right = (one >> two) >> three, one >> (two >> three)
    assert run(left) == run(right)
    assert str(left) == str(right)


@given(flows, flows, flows)
def test_brackets_around_side_by_side_make_no_difference(one: Flow, two: Flow, three: Flow) -> None:
    left, right = (one | two) | three, one | (two | three)
    assert run(left) == run(right) == run(one) + run(two) + run(three)


@given(flows)
def test_a_flow_written_out_and_read_by_python_is_the_same_flow(flow: Flow) -> None:
    read: Flow = eval(str(flow), {**STAGES, **NAMED})  # noqa: S307  # names of this test alone
    assert run(read) == run(flow)


def test_a_fork_with_a_chain_in_it_stands_in_brackets() -> None:
    a, b, c, d = STAGES.values()
    assert str((a | b >> c) >> d) == "(a | b >> c) >> d"
    assert str(a >> (b | c) >> d) == "a >> (b | c) >> d"
    assert str(a >> NAMED["both"]) == "a >> both"
    assert str(NAMED["both"]) == "a | b"


def test_a_stage_has_the_name_of_its_function_or_the_one_it_is_given() -> None:
    @stage
    async def polish(words: Words, _: str) -> Words:
        return words

    assert (str(polish), polish.name, polish.label) == ("polish", "polish", "polish")
    assert polish.named("shine").label == "shine"
    assert (polish >> polish).name == ""


def test_what_is_no_stage_is_refused_where_the_flow_is_written() -> None:
    async def bare(words: Words, _: str) -> Words:
        return words

    flow: Any = STAGES["a"]
    with pytest.raises(TypeError, match=">>"):
        flow >> bare
    with pytest.raises(TypeError, match=r"\|"):
        flow | bare


async def test_results_come_in_the_order_written_not_in_that_of_their_ends() -> None:
    ended = asyncio.Event()

    @stage
    async def slow(words: Words, _: str) -> Words:
        await ended.wait()
        return ("slow",)

    @stage
    async def quick(words: Words, _: str) -> Words:
        ended.set()
        return ("quick",)

    assert await (slow | quick)((), "") == ("slow", "quick")


def waiting(name: str, seen: list[str], started: asyncio.Event | None = None) -> Flow:
    """A stage that never ends by itself, and notes that it was cancelled."""

    async def run(_: Words, __: str) -> Words:
        if started is not None:
            started.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(name)
        return ()

    return stage(run, name)


def failing(error: BaseException) -> Flow:
    async def run(_: Words, __: str) -> Words:
        raise error

    return stage(run, "failing")


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("first", [False, True])
async def test_the_first_failure_cancels_the_others_and_is_raised_alone(first: bool, nested: bool) -> None:
    seen: list[str] = []
    error = ModelUnavailableError("gone")
    bad: Flow = failing(error)
    if nested:
        bad = STAGES["a"] >> (waiting("inner", seen) | bad)
    flow = bad | waiting("outer", seen) if first else waiting("outer", seen) | bad
    with pytest.raises(ModelUnavailableError) as caught:
        await flow((), "")
    assert caught.value is error
    assert sorted(seen) == (["inner", "outer"] if nested else ["outer"])


async def test_a_failure_keeps_its_cause() -> None:
    cause = TimeoutError("a minute")

    @stage
    async def broken(_: Words, __: str) -> Words:
        try:
            raise cause
        except TimeoutError as exc:
            msg = "gone"
            raise ModelUnavailableError(msg) from exc

    with pytest.raises(ModelUnavailableError) as caught:
        await (STAGES["a"] | broken)((), "")
    assert caught.value.__cause__ is cause


async def test_of_two_failures_the_earlier_one_is_raised() -> None:
    @stage
    async def later(_: Words, __: str) -> Words:
        try:
            await asyncio.Event().wait()
        finally:
            msg = "while cleaning up"
            raise StoreError(msg)

    with pytest.raises(ModelUnavailableError):
        await (later | failing(ModelUnavailableError("gone")))((), "")


async def test_a_cancellation_from_outside_reaches_every_stage_and_passes_on() -> None:
    seen: list[str] = []
    started = [asyncio.Event(), asyncio.Event()]
    flow = STAGES["a"] >> (waiting("one", seen, started[0]) | waiting("other", seen, started[1])) >> STAGES["b"]
    task = asyncio.ensure_future(flow((), ""))
    for event in started:
        await event.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(seen) == ["one", "other"]


async def test_every_stage_gets_the_same_context() -> None:
    seen: list[object] = []

    @stage
    async def look(words: Words, context: object) -> Words:
        seen.append(context)
        return words

    here = object()
    await (look >> (look | look) >> look)((), here)
    assert seen == [here] * 4


@given(st.lists(st.integers(), max_size=12), st.integers(1, 5))
def test_no_more_than_allowed_run_at_once_and_results_keep_their_order(values: list[int], most: int) -> None:
    open_now = highest = 0

    async def double(value: int) -> int:
        nonlocal open_now, highest
        open_now += 1
        highest = max(highest, open_now)
        for _ in range(3):
            await asyncio.sleep(0)
        open_now -= 1
        return 2 * value

    assert asyncio.run(for_each(double, values, at_once=most)) == [2 * value for value in values]
    assert highest == min(most, len(values))


async def test_what_waits_for_its_turn_never_begins_after_a_failure() -> None:
    begun: list[int] = []

    async def work(number: int) -> int:
        begun.append(number)
        await asyncio.sleep(0)
        msg = f"number {number}"
        raise StoreError(msg)

    with pytest.raises(StoreError, match="number 0"):
        await for_each(work, range(10), at_once=1)
    assert begun[0] == 0
    assert len(begun) <= 2
