"""What is said in a thread becomes memory, whatever happens between the turn and the memory."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt

from reme_core import Message, ReMe
from reme_core.errors import StoreError
from reme_langchain import Compact, ReMeMiddleware, ReMeSaver
from tests.adapters.langchain.agents import THREAD, both_ways, invoke
from tests.adapters.langchain.scripted import ScriptedChat, calling
from tests.support.new_processes import NEW_PROCESSES

WAIT_S = 20.0


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as opened:
        yield opened


async def texts(memory: ReMe, user_id: str = "ann") -> list[str]:
    found = await memory.find_messages(user_id=user_id)
    return [item.message.full_text for item in found.messages]


@both_ways
@pytest.mark.requirement("LC-MW-08")
async def test_each_message_of_a_thread_is_kept_once_in_order(memory: ReMe, way: str) -> None:
    with ReMeMiddleware(memory, owner="ann") as middleware:
        agent = create_agent(ScriptedChat(["one", "two"]), middleware=[middleware], checkpointer=InMemorySaver())
        await invoke(agent, way, "first", config=THREAD)
        state = await invoke(agent, way, "second", config=THREAD)
        assert middleware.drain(WAIT_S)
    found = await memory.find_messages(user_id="ann", session_id="t1")
    assert [item.message.text for item in found.messages] == ["first", "one", "second", "two"]
    assert [item.message.message_id for item in found.messages] == [message.id for message in state["messages"]]


@pytest.mark.requirement("LC-MW-08")
@pytest.mark.requirement("LC-MW-09")
async def test_messages_without_ids_are_captured_each_time(memory: ReMe) -> None:
    with ReMeMiddleware(memory, owner="ann", recall=None) as middleware:

        async def end_turn(said: list[Any]) -> None:
            await middleware.aafter_agent({"messages": said}, Runtime())

        for number in range(3):
            said = [HumanMessage(f"question {number}"), AIMessage(f"answer {number}")]
            await RunnableLambda(end_turn).ainvoke(said, THREAD)
        assert middleware.drain(WAIT_S)
    kept = await texts(memory)
    assert sorted(kept) == sorted(f"{what} {number}" for what in ("question", "answer") for number in range(3))


@both_ways
@pytest.mark.requirement("LC-MW-08")
async def test_a_turn_whose_model_fails_is_captured_by_the_next_run(memory: ReMe, way: str) -> None:
    model = ScriptedChat([ConnectionError("down"), ConnectionError("down again"), "back"])
    with ReMeMiddleware(memory, owner="ann") as middleware:
        agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
        for text in ("first", "second"):
            with pytest.raises(ConnectionError):
                await invoke(agent, way, text, config=THREAD)
        assert middleware.drain(WAIT_S)
        assert await texts(memory) == ["first"]
        await invoke(agent, way, "third", config=THREAD)
        assert middleware.drain(WAIT_S)
    assert await texts(memory) == ["first", "second", "third", "back"]


def ask_human(question: str) -> str:
    """Ask a human."""
    return str(interrupt(question))


@both_ways
@pytest.mark.requirement("LC-MW-08")
@pytest.mark.parametrize("resumed", [True, False])
async def test_an_interrupted_run_is_captured_when_it_ends_or_another_one_begins(
    memory: ReMe, way: str, resumed: bool
) -> None:
    model = ScriptedChat([calling("ask_human", {"question": "sure?"}), "done"])
    with ReMeMiddleware(memory, owner="ann") as middleware:
        agent = create_agent(model, [ask_human], middleware=[middleware], checkpointer=InMemorySaver())
        await invoke(agent, way, "delete it", config=THREAD)
        assert middleware.drain(WAIT_S)
        assert await texts(memory) == []
        if resumed:
            await agent.ainvoke(Command(resume="yes"), config=THREAD)
        else:
            await invoke(agent, way, "never mind", config=THREAD)
        assert middleware.drain(WAIT_S)
    call = 'ask_human({"question": "sure?"})'
    told = ["delete it", call, "yes", "done"] if resumed else ["delete it", call, "never mind", "done"]
    assert await texts(memory) == told


@both_ways
@pytest.mark.requirement("LC-MW-08")
async def test_without_a_checkpointer_messages_that_come_again_are_kept_once(memory: ReMe, way: str) -> None:
    with ReMeMiddleware(memory, owner="ann") as middleware:
        agent = create_agent(ScriptedChat(["one", "two"]), middleware=[middleware])
        history: list[Any] = [HumanMessage("first", id="h1")]
        for text in ("second", None):
            run = agent.ainvoke({"messages": history}) if way == "async" else None
            state = await run if run else await asyncio.to_thread(agent.invoke, {"messages": history})
            history = [message for message in state["messages"] if not message.additional_kwargs]
            if text:
                history.append(HumanMessage(text, id="h2"))
            assert middleware.drain(WAIT_S)
    assert await texts(memory) == ["first", "one", "second", "two"]


@both_ways
@pytest.mark.requirement("LC-MW-08")
async def test_a_conversation_that_is_handed_in_again_without_ids_is_kept_once(memory: ReMe, way: str) -> None:
    steps = [calling("search_memory", {"query": "x"}), "one", "one", "two", "other", "last"]
    history: list[Any] = []
    with ReMeMiddleware(memory, owner="ann", recall=None) as middleware:
        agent = create_agent(ScriptedChat(steps), middleware=[middleware])
        for text in ("first", "first", "second", "third"):
            history.append({"role": "user", "content": text})
            given = {"messages": history}
            run = agent.ainvoke(given, config=THREAD) if way == "async" else None
            state = await run if run else await asyncio.to_thread(agent.invoke, given, config=THREAD)
            history.append({"role": "assistant", "content": state["messages"][-1].text})
            assert middleware.drain(WAIT_S)
        await agent.ainvoke({"messages": [*history[:4], {"role": "user", "content": "instead"}]}, config=THREAD)
        assert middleware.drain(WAIT_S)
    kept = [text for text in await texts(memory) if "search_memory" not in text and text != "no memories found"]
    assert kept == ["first", "one", "first", "one", "second", "two", "third", "other", "instead", "last"]


@pytest.mark.requirement("LC-MW-08")
async def test_a_message_edited_under_its_id_and_a_copied_thread_stop_nothing(memory: ReMe) -> None:
    with ReMeMiddleware(memory, owner="ann", recall=None) as middleware:
        for thread, text in (("a", "green tea"), ("b", "green tea"), ("c", "black tea")):
            agent = create_agent(ScriptedChat([AIMessage("fine", id=f"ai-{thread}")]), middleware=[middleware])
            for _ in range(2):
                config = {"configurable": {"thread_id": thread}}
                await agent.ainvoke({"messages": [HumanMessage(text, id="same")]}, config=config)
                assert middleware.drain(WAIT_S), middleware.last_error
    kept = await texts(memory)
    assert [kept.count(text) for text in ("green tea", "black tea", "fine")] == [1, 1, 3]


@pytest.mark.requirement("LC-MW-09")
def test_it_works_where_each_turn_has_a_loop_of_its_own(tmp_path: Path) -> None:
    memory = ReMe("space", tmp_path, llm=None, embedding=None)
    with ReMeMiddleware(memory, owner="ann") as middleware:
        agent = create_agent(ScriptedChat(), middleware=[middleware], checkpointer=InMemorySaver())
        for number in range(5):
            asyncio.run(invoke(agent, "async", f"turn {number}", config=THREAD))
        assert middleware.drain(WAIT_S)
        assert middleware.pending() == 0
    assert len(asyncio.run(texts(memory))) == 10
    asyncio.run(memory.close())


@pytest.mark.requirement("LC-MW-09")
async def test_a_memory_that_fails_is_seen_and_gets_the_turn_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = ReMe("space", tmp_path, llm=None, embedding=None)
    await memory.summary([("user", "hello")], user_id="ann", session_id="s")
    _break(tmp_path)
    with ReMeMiddleware(memory, owner="ann", recall=None) as middleware:
        agent = create_agent(ScriptedChat(), middleware=[middleware], checkpointer=InMemorySaver())
        await invoke(agent, "async", "first", config=THREAD)
        assert not middleware.drain(WAIT_S)
        assert middleware.pending() == 1
        assert "no such table" in str(middleware.last_error)
        assert "an append of session" in caplog.text
        _break(tmp_path, back=True)
        assert middleware.drain(WAIT_S)
        assert middleware.last_error is None
    assert await texts(memory) == ["hello", "first", "ok"]
    await memory.close()


@both_ways
async def test_a_turn_that_can_not_be_written_is_written_by_the_next_run(tmp_path: Path, way: str) -> None:
    memory = ReMe("space", tmp_path, llm=None, embedding=None)
    with ReMeMiddleware(memory, owner="ann", recall=None) as middleware:
        agent = create_agent(ScriptedChat(), middleware=[middleware], checkpointer=InMemorySaver())
        await invoke(agent, way, "first", config=THREAD)
        assert middleware.drain(WAIT_S)
        _break(tmp_path)
        await invoke(agent, way, "second", config=THREAD)
        assert isinstance(middleware.last_error, StoreError)
        with pytest.raises(StoreError):
            await invoke(create_agent(ScriptedChat(), middleware=[middleware]), way, "no thread, no second chance")
        _break(tmp_path, back=True)
        await invoke(agent, way, "third", config=THREAD)
        assert middleware.drain(WAIT_S)
        assert middleware.last_error is None
    assert await texts(memory) == ["first", "ok", "second", "ok", "third", "ok"]
    await memory.close()


async def test_where_nothing_can_be_written_closing_ends_and_the_error_is_seen(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    middleware = ReMeMiddleware(tmp_path / "file" / "folder", owner="ann")
    agent = create_agent(ScriptedChat(), middleware=[middleware], checkpointer=InMemorySaver())
    assert len((await invoke(agent, "async", "hello", config=THREAD))["messages"]) == 2
    assert not middleware.drain(WAIT_S)
    assert isinstance(middleware.last_error, StoreError)
    await middleware.aclose()
    with pytest.raises(StoreError, match="make a new one"):
        await invoke(agent, "async", "hello", config=THREAD)


def _break(folder: Path, *, table: str = "messages", back: bool = False) -> None:
    """Take a table away from the memory's file, or give it back."""
    names = (f"{table}_away", table) if back else (table, f"{table}_away")
    connection = sqlite3.connect(folder / "memory.db")
    connection.execute("PRAGMA legacy_alter_table = ON")
    connection.execute(f"ALTER TABLE {names[0]} RENAME TO {names[1]}")
    connection.close()


def run_a_turn_and_die(folder: Path) -> None:
    """Run a turn, and be killed when its reply is there."""
    memory = ReMe("space", folder, llm=None, embedding=None)
    asyncio.run(memory.stats(user_id="ann"))  # a file of ours: its making is no part of a turn
    agent = create_agent(ScriptedChat(["noted"]), middleware=[ReMeMiddleware(memory, owner="ann", recall=None)])
    agent.invoke({"messages": [("user", "my cat is called Ada")]})
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.requirement("LC-MW-09")
async def test_a_turn_survives_a_kill(tmp_path: Path) -> None:
    child = NEW_PROCESSES.Process(target=run_a_turn_and_die, args=(tmp_path,))
    child.start()
    await asyncio.to_thread(child.join, WAIT_S)
    assert child.exitcode == -signal.SIGKILL
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        assert await texts(memory) == ["my cat is called Ada", "noted"]


async def test_what_an_earlier_release_left_on_its_way_is_delivered_first_and_once(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        await memory.stats(user_id="ann")
        connection = sqlite3.connect(tmp_path / "memory.db")
        connection.execute(
            "CREATE TABLE langchain_journal (place INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, queue TEXT"
            " NOT NULL, entry_id TEXT NOT NULL, tries INTEGER NOT NULL DEFAULT 0, due REAL NOT NULL DEFAULT 0, holder"
            " TEXT, held REAL NOT NULL DEFAULT 0, erased_with INTEGER, payload BLOB, UNIQUE (name, queue, entry_id))"
        )
        for space, text in (("space", "of old"), ("another", "secret")):
            said = Message(message_id=text, role="user", content=text).model_dump(mode="json")
            payload = {"user_id": "ann", "session_id": "t1", "memory_type": "auto", "again": False, "messages": [said]}
            row = (f"capture:{space}", "q", text, json.dumps(payload).encode())
            connection.execute(
                "INSERT INTO langchain_journal (name, queue, entry_id, payload) VALUES (?, ?, ?, ?)", row
            )
        row = ("capture:space", "q", "damaged", b"{")
        connection.execute("INSERT INTO langchain_journal (name, queue, entry_id, payload) VALUES (?, ?, ?, ?)", row)
        connection.commit()
        for text in ("new", "newer"):
            with ReMeMiddleware(memory, owner="ann", recall=None) as middleware:
                await invoke(create_agent(ScriptedChat(), middleware=[middleware]), "async", text, config=THREAD)
        assert await texts(memory) == ["of old", "new", "ok", "newer", "ok"]
        assert connection.execute("SELECT name FROM langchain_journal").fetchall() == [("capture:another",)]
        connection.close()


SCRIPT = """
import sys
from langchain.agents import create_agent
from reme_core import ReMe
from reme_langchain import ReMeMiddleware
from tests.adapters.langchain.scripted import ScriptedChat
memory = ReMe("space", sys.argv[1], llm=None, embedding=None)
agent = create_agent(ScriptedChat(["noted"]), middleware=[ReMeMiddleware(memory, owner="ann")])
agent.invoke({"messages": [("user", "my dog is called Bo")]})
"""


@pytest.mark.requirement("LC-MW-09")
async def test_the_end_of_the_process_delivers_the_last_turn(tmp_path: Path) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
    )
    assert done.stderr == ""
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        assert await texts(memory) == ["my dog is called Bo", "noted"]


async def test_memory_spaces_that_share_a_file_deliver_only_their_own(tmp_path: Path) -> None:
    one, two = (ReMe(name, tmp_path, llm=None, embedding=None) for name in ("one", "two"))
    with ReMeMiddleware(one, owner="ann") as first, ReMeMiddleware(two, owner="ann") as second:
        await invoke(create_agent(ScriptedChat(), middleware=[first]), "async", "secret of one")
        await invoke(create_agent(ScriptedChat(), middleware=[second]), "async", "secret of two")
        assert first.drain(WAIT_S)
        assert second.drain(WAIT_S)
    assert await texts(one) == ["secret of one", "ok"]
    assert await texts(two) == ["secret of two", "ok"]
    await one.close()
    await two.close()


async def test_notes_summaries_and_handles_survive_in_our_checkpointer(tmp_path: Path) -> None:
    def look_up(place: str) -> str:
        """Look up a place."""
        return f"{place} is fine. " * 600

    for number in range(2):
        memory = ReMe("space", tmp_path, llm=None, embedding=None)
        steps = [step for n in range(4) for step in (calling("look_up", {"place": f"p{n}"}), "fine " * 100)]
        settings = Compact(max_tokens=3_500, keep_tokens=200)
        async with (
            ReMeSaver.from_path(tmp_path / "threads.db") as saver,
            ReMeMiddleware(memory, owner="ann", compact=settings, tools=["reload_context"]) as middleware,
        ):
            agent = create_agent(ScriptedChat(steps), [look_up], middleware=[middleware], checkpointer=saver)
            for turn in range(4):
                state = await invoke(agent, "async", f"question {number}-{turn}", config=THREAD)
            assert await asyncio.to_thread(middleware.drain, WAIT_S)
        assert [text for text in await texts(memory) if text.startswith("question")] == [
            f"question {run}-{turn}" for run in range(number + 1) for turn in range(4)
        ]
        await memory.close()
    assert len(state["messages"]) < 16


async def test_what_a_failed_run_left_in_a_thread_is_never_anothers_memory(memory: ReMe) -> None:
    async def run(agent: Any, user: str, text: str) -> None:
        await agent.ainvoke({"messages": [("user", text)]}, {"configurable": {"thread_id": "room", "user_id": user}})

    saver = InMemorySaver()
    with ReMeMiddleware(memory, recall=None) as middleware:
        failing = create_agent(ScriptedChat([ValueError("no")]), middleware=[middleware], checkpointer=saver)
        with pytest.raises(ValueError, match="no"):
            await run(failing, "fay", "my PIN is 4711")
        agent = create_agent(ScriptedChat(["hello gus", "hello fay"]), middleware=[middleware], checkpointer=saver)
        await run(agent, "gus", "hello")
        await run(agent, "fay", "and me?")
        assert middleware.drain(WAIT_S)
    gus = [item.message.text for item in (await memory.find_messages(user_id="gus")).messages]
    fay = [item.message.text for item in (await memory.find_messages(user_id="fay")).messages]
    assert gus == ["hello", "hello gus"]
    assert fay == ["and me?", "hello fay"]


async def test_what_another_user_left_is_noted_until_it_is_on_disk(tmp_path: Path) -> None:
    async def run(agent: Any, user: str, text: str) -> None:
        await agent.ainvoke({"messages": [("user", text)]}, {"configurable": {"thread_id": "room", "user_id": user}})

    saver = InMemorySaver()
    memory = ReMe("space", tmp_path, llm=None, embedding=None)
    with ReMeMiddleware(memory, recall=None) as middleware:
        agent = create_agent(ScriptedChat(["hello fay"]), middleware=[middleware], checkpointer=saver)
        await run(agent, "fay", "hello")
        bare = create_agent(ScriptedChat(["noted"]), [], checkpointer=saver)
        await run(bare, "fay", "my PIN is 4711")  # words and an answer behind the cursor
        _break(tmp_path)
        agent = create_agent(ScriptedChat(["hello gus"]), middleware=[middleware], checkpointer=saver)
        await run(agent, "gus", "hello")
        assert isinstance(middleware.last_error, StoreError)
        for user in ("fay", "gus"):  # as where the process ends here
            middleware._appends.drop(json.dumps([user, "room"]))
    _break(tmp_path, back=True)
    with ReMeMiddleware(memory, recall=None) as middleware:
        agent = create_agent(ScriptedChat(["welcome"]), middleware=[middleware], checkpointer=saver)
        await run(agent, "gus", "again")
        assert middleware.drain(WAIT_S)
    fay, gus = await texts(memory, "fay"), await texts(memory, "gus")
    assert fay[:3] == ["hello", "hello fay", "my PIN is 4711"]
    assert gus == ["hello", "hello gus", "again", "welcome"]
    await memory.close()
