"""A turn that is over is found at once by everybody, and nothing that is slow keeps a reply waiting."""

from __future__ import annotations

import asyncio
import gc
import json
import sqlite3
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from reme_core import ReMe, adapting
from reme_core.testing import ScriptedChatModel
from reme_langchain import MemoryHistory, ReMeMiddleware, ReMeSaver, ReMeStore
from tests.adapters.langchain.agents import THREAD, both_ways, invoke
from tests.adapters.langchain.scripted import ScriptedChat
from tests.support.new_processes import NEW_PROCESSES
from tests.support.read_back import found_in
from tests.support.slow_store import SlowStore

CITIES = ("Oslo", "Lima", "Quito", "Turin", "Kyoto", "Porto", "Tunis", "Basel", "Dakar", "Hanoi")
WAIT_S = 20.0


async def texts(memory: ReMe) -> list[str]:
    return [item.message.full_text for item in (await memory.find_messages(user_id="ann")).messages]


@both_ways
@pytest.mark.requirement("LC-MW-08")
async def test_a_turn_that_is_over_is_found_at_once_ten_of_ten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(adapting, "PATIENCE_S", WAIT_S)  # a busy machine is slower than a disk
    with ProcessPoolExecutor(1, mp_context=NEW_PROCESSES) as elsewhere:
        async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
            with ReMeMiddleware(memory, owner="ann") as middleware:
                for number, city in enumerate(CITIES):
                    agent = create_agent(ScriptedChat(["noted"]), middleware=[middleware], checkpointer=InMemorySaver())
                    config = {"configurable": {"thread_id": f"thread {number}"}}
                    await invoke(agent, way, f"My sister number {number} has moved to {city}", config=config)
                    query = f"Who has moved to {city}?"
                    assert city in (await memory.retrieve(query, user_id="ann")).text
                    there = elsewhere.submit(found_in, tmp_path, "space", "ann", query)
                    assert city in await asyncio.wrap_future(there)
                    model = ScriptedChat(["yes"])
                    other = create_agent(model, middleware=[ReMeMiddleware(memory, owner="ann", capture=None)])
                    state = await invoke(other, way, query)
                    assert any(city in message.text for message in state["messages"] if message.additional_kwargs)


@both_ways
@pytest.mark.requirement("LC-MW-08")
@pytest.mark.requirement("LC-MW-09")
async def test_a_locked_file_keeps_no_reply_waiting_and_loses_nothing(tmp_path: Path, way: str) -> None:
    memory = ReMe("space", tmp_path, llm=None, embedding=None)
    with ReMeMiddleware(memory, owner="ann") as middleware:
        agent = create_agent(ScriptedChat(), middleware=[middleware], checkpointer=InMemorySaver())
        await invoke(agent, way, "first", config=THREAD)
        assert await asyncio.to_thread(middleware.drain, WAIT_S)
        lock = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")  # until two replies are over: the one that is written, and the next one
        async with asyncio.timeout(5):  # half of the time for which a write waits for the file
            await invoke(agent, way, "second", config=THREAD)
            await invoke(agent, way, "third", config=THREAD)
        assert middleware.pending() > 0
        assert await texts(memory) == ["first", "ok"]
        lock.execute("ROLLBACK")
        lock.close()
        assert await asyncio.to_thread(middleware.drain, WAIT_S)
    assert await texts(memory) == ["first", "ok", "second", "ok", "third", "ok"]
    await memory.close()


@both_ways
@pytest.mark.requirement("LC-MW-08")
@pytest.mark.requirement("LC-MW-09")
async def test_a_write_that_takes_long_keeps_no_reply_waiting_nor_the_next_one(tmp_path: Path, way: str) -> None:
    store = SlowStore(tmp_path)
    memory = ReMe("space", tmp_path, llm=None, embedding=None, vector_store=store)
    with ReMeMiddleware(memory, owner="ann") as middleware:
        agent = create_agent(ScriptedChat(), middleware=[middleware], checkpointer=InMemorySaver())
        for said in ("first", "second", "third"):
            await invoke(agent, way, said, config=THREAD)
        assert store.begun == 1  # and it is still under way: all three replies are over before it
        assert await texts(memory) == []
        store.may_write.set()
        assert await asyncio.to_thread(middleware.drain, WAIT_S)
    assert await texts(memory) == ["first", "ok", "second", "ok", "third", "ok"]
    await memory.close()
    await store.close()


@both_ways
@pytest.mark.requirement("LG-SAVER-40")
async def test_a_write_that_takes_long_keeps_no_checkpoint_waiting(tmp_path: Path, way: str) -> None:
    store = SlowStore(tmp_path)
    memory = ReMe("space", tmp_path, llm=None, embedding=None, vector_store=store)
    saver = ReMeSaver(memory, history=MemoryHistory(memory, owner="ann"))
    agent = create_agent(ScriptedChat(), checkpointer=saver)
    for said in ("first", "second", "third"):
        await invoke(agent, way, said, config=THREAD)
    assert store.begun == 1
    assert await texts(memory) == []
    store.may_write.set()
    await asyncio.to_thread(saver.close)
    assert await texts(memory) == ["first", "ok", "second", "ok", "third", "ok"]
    await memory.close()
    await store.close()


@both_ways
@pytest.mark.requirement("LC-MW-08")
async def test_a_model_that_makes_memories_slowly_keeps_no_reply_and_no_search_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(adapting, "PATIENCE_S", WAIT_S)
    asked, answered = threading.Event(), threading.Event()

    async def slowly(_: Any) -> str:
        asked.set()
        await asyncio.to_thread(answered.wait, WAIT_S)
        return json.dumps({"facts": []})

    async with ReMe("space", tmp_path, llm=ScriptedChatModel([slowly] * 9), embedding=None) as memory:
        middleware = ReMeMiddleware(memory, owner="ann")
        agent = create_agent(ScriptedChat(), middleware=[middleware], checkpointer=InMemorySaver())
        for text in ("My cat is called Ada", "My dog is called Bo"):
            await invoke(agent, way, text, config=THREAD)
            assert await asyncio.to_thread(asked.wait, WAIT_S)
        assert "Bo" in (await memory.retrieve("What is my dog called?", user_id="ann")).text
        assert not answered.is_set()
        answered.set()
        await middleware.aclose()
        await memory.flush()


@both_ways
async def test_store_saver_and_middleware_on_one_memory_have_three_threads(tmp_path: Path, way: str) -> None:
    gc.collect()
    before = set(threading.enumerate())
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        store, saver, middleware = ReMeStore(memory), ReMeSaver(memory), ReMeMiddleware(memory, owner="ann")
        agent = create_agent(ScriptedChat(), middleware=[middleware], checkpointer=saver, store=store)
        for number in range(5):
            await invoke(agent, way, f"My dog number {number} is called Bo", config=THREAD)
            await asyncio.to_thread(store.put, ("a",), "k", {"n": number})
            await asyncio.to_thread(store.search, ("a",), query="n")
        ours = {thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("reme-")}
        assert len(ours) <= 3, ours
        await asyncio.to_thread(middleware.close)
        store.close()
        saver.close()
