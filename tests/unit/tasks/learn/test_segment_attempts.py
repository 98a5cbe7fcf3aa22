"""Steps that a model sees: cut where it says, never through a call, never losing a message."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.errors import ConfigurationError, ModelOutputError
from reme_core.tasks import Attempt, preprocess, segmentation
from reme_core.testing import ScriptedChatModel
from tests.unit.tasks.attempting import attempt, call, context, result, say, shown

SIX = attempt("ask", call("c1"), result("c1"), "think", call("c2"), result("c2"))


def ends(*numbers: Any) -> str:
    return json.dumps({"ends": numbers})


async def cut(one: Attempt, *steps: Any, **options: Any) -> list[list[str]]:
    async with ScriptedChatModel(steps) as model:
        (found,) = await segmentation(**options)((one,), context(model))
    return [[message.message_id for message in step] for step in found.steps]


async def test_a_step_ends_where_the_model_says() -> None:
    assert await cut(SIX, ends(3, 4)) == [["t1-1", "t1-2", "t1-3"], ["t1-4"], ["t1-5", "t1-6"]]


async def test_a_step_that_ends_in_a_call_ends_behind_its_result() -> None:
    assert await cut(SIX, ends(2, 5)) == [["t1-1", "t1-2", "t1-3"], ["t1-4", "t1-5", "t1-6"]]


async def test_the_last_number_order_and_repetition_do_not_matter() -> None:
    assert await cut(SIX, ends(6, 4, 4)) == await cut(SIX, ends(4))


async def test_no_ends_are_one_step() -> None:
    assert len(await cut(SIX, ends())) == 1


async def test_a_short_attempt_is_not_asked_about() -> None:
    assert len(await cut(attempt("a", "b", "c"))) == 1


async def test_instructions_are_not_shown_and_stay_in_the_first_step() -> None:
    one = attempt(say("setup", "system"), *(say(f"m{number}") for number in range(6)))
    async with ScriptedChatModel([ends(1)]) as model:
        (found,) = await segmentation()((one,), context(model))
    assert [line["text"] for line in shown(model.requests[0], "attempt")] == [f"m{number}" for number in range(6)]
    assert [len(step) for step in found.steps] == [2, 5]


async def test_steps_that_were_there_are_cut_further_each_in_its_call() -> None:
    one = attempt(*(f"m{number}" for number in range(12)))
    async with ScriptedChatModel([ends(2), ends(4)]) as model:
        (found,) = await (preprocess(max_messages=6) >> segmentation())((one,), context(model))
    assert [len(step) for step in found.steps] == [2, 4, 4, 2]
    assert tuple(message for step in found.steps for message in step) == one.trajectory.messages


BAD = {
    "a number that there is not": ends(7),
    "zero": ends(0),
    "a text": ends("2"),
    "a number in the middle of two": ends(2.5),
    "no list": json.dumps({"ends": 3}),
    "another object": json.dumps({"steps": [1, 2]}),
    "too many": ends(1, 2, 3, 4, 5),
    "no JSON": "after 3 and 4",
}


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD.keys())
async def test_numbers_that_cannot_be_are_asked_for_again_and_then_an_error(answer: str) -> None:
    assert len(await cut(SIX, answer, ends(3), max_steps=4)) == 2
    with pytest.raises(ModelOutputError):
        await cut(SIX, answer, answer, max_steps=4)


@given(st.sets(st.integers(1, 8)), st.lists(st.booleans(), min_size=4, max_size=4))
def test_whatever_the_numbers_no_message_is_lost_and_no_call_torn(numbers: set[int], calls: list[bool]) -> None:
    messages = [
        item
        for place, has_call in enumerate(calls)
        for item in ((call(f"c{place}"), result(f"c{place}")) if has_call else (say("a"), say("b")))
    ]
    one = attempt(*messages)
    model = ScriptedChatModel([ends(*numbers)])
    (found,) = asyncio.run(segmentation()((one,), context(model)))
    assert tuple(message for step in found.steps for message in step) == one.trajectory.messages
    for step in found.steps:
        assert {name for message in step for name in message.call_ids} == {
            name for message in step for name in message.result_ids
        }


@pytest.mark.parametrize("options", [{"min_messages": 1}, {"max_steps": 0}])
def test_options_that_cannot_be_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="segmentation"):
        segmentation(**options)
