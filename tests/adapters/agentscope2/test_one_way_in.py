"""A reply that is over is found at once by everybody, and nothing that is slow keeps a reply waiting."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sqlite3
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from reme_agentscope import ReMeMiddleware
from reme_core import ReMe, adapting
from reme_core.testing import ScriptedChatModel
from tests.adapters.agentscope2.memories import everything, note_texts
from tests.adapters.agentscope2.scripted import ScriptedModel, make_agent, user
from tests.support.read_back import found_in
from tests.support.slow_store import SlowStore

CITIES = ("Oslo", "Lima", "Quito", "Turin", "Kyoto", "Porto", "Tunis", "Basel", "Dakar", "Hanoi")


@pytest.mark.requirement("AS2-MW-09")
async def test_a_reply_that_is_over_is_found_at_once_ten_of_ten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapting, "PATIENCE_S", 20)  # a busy machine is slower than a disk
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as elsewhere:
        async with ReMe("default", tmp_path, llm=None, embedding=None) as memory:
            mw = ReMeMiddleware(reme=memory, parameters=ReMeMiddleware.Parameters(search_timeout=20))
            for number, city in enumerate(CITIES):
                agent = make_agent(ScriptedModel(["noted"]), middlewares=[mw])
                await agent.reply(user(f"My sister number {number} has moved to {city}"))
                query = f"Who has moved to {city}?"
                assert city in (await memory.retrieve(query, user_id="default")).text
                there = elsewhere.submit(found_in, tmp_path, "default", "default", query)
                assert city in await asyncio.wrap_future(there)
                other = make_agent(ScriptedModel(["yes"]), middlewares=[mw])
                await other.reply(user(query))
                assert any(city in text for text in note_texts(other.state))


@pytest.mark.requirement("AS2-MW-09")
async def test_a_locked_file_keeps_no_reply_waiting_and_loses_nothing(tmp_path: Path) -> None:
    async with ReMe("default", tmp_path, llm=None, embedding=None) as memory, ReMeMiddleware(reme=memory) as mw:
        agent = make_agent(ScriptedModel(["ok"] * 3), middlewares=[mw])
        await agent.reply(user("first"))
        await mw.flush()
        lock = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")  # until two replies are over: the one that is written, and the next one
        async with asyncio.timeout(5):  # half of the time for which a write waits for the file
            await agent.reply(user("second"))
            await agent.reply(user("third"))
        assert [text for _, _, text in await everything(memory)] == ["first", "ok"]
        lock.execute("ROLLBACK")
        lock.close()
        await mw.flush()
        assert [text for _, _, text in await everything(memory)] == ["first", "ok", "second", "ok", "third", "ok"]


@pytest.mark.requirement("AS2-MW-09")
async def test_a_write_that_takes_long_keeps_no_reply_waiting_nor_the_next_one(tmp_path: Path) -> None:
    store = SlowStore(tmp_path)
    memory = ReMe("default", tmp_path, llm=None, embedding=None, vector_store=store)
    async with memory, ReMeMiddleware(reme=memory) as mw:
        agent = make_agent(ScriptedModel(["ok"] * 3), middlewares=[mw])
        for said in ("first", "second", "third"):
            await agent.reply(user(said))
        assert store.begun == 1  # and it is still under way: all three replies are over before it
        assert await everything(memory) == []
        store.may_write.set()
        await mw.flush()
        assert [text for _, _, text in await everything(memory)] == ["first", "ok", "second", "ok", "third", "ok"]
    await store.close()


@pytest.mark.requirement("AS2-MW-09")
async def test_a_model_that_makes_memories_slowly_keeps_no_reply_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapting, "PATIENCE_S", 20)
    asked, answered = asyncio.Event(), asyncio.Event()

    async def slowly(_: Any) -> str:
        asked.set()
        await answered.wait()
        return json.dumps({"facts": []})

    async with ReMe("default", tmp_path, llm=ScriptedChatModel([slowly] * 9), embedding=None) as memory:
        mw = ReMeMiddleware(reme=memory)
        agent = make_agent(ScriptedModel(["ok", "ok"]), middlewares=[mw])
        for text in ("My cat is called Ada", "My dog is called Bo"):
            await agent.reply(user(text))
            await asked.wait()
        assert "Bo" in (await memory.retrieve("What is my dog called?", user_id="default")).text
        answered.set()
        await mw.close()


PROGRAM = """
import asyncio
from reme_agentscope import ReMeMiddleware
from tests.adapters.agentscope2.scripted import ScriptedModel, make_agent, user

async def main():
    for text in ("My cat is called Ada", "My dog is called Bo"):
        await make_agent(ScriptedModel(["noted"]), middlewares=[ReMeMiddleware()]).reply(user(text))
    # and no close: the process ends as it likes

asyncio.run(main())
"""


@pytest.mark.requirement("AS2-MW-09")
async def test_a_program_that_closes_nothing_keeps_every_turn(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    run = [sys.executable, "-c", PROGRAM]
    await asyncio.to_thread(subprocess.run, run, cwd=tmp_path, env={"PYTHONPATH": str(root)}, check=True)
    async with ReMe("default", tmp_path / ".reme", llm=None, embedding=None) as memory:
        kept = [text for _, _, text in await everything(memory)]
    assert sorted(kept) == ["My cat is called Ada", "My dog is called Bo", "noted", "noted"]
