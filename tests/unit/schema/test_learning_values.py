"""Tool calls and trajectories as they come from outside: objects are no safer than dictionaries."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import field_serializer

from reme_core.errors import InvalidInputError
from reme_core.schema import (
    Message,
    TextBlock,
    ToolCallResult,
    Trajectory,
    parse_tool_call_results,
    parse_trajectories,
)

CALL = ToolCallResult(tool_name="search", input={"q": "tea"}, success=False)
SAID = {"role": "user", "content": "hi"}
HALF: dict[str, Any] = {"metadata": {}}


class Rated(ToolCallResult):
    stars: int = 5


class Named(ToolCallResult):
    @property
    def shout(self) -> str:
        return self.tool_name.upper()


class Unspeakable(ToolCallResult):
    @field_serializer("output")
    def _fail(self, value: str) -> str:
        raise ValueError(value)


def with_input(value: Any) -> ToolCallResult:
    call = ToolCallResult(tool_name="search", input={"q": "tea"})
    assert isinstance(call.input, dict)
    call.input["q"] = value
    return call


def circle() -> ToolCallResult:
    call = with_input(1)
    assert isinstance(call.input, dict)
    call.input["q"] = call.input
    return call


BAD_CALLS: dict[str, tuple[ToolCallResult, str]] = {
    "a field of a subclass": (Rated(tool_name="search"), r"results\[1\]\.stars: is not a known field"),
    "a changed success": (CALL.model_copy(update={"success": "nope"}), r"results\[1\]\.success"),
    "a changed cost": (CALL.model_copy(update={"token_cost": -5}), r"results\[1\]\.token_cost"),
    "an object inside": (with_input(object()), r"results\[1\]\.input.*not a valid JSON value"),
    "no number inside": (with_input(math.nan), r"results\[1\]\.input: 'q' is nan"),
    "itself inside": (circle(), r"results\[1\]\.input"),
    "a half of it": (ToolCallResult.model_construct(**HALF), r"results\[1\]\.tool_name"),
    "one that can't be written": (Unspeakable(tool_name="search"), r"results\[1\]: has a value that can't be read"),
}


@pytest.mark.parametrize(("call", "named"), BAD_CALLS.values(), ids=BAD_CALLS.keys())
def test_a_call_that_could_not_be_read_again_is_refused_naming_the_place(call: ToolCallResult, named: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{named}"):
        parse_tool_call_results([CALL, call])


def test_an_object_is_read_as_it_is_and_what_was_left_out_stays_so() -> None:
    untimed = Named(tool_name="search", token_cost=None)
    calls = parse_tool_call_results([CALL, untimed])
    assert calls[0] == CALL
    assert [type(call) for call in calls] == [ToolCallResult, ToolCallResult]
    assert calls[1].call_id == untimed.call_id
    assert calls[1].create_time == untimed.create_time
    assert [call.model_fields_set for call in calls] == [CALL.model_fields_set, {"tool_name", "token_cost"}]


def test_what_is_changed_in_an_object_later_changes_nothing_that_was_read() -> None:
    call = with_input({"a": 1})
    [read] = parse_tool_call_results([call])
    assert isinstance(call.input, dict)
    call.input["q"] = "coffee"
    assert read.input == {"q": {"a": 1}}


def trajectory(**changes: Any) -> dict[str, Any]:
    return {"messages": [SAID], "score": 1, **changes}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def said(name: str) -> Message:
    return Message(message_id=name, role="user", content=(TextBlock(text="hi"),))


class Scored(Trajectory):
    grade: str = "A"


class Loud(Message):
    volume: int = 11


GOOD = Trajectory(messages=(said("m1"), said("m2")), score=1)
LOUD = Loud(role="user", content=(TextBlock(text="hi"),))
BAD_BLOCK = TextBlock(text="hi").model_copy(update={"text": 5})
TWICE = r"trajectories\[0\]\.messages\[2\]\.message_id: 'm1' stands twice"

BAD_TRAJECTORIES: dict[str, tuple[object, str]] = {
    "true for a score": (trajectory(score=True), r"trajectories\[0\]\.score: wanted a number from 0 to 1, found True"),
    "a text for a score": (trajectory(score="0.5"), r"trajectories\[0\]\.score: wanted a number"),
    "no number": (trajectory(score=math.nan), r"trajectories\[0\]\.score"),
    "a score above one": (trajectory(score=1.01), r"trajectories\[0\]\.score"),
    "a changed score": (GOOD.model_copy(update={"score": True}), r"trajectories\[0\]\.score"),
    "changed messages": (GOOD.model_copy(update={"messages": 5}), r"trajectories\[0\]\.messages: wanted a list"),
    "no messages": (Trajectory.model_construct(**HALF), r"trajectories\[0\]\.messages"),
    "a field of a subclass": (Scored(messages=GOOD.messages, score=1), r"trajectories\[0\]\.grade"),
    "a message twice": (trajectory(messages=[said("m1"), said("m2"), said("m1")]), TWICE),
    "a message of an object twice": (Trajectory(messages=(*GOOD.messages, said("m1")), score=1), TWICE),
    "a message of a subclass": (trajectory(messages=[SAID, LOUD]), r"trajectories\[0\]\.messages\[1\]\.volume"),
    "one inside an object": (Trajectory(messages=(LOUD,), score=1), r"trajectories\[0\]\.messages\[0\]\.volume"),
    "a changed block": (
        trajectory(messages=[said("m1").model_copy(update={"content": (BAD_BLOCK,)})]),
        r"trajectories\[0\]\.messages\[0\]\.content",
    ),
    "too many bytes of metadata": (trajectory(metadata={"a": "海" * 22_000}), r"trajectories\[0\]\.metadata: .* bytes"),
    "metadata too deep": (trajectory(metadata=nested(25)), r"trajectories\[0\]\.metadata: .* 25 levels deep"),
    "metadata of an object": (
        GOOD.model_copy(update={"metadata": {"a": object()}}),
        r"trajectories\[0\]\.metadata",
    ),
}


@pytest.mark.parametrize(("item", "named"), BAD_TRAJECTORIES.values(), ids=BAD_TRAJECTORIES.keys())
def test_a_trajectory_that_could_not_be_read_again_is_refused_naming_the_place(item: object, named: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{named}"):
        parse_trajectories([item])


def test_a_trajectory_is_read_as_it_is_and_times_left_out_stay_so() -> None:
    [same, other] = parse_trajectories(
        [GOOD, trajectory(messages=iter([said("m1"), SAID]), metadata={"a": "海" * 21_000, "b": nested(23)})]
    )
    assert same == GOOD
    assert [message.model_fields_set for message in same.messages] == [{"message_id", "role", "content"}] * 2
    assert "created_at" not in other.messages[0].model_fields_set
    assert (other.score, len(other.messages)) == (1.0, 2)
