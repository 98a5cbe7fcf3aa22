"""The store inside compiled graphs and agents, LG-STORE-74 and 84."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_store
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import InjectedStore, ToolNode
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore

from reme_core import ReMe
from reme_core.testing import HashedEmbedder
from reme_langchain import ReMeStore, memory_namespace
from tests.adapters.langchain.scripted import ScriptedChat

ANN = "ann@example.com"


class State(TypedDict, total=False):
    seen: list[str]


def calls(*made: ToolCall) -> AIMessage:
    return AIMessage("", tool_calls=list(made))


@tool
def note(text: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
    """Keep a note."""
    store.put(("notes", "ann"), text, {"text": text})
    return f"kept {text}"


@tool
async def remember(text: str, runtime: ToolRuntime) -> str:
    """Keep a memory of the user."""
    assert runtime.store is not None
    await runtime.store.aput(memory_namespace(ANN), text, {"content": text})
    return "kept"


@tool
def recall(query: str, runtime: ToolRuntime) -> str:
    """Find memories of the user."""
    assert runtime.store is not None
    return "; ".join(item.value["content"] for item in runtime.store.search(memory_namespace(ANN), query=query))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReMeStore]:
    with ReMeStore.from_path(tmp_path, synchronous="NORMAL") as opened:
        yield opened


def graph(store: ReMeStore) -> Any:
    """Four nodes, which use the store in each way that nodes have."""

    def by_runtime(state: State, runtime: Runtime[None]) -> State:
        assert runtime.store is not None
        runtime.store.put(("g",), "sync", {"n": 1})
        return {"seen": []}

    async def by_runtime_async(state: State, runtime: Runtime[None]) -> State:
        assert runtime.store is not None
        await runtime.store.aput(("g",), "async", {"n": 2})
        found = await runtime.store.aget(("g",), "sync")
        return {"seen": [] if found is None else [found.key]}

    async def by_context(state: State) -> State:
        found = await get_store().asearch(("g",))
        return {"seen": [*state["seen"], *sorted(item.key for item in found)]}

    def by_context_sync(state: State) -> State:
        return {"seen": [*state["seen"], str(len(get_store().search(("g",))))]}

    builder = StateGraph(State)
    nodes = {"one": by_runtime, "two": by_runtime_async, "three": by_context, "four": by_context_sync}
    for name, node in nodes.items():
        builder.add_node(name, node)  # type: ignore[call-overload]  # of either flavour
    for name, following in zip([START, *nodes], [*nodes, END], strict=True):
        builder.add_edge(name, following)
    return builder.compile(store=store, checkpointer=InMemorySaver())


@pytest.mark.requirement("LG-STORE-74")
async def test_nodes_of_either_flavour_use_the_store_of_an_async_run(store: ReMeStore) -> None:
    compiled = graph(store)
    states = await asyncio.gather(
        *(compiled.ainvoke({"seen": []}, {"configurable": {"thread_id": str(n)}}) for n in range(3))
    )
    assert [state["seen"] for state in states] == [["sync", "async", "sync", "2"]] * 3


@pytest.mark.requirement("LG-STORE-74")
def test_tools_get_the_store_injected_in_a_sync_run(store: ReMeStore) -> None:
    node = ToolNode([note])
    builder = StateGraph(dict)
    builder.add_node("tools", node)
    builder.add_edge(START, "tools")
    compiled = builder.compile(store=store)
    for text in ("milk", "bread"):
        call = calls(ToolCall(name="note", args={"text": text}, id=text, type="tool_call"))
        [answer] = compiled.invoke({"messages": [call]})["messages"]
        assert isinstance(answer, ToolMessage)
        assert answer.content == f"kept {text}"
    assert [item.key for item in store.search(("notes",))] == ["bread", "milk"]


@pytest.mark.requirement("LG-STORE-74")
@pytest.mark.requirement("LG-STORE-84")
async def test_what_an_agent_keeps_in_one_thread_it_finds_in_another_and_so_does_reme(tmp_path: Path) -> None:
    text = "drinks green tea every morning"
    script = [
        calls(ToolCall(name="remember", args={"text": text}, id="1", type="tool_call")),
        AIMessage("noted"),
        calls(ToolCall(name="recall", args={"query": "green tea"}, id="2", type="tool_call")),
        AIMessage("you drink green tea"),
    ]
    embedder = HashedEmbedder(64)
    async with ReMe("space", tmp_path, llm=None, embedding=embedder) as memory, ReMeStore(memory) as store:
        model = ScriptedChat(script, strict=True)
        agent = create_agent(model, tools=[remember, recall], store=store, checkpointer=InMemorySaver())
        for thread in ("monday", "tuesday"):
            state = await agent.ainvoke(
                {"messages": [{"role": "user", "content": "hello"}]}, {"configurable": {"thread_id": thread}}
            )
        answers = [message.content for message in state["messages"] if isinstance(message, ToolMessage)]
        assert answers == [text]
        [hit] = (await memory.retrieve("green tea in the morning", user_id=ANN)).results
        assert hit.memory == text
        assert (await memory.retrieve("green tea in the morning", user_id="bob")).results == ()
