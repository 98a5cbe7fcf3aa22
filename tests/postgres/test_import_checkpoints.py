"""Threads that LangGraph's own saver kept in PostgreSQL go on with ours."""

from __future__ import annotations

import asyncio
import operator
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt

from reme_core.errors import ConfigurationError
from reme_langchain import ReMeSaver
from reme_langchain.import_checkpoints import CheckpointImport, import_checkpoints, main

pytest.importorskip("langgraph.checkpoint.postgres", reason="pip install langgraph-checkpoint-postgres")
from langgraph.checkpoint.postgres import PostgresSaver


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    count: int
    seen: Annotated[list[str], operator.add]


@dataclass
class Order:
    """A type of an application."""

    number: int


def reply(state: Chat) -> dict[str, object]:
    return {"messages": [AIMessage(f"reply to {state['messages'][-1].content}")], "count": state.get("count", 0) + 1}


def ask(state: Chat) -> dict[str, object]:
    if state["messages"][-2].content == "wait":
        return {"seen": [str(interrupt("how many?"))]}
    return {"seen": ["no question"]}


def each(state: Chat) -> list[Send]:
    return [Send("note", {"text": f"{number}"}) for number in range(3)]


def note(state: dict[str, str]) -> dict[str, object]:
    return {"seen": [state["text"]]}


def app(saver: Any) -> Any:
    graph = StateGraph(Chat)
    for node in (reply, ask, note):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "reply").add_edge("reply", "ask")
    return graph.add_conditional_edges("ask", each, ["note"]).compile(checkpointer=saver)


def at(thread: str, **more: str) -> Any:
    return {"configurable": {"thread_id": thread, **more}}


def talk(saver: Any) -> None:
    graph = app(saver)
    for turn in range(4):
        graph.invoke({"messages": [HumanMessage(f"turn {turn}")]}, at("long", user_id="ann"))
    graph.invoke({"messages": [HumanMessage("wait")]}, at("waiting"))
    graph.invoke({"messages": [HumanMessage("né ~ 漢字\t'")]}, at("odd / ünï"))


@pytest.fixture
def source(server: Any, url: str, database: str) -> str:
    theirs = server.url_of(database, admin=True)
    with PostgresSaver.from_conn_string(theirs) as saver:
        saver.setup()
        talk(saver)
    return theirs


def told(saver: Any, thread: str) -> list[Any]:
    """Return all that a saver says of a thread, but for the order of tasks that wrote at once."""
    return [
        (
            found.config,
            found.parent_config,
            found.checkpoint,
            dict(found.metadata),
            sorted(map(repr, found.pending_writes)),
        )
        for found in saver.list(at(thread))
    ]


def test_all_threads_come_over_as_they_were_and_go_on(source: str, url: str) -> None:
    with ReMeSaver.from_conn_string(url) as ours, PostgresSaver.from_conn_string(source) as theirs:
        planned = import_checkpoints(source, ours, dry_run=True)
        assert list(ours.list(None)) == []
        done = import_checkpoints(source, ours)
        assert done == planned
        assert (done.threads, done.present) == (3, 0)
        for thread in ("long", "waiting", "odd / ünï"):
            assert told(ours, thread) == told(theirs, thread)
        states = [app(saver).get_state(at("long")).values for saver in (ours, theirs)]
        assert states[0] == states[1]
        graph = app(ours)
        assert graph.get_state(at("waiting")).next == ("ask",)
        graph.invoke(Command(resume="seven"), at("waiting"))
        assert graph.get_state(at("waiting")).values["seen"][0] == "seven"
        after = graph.invoke({"messages": [HumanMessage("more")]}, at("long"))
        assert after["count"] == 5


def test_doing_it_again_changes_nothing_and_goes_on_where_it_was_stopped(source: str, tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def stop(looked_at: int) -> None:
        if looked_at == 5:
            raise StoppedError

    with ReMeSaver.from_path(tmp_path / "m.db") as ours:
        with pytest.raises(StoppedError):
            import_checkpoints(source, ours, progress=stop)
        rest = import_checkpoints(source, ours)
        assert rest.present == 5
        whole = [found for thread in ("long", "waiting") for found in told(ours, thread)]
        again = import_checkpoints(source, ours)
        assert again == CheckpointImport(threads=3, imported=0, present=rest.imported + 5)
        assert [found for thread in ("long", "waiting") for found in told(ours, thread)] == whole


def test_threads_move_from_a_file_to_the_server_and_back(url: str, tmp_path: Path) -> None:
    there, back = str(tmp_path / "there.db"), str(tmp_path / "back.db")
    with ReMeSaver(there) as saver:
        talk(saver)
        whole = {thread: told(saver, thread) for thread in ("long", "waiting", "odd / ünï")}
    assert main([there, url]) == main([there, url]) == main([url, back, "--from-reme"]) == 0
    for place in (url, back):
        with ReMeSaver(place) as saver:
            assert {thread: told(saver, thread) for thread in whole} == whole
            assert app(saver).invoke({"messages": [HumanMessage("more")]}, at("long"))["count"] == 5
    assert main([str(tmp_path / "nowhere"), url]) == 1
    assert not (tmp_path / "nowhere").exists()


def test_the_threads_of_a_user_are_still_the_users(source: str, url: str) -> None:
    with ReMeSaver.from_conn_string(url) as ours:
        import_checkpoints(source, ours)
        erased = asyncio.run(_erase(url))
        assert erased.adapter_rows["langgraph_threads"] == 1
        assert ours.get_tuple(at("long")) is None
        assert ours.get_tuple(at("waiting")) is not None


async def _erase(url: str) -> Any:
    from reme_core import ReMe

    store = {"backend": "postgres", "url": url}
    async with ReMe("default", llm=None, embedding=None, vector_store=store) as memory:
        return await memory.delete_all_memories(user_id="ann")


def test_a_type_that_is_not_allowed_is_named_and_the_command_takes_it(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from langgraph.checkpoint.base import empty_checkpoint

    made = {**empty_checkpoint(), "channel_values": {"order": Order(7)}, "channel_versions": {"order": "1"}}
    with PostgresSaver.from_conn_string(source) as theirs:
        theirs.put(at("typed", checkpoint_ns=""), made, {}, {"order": "1"})
    target = str(tmp_path / "m.db")
    monkeypatch.setenv("LANGGRAPH_STRICT_MSGPACK", "false")
    assert main([source, target, "--thread", "typed"]) == 1
    assert "Order" in capsys.readouterr().err
    for arguments, words in ((["--dry-run"], "would import 1"), ([], "imported 1"), ([], "imported 0")):
        allow = f"{Order.__module__}:Order"
        assert main([source, target, "--thread", "typed", "--allow", allow, *arguments]) == 0
        assert words in capsys.readouterr().out
    with ReMeSaver(target, allow=[(Order.__module__, "Order")]) as ours:
        found = ours.get_tuple(at("typed"))
    assert found is not None
    assert found.checkpoint["channel_values"] == {"order": Order(7)}


def test_a_source_that_holds_no_checkpoints_is_told_without_the_password(url: str, tmp_path: Path) -> None:
    with ReMeSaver.from_path(tmp_path / "m.db") as ours:
        for wrong in (url, "postgresql://nobody:secret@localhost:1/x"):
            with pytest.raises(ConfigurationError) as told_:
                import_checkpoints(wrong, ours)
            assert "secret" not in str(told_.value)


def test_without_their_library_it_says_what_to_install(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "langgraph.checkpoint.postgres", None)
    with (
        ReMeSaver.from_path(tmp_path / "m.db") as ours,
        pytest.raises(ConfigurationError, match="pip install langgraph-checkpoint-postgres"),
    ):
        import_checkpoints(url, ours)
