"""Deleted is deleted: a user's threads and items go with the user, and one item with its text and history."""

from __future__ import annotations

import operator
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from reme_core import ReMe
from reme_core.testing import FixedClock
from reme_langchain import MemoryHistory, ReMeSaver, ReMeStore, memory_namespace


class State(TypedDict):
    said: Annotated[list[str], operator.add]


@dataclass
class Login:
    user_id: str


def graph(saver: ReMeSaver, store: ReMeStore | None = None) -> Any:
    def note(state: State, runtime: Runtime[Login]) -> State:
        if runtime.store is not None:
            runtime.store.put(("notes",), state["said"][-1], {"text": state["said"][-1]})
        return {"said": ["noted"]}

    made = StateGraph(State, context_schema=Login).add_node("note", note).add_edge(START, "note")
    return made.compile(checkpointer=saver, store=store)


def on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())


def at(thread: str, **more: str) -> Any:
    return {"configurable": {"thread_id": thread, **more}}


@pytest.mark.parametrize("by_context", [True, False])
async def test_the_threads_of_a_user_go_with_the_user(tmp_path: Path, *, by_context: bool) -> None:
    async with ReMe("m", tmp_path, llm=None, embedding=None) as memory:
        saver = ReMeSaver(memory)
        app = graph(saver)

        async def say(user: str, thread: str, text: str) -> None:
            config = at(thread) if by_context else at(thread, user_id=user)
            await app.ainvoke({"said": [text]}, config, context=Login(user) if by_context else None)

        await say("ann", "anns", "xyzzy-secret")
        await say("ben", "bens", "plugh")
        await saver.acopy_thread("anns", "copy")
        await app.ainvoke({"said": ["nobody"]}, at("nobodys"))
        assert b"xyzzy-secret" in on_disk(tmp_path)
        erased = await memory.delete_all_memories(user_id="ann")
        assert erased.adapter_rows["langgraph_threads"] == 2
        assert erased.adapter_rows["langgraph_thread_checkpoints"] >= 4
        assert [await saver.aget_tuple(at(name)) for name in ("anns", "copy")] == [None, None]
        assert app.get_state(at("bens")).values == {"said": ["plugh", "noted"]}
        assert app.get_state(at("nobodys")).values == {"said": ["nobody", "noted"]}
        assert b"xyzzy-secret" not in on_disk(tmp_path)
        await say("ann", "anns", "again")  # nothing of before is remembered in the process
        assert app.get_state(at("anns")).values == {"said": ["again", "noted"]}


async def test_items_that_were_put_in_a_users_runs_go_with_the_user(tmp_path: Path) -> None:
    async with ReMe("m", tmp_path, llm=None, embedding=None) as memory:
        store = ReMeStore(memory)
        app = graph(ReMeSaver(memory), store)
        for user, text in (("ann", "xyzzy"), ("ben", "plugh")):
            await app.ainvoke({"said": [text]}, at(user), context=Login(user))
        store.put(("notes",), "nobodys", {})
        await store.aput(("notes",), "xyzzy", {"text": "xyzzy again"})  # still hers
        assert (await memory.delete_all_memories(user_id="ann")).store_items == 1
        assert {item.key for item in await store.asearch(("notes",))} == {"plugh", "nobodys"}
        assert b"xyzzy" not in on_disk(tmp_path)


@pytest.mark.parametrize("expires", [True, False])
async def test_an_item_that_ends_leaves_neither_text_nor_history(tmp_path: Path, *, expires: bool) -> None:
    clock = FixedClock()
    async with ReMe("m", tmp_path, llm=None, embedding=None, clock=clock) as memory:
        store = ReMeStore(memory)
        place = memory_namespace("ann")
        for text in ("Ann drinks xyzzy", "Ann drinks plugh"):
            await store.aput(place, "drink", {"content": text}, ttl=1)
        [kept] = (await memory.list_memories(user_id="ann")).memories
        assert len(await memory.history(kept.memory_id, user_id="ann")) == 2
        if expires:
            clock.advance(seconds=120)
            assert await store.asweep_ttl() == 1
        else:
            await store.adelete(place, "drink")
        assert await store.asearch(("memories",)) == []
        connection = sqlite3.connect(tmp_path / "memory.db")
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (0,)
        connection.close()


def answer_briefly(_: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage("noted")]}


async def test_nothing_of_a_thread_on_its_way_into_the_history_outlives_its_user(tmp_path: Path) -> None:
    async with ReMe("m", tmp_path, llm=None, embedding=None) as memory:
        saver = ReMeSaver(memory, history=MemoryHistory(memory, owner="ann"))
        app = (
            StateGraph(MessagesState)
            .add_node("answer", answer_briefly)
            .add_edge(START, "answer")
            .compile(checkpointer=saver)
        )
        for _ in range(2):  # the same message, by its id, before and after
            said = [HumanMessage("my boat is called Wanda", id="m1")]
            await app.ainvoke({"messages": said}, at("ann-thread", user_id="ann"))
            assert (await memory.retrieve("Wanda", user_id="ann")).results
            await memory.delete_all_memories(user_id="ann")
            connection = sqlite3.connect(tmp_path / "memory.db")
            assert connection.execute("SELECT count(*) FROM langchain_journal").fetchone() == (0,)
            connection.close()
