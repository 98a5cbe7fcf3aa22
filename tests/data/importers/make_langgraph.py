"""Make the files in langgraph.zip by LangGraph and LangMem themselves: python make_langgraph.py langgraph.zip

Written by langgraph 1.2.22 with langgraph-checkpoint-sqlite 3.1.2 and langmem 0.0.30, in an environment of its own; the
model's answers are written here. The clock stood at 2025-03-04 (libfaketime).
"""

import operator
import sqlite3
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.store.sqlite import SqliteStore
from langmem import create_manage_memory_tool, create_memory_store_manager
from pydantic import BaseModel

OUT = Path(tempfile.mkdtemp())


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    orders: Annotated[list[Any], operator.add]


@dataclass
class Order:
    """A type of an application, which nobody else can rebuild."""

    number: int


def reply(state: Chat) -> dict[str, Any]:
    if state["messages"][-1].content == "Forget the first":
        return {"messages": [RemoveMessage(id="h0"), AIMessage("Forgotten", id="a2")]}
    call = {"name": "weather", "args": {"city": "Porto"}, "id": "c1"}
    return {
        "messages": [
            AIMessage("", tool_calls=[call], id="a0"),
            ToolMessage("Rain", tool_call_id="c1", id="t0"),
            AIMessage("It rains in Porto", id="a1"),
        ],
        "orders": [Order(7)],
    }


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools: Sequence[Any], **_: Any) -> "Scripted":
        return self


class Profile(BaseModel):
    name: str
    city: str | None = None


def answer(name: str, arguments: dict[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call {name}"}])


def talk() -> None:
    with closing(sqlite3.connect(OUT / "threads.db", check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        graph = StateGraph(Chat).add_node("reply", reply).add_edge(START, "reply").compile(checkpointer=saver)
        trip = {"configurable": {"thread_id": "trip", "user_id": "ann"}}
        graph.invoke({"messages": [HumanMessage("How is the weather?", id="h0")]}, trip)
        graph.invoke({"messages": [HumanMessage("Forget the first", id="h1")]}, trip)
        graph.invoke({"messages": [HumanMessage("Hello", id="b0")]}, {"configurable": {"thread_id": "b / 1"}})


def remember() -> None:
    with SqliteStore.from_conn_string(str(OUT / "store.db")) as store:
        store.setup()
        tool = create_manage_memory_tool(namespace=("memories", "{langgraph_user_id}"), store=store)
        for user, content in (("ann", "Likes port wine"), ("ann", "Has a dog"), ("bob", "Swims")):
            tool.invoke({"content": content}, {"configurable": {"langgraph_user_id": user}})
        said = {"messages": [{"role": "user", "content": "I am Ann and live in Porto"}]}
        for schema, arguments in ((None, {"content": "Lives in Porto"}), (Profile, {"name": "Ann", "city": "Porto"})):
            manager = create_memory_store_manager(
                Scripted(messages=iter([answer(schema.__name__ if schema else "Memory", arguments)])),
                namespace=("memories", "{langgraph_user_id}", "profile" if schema else "facts"),
                **({"schemas": [schema]} if schema else {}),
                query_model=None,
                store=store,
            )
            manager.invoke(said, {"configurable": {"langgraph_user_id": "ann"}})
        store.put(("documents",), "plan", {"title": "Plan", "pages": [1, 2]})
        store.put(("documents",), "draft", {"title": "Draft"}, ttl=60 * 24 * 365 * 100)


def main(target: str) -> None:
    talk()
    remember()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_LZMA) as packed:
        for path in sorted(OUT.iterdir()):
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if path.suffix == ".db":
                packed.write(path, path.name)


main(sys.argv[1])
