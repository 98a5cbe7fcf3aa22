"""What LangGraph's own store and saver keep in PostgreSQL, and LangMem in it, comes over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.errors import ConfigurationError, InvalidInputError
from reme_langchain import ReMeStore
from reme_langchain.import_items import import_items
from tests.postgres.test_import_checkpoints import talk

pytest.importorskip("langgraph.checkpoint.postgres", reason="pip install langgraph-checkpoint-postgres")
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.store.postgres import PostgresStore


@pytest.fixture
def source(server: Any, database: str) -> str:
    theirs = str(server.url_of(database, admin=True))
    with PostgresStore.from_conn_string(theirs) as store:
        store.setup()
        store.put(("memories", "ann"), "1", {"content": "Likes port wine"})
        store.put(("memories", "bob"), "2", {"kind": "Memory", "content": {"content": "Swims"}}, ttl=60)
        store.put(("documents",), "plan", {"title": "né ~ 漢字"})
    with PostgresSaver.from_conn_string(theirs) as saver:
        saver.setup()
        talk(saver)
    return theirs


async def test_memories_and_threads_come_over_by_user(source: str, tmp_path: Path) -> None:
    async with ReMe("remy", str(tmp_path / "reme"), llm=None, embedding=None) as memory:
        report = await memory.import_from("langmem", source, every_user=True)
        assert (report.added_memories, report.unreadable_count) == (2, 1)
        assert [item.content for item in (await memory.list_memories(user_id="bob")).memories] == ["Swims"]
        threads = await memory.import_from("langgraph", source, every_user=True, user_id="nobody")
        assert [(user.source_user, user.sessions) for user in threads.users] == [("ann", 1), (None, 2)]
        assert "turn 3" in str(await memory.retrieve("turn 3", user_id="ann", layers=["message"]))
        again = await memory.import_from("langgraph", source, every_user=True, user_id="nobody")
        assert (again.known_messages, again.added_messages) == (threads.messages, 0)


def test_items_move_as_they_are(source: str, tmp_path: Path) -> None:
    with ReMeStore.from_path(tmp_path / "ours") as store:
        assert import_items(source, store).imported == 3
        assert import_items(source, store).present == 3
        assert store.get(("documents",), "plan").value == {"title": "né ~ 漢字"}  # type: ignore[union-attr]


async def test_a_database_without_a_store_is_told_without_its_url(url: str, tmp_path: Path) -> None:
    with ReMeStore.from_path(tmp_path / "ours") as store:
        with pytest.raises(InvalidInputError, match="no table `store`"):
            import_items(url, store)
        with pytest.raises(ConfigurationError) as refused:
            import_items(url.rpartition("/")[0] + "/nowhere", store)
    assert "postgresql://" not in str(refused.value)
