"""Answers about experiences: what can be used is read as it is meant, all else is asked for again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reme_core.errors import ModelOutputError
from reme_core.ports import ChatResult
from reme_core.schema import Message, Source, TextBlock, ToolCallBlock
from reme_core.tasks import StepType, success_extraction
from reme_core.testing import ScriptedChatModel
from tests.unit.tasks.attempting import attempt, call, context, experiences, result, say, written

ATTEMPT = attempt("Write fizz buzz", call("c1", "run_tests"), result("c1"), "done")
GOOD = experiences(written("check the limits", 2))


def said(text: str, **fields: Any) -> ChatResult:
    return ChatResult(message=Message(role="assistant", content=(TextBlock(text=text),)), **fields)


def lacking(name: str) -> str:
    return experiences({key: value for key, value in written("a").items() if key != name})


BAD: dict[str, Any] = {
    "no JSON": "I have learnt a lot.",
    "cut JSON": GOOD[:-10],
    "cut off by the limit": said(GOOD, finish_reason="length", parsed=json.loads(GOOD)),
    "nothing": ModelOutputError("the model said nothing", raw=""),
    "a bare list of texts": json.dumps(["check the limits"]),
    "another object": json.dumps({"memories": []}),
    "one that is no list": json.dumps({"experiences": written("a")}),
    "texts": experiences("check the limits"),
    "null": json.dumps({"experiences": None}),
    "a tool call": Message(role="assistant", content=(ToolCallBlock(call_id="x", name="add_memory"),)),
    "more than asked for": experiences(*(written(f"e{number}") for number in range(6))),
    "no situation": lacking("when_to_use"),
    "a blank situation": experiences(written("a", when_to_use=" \n")),
    "a situation of a page": experiences(written("a", when_to_use="x" * 1001)),
    "no content": lacking("content"),
    "a blank content": experiences(written("  ")),
    "a copy of the attempt": experiences(written("x" * 4001)),
    "half an emoji": said(GOOD, parsed={"experiences": [written("a \ud83d")]}),
    "no confidence": lacking("confidence"),
    "a confidence above one": experiences(written("a", confidence=1.5)),
    "a confidence below zero": experiences(written("a", confidence=-0.1)),
    "a confidence in words": experiences(written("a", confidence="high")),
    "a confidence that is no number": said(GOOD, parsed={"experiences": [written("a", confidence=float("nan"))]}),
    "an unknown kind of step": experiences(written("a", step_type="miracle")),
    "no kind of step": lacking("step_type"),
    "no messages": experiences({**written("a"), "messages": []}),
    "a message that there is not": experiences(written("a", 5)),
    "a message that there is beside one that there is not": experiences(written("a", 1, 5)),
    "a message of number 0": experiences(written("a", 0)),
    "a message by its id": experiences(written("a", messages=["t1-1"])),
    "a number of many digits": experiences(written("a", 10**4000)),
    "tags in one text": experiences(written("a", tags="loops, tests")),
    "one bad among good": experiences(written("a"), written("b", 9)),
}


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD.keys())
async def test_what_cannot_be_used_is_asked_for_once_more(answer: Any) -> None:
    async with ScriptedChatModel([answer, GOOD]) as model:
        (found,) = await success_extraction()((ATTEMPT,), context(model))
    assert found.content == "check the limits"
    assert len(model.requests[1].messages) > len(model.requests[0].messages)


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD.keys())
async def test_what_cannot_be_used_twice_is_an_error(answer: Any) -> None:
    async with ScriptedChatModel([answer, answer]) as model:
        with pytest.raises(ModelOutputError):
            await success_extraction()((ATTEMPT,), context(model))


async def read(**fields: Any) -> Any:
    async with ScriptedChatModel([experiences(written("a", **fields))]) as model:
        (found,) = await success_extraction()((ATTEMPT,), context(model))
    return found


async def test_an_experience_has_what_was_written_and_where_it_comes_from() -> None:
    found = await read(messages=[3, 2, 3], step_type=" Reasoning ", confidence=1, when_to_use=" when so ")
    assert (found.when_to_use, found.content, found.confidence) == ("when so", "a", 1.0)
    assert found.step_type is StepType.REASONING
    assert found.evidence == ATTEMPT.trajectory.messages[1:3]
    assert found.sources == (Source(block_id="t1", message_ids=("t1-2", "t1-3")),)
    assert found.attempts == (ATTEMPT,)
    assert found.score is None


async def test_tools_that_nobody_called_are_dropped() -> None:
    found = await read(tools_used=["run_tests", "delete_memory", " run_tests ", "Run_Tests", ""])
    assert found.tools_used == ("run_tests",)


async def test_tags_are_few_short_and_said_once() -> None:
    tags = [" loops ", "loops", "", "x" * 61, "two\nlines", *(f"t{number}" for number in range(10))]
    found = await read(tags=tags)
    assert found.tags == ("loops", "two lines", "t0", "t1", "t2", "t3", "t4", "t5")


async def test_tags_and_tools_may_be_left_out() -> None:
    found = await read(tags=None, tools_used=None)
    assert (found.tags, found.tools_used) == ((), ())


async def test_keys_of_its_own_say_nothing() -> None:
    found = await read(score=1.0, user_id="bob", memory_target="everything", origin="comparison")
    assert found.score is None
    assert found.origin == "success"


async def test_a_message_that_is_not_shown_cannot_be_cited() -> None:
    one = attempt(say("setup", "system"), say("ask"), say("answer", "assistant"))
    async with ScriptedChatModel([experiences(written("a", 3)), experiences(written("a", 2))]) as model:
        (found,) = await success_extraction()((one,), context(model))
    assert found.evidence == (one.trajectory.messages[2],)
