"""A reply that is over is found at once by everybody, and nothing that is slow keeps a reply waiting."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sqlite3
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from reme_agentscope.v1.long_term.long_term_memory import ReMePersonalLongTermMemory
from reme_core import ReMe, adapting
from reme_core.testing import ScriptedChatModel
from tests.adapters.agentscope1.scripted import ScriptedModel, make_agent, user
from tests.support.read_back import found_in
from tests.support.slow_store import SlowStore

CITIES = ("Oslo", "Lima", "Quito", "Turin", "Kyoto", "Porto", "Tunis", "Basel", "Dakar", "Hanoi")


async def texts(memory: ReMe) -> list[str]:
    return [item.message.full_text for item in (await memory.find_messages(user_id="ann", limit=1000)).messages]


def agent_of(memory: ReMe, *answers: str, **mode: Any) -> Any:
    model = ScriptedModel(list(answers))
    return make_agent(
        model, long_term_memory=ReMePersonalLongTermMemory(user_name="ann", reme=memory), **mode or STATIC
    )


STATIC = {"long_term_memory_mode": "static_control"}


@pytest.mark.requirement("AS1-LTM-11")
@pytest.mark.requirement("AS1-LTM-18")
async def test_a_reply_that_is_over_is_found_at_once_ten_of_ten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapting, "PATIENCE_S", 20)  # a busy machine is slower than a disk
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as elsewhere:
        async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
            for number, city in enumerate(CITIES):
                await agent_of(memory, "noted")(user(f"My sister number {number} has moved to {city}"))
                query = f"Who has moved to {city}?"
                assert city in (await memory.retrieve(query, user_id="ann")).text
                there = elsewhere.submit(found_in, tmp_path, "space", "ann", query)
                assert city in await asyncio.wrap_future(there)
                assert city in await ReMePersonalLongTermMemory(user_name="ann", reme=memory).retrieve(user(query))


@pytest.mark.requirement("AS1-LTM-18")
async def test_a_locked_file_keeps_no_reply_waiting_and_loses_nothing(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        agent = agent_of(memory, *["ok"] * 3)
        await agent(user("first"))
        await agent.long_term_memory.flush()
        lock = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")  # until two replies are over: the one that is written, and the next one
        async with asyncio.timeout(5):  # half of the time for which a write waits for the file
            await agent(user("second"))
            await agent(user("third"))
        assert await texts(memory) == ["first", "ok"]
        lock.execute("ROLLBACK")
        lock.close()
        await agent.long_term_memory.flush()
        assert await texts(memory) == ["first", "ok", "second", "ok", "third", "ok"]


@pytest.mark.requirement("AS1-LTM-18")
async def test_a_write_that_takes_long_keeps_no_reply_waiting_nor_the_next_one(tmp_path: Path) -> None:
    store = SlowStore(tmp_path)
    async with ReMe("space", tmp_path, llm=None, embedding=None, vector_store=store) as memory:
        agent = agent_of(memory, *["ok"] * 3)
        for said in ("first", "second", "third"):
            await agent(user(said))
        assert store.begun == 1  # and it is still under way: all three replies are over before it
        assert await texts(memory) == []
        store.may_write.set()
        await agent.long_term_memory.flush()
        assert await texts(memory) == ["first", "ok", "second", "ok", "third", "ok"]
        await agent.long_term_memory.close()
    await store.close()


@pytest.mark.requirement("AS1-LTM-18")
async def test_a_model_that_makes_memories_slowly_keeps_no_reply_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapting, "PATIENCE_S", 20)
    asked, answered = asyncio.Event(), asyncio.Event()

    async def slowly(_: Any) -> str:
        asked.set()
        await answered.wait()
        return json.dumps({"facts": []})

    async with ReMe("space", tmp_path, llm=ScriptedChatModel([slowly] * 9), embedding=None) as memory:
        agent = agent_of(memory, "ok", "ok")
        for text in ("My cat is called Ada", "My dog is called Bo"):
            await agent(user(text))
            await asked.wait()
        assert "Bo" in (await memory.retrieve("What is my dog called?", user_id="ann")).text
        answered.set()
        await agent.long_term_memory.close()
