"""An image that a thread holds: kept once, and base64 in no table, whatever part of the thread brings it."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from reme_core import ReMe
from reme_langchain import ReMeMiddleware, ReMeStore, from_langchain, to_langchain
from tests.adapters.langchain.agents import THREAD, invoke
from tests.adapters.langchain.scripted import ScriptedChat
from tests.support.images import BASE64, DATA_URL, IMAGE, base64_in, blobs_in

PARTS: list[dict[str, Any]] = [
    {"type": "image", "base64": BASE64, "mime_type": "image/png"},
    {"type": "image_url", "image_url": {"url": DATA_URL}},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BASE64}},
    {"type": "file", "file": {"file_data": DATA_URL, "filename": "door.png"}},
]


async def test_an_image_in_each_form_is_captured_as_one_blob(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        with ReMeMiddleware(memory, owner="ann") as middleware:
            agent = create_agent(ScriptedChat(["red"] * 4), middleware=[middleware], checkpointer=InMemorySaver())
            for part in PARTS:
                await invoke(agent, "async", [{"type": "text", "text": "which colour?"}, part], config=THREAD)
            tool = ToolMessage(
                [{"type": "text", "text": "shown"}, PARTS[0]], tool_call_id="c", id="t", artifact={"raw": BASE64}
            )
            call = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c"}], id="a")
            said = [HumanMessage("look", id="h"), call, tool, AIMessage("seen", id="b")]
            await middleware.aafter_agent({"messages": said}, Runtime())
            assert middleware.drain(20)
        found = await memory.find_messages(user_id="ann")
        assert len(found.messages) >= 8
        assert [len(item.message.blob_references) for item in found.messages if item.message.role == "user"][:4] == [
            1
        ] * 4
    assert blobs_in(tmp_path / "memory.db") == [IMAGE]
    assert base64_in(tmp_path / "memory.db") == []


@pytest.mark.parametrize("base64", ["not base64", "A"])
async def test_an_image_that_is_broken_costs_no_turn(tmp_path: Path, base64: str) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        with ReMeMiddleware(memory, owner="ann") as middleware:
            said = [HumanMessage([{"type": "text", "text": "look"}, {"type": "image", "base64": base64}], id="h")]
            await middleware.aafter_agent({"messages": [*said, AIMessage("seen", id="b")]}, Runtime())
            assert middleware.drain(20)
        found = await memory.find_messages(user_id="ann")
    assert [item.message.text for item in found.messages] == ["look", "seen"]


async def test_an_image_handed_in_again_by_a_run_without_a_thread_is_not_kept_again(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        with ReMeMiddleware(memory, owner="ann", recall=None) as middleware:
            said = [HumanMessage([PARTS[0]], id="h"), AIMessage("seen", id="b")]
            for _ in range(2):
                await create_agent(ScriptedChat(["ok"]), middleware=[middleware]).ainvoke({"messages": said})
            assert middleware.drain(20)
        found = await memory.find_messages(user_id="ann")
    assert sum(bool(item.message.blob_references) for item in found.messages) == 1


async def test_a_reference_that_somebody_made_up_costs_no_turn(tmp_path: Path) -> None:
    made_up = {"type": "image_url", "image_url": {"url": "sha256:" + "0" * 64}}
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        with ReMeMiddleware(memory, owner="ann") as middleware:
            tool = ToolMessage([made_up], tool_call_id="c", id="t")
            said = [HumanMessage([{"type": "text", "text": "look"}, made_up], id="h"), tool, AIMessage("seen", id="b")]
            await middleware.aafter_agent({"messages": said}, Runtime())
            assert middleware.drain(20)
        found = await memory.find_messages(user_id="ann")
    assert [item.message.text for item in found.messages] == ["look", "", "seen"]


@pytest.mark.parametrize("part", PARTS)
async def test_an_image_that_is_kept_apart_is_told_in_words_where_no_model_could_follow_its_reference(
    tmp_path: Path, part: dict[str, Any]
) -> None:
    small = json.loads(json.dumps(part).replace(BASE64, "iVBORw0K"))
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        for message in (HumanMessage([small], id="h"), ToolMessage([small], tool_call_id="c", id="t")):
            await memory.summary(from_langchain([message]), user_id="ann")
        stored = await memory.get_messages(["h", "t"], user_id="ann")
    assert all(item.message.blob_references for item in stored)
    shown = str([message.content for message in to_langchain(item.message for item in stored)])
    assert "sha256:" not in shown
    assert shown.count("'type': 'text'") == 2


async def test_an_image_in_an_item_that_a_run_of_a_user_puts_is_a_blob(tmp_path: Path) -> None:
    def note(state: MessagesState, runtime: Runtime[Any]) -> None:
        assert runtime.store is not None
        runtime.store.put(("notes",), "door", {"shown": state["messages"][-1].content, "mark": "reme-base64:"})

    image = IMAGE[:200_000]
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(image).decode()}"}}
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        store = ReMeStore(memory)
        graph = StateGraph(MessagesState).add_node("note", note).add_edge(START, "note").compile(store=store)
        for _ in range(2):
            await graph.ainvoke({"messages": [HumanMessage([part])]}, {"configurable": {"user_id": "ann"}})
        found = await store.aget(("notes",), "door")
        assert found is not None
        assert found.value == {"shown": [part], "mark": "reme-base64:"}
        assert [item.value for item in await store.asearch(("notes",), filter={"mark": "reme-base64:"})] == [
            found.value
        ]
    assert blobs_in(tmp_path / "memory.db") == [image]
    assert base64_in(tmp_path / "memory.db") == []
