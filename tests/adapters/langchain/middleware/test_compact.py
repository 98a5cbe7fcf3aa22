"""A context over its budget is compacted: in the request and the thread alike, and only then."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
)
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.types import Command

from reme_core import Message, ReMe
from reme_core.errors import ModelUnavailableError
from reme_core.ports import ChatRequest, ChatResult
from reme_langchain import Compact, Recall, ReMeMiddleware
from reme_langchain._place import HookContext
from reme_langchain.middleware._compaction import ContextCompactor, ModelContext, with_update
from tests.adapters.langchain.agents import THREAD, both_ways, invoke
from tests.adapters.langchain.scripted import ScriptedChat, calling
from tests.support.compaction_child import SummarisingModel, is_compaction, summarising

SMALL = Compact(max_tokens=1_000, keep_tokens=200)
RELOAD = ("reload_context",)


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as opened:
        yield opened


def look_up(place: str) -> str:
    """Look up what is known of a place."""
    return f"{place}: " + f"fact about {place}. " * 20


def turns(count: int) -> list[Any]:
    """Write a script: each turn calls a tool and answers."""
    steps: list[Any] = []
    for number in range(count):
        steps += [calling("look_up", {"place": f"town{number}"}, call_id=f"c{number}"), f"Town{number} is fine. " * 10]
    return steps


def pairs_are_whole(messages: list[BaseMessage]) -> bool:
    calls = [call["id"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
    return calls == [message.tool_call_id for message in messages if isinstance(message, ToolMessage)]


def summaries(messages: list[Any]) -> list[str]:
    return [item.text for item in messages if item.additional_kwargs.get("reme", {}).get("part") == "summary"]


@both_ways
@pytest.mark.requirement("LC-MW-10")
@pytest.mark.requirement("LC-MW-11")
async def test_what_leaves_a_thread_is_in_the_summary_and_in_the_history(memory: ReMe, way: str) -> None:
    model, saver = ScriptedChat(turns(8)), InMemorySaver()
    with ReMeMiddleware(memory, owner="ann", recall=None, compact=SMALL, tools=RELOAD) as middleware:
        agent = create_agent(model, [look_up], middleware=[middleware], checkpointer=saver)
        for number in range(8):
            state = await invoke(agent, way, f"what of town{number}?", config=THREAD)
        assert middleware.drain()
        messages = state["messages"]
        assert len(summaries(messages)) == 1
        assert len(messages) < 16
        assert pairs_are_whole(messages)
        assert all(pairs_are_whole(asked.messages) for asked in model.asked)
        # The thread is what was sent, and the answer.
        assert [item.id for item in messages[:-1]] == [item.id for item in model.asked[-1].messages]
        handle = re.findall(r"reload ([0-9a-f]{16})", summaries(messages)[0])[0]
        loaded = await memory.reload_context(user_id="ann", session_id="t1", reference=handle)
        assert "town" in loaded.results[0].memory
    kept = [item.message.full_text for item in (await memory.find_messages(user_id="ann")).messages]
    assert [text for text in kept if text.startswith("what of")] == [f"what of town{n}?" for n in range(8)]
    assert not any("Summary of the conversation" in text for text in kept)
    assert len(kept) == len(set(kept)) == 8 * 4


@both_ways
@pytest.mark.requirement("LC-MW-10")
async def test_compaction_adds_no_checkpoint(memory: ReMe, way: str) -> None:
    counts = []
    for compact in (None, SMALL):
        saver = InMemorySaver()
        with ReMeMiddleware(memory, owner="ann", name="x", recall=None, compact=compact, tools=RELOAD) as middleware:
            agent = create_agent(ScriptedChat(turns(6)), [look_up], middleware=[middleware], checkpointer=saver)
            for number in range(6):
                state = await invoke(agent, way, f"town{number}?", config=THREAD)
        counts.append(len(list(saver.list(THREAD))))
    assert summaries(state["messages"])
    assert counts[0] == counts[1]


@both_ways
@pytest.mark.requirement("LC-MW-11")
async def test_the_prefix_changes_only_when_a_compaction_happens(memory: ReMe, way: str) -> None:
    model = ScriptedChat(turns(12))
    with ReMeMiddleware(memory, owner="ann", recall=None, compact=SMALL, tools=RELOAD) as middleware:
        agent = create_agent(model, [look_up], middleware=[middleware], checkpointer=InMemorySaver())
        for number in range(12):
            await invoke(agent, way, f"town{number}?", config=THREAD)
    shown = [tuple(summaries(asked.messages)) for asked in model.asked]
    texts = [asked.text for asked in model.asked]
    changed = [n for n in range(1, len(texts)) if not texts[n].startswith(texts[n - 1])]
    assert changed
    assert changed == [n for n in range(1, len(shown)) if shown[n] != shown[n - 1]]
    assert len(changed) < len(texts) / 3


class Summariser(SummarisingModel):
    """Keeps what it was asked; it may be down."""

    def __init__(self, *, is_down: bool) -> None:
        super().__init__()
        self.is_down = is_down
        self.asked: list[str] = []

    async def chat(self, request: ChatRequest) -> ChatResult:
        if self.is_down:
            raise ModelUnavailableError("the summariser is down")
        text = "\n".join(message.full_text for message in request.messages)
        self.asked.append(text)
        if not is_compaction(request):
            return await super().chat(request)
        return summarising(sorted(set(re.findall(r"fact\d+ is true", text))))


@both_ways
@pytest.mark.requirement("LC-MW-11")
@pytest.mark.parametrize("is_down", [True, False])
async def test_the_summariser_is_asked_about_all_that_leaves_and_may_fail(
    tmp_path: Path, way: str, is_down: bool, caplog: pytest.LogCaptureFixture
) -> None:
    summariser = Summariser(is_down=is_down)
    memory = ReMe("space", tmp_path, llm=summariser, embedding=None)
    settings = Compact(max_tokens=6_000, keep_tokens=500)
    with ReMeMiddleware(memory, owner="ann", capture=None, recall=None, compact=settings) as middleware:
        agent = create_agent(ScriptedChat(), middleware=[middleware], checkpointer=InMemorySaver())
        history: list[AnyMessage] = []
        for number in range(30):
            words = f"fact{number} is true. " * 60
            history += [HumanMessage(words, id=f"h{number}"), AIMessage(f"ok{number}", id=f"a{number}")]
        given = {"messages": [*history, HumanMessage("and now?")]}
        state = await agent.ainvoke(given, THREAD) if way == "async" else agent.invoke(given, THREAD)
    stayed = {item.id for item in state["messages"][1:]}
    left = {f"fact{number}" for number in range(30) if f"h{number}" not in stayed}
    assert left
    assert len(summaries(state["messages"])) == 1
    if is_down:
        assert "summariser is down" in caplog.text
    else:
        assert left <= set(re.findall(r"fact\d+", "\n".join(summariser.asked)))
    await memory.close(finish_jobs=False)


class TerseSummariser(SummarisingModel):
    """Summarises in two words that nobody said, as a model that follows no form."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def chat(self, request: ChatRequest) -> ChatResult:
        text = "\n".join(message.full_text for message in request.messages)
        if not is_compaction(request):
            return await super().chat(request)
        self.asked.append(text)
        answer = f"SUMMARY-{len(self.asked)}"
        return ChatResult(message=Message.model_validate({"role": "assistant", "content": answer}))


@both_ways
@pytest.mark.requirement("LC-MW-11")
async def test_a_summariser_that_follows_no_form_leaves_quotations_of_what_was_said(
    tmp_path: Path, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    summariser = TerseSummariser()
    memory = ReMe("space", tmp_path, llm=summariser, embedding=None)
    settings = Compact(max_tokens=6_000, keep_tokens=500)
    with ReMeMiddleware(memory, owner="ann", capture=None, recall=None, compact=settings) as middleware:
        agent = create_agent(ScriptedChat(), middleware=[middleware], checkpointer=InMemorySaver())
        history: list[AnyMessage] = []
        for number in range(60):
            history += [HumanMessage(f"fact{number} is true. " * 60, id=f"h{number}"), AIMessage("ok", id=f"a{number}")]
            if number in {29, 59}:
                given = {"messages": [*history, HumanMessage("and now?")]}
                state = await agent.ainvoke(given, THREAD) if way == "async" else agent.invoke(given, THREAD)
                history = []
                assert "SUMMARY" not in summaries(state["messages"])[0]
                assert "fact0 is true" in summaries(state["messages"])[0]
                assert "details: reload" in summaries(state["messages"])[0]
    assert "was made without the model" in caplog.text
    await memory.close(finish_jobs=False)


@pytest.mark.requirement("LC-MW-11")
@pytest.mark.parametrize("max_tokens", [1_000, 1_500, 3_000])
async def test_a_small_budget_of_the_agent_is_not_the_window_of_the_summariser(
    tmp_path: Path, max_tokens: int, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Compact(max_tokens=max_tokens, keep_tokens=200)
    assert settings.limits.threshold == max_tokens
    summariser = Summariser(is_down=False)
    memory = ReMe("space", tmp_path, llm=summariser, embedding=None)
    with ReMeMiddleware(memory, owner="ann", capture=None, recall=None, offload=None, compact=settings) as middleware:
        agent = create_agent(ScriptedChat(), middleware=[middleware])
        given = [HumanMessage(f"fact{number} is true. " * 20, id=f"h{number}") for number in range(40)]
        state = await agent.ainvoke({"messages": [*given, HumanMessage("and now?")]})
    stayed = {item.id for item in state["messages"][1:]}
    left = {f"fact{number}" for number in range(40) if f"h{number}" not in stayed}
    assert left <= set(re.findall(r"fact\d+", "\n".join(summariser.asked)))
    assert "is true" in summaries(state["messages"])[0]
    assert "without the model" not in caplog.text
    await memory.close(finish_jobs=False)


@pytest.mark.requirement("LC-MW-07")
@pytest.mark.requirement("LC-MW-11")
async def test_the_previous_summary_is_handed_on_and_recalled_memories_are_not(memory: ReMe) -> None:
    await memory.add_memory("the pelican is a bird of town1", user_id="ann")
    model = ScriptedChat(turns(14))
    with ReMeMiddleware(
        memory, owner="ann", recall=Recall(limit=1, layers=["memory"]), compact=SMALL, tools=RELOAD
    ) as middleware:
        agent = create_agent(model, [look_up], middleware=[middleware], checkpointer=InMemorySaver())
        for number in range(14):
            state = await invoke(agent, "async", f"town{number} and the pelican? My goal is {number}.", config=THREAD)
    texts = [text for asked in model.asked for text in summaries(asked.messages)]
    assert len(set(texts)) >= 2
    assert any("Notes of earlier conversations" in item.text for item in model.asked[1].messages)
    assert not any("bird" in text for text in texts)
    offloads, _ = await memory.list_offloads(user_id="ann", session_id="t1")
    assert sum(info.name == "summary" for info in offloads) >= len(set(texts)) - 1  # each one that was replaced is kept
    assert summaries(state["messages"]) == [texts[-1]]


class Noted(AgentState[Any]):
    note: str


class Noting(AgentMiddleware[Any, Any, Any]):
    """Says something beside each answer, by a command of its own."""

    state_schema = Noted

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        response = await handler(request)
        said = HumanMessage("noted beside", id=f"beside-{response.result[0].id}")
        return ExtendedModelResponse(response, Command(update={"note": "kept", "messages": [said]}))


@pytest.mark.requirement("LC-MW-10")
@pytest.mark.parametrize("inside", [True, False])
async def test_commands_of_other_middleware_stay(memory: ReMe, inside: bool) -> None:
    with ReMeMiddleware(memory, owner="ann", recall=None, compact=SMALL, tools=RELOAD) as middleware:
        both = [middleware, Noting()] if inside else [Noting(), middleware]
        agent = create_agent(ScriptedChat(["answer " * 60] * 9), middleware=both, checkpointer=InMemorySaver())
        for number in range(9):
            state = await invoke(agent, "async", f"question {number} " * 30, config=THREAD)
    assert summaries(state["messages"])
    assert state["note"] == "kept"
    assert [item.text for item in state["messages"][-3:]][1:] == ["answer " * 60, "noted beside"]


@both_ways
@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("has_state", [True, False])
@pytest.mark.requirement("LC-MW-10")
async def test_called_by_hand_its_command_makes_the_thread_what_was_sent_and_the_answer(
    memory: ReMe, way: str, ids: bool, has_state: bool
) -> None:
    messages: list[AnyMessage] = [
        HumanMessage(f"question {number} " * 20, id=f"m{number}" if ids else None) for number in range(20)
    ]
    state: Any = {"messages": list(messages)} if has_state else {}
    inner: Command[Any] = Command(update={"mark": 1, "messages": [HumanMessage("note", id="note")]})
    answer: ExtendedModelResponse[Any] = ExtendedModelResponse(ModelResponse(result=[AIMessage("yes")]), inner)
    sent: list[str] = []

    def handler(request: ModelRequest[Any]) -> Any:
        sent.extend(message.text for message in request.messages)
        return answer

    async def ahandler(request: ModelRequest[Any]) -> Any:
        return handler(request)

    with ReMeMiddleware(memory, owner="ann", recall=None, capture=None, compact=SMALL) as middleware:
        request: ModelRequest[Any] = ModelRequest(
            model=ScriptedChat(), messages=messages, state=state, runtime=Runtime()
        )
        if way == "async":
            given = await middleware.awrap_model_call(request, ahandler)
        else:
            given = await asyncio.to_thread(middleware.wrap_model_call, request, handler)
    assert isinstance(given, ExtendedModelResponse)
    assert given.command is not None
    assert isinstance(given.command.update, dict)
    assert given.command.update["mark"] == 1
    thread: Any = add_messages(list(messages), list(given.model_response.result))
    after: Any = add_messages(thread, given.command.update["messages"])
    assert len(sent) < 20
    assert [message.text for message in after] == [*sent, "yes", "note"]


def test_a_command_in_the_answer_is_kept() -> None:
    note = HumanMessage("mine")
    answer = ExtendedModelResponse(ModelResponse([AIMessage("x")]), Command(update={"messages": ["theirs"], "n": 1}))
    command = with_update(answer, [note]).command
    assert command is not None
    assert command.update == {"messages": ["theirs", note], "n": 1}
    [plain] = [with_update(AIMessage("x"), [note])]
    assert plain.model_response.result[0].text == "x"


@pytest.mark.requirement("LC-MW-08")
@pytest.mark.requirement("LC-MW-11")
async def test_what_was_cut_is_in_the_memory_whole_and_once(memory: ReMe) -> None:
    def read(place: str) -> str:
        """Read about a place."""
        return place * 1_000

    steps = [step for number in range(3) for step in (calling("read", {"place": f"town{number}"}), f"answer {number}")]
    with ReMeMiddleware(memory, owner="ann", recall=None, offload=None, compact=SMALL) as middleware:
        agent = create_agent(ScriptedChat(steps), [read], middleware=[middleware], checkpointer=InMemorySaver())
        for number in range(3):
            state = await invoke(agent, "async", f"read {number}", config=THREAD)
        assert 0 < len(state["messages"][-2].text) < 5_000
        # The message by which it is known how much is captured goes.
        await agent.aupdate_state(THREAD, {"messages": [RemoveMessage(id=state["messages"][-1].id)]})
        await invoke(agent, "async", "again", config=THREAD)
        assert middleware.drain()
    kept = (await memory.find_messages(user_id="ann")).messages
    assert [len(item.message.full_text) for item in kept if item.message.role == "tool"] == [5_000] * 3


@both_ways
@pytest.mark.requirement("LC-MW-11")
async def test_where_nothing_can_be_written_what_fits_is_sent_and_the_thread_stays(
    tmp_path: Path, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    memory = ReMe("space", tmp_path, llm=None, embedding=None)
    model = ScriptedChat()
    with ReMeMiddleware(memory, owner="ann", capture=None, recall=None, compact=SMALL, tools=RELOAD) as middleware:
        agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
        await memory.close()
        for number in range(6):
            state = await invoke(agent, way, f"question {number} " * 150, config=THREAD)
    assert len(state["messages"]) == 12
    assert len(model.asked[-1].messages) < 11
    assert model.asked[-1].messages[-1].text.startswith("question 5")
    assert "was not compacted" in caplog.text


@pytest.mark.requirement("LC-MW-10")
async def test_system_prompt_and_tools_count(memory: ReMe) -> None:
    place = HookContext(user_id="ann", session_id="s", has_thread=True, notes={})
    compaction = ContextCompactor(memory, SMALL)
    messages: list[AnyMessage] = [HumanMessage("word " * 90, id=f"m{n}") for n in range(6)]
    schema: dict[str, Any] = {"name": "t", "description": "what it does " * 300, "parameters": {}}
    tool = {"type": "function", "function": schema}
    assert await compaction.fit(ModelContext(messages=messages, system=None, tools=[]), messages, place) is None
    fitted = await compaction.fit(ModelContext(messages=messages, system=None, tools=[tool]), messages, place)
    assert fitted is not None
    assert len(json.dumps(schema)) < 4_200


@pytest.mark.requirement("LC-MW-15")
async def test_a_long_context_that_fits_is_handed_on_as_it_is(memory: ReMe) -> None:
    place = HookContext(user_id="ann", session_id="s", has_thread=True, notes={})
    compaction = ContextCompactor(memory, Compact(max_tokens=40_000))
    messages: list[AnyMessage] = [HumanMessage(f"message {n} " * 20, id=f"m{n}") for n in range(600)]
    context = ModelContext(messages=messages, system=None, tools=[])
    assert await compaction.fit(context, messages, place) is None
    read = compaction._read(messages)
    again = compaction._read(messages)
    assert all(one is other for one, other in zip(read, again, strict=True))
    messages += [HumanMessage("one more " * 15_000, id="more")]
    fitted = await compaction.fit(ModelContext(messages=messages, system=None, tools=[]), messages, place)
    assert fitted is not None
    kept = {id(message) for message in messages}
    assert sum(id(message) in kept for message in fitted.messages) >= len(fitted.messages) - 2


@both_ways
@pytest.mark.requirement("LC-MW-11")
@pytest.mark.parametrize("is_written", [True, False])
async def test_a_result_whose_call_has_left_is_told_in_words(
    memory: ReMe, tmp_path: Path, way: str, is_written: bool
) -> None:
    model = ScriptedChat()
    started = [HumanMessage("Run it.", id="q"), calling("run", call_id="c1"), HumanMessage("Meanwhile ...", id="m")]
    late = ToolMessage("3 failed", tool_call_id="c1", name="run", id="r")
    with ReMeMiddleware(memory, owner="ann", recall=None, compact=SMALL, tools=RELOAD) as middleware:
        agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
        await agent.aupdate_state(THREAD, {"messages": started})
        for number in range(4):
            await invoke(agent, way, f"question {number} " * 100, config=THREAD)
        if not is_written:
            lost = ReMe("space", tmp_path / "lost", llm=None, embedding=None)
            await lost.close()
            middleware._compaction._memory = lost  # type: ignore[union-attr]
        await agent.aupdate_state(THREAD, {"messages": [late]})
        for _ in range(2):
            state = await invoke(agent, way, "so?", config=THREAD)
            [told] = [message for message in model.asked[-1].messages if message.id == "r"]
            assert isinstance(told, HumanMessage)
            assert told.text.startswith("[late result of run: ")
            assert told.text.endswith("\n3 failed")
            assert pairs_are_whole(model.asked[-1].messages)
        assert isinstance(state["messages"][-5], HumanMessage if is_written else ToolMessage)
        assert middleware.drain()
    page = await memory.find_messages(user_id="ann")
    assert [item.message.result_ids for item in page.messages if item.message.message_id == "r"] == [("c1",)]
    assert "late result" not in " ".join(item.message.full_text for item in page.messages)
