"""The agent loop: steps, tool calls, limits, cancellation, streaming."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from reme_core.agents.calls import MAX_ANSWER_CHARS
from reme_core.agents.loop import Limits, run_loop
from reme_core.errors import (
    BudgetExceededError,
    ConfigurationError,
    InvalidInputError,
    ModelUnavailableError,
    StepLimitError,
    StoreUnavailableError,
    ToolFeedback,
)
from reme_core.ports import ChatRequest, ChatResult, ToolContext
from reme_core.schema import Message, Usage
from reme_core.stores import LocalStore
from reme_core.testing import ScriptedChatModel
from reme_core.testing.scripted_model import Step
from tests.unit.agents.acting import (
    EchoTool,
    FailingTool,
    WaitingTool,
    assert_well_formed,
    call,
    calling,
    context_over,
    results,
    said,
    user,
)

LIMITS = Limits()


@pytest.fixture
def context(store: LocalStore) -> ToolContext:
    return context_over(store)


async def test_an_answer_without_tool_calls_ends_the_run(context: ToolContext) -> None:
    async with ScriptedChatModel(["  Hello.  "]) as model:
        done = await run_loop(model, [EchoTool()], [user("Hi")], context, LIMITS)
    assert (done.answer, done.stop_reason) == ("Hello.", "answer")
    assert [message.role for message in done.transcript] == ["user", "assistant"]
    [request] = model.requests
    assert [tool.name for tool in request.tools] == ["echo"]
    assert request.tools[0].parameters["required"] == ["text"]
    assert request.tool_choice == "auto"


async def test_each_call_is_answered_once_in_the_order_of_the_calls(context: ToolContext) -> None:
    tool = EchoTool()
    asked = calling(*(call("echo", {"text": f"{n}"}, f"c{n}") for n in range(3)), text="Let me see.")
    async with ScriptedChatModel([asked, "Done."]) as model:
        done = await run_loop(model, [tool], [user("Hi")], context, LIMITS)
    assert_well_formed(model.requests[-1])
    answered = results(done.transcript)
    assert [(item.call_id, item.name, item.output, item.is_error) for item in answered] == [
        (f"c{n}", "echo", f"{n}", False) for n in range(3)
    ]
    assert tool.log == ["begin 0", "end 0", "begin 1", "end 1", "begin 2", "end 2"]
    assert done.transcript[2].created_at == context.clock.now()
    assert done.transcript[2].role == "tool"


async def test_concurrent_calls_run_at_once_between_those_that_run_alone(context: ToolContext) -> None:
    log: list[str] = []
    reads, writes = EchoTool(name="read", is_concurrent=True, log=log), EchoTool(name="write", log=log)
    asked = calling(
        call("read", {"text": "a"}, "1"),
        call("read", {"text": "b"}, "2"),
        call("write", {"text": "c"}, "3"),
        call("read", {"text": "d"}, "4"),
    )
    async with ScriptedChatModel([asked, "Done."]) as model:
        done = await run_loop(model, [reads, writes], [user("Hi")], context, LIMITS)
    assert log == ["begin a", "begin b", "end a", "end b", "begin c", "end c", "begin d", "end d"]
    assert [item.output for item in results(done.transcript)] == ["a", "b", "c", "d"]


async def test_an_unknown_tool_is_answered_with_those_there_are(context: ToolContext) -> None:
    asked = calling(call("erase_everything", {"all": True}, "1"), call("echo", {"text": "a"}, "2"))
    async with ScriptedChatModel([asked, "Sorry."]) as model:
        done = await run_loop(model, [EchoTool(), EchoTool(name="other")], [user("Hi")], context, LIMITS)
    first, second = results(done.transcript)
    assert first.is_error
    assert "no tool 'erase_everything'; there are: echo, other" in first.output
    assert second.output == "a"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("{'text': 1", "not JSON"),
        ('{"text": "cut o', "not JSON"),
        ('["a", "b"]', "an object with named fields"),
        ("[" * 100_000, "not JSON"),
        ({"text": 3}, "wanted a text"),
        ({"txt": "a"}, "not a known field"),
        ({}, "is missing"),
        ({"text": "a", "user_id": "bob"}, "not a known field"),
    ],
)
async def test_wrong_arguments_are_answered_with_what_is_wrong_and_what_is_wanted(
    context: ToolContext, arguments: dict[str, object] | str, told: str
) -> None:
    tool = EchoTool()
    asked = calling(call("echo", arguments))
    async with ScriptedChatModel([asked, "Sorry."]) as model:
        done = await run_loop(model, [tool], [user("Hi")], context, LIMITS)
    [answer] = results(done.transcript)
    assert answer.is_error
    assert told in answer.output
    assert '"text": {"type": "string"}' in answer.output
    assert tool.log == []


async def test_what_a_tool_wants_corrected_is_answered_in_its_words(context: ToolContext) -> None:
    tool = FailingTool(ToolFeedback("no memory 'm1'"))
    async with ScriptedChatModel([calling(call("fail", {"text": "a"})), "Sorry."]) as model:
        done = await run_loop(model, [tool], [user("Hi")], context, LIMITS)
    [answer] = results(done.transcript)
    assert (answer.output, answer.is_error) == ("no memory 'm1'", True)


async def test_any_other_failure_of_a_tool_ends_the_run_as_itself(context: ToolContext) -> None:
    failure, other = StoreUnavailableError("locked"), WaitingTool()
    alone = calling(call("fail", {"text": "a"}))
    beside = calling(call("wait", {"text": "a"}, "1"), call("fail", {"text": "b"}, "2"))
    for asked in (alone, beside):
        with pytest.raises(StoreUnavailableError) as caught:
            await run_loop(ScriptedChatModel([asked]), [FailingTool(failure), other], [user("Hi")], context, LIMITS)
        assert caught.value is failure
        assert caught.value.__cause__ is None
        assert not isinstance(caught.value.__context__, BaseExceptionGroup)
    assert other.ended == ["cancelled a"]


async def test_a_bug_in_a_tool_is_not_hidden_behind_a_failure(context: ToolContext) -> None:
    tools = [FailingTool(StoreUnavailableError("locked")), FailingTool(KeyError("bug"), name="buggy")]
    asked = calling(call("fail", {"text": "a"}, "1"), call("buggy", {"text": "b"}, "2"))
    with pytest.raises(KeyError, match="bug"):
        await run_loop(ScriptedChatModel([asked]), tools, [user("Hi")], context, LIMITS)


async def test_a_time_out_of_a_tools_own_passes_as_it_is(context: ToolContext) -> None:
    asked = calling(call("fail", {"text": "a"}))
    with pytest.raises(TimeoutError, match="its own"):
        await run_loop(
            ScriptedChatModel([asked]), [FailingTool(TimeoutError("its own"))], [user("Hi")], context, LIMITS
        )


async def test_a_long_answer_is_cut_with_the_number_of_characters_left_out(context: ToolContext) -> None:
    text = "x" * (MAX_ANSWER_CHARS + 77)
    async with ScriptedChatModel([calling(call("echo", {"text": text})), "Done."]) as model:
        done = await run_loop(model, [EchoTool()], [user("Hi")], context, LIMITS)
    [answer] = results(done.transcript)
    assert answer.output.startswith("x" * MAX_ANSWER_CHARS + "\n[77 more characters left out")
    assert len(answer.output) < MAX_ANSWER_CHARS + 100


class OddTool(EchoTool):
    async def run(self, arguments: object, context: ToolContext) -> str:
        return {"nul": "a\0b", "half": "a\ud83d", "empty": ""}[arguments.text]  # type: ignore[attr-defined]


async def test_what_no_message_can_hold_is_cleaned_out_of_answers(context: ToolContext) -> None:
    asked = calling(*(call("echo", {"text": text}, text) for text in ("nul", "half", "empty")))
    async with ScriptedChatModel([asked, "Done."]) as model:
        done = await run_loop(model, [OddTool()], [user("Hi")], context, LIMITS)
    assert [item.output for item in results(done.transcript)] == ["ab", "a\ufffd", "(no answer)"]


def endless(request: ChatRequest) -> Message:
    return calling(call("echo", {"text": f"{len(request.messages)}"}))


async def test_endless_tool_calls_end_with_a_step_limit_and_the_last_ones_are_not_made(context: ToolContext) -> None:
    tool, model = EchoTool(), ScriptedChatModel([endless] * 4)
    with pytest.raises(StepLimitError, match="after 4 steps"):
        await run_loop(model, [tool], [user("Hi")], context, Limits(max_steps=4))
    assert len(tool.log) == 3 * 2
    model.assert_done()


async def test_the_last_step_can_make_the_model_answer(context: ToolContext) -> None:
    async with ScriptedChatModel([endless, endless, "All I know."]) as model:
        done = await run_loop(model, [EchoTool()], [user("Hi")], context, Limits(max_steps=3), last_step="answer")
    assert (done.answer, done.stop_reason) == ("All I know.", "limit")
    assert [request.tool_choice for request in model.requests] == ["auto", "auto", "none"]
    assert model.requests[2].tools == model.requests[0].tools


async def test_a_model_that_calls_tools_against_the_choice_is_asked_without_tools(context: ToolContext) -> None:
    tool = EchoTool()
    async with ScriptedChatModel([endless, endless, "All I know."]) as model:
        done = await run_loop(model, [tool], [user("Hi")], context, Limits(max_steps=2), last_step="answer")
    assert (done.answer, done.stop_reason) == ("All I know.", "limit")
    assert model.requests[2].tools == ()
    assert "no more tool calls" in model.requests[2].messages[-1].text
    assert_well_formed(model.requests[2])
    assert len(tool.log) == 2


async def test_a_run_without_tools_answers_at_its_only_step(context: ToolContext) -> None:
    done = await run_loop(ScriptedChatModel(["Yes."]), [], [user("Hi")], context, Limits(max_steps=1))
    assert (done.answer, done.stop_reason) == ("Yes.", "answer")


def costing(message: Message, tokens: int) -> ChatResult:
    usage = Usage(model_calls=1, prompt_tokens=tokens, completion_tokens=1, milliseconds=5)
    return ChatResult(message=message, usage=usage, finish_reason="stop")


async def test_tokens_over_the_budget_end_the_run_before_the_next_call(context: ToolContext) -> None:
    model = ScriptedChatModel([costing(calling(call("echo", {"text": "a"})), 600)] * 2)
    with pytest.raises(BudgetExceededError, match="used 1202 of its 1200 tokens"):
        await run_loop(model, [EchoTool()], [user("Hi")], context, Limits(max_tokens=1200))
    model.assert_done()
    assert context.trace.usage == Usage(model_calls=2, prompt_tokens=1200, completion_tokens=2, milliseconds=10)


async def test_a_prompt_that_is_larger_than_the_budget_is_never_sent(context: ToolContext) -> None:
    model = ScriptedChatModel([])
    with pytest.raises(BudgetExceededError, match="about 25"):
        await run_loop(model, [], [user("x" * 100_000)], context, Limits(max_tokens=10_000))
    assert model.requests == []


async def test_an_endpoint_that_reports_no_tokens_is_counted_by_estimate(context: ToolContext) -> None:
    silent = ChatResult(message=calling(call("echo", {"text": "x" * 2000})), usage=Usage(model_calls=1))
    with pytest.raises(BudgetExceededError):
        await run_loop(ScriptedChatModel([silent] * 9), [EchoTool()], [user("Hi")], context, Limits(max_tokens=5000))
    assert context.trace.usage.model_calls < 9


async def test_the_cost_of_every_call_adds_up_in_the_result_and_not_in_the_trace(context: ToolContext) -> None:
    steps = [costing(calling(call("echo", {"text": "a"})), 10), costing(said("Done."), 20)]
    done = await run_loop(ScriptedChatModel(steps), [EchoTool()], [user("Hi")], context, LIMITS)
    assert done.usage == Usage(model_calls=2, prompt_tokens=30, completion_tokens=2, milliseconds=10)
    assert context.trace.usage == Usage()


async def test_what_a_failed_run_has_cost_stands_in_the_trace(context: ToolContext) -> None:
    steps: list[Step] = [costing(calling(call("echo", {"text": "a"})), 10), ModelUnavailableError("busy")]
    with pytest.raises(ModelUnavailableError):
        await run_loop(ScriptedChatModel(steps), [EchoTool()], [user("Hi")], context, LIMITS)
    assert context.trace.usage.prompt_tokens == 10


class WaitingModel:
    """Never answers."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = 0

    async def chat(self, request: ChatRequest) -> ChatResult:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        raise AssertionError


async def test_seconds_over_the_budget_end_the_run_and_the_call_under_way(context: ToolContext) -> None:
    model = WaitingModel()
    with pytest.raises(BudgetExceededError, match=r"its 0\.01 seconds"):
        await run_loop(model, [], [user("Hi")], context, Limits(max_seconds=0.01))
    assert model.cancelled == 1


async def test_cancelling_in_a_model_call_leaves_nothing_running(context: ToolContext) -> None:
    model = WaitingModel()
    before = asyncio.all_tasks()
    run = asyncio.ensure_future(run_loop(model, [], [user("Hi")], context, LIMITS))
    await model.begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert model.cancelled == 1
    assert asyncio.all_tasks() == before


async def test_cancelling_in_tool_calls_leaves_nothing_running_and_keeps_the_cost(context: ToolContext) -> None:
    tool = WaitingTool()
    asked = calling(call("wait", {"text": "a"}, "1"), call("wait", {"text": "b"}, "2"))
    before = asyncio.all_tasks()
    run = asyncio.ensure_future(
        run_loop(ScriptedChatModel([costing(asked, 10)]), [tool], [user("Hi")], context, LIMITS)
    )
    await tool.begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert sorted(tool.ended) == ["cancelled a", "cancelled b"]
    assert asyncio.all_tasks() == before
    assert context.trace.usage.prompt_tokens == 10


async def test_runs_at_the_same_time_know_nothing_of_each_other(store: LocalStore) -> None:
    tool = WaitingTool(barrier=asyncio.Barrier(3))

    async def one(number: int) -> str:
        model = ScriptedChatModel([calling(call("wait", {"text": f"{number}"})), lambda r: r.messages[-1].full_text])
        done = await run_loop(model, [tool], [user("Hi")], context_over(store), LIMITS)
        return done.answer

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(3)]
    assert [task.result() for task in tasks] == ["0", "1", "2"]


async def test_two_tools_of_one_name_are_refused(context: ToolContext) -> None:
    with pytest.raises(ConfigurationError, match="same name"):
        await run_loop(ScriptedChatModel([]), [EchoTool(), EchoTool()], [user("Hi")], context, LIMITS)


@pytest.mark.parametrize(
    "given",
    [
        {"max_steps": 0},
        {"max_steps": True},
        {"max_tokens": -1},
        {"max_tokens": 1.5},
        {"max_answer_tokens": 0},
        {"max_seconds": 0},
        {"max_seconds": float("inf")},
        {"max_seconds": float("nan")},
    ],
)
def test_limits_that_make_no_sense_are_refused(given: dict[str, float]) -> None:
    [name] = given
    with pytest.raises(InvalidInputError, match=name):
        Limits(**given)  # type: ignore[arg-type]  # wrong on purpose


async def test_the_limit_of_one_answer_goes_with_the_request(context: ToolContext) -> None:
    model = ScriptedChatModel(["Yes."])
    await run_loop(model, [], [user("Hi")], context, Limits(max_answer_tokens=77))
    assert model.requests[0].max_tokens == 77


class StreamingModel:
    """Streams each answer word by word."""

    def __init__(self, *answers: Message) -> None:
        self._scripted = ScriptedChatModel(answers)
        self.open = 0

    async def chat(self, request: ChatRequest) -> ChatResult:
        raise AssertionError

    async def stream(self, request: ChatRequest) -> AsyncGenerator[str | ChatResult, None]:
        result = await self._scripted.chat(request)
        self.open += 1
        try:
            for word in result.message.text.split(" "):
                yield f"{word} " if word else ""
            yield result
        finally:
            self.open -= 1


async def test_pieces_are_handed_on_as_they_come_and_tool_calls_go_as_usual(context: ToolContext) -> None:
    model = StreamingModel(calling(call("echo", {"text": "a"}), text="Let me see"), said("It is a"))
    pieces: list[str] = []
    done = await run_loop(model, [EchoTool()], [user("Hi")], context, LIMITS, on_text=pieces.append)
    assert pieces == ["Let ", "me ", "see ", "\n\nIt ", "is ", "a "]
    assert done.answer == "It is a"
    assert [item.output for item in results(done.transcript)] == ["a"]
    assert done.usage.model_calls == 2
    assert model.open == 0


async def test_a_coroutine_that_takes_the_pieces_is_awaited(context: ToolContext) -> None:
    pieces: list[str] = []

    async def take(piece: str) -> None:
        await asyncio.sleep(0)
        pieces.append(piece)

    await run_loop(StreamingModel(said("It is a")), [], [user("Hi")], context, LIMITS, on_text=take)
    assert pieces == ["It ", "is ", "a "]


async def test_a_model_that_cannot_stream_hands_on_each_text_at_once(context: ToolContext) -> None:
    pieces: list[str] = []
    model = ScriptedChatModel([calling(call("echo", {"text": "a"})), "It is a"])
    await run_loop(model, [EchoTool()], [user("Hi")], context, LIMITS, on_text=pieces.append)
    assert pieces == ["It is a"]


async def test_a_reader_that_fails_closes_the_stream(context: ToolContext) -> None:
    def fail(piece: str) -> None:
        raise BrokenPipeError

    model = StreamingModel(said("It is a"))
    with pytest.raises(BrokenPipeError):
        await run_loop(model, [], [user("Hi")], context, LIMITS, on_text=fail)
    assert model.open == 0
