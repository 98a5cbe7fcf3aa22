"""Whole graphs on the checkpointer."""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt

from reme_langchain import ReMeSaver


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Total(TypedDict):
    items: Annotated[list[str], operator.add]


def append(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *(item for write in writes for item in write)]


class Deltas(TypedDict):
    items: Annotated[list[str], DeltaChannel(append, snapshot_frequency=5)]
    unused: Annotated[list[str], DeltaChannel(append)]


def add_all(state: Any, writes: list[Any]) -> Any:
    for write in writes:
        state = add_messages(state, write)
    return state


class DeltaChat(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(add_all)]


@pytest.fixture
async def saver(tmp_path: Path) -> AsyncIterator[ReMeSaver]:
    async with ReMeSaver.from_path(tmp_path / "graphs.db", synchronous="NORMAL") as opened:
        yield opened


def at(thread: str, **more: object) -> Any:
    return {"configurable": {"thread_id": thread, **more}}


def chat(saver: ReMeSaver) -> Any:
    def reply(state: Chat) -> dict[str, object]:
        return {"messages": [AIMessage(f"reply {len(state['messages'])}", id=f"ai{len(state['messages'])}")]}

    return StateGraph(Chat).add_node("reply", reply).add_edge(START, "reply").compile(checkpointer=saver)


def chain(saver: ReMeSaver, schema: type, names: str = "abcd", **options: Any) -> Any:
    def step(name: str) -> Any:
        return lambda _: {"items": [name]}

    graph: Any = StateGraph(schema)
    graph.add_sequence([(name, step(name)) for name in names])
    graph.add_edge(START, names[0])
    return graph.compile(checkpointer=saver, **options)


@pytest.mark.requirement("LG-SAVER-13")
async def test_a_conversation_is_remembered_checkpoint_by_checkpoint(saver: ReMeSaver) -> None:
    graph = chat(saver)
    for turn in range(5):
        if turn % 2:
            await graph.ainvoke({"messages": [HumanMessage(f"turn {turn}", id=f"h{turn}")]}, at("t"))
        else:
            graph.invoke({"messages": [HumanMessage(f"turn {turn}", id=f"h{turn}")]}, at("t"))  # on the running loop

    history = [found async for found in graph.aget_state_history(at("t"))]
    assert len(history) == 15
    assert [len(found.values["messages"]) for found in history[:3]] == [10, 9, 8]
    assert len([found async for found in graph.aget_state_history(at("t"), limit=4)]) == 4
    inputs = graph.get_state_history(at("t"), filter={"source": "input"})
    assert [found.metadata["source"] for found in inputs] == ["input"] * 5


@pytest.mark.requirement("LG-SAVER-13")
async def test_an_interrupted_run_resumes_where_it_stopped(saver: ReMeSaver) -> None:
    def ask(state: Total) -> dict[str, object]:
        return {"items": [interrupt("really?")]}

    graph = StateGraph(Total).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=saver)
    await graph.ainvoke({"items": ["a"]}, at("t"))
    (waiting,) = graph.get_state(at("t")).tasks[0].interrupts
    result = await graph.ainvoke(Command(resume="yes"), at("t"))

    assert waiting.value == "really?"
    assert result["items"] == ["a", "yes"]


@pytest.mark.requirement("LG-SAVER-13")
async def test_only_the_failed_branch_runs_again(saver: ReMeSaver) -> None:
    runs: list[str] = []

    def fine(_: Total) -> dict[str, object]:
        runs.append("fine")
        return {"items": ["fine"]}

    async def failing(_: Total) -> dict[str, object]:
        runs.append("failing")
        if runs.count("failing") == 1:
            while not [kept async for kept in saver.alist(at("t"), limit=1) if kept.pending_writes]:
                pass  # until the other branch is done and its write on disk
            msg = "once"
            raise OSError(msg)
        return {"items": ["failing"]}

    graph = StateGraph(Total).add_node("fine", fine).add_node("failing", failing)
    app = graph.add_edge(START, "fine").add_edge(START, "failing").compile(checkpointer=saver)
    with pytest.raises(OSError, match="once"):
        await app.ainvoke({"items": []}, at("t"), durability="sync")
    result = await app.ainvoke(None, at("t"))

    assert sorted(runs) == ["failing", "failing", "fine"]
    assert sorted(result["items"]) == ["failing", "fine"]


@pytest.mark.requirement("LG-SAVER-13")
async def test_a_fork_leaves_the_original_intact(saver: ReMeSaver) -> None:
    graph = chat(saver)
    for turn in range(3):
        await graph.ainvoke({"messages": [HumanMessage(f"turn {turn}", id=f"h{turn}")]}, at("t"))
    before = [found.config async for found in graph.aget_state_history(at("t"))]
    early = next(found for found in graph.get_state_history(at("t")) if len(found.values["messages"]) == 2)
    fork = await graph.aupdate_state(early.config, {"messages": [HumanMessage("other", id="h0")]})
    await graph.ainvoke(None, fork)

    assert graph.get_state(fork).values["messages"][0].content == "other"
    assert len(graph.get_state(before[0]).values["messages"]) == 6
    assert graph.get_state(before[0]).values["messages"][0].content == "turn 0"


@pytest.mark.requirement("LG-SAVER-13")
async def test_subgraphs_keep_their_state_and_go_with_the_thread(saver: ReMeSaver) -> None:
    def ask(_: Total) -> dict[str, object]:
        return {"items": [interrupt("inner?")]}

    inner = StateGraph(Total).add_node("ask", ask).add_edge(START, "ask").compile()
    graph = StateGraph(Total).add_node("inner", inner).add_edge(START, "inner").compile(checkpointer=saver)
    await graph.ainvoke({"items": ["a"]}, at("t"))
    shown = await graph.aget_state(at("t"), subgraphs=True)
    namespaces = {found.config["configurable"]["checkpoint_ns"] async for found in saver.alist(at("t"))}
    await saver.adelete_thread("t")

    assert shown.tasks[0].state.values == {"items": ["a"]}  # type: ignore[union-attr]
    assert len(namespaces) == 2
    assert [found async for found in saver.alist(None)] == []


@pytest.mark.requirement("LG-SAVER-13")
@pytest.mark.parametrize(("durability", "kept"), [("sync", 6), ("async", 6), ("exit", 1)])
async def test_durability_decides_how_many_checkpoints_are_kept(saver: ReMeSaver, durability: Any, kept: int) -> None:
    graph = chain(saver, Total)
    await graph.ainvoke({"items": []}, at("t"), durability=durability)

    assert len([found async for found in saver.alist(at("t"))]) == kept
    assert graph.get_state(at("t")).values["items"] == list("abcd")


@pytest.mark.requirement("LG-SAVER-13")
async def test_sent_tasks_fan_out_and_are_resumed(saver: ReMeSaver) -> None:
    graph = StateGraph(Total).add_node("work", lambda sent: {"items": [sent["item"]]})
    graph.add_conditional_edges(START, lambda _: [Send("work", {"item": f"{n}"}) for n in range(5)], ["work"])
    app = graph.compile(checkpointer=saver, interrupt_before=["work"])
    await app.ainvoke({"items": []}, at("t"))
    result = await app.ainvoke(None, at("t"))

    assert result["items"] == ["0", "1", "2", "3", "4"]


@tool
def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


@pytest.mark.requirement("LG-SAVER-13")
async def test_an_agent_with_tools_remembers_three_turns(saver: ReMeSaver) -> None:
    said: list[AIMessage] = []
    for turn in range(3):
        call = {"name": "add", "args": {"left": turn, "right": 1}, "id": f"call{turn}"}
        said += [AIMessage("", tool_calls=[call], id=f"ai{turn}"), AIMessage(f"it is {turn + 1}", id=f"end{turn}")]

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

    agent = create_agent(Scripted(messages=iter(said)), [add], checkpointer=saver)
    for turn in range(3):
        result = await agent.ainvoke({"messages": [HumanMessage(f"{turn} + 1?")]}, at("t"))

    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai"] * 3
    stored = await saver.aget_tuple(at("t"))
    assert stored is not None
    assert stored.checkpoint["channel_values"]["messages"] == result["messages"]


@pytest.mark.requirement("LG-SAVER-13")
@pytest.mark.parametrize("durability", ["async", "exit"])
async def test_delta_channels_are_rebuilt_over_many_turns(saver: ReMeSaver, durability: Any) -> None:
    graph = chain(saver, Deltas, "ab")
    for turn in range(13):
        result = await graph.ainvoke({"items": [f"{turn}"]}, at("t"), durability=durability)

    expected = [item for turn in range(13) for item in (f"{turn}", "a", "b")]
    assert result["items"] == expected
    assert graph.get_state(at("t")).values["items"] == expected
    assert (await graph.aget_state(at("t"))).values["items"] == expected


@pytest.mark.requirement("LG-SAVER-09")
@pytest.mark.requirement("LG-SAVER-08")
@pytest.mark.parametrize("durability", ["async", "exit"])
@pytest.mark.parametrize("turns", [1, 2, 3])
async def test_delta_channels_survive_pruning_and_copying(saver: ReMeSaver, durability: Any, turns: int) -> None:
    graph = chain(saver, Deltas, "ab")
    for turn in range(turns):
        await graph.ainvoke({"items": [f"{turn}"]}, at("t"), durability=durability)
    before = graph.get_state(at("t")).values
    await saver.aprune(["t"])
    await saver.acopy_thread("t", "copy")
    left = [found async for found in saver.alist(at("t"))]

    assert len(left) == 1
    assert graph.get_state(at("t")).values == graph.get_state(at("copy")).values == before
    await saver.aprune(["t"])
    for thread in ("t", "copy"):
        result = await graph.ainvoke({"items": ["next"]}, at(thread), durability=durability)
        assert result["items"] == [*before["items"], "next", "a", "b"]
        assert graph.get_state(at(thread)).values["items"] == result["items"]


@pytest.mark.requirement("LG-SAVER-09")
@pytest.mark.requirement("LG-SAVER-07")
async def test_delta_channels_survive_the_deletion_of_a_run(saver: ReMeSaver) -> None:
    graph = chain(saver, Deltas, "ab")
    for turn in range(3):
        await graph.ainvoke({"items": [f"{turn}"]}, {**at("t"), "metadata": {"run_id": f"run{turn}"}})
    before = graph.get_state(at("t")).values
    await saver.adelete_for_runs(["run0", "run1"])

    assert {found.metadata["run_id"] async for found in saver.alist(at("t"))} == {"run2"}
    assert graph.get_state(at("t")).values == before
    result = await graph.ainvoke({"items": ["next"]}, at("t"))
    assert result["items"] == [*before["items"], "next", "a", "b"]
    await saver.adelete_for_runs(["run2"])
    assert graph.get_state(at("t")).values["items"] == result["items"]


@pytest.mark.requirement("LG-SAVER-09")
@pytest.mark.requirement("LG-SAVER-32")
async def test_what_no_later_checkpoint_needs_is_not_kept_hidden(saver: ReMeSaver) -> None:
    graph = chain(saver, Deltas, "ab")
    for turn in range(12):
        await graph.ainvoke({"items": [f"{turn}"]}, at("t"))
    await saver.aprune(["t"])

    rows = await saver._file.aread(
        lambda connection: connection.execute("SELECT count(*) FROM langgraph_checkpoints").fetchone()
    )
    assert rows[0] <= 1 + 5 * 4  # back to the nearest snapshot


@pytest.mark.requirement("LG-SAVER-09")
async def test_messages_in_a_delta_channel_survive_pruning(saver: ReMeSaver) -> None:
    def reply(state: DeltaChat) -> dict[str, object]:
        return {"messages": [AIMessage(f"{len(state['messages'])}", id=f"a{len(state['messages'])}")]}

    graph = StateGraph(DeltaChat).add_node("reply", reply).add_edge(START, "reply").compile(checkpointer=saver)
    for turn in range(4):
        await graph.ainvoke({"messages": [HumanMessage(f"{turn}", id=f"h{turn}")]}, at("t"))
    before = graph.get_state(at("t")).values
    await saver.aprune(["t"])

    assert graph.get_state(at("t")).values == before
    assert len(before["messages"]) == 8


def size_of(folder: Path) -> int:
    return sum(found.stat().st_size for found in folder.iterdir())


@pytest.mark.requirement("LG-SAVER-31")
async def test_a_long_conversation_grows_by_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "long.db"
    sizes = []
    for _ in range(3):  # the file is closed in between, so that its size is all there is
        async with ReMeSaver.from_path(path, synchronous="NORMAL") as saver:
            graph = chat(saver)
            for _ in range(40):
                await graph.ainvoke({"messages": [HumanMessage("h" * 400)]}, at("t"))
        sizes.append(size_of(tmp_path))

    assert sizes[2] - sizes[1] <= 1.25 * (sizes[1] - sizes[0])
    assert (sizes[2] - sizes[1]) / 40 * 300 <= 0.8e6


class Mixed(TypedDict):
    items: Annotated[list[str], DeltaChannel(append, snapshot_frequency=3)]
    said: Annotated[list[AnyMessage], DeltaChannel(add_all)]
    messages: Annotated[list[AnyMessage], add_messages]


def mixed(saver: Any) -> Any:
    def step(state: Mixed) -> dict[str, object]:
        number = len(state["items"])
        message = AIMessage(f"{number}", id=f"m{number % 5}")  # some replace an earlier one
        return {"items": [f"{number}"], "said": [message], "messages": [message]}

    return StateGraph(Mixed).add_node("step", step).add_edge(START, "step").compile(checkpointer=saver)


WORK = st.sampled_from(["sync", "async", "exit", "update", "prune", "copy", "delete_for_runs"])


@pytest.mark.requirement("LG-SAVER-09")
@pytest.mark.requirement("LG-SAVER-10")
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(works=st.lists(WORK, min_size=3, max_size=10))
def test_states_are_those_of_the_bundled_saver_whatever_is_removed_meanwhile(
    saver: ReMeSaver, works: list[str]
) -> None:
    ours, theirs = mixed(saver), mixed(InMemorySaver())
    thread = uuid4().hex
    runs: list[str] = []
    is_whole = True  # the inherited walk does not see what is kept hidden
    for number, work in enumerate(works):
        before = {found.config["configurable"]["checkpoint_id"]: found.values for found in history_of(ours, thread)}
        said = {"items": ["in"], "said": [HumanMessage("h", id=f"h{number}")], "messages": [HumanMessage("h", id="h")]}
        match work:
            case "prune":
                saver.prune([thread])
            case "delete_for_runs":
                saver.delete_for_runs(runs[:-1])
            case "copy":
                source, thread = thread, uuid4().hex
                saver.copy_thread(source, thread)
                saver.delete_thread(source)
            case "update" if before:
                runs.append(uuid4().hex)
                for graph, name in ((ours, thread), (theirs, "t")):
                    graph.update_state(at(name, run_id=runs[-1]), said, as_node="step")
            case "sync" | "async" | "exit":
                runs.append(uuid4().hex)
                for graph, name in ((ours, thread), (theirs, "t")):
                    graph.invoke(said, at(name, run_id=runs[-1]), durability=work)
        for found in history_of(ours, thread):
            kept = found.config["configurable"]["checkpoint_id"]
            assert found.values == before.get(kept, found.values)
        assert ours.get_state(at(thread)).values == theirs.get_state(at("t")).values
        is_whole = is_whole and work not in {"prune", "delete_for_runs"}
        for each in saver.list(at(thread)) if is_whole else ():
            wanted = BaseCheckpointSaver.get_delta_channel_history(
                saver, config=each.config, channels=["items", "said"]
            )
            assert saver.get_delta_channel_history(config=each.config, channels=["items", "said"]) == wanted


def history_of(graph: Any, thread: str) -> list[Any]:
    return list(graph.get_state_history(at(thread)))
