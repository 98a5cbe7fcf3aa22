"""When a run is over: with calls that leave nothing to ask, and not while something is missing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reme_core.agents.loop import Limits, StopRule, run_loop
from reme_core.errors import ModelOutputError, StepLimitError, ToolFeedback
from reme_core.ports import AgentResult, ToolContext
from reme_core.schema import Message, ToolCallBlock
from reme_core.stores import LocalStore
from reme_core.testing import ScriptedChatModel
from reme_core.testing.scripted_model import Said
from tests.unit.agents.acting import (
    EchoTool,
    FailingTool,
    assert_well_formed,
    call,
    calling,
    context_over,
    results,
    user,
)

WRITES = StopRule(final_tools=frozenset({"write", "delete"}))


@pytest.fixture
def context(store: LocalStore) -> ToolContext:
    return context_over(store)


def text(name: str, said: str = "a", call_id: str = "c1") -> ToolCallBlock:
    return call(name, {"text": said}, call_id)


async def run(
    context: ToolContext, ending: StopRule, *steps: Said, tools: tuple[str, ...] = ("write", "delete", "search")
) -> AgentResult:
    async with ScriptedChatModel(list(steps)) as model:
        made = [EchoTool(name=name) for name in tools]
        done = await run_loop(model, made, [user("Hi")], context, Limits(max_steps=4), ending=ending)
    for request in model.requests:
        assert_well_formed(request)
    return done


async def test_calls_of_final_tools_alone_are_the_last_word(context: ToolContext) -> None:
    done = await run(context, WRITES, calling(text("write"), text("delete", "b", "c2"), text=" That is it. "))
    assert (done.answer, done.stop_reason) == ("That is it.", "calls")
    assert [item.output for item in results(done.transcript)] == ["a", "b"]
    assert done.usage.model_calls == 1


@pytest.mark.parametrize(
    "first",
    [
        calling(text("write"), text("search", "b", "c2")),
        calling(text("search")),
        calling(text("write"), text("unknown", "b", "c2")),
        calling(call("write", {"words": "a"})),
    ],
    ids=["a search beside it", "another tool", "an unknown tool", "arguments that are refused"],
)
async def test_whatever_else_is_called_or_fails_is_answered_and_asked_about(
    context: ToolContext, first: Message
) -> None:
    done = await run(context, WRITES, first, "done")
    assert (done.answer, done.stop_reason) == ("done", "answer")


async def test_a_tool_that_wants_a_correction_is_corrected(context: ToolContext) -> None:
    tools = [FailingTool(ToolFeedback("write more"), name="write"), EchoTool(name="delete")]
    wrong = calling(text("write"), text("delete", "b", "c2"))
    async with ScriptedChatModel([wrong, calling(text("delete"))]) as model:
        done = await run_loop(model, tools, [user("Hi")], context, Limits(), ending=WRITES)
    assert done.stop_reason == "calls"
    assert [item.is_error for item in results(done.transcript)] == [True, False, False]


async def test_without_final_tools_the_model_has_the_last_word(context: ToolContext) -> None:
    done = await run(context, StopRule(), calling(text("write")), "done")
    assert (done.answer, done.stop_reason, done.usage.model_calls) == ("done", "answer", 2)


async def test_what_is_needed_has_to_have_succeeded_before(context: ToolContext) -> None:
    needs = StopRule(final_tools=WRITES.final_tools, needed_tools=frozenset({"delete", "nothing of this run"}))
    done = await run(context, needs, calling(text("write")), calling(text("delete")))
    assert (done.stop_reason, done.usage.model_calls) == ("calls", 2)
    done = await run(context, needs, calling(call("delete", {})), calling(text("write")), "done")
    assert done.stop_reason == "answer"


async def test_a_single_call_does_not_end_it_where_more_may_follow(context: ToolContext) -> None:
    single = StopRule(final_tools=WRITES.final_tools, one_call_ends=False)
    done = await run(context, single, calling(text("write")), calling(text("write"), text("write", "b", "c2")))
    assert (done.stop_reason, done.usage.model_calls) == ("calls", 2)


async def test_calls_at_the_last_step_are_not_made(context: ToolContext) -> None:
    tool = EchoTool(name="write")
    with pytest.raises(StepLimitError):
        await run_loop(
            ScriptedChatModel([calling(text("write"))]),
            [tool],
            [user("Hi")],
            context,
            Limits(max_steps=1),
            ending=WRITES,
        )
    assert tool.log == []


async def test_the_calls_of_last_tools_are_made_after_the_others_and_answered_in_their_place(
    context: ToolContext,
) -> None:
    log: list[str] = []
    first, second = EchoTool(name="hand", log=log, is_concurrent=True), EchoTool(name="make", log=log)
    asked = calling(text("hand", "1", "c1"), text("make", "2", "c2"), text("hand", "3", "c3"), text("make", "4", "c4"))
    async with ScriptedChatModel([asked, "done"]) as model:
        done = await run_loop(model, [first, second], [user("Hi")], context, Limits(), last_tools=frozenset({"hand"}))
    assert [entry for entry in log if "begin" in entry] == ["begin 2", "begin 4", "begin 1", "begin 3"]
    assert [item.call_id for item in results(done.transcript)] == ["c1", "c2", "c3", "c4"]
    for request in model.requests:
        assert_well_formed(request)


def once(answers: list[str | None]) -> Callable[[], str | None]:
    return lambda: answers.pop(0)


async def test_what_is_missing_is_told_once_and_then_the_answer_counts(context: ToolContext) -> None:
    ending = StopRule(missing=once(["nothing was handed on: call hands_off", None]))
    async with ScriptedChatModel(["All fine.", "done"]) as model:
        done = await run_loop(model, [EchoTool()], [user("Hi")], context, Limits(), ending=ending)
    assert (done.answer, done.stop_reason, done.usage.model_calls) == ("done", "answer", 2)
    _, said, told = model.requests[1].messages
    assert (said.role, said.text) == ("assistant", "All fine.")
    assert told.role == "user"
    assert "nothing was handed on: call hands_off" in told.text


async def test_what_is_missing_still_is_an_error_that_keeps_the_answer(context: ToolContext) -> None:
    ending = StopRule(missing=lambda: "nothing was handed on")
    model = ScriptedChatModel(["All fine.", calling(text("echo")), "I mean it."])
    with pytest.raises(ModelOutputError, match="ended too early: nothing was handed on") as caught:
        await run_loop(model, [EchoTool()], [user("Hi")], context, Limits(), ending=ending)
    model.assert_done()
    assert "I mean it." in caught.value.raw
    assert context.trace.usage.model_calls == 3


async def test_at_the_last_step_nothing_can_be_told_any_more(context: ToolContext) -> None:
    ending = StopRule(missing=lambda: "nothing was handed on")
    model = ScriptedChatModel(["All fine."])
    with pytest.raises(ModelOutputError, match="nothing was handed on"):
        await run_loop(model, [EchoTool()], [user("Hi")], context, Limits(max_steps=1), ending=ending)
    model.assert_done()
