"""What code that used LangGraph's own stores and checkpointers calls works here as it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.store.base import ListNamespacesOp, MatchCondition

from reme_core import ReMe
from reme_core.errors import ConfigurationError
from reme_langchain import ReMeByteStore, ReMeSaver, ReMeStore, memory_namespace

AT: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


@pytest.mark.parametrize("kind", [ReMeStore, ReMeSaver, ReMeByteStore])
@pytest.mark.parametrize("url", ["mysql://me:secret@host/db", "sqlite:///memory.db", "redis://host"])
def test_a_url_is_refused_with_what_to_do(kind: Any, url: str) -> None:
    make = getattr(kind, "from_path", kind)
    with pytest.raises(ConfigurationError, match="give a path") as found:
        make(url)
    assert "secret" not in str(found.value)


@pytest.mark.parametrize("kind", [ReMeStore, ReMeSaver, ReMeByteStore])
def test_a_url_as_a_path_is_refused(kind: Any) -> None:
    with pytest.raises(ConfigurationError, match="as a text") as found:
        kind(Path("postgresql://me:secret@host/db"))
    assert "secret" not in str(found.value)


@pytest.mark.parametrize("kind", [ReMeStore, ReMeSaver, ReMeByteStore])
def test_nobody_is_shown_the_password_of_a_url(kind: Any) -> None:
    pytest.importorskip("psycopg", reason="pip install 'reme-memory[postgres]'")
    assert "secret" not in repr(kind("postgresql://me:secret@host/db"))


async def test_setup_and_connection_strings_are_those_of_langgraph(tmp_path: Path) -> None:
    path = str(tmp_path / "m.db")
    with ReMeSaver.from_conn_string(path) as saver, ReMeStore.from_conn_string(path) as store:
        saver.setup()
        store.setup()
        saver.put(AT, empty_checkpoint(), {}, {})
        store.put(("a",), "k", {"x": 1})
    async with ReMeSaver.from_conn_string(path) as saver, ReMeStore.from_conn_string(path) as store:
        await saver.setup()
        await store.setup()
        assert await saver.aget_tuple(AT) is not None
        assert await store.aget(("a",), "k") is not None


def test_a_filter_of_checkpoints_may_name_a_nested_field(tmp_path: Path) -> None:
    with ReMeSaver.from_path(tmp_path / "m.db") as saver:
        for step, metadata in enumerate([{"who": {"name": "ann"}}, {"who.name": "ben"}, {"who": "cid"}]):
            made = empty_checkpoint()
            saver.put(AT, made, {"step": step, **metadata}, {})  # type: ignore[typeddict-item]

        def steps(name: str) -> list[int]:
            return [found.metadata["step"] for found in saver.list(AT, filter={"who.name": name})]

        assert [steps(name) for name in ("ann", "ben", "cid")] == [[0], [1], []]


def test_a_text_as_path_of_a_condition_is_one_label(tmp_path: Path) -> None:
    with ReMeStore.from_path(tmp_path / "m.db") as store:
        store.put(("users", "ann"), "k", {})
        store.put(("u", "s"), "k", {})
        ops = [
            ListNamespacesOp((MatchCondition("prefix", "users"),)),
            ListNamespacesOp((MatchCondition("suffix", "s"),)),
        ]  # type: ignore[arg-type]
        assert store.batch(ops) == [[("users", "ann")], [("u", "s")]]


async def test_what_langmem_keeps_under_two_labels_is_a_memory_of_that_user(tmp_path: Path) -> None:
    async with ReMe("m", tmp_path, llm=None, embedding=None) as memory:
        store = ReMeStore(memory)
        await store.aput(("memories", "ann"), "id1", {"kind": "Memory", "content": "Ann drinks oolong"})
        fact = await memory.add_memory("Ann drinks oolong at four", user_id="ann")
        found = await memory.retrieve("oolong", user_id="ann")
        assert {hit.memory for hit in found.results} == {"Ann drinks oolong", "Ann drinks oolong at four"}
        assert not (await memory.retrieve("oolong", user_id="ben")).results
        listed = {(item.namespace, item.key) for item in await store.asearch(("memories", "ann"))}
        assert listed == {(("memories", "ann"), "id1"), (memory_namespace("ann"), fact.memory_id)}
        await store.aput(("memories", "ann", "other"), "id2", {"content": "no memory"})
        assert len((await memory.list_memories(user_id="ann")).memories) == 2
