"""Deleted is deleted: a user's threads and items go with the user, and one item with its text and history."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from reme_core import ReMe
from reme_langchain import ReMeSaver, ReMeStore


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
        await memory.delete_all_memories(user_id="ann")
        assert [await saver.aget_tuple(at(name)) for name in ("anns", "copy")] == [None, None]
        assert app.get_state(at("bens")).values == {"said": ["plugh", "noted"]}
        assert app.get_state(at("nobodys")).values == {"said": ["nobody", "noted"]}
        assert b"xyzzy-secret" not in on_disk(tmp_path)
        await say("ann", "anns", "again")  # nothing of before is remembered in the process
        assert app.get_state(at("anns")).values == {"said": ["again", "noted"]}
