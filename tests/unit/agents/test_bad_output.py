"""Model output that can't be used: asked for once more, then a typed error with the raw answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from reme_core.agents.calls import MAX_CALLS
from reme_core.agents.loop import Limits, run_loop
from reme_core.errors import ModelOutputError
from reme_core.ports import ChatRequest, ChatResult, ToolContext
from reme_core.schema import Message, OtherBlock, TextBlock, ToolResultBlock
from reme_core.stores import LocalStore
from reme_core.testing import ScriptedChatModel
from reme_core.testing.scripted_model import Step
from tests.unit.agents.acting import EchoTool, assert_well_formed, call, calling, context_over, results, said, user

LIMITS = Limits(max_tokens=10_000_000)


@pytest.fixture
def context(store: LocalStore) -> ToolContext:
    return context_over(store)


def many(count: int) -> Message:
    return calling(*(call("echo", {"text": "a"}, f"c{number}") for number in range(count)))


def forged_result() -> Message:
    block = ToolResultBlock(call_id="c1", name="echo", output="forged")
    return Message(role="assistant", content=(call("echo", {"text": "a"}), block))


BAD: dict[str, tuple[Step, str]] = {
    "only thoughts": (Message(role="assistant", content=(OtherBlock(kind="thinking", data="hm"),)), "was empty"),
    "thoughts and blanks": (
        Message(role="assistant", content=(OtherBlock(kind="thinking", data="hm"), TextBlock(text=" \n"))),
        "was empty",
    ),
    "ids given twice": (calling(call("echo", {"text": "a"}, "x"), call("echo", {"text": "b"}, "x")), "given twice"),
    "too many calls": (many(MAX_CALLS + 1), f"{MAX_CALLS + 1} tool calls"),
    "10,000 calls": (many(10_000), "10000 tool calls"),
    "cut text": (ChatResult(message=said("It is beca"), finish_reason="length"), "cut off"),
    "cut calls": (ChatResult(message=many(1), finish_reason="length"), "cut off"),
    "no name of a tool": (calling(call("", {})), "name of a tool"),
    "a sentence as name": (calling(call("delete all of them!", {})), "name of a tool"),
    "a name without end": (calling(call("x" * 65, {})), "name of a tool"),
    "a forged result": (forged_result(), "result of a tool"),
    "what the model object refuses": (ModelOutputError("no chat completion", raw="<html>"), "no chat completion"),
}


@pytest.mark.parametrize(("bad", "told"), BAD.values(), ids=BAD)
async def test_it_is_asked_for_once_more_with_what_was_wrong(context: ToolContext, bad: Step, told: str) -> None:
    tool = EchoTool()
    async with ScriptedChatModel([bad, calling(call("echo", {"text": "a"})), "Done."]) as model:
        done = await run_loop(model, [tool], [user("Hi")], context, LIMITS)
    assert done.answer == "Done."
    assert tool.log == ["begin a", "end a"]
    again = model.requests[1]
    assert [message.role for message in again.messages] == ["user", "assistant", "user"]
    assert told in again.messages[-1].text
    assert again.messages[1].call_ids == ()
    for request in model.requests:
        assert_well_formed(request)
    assert len(results(done.transcript)) == 1
    assert done.usage.model_calls == 3


@pytest.mark.parametrize(("bad", "told"), BAD.values(), ids=BAD)
async def test_twice_is_an_error_that_keeps_the_answer(context: ToolContext, bad: Step, told: str) -> None:
    tool = EchoTool()
    model = ScriptedChatModel([bad, bad])
    with pytest.raises(ModelOutputError, match=told) as caught:
        await run_loop(model, [tool], [user("Hi")], context, LIMITS)
    model.assert_done()
    assert caught.value.raw
    assert tool.log == []
    assert context.trace.usage.model_calls == 2


async def test_after_a_good_answer_another_bad_one_is_forgiven_again(context: ToolContext) -> None:
    empty = BAD["only thoughts"][0]
    asked = calling(call("echo", {"text": "a"}))
    async with ScriptedChatModel([empty, asked, empty, "Done."]) as model:
        done = await run_loop(model, [EchoTool()], [user("Hi")], context, Limits(max_steps=2))
    assert done.answer == "Done."


async def test_64_calls_in_one_answer_are_made(context: ToolContext) -> None:
    tool = EchoTool()
    async with ScriptedChatModel([many(MAX_CALLS), "Done."]) as model:
        await run_loop(model, [tool], [user("Hi")], context, LIMITS)
    assert len(tool.log) == 2 * MAX_CALLS


async def test_a_filtered_answer_is_an_error_at_once(context: ToolContext) -> None:
    filtered = ChatResult(message=said("I can't"), finish_reason="content_filter")
    model = ScriptedChatModel([filtered])
    with pytest.raises(ModelOutputError, match="content filter") as caught:
        await run_loop(model, [], [user("Hi")], context, LIMITS)
    model.assert_done()
    assert "I can't" in caught.value.raw


async def test_of_a_long_cut_answer_only_head_and_tail_are_said_again(context: ToolContext) -> None:
    cut = ChatResult(message=said("word " * 10_000), finish_reason="length")
    async with ScriptedChatModel([cut, "Done."]) as model:
        await run_loop(model, [], [user("Hi")], context, LIMITS)
    again = model.requests[1].messages[1].text
    assert len(again) < 2200
    assert "characters left out" in again


class SilentStream:
    """Streams a text and never its result."""

    async def chat(self, request: ChatRequest) -> ChatResult:
        raise AssertionError

    async def stream(self, request: ChatRequest) -> AsyncGenerator[str | ChatResult, None]:
        yield "Half"


async def test_a_stream_without_its_result_is_bad_output(context: ToolContext) -> None:
    pieces: list[str] = []
    with pytest.raises(ModelOutputError, match="without its result"):
        await run_loop(SilentStream(), [], [user("Hi")], context, LIMITS, on_text=pieces.append)
    assert pieces == ["Half", "\n\nHalf"]
