"""Files that LangGraph's own store and saver, and LangMem, wrote (tests/data/importers/make_langgraph.py)."""

from __future__ import annotations

import os
import sqlite3
import zipfile
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langchain_core.messages import HumanMessage

from reme_core import ReMe
from reme_core.errors import ConfigurationError, InvalidInputError, StoreAccessError
from reme_core.testing import FixedClock
from reme_langchain import ReMeSaver, ReMeStore
from reme_langchain.import_checkpoints import import_checkpoints
from reme_langchain.import_checkpoints import main as move_threads
from reme_langchain.import_items import import_items
from reme_langchain.import_items import main as move_items

PACKED = Path(__file__).parents[2] / "data" / "importers" / "langgraph.zip"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    with zipfile.ZipFile(PACKED) as archive:
        archive.extractall(tmp_path / "theirs")
    return tmp_path / "theirs"


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    clock = FixedClock("2026-01-01T00:00:00Z")
    async with ReMe("remy", str(tmp_path / "reme"), llm=None, embedding=None, clock=clock) as opened:
        yield opened


async def test_memories_of_langmem_come_over_by_user(memory: ReMe, written: Path) -> None:
    report = await memory.import_from("langmem", written / "store.db", every_user=True)
    anns = {item.content: item for item in (await memory.list_memories(user_id="ann")).memories}
    assert set(anns) == {"Likes port wine", "Has a dog", "Lives in Porto", "name: Ann; city: Porto"}
    assert anns["name: Ann; city: Porto"].memory_target == "Profile"
    assert anns["name: Ann; city: Porto"].metadata["fields"] == {"name": "Ann", "city": "Porto"}
    assert anns["Has a dog"].metadata["namespace"] == ["memories", "ann"]
    assert [item.content for item in (await memory.list_memories(user_id="bob")).memories] == ["Swims"]
    assert [item.where for item in report.unreadable] == ["item 'draft' of 'documents'", "item 'plan' of 'documents'"]
    again = await memory.import_from("langmem", written / "store.db", every_user=True)
    assert (again.known_memories, again.added_memories) == (5, 0)


async def test_a_thread_is_a_session_of_all_that_was_said_in_it(memory: ReMe, written: Path) -> None:
    before = (written / "threads.db").read_bytes()
    report = await memory.import_from("langgraph", written / "threads.db", user_id="ann", source_user="ann")
    assert (report.sessions, report.added_messages, report.unreadable_count) == (1, 6, 0)
    assert [user.source_user for user in report.users if not user.is_imported] == [None]
    said = (await memory.retrieve("How is the weather in Porto?", user_id="ann", layers=["message"])).results
    assert {"How is the weather?", "It rains in Porto"} <= {hit.memory for hit in said}, "also what was removed since"
    again = await memory.import_from("langgraph", written / "threads.db", user_id="ann", source_user="ann")
    assert (again.known_messages, again.added_messages) == (6, 0)
    assert (written / "threads.db").read_bytes() == before
    assert sorted(os.listdir(written)) == ["store.db", "threads.db"]  # noqa: PTH208  # it waits for nothing


async def test_a_damaged_checkpoint_costs_that_checkpoint(memory: ReMe, written: Path) -> None:
    with closing(sqlite3.connect(written / "threads.db")) as connection:
        last = "thread_id = 'trip' AND CAST(metadata AS TEXT) LIKE '%\"step\": 4%'"
        connection.execute(f"UPDATE checkpoints SET checkpoint = x'c1' WHERE {last}")  # noqa: S608
        connection.commit()
    report = await memory.import_from("langgraph", written / "threads.db", user_id="ann", source_user="ann")
    assert (report.messages, report.unreadable_count) == (5, 1)
    assert "is damaged" in report.unreadable[0].reason


@pytest.mark.parametrize(
    "change", ["type = 'pickle'", "checkpoint = x'80'", "checkpoint = x'c0'", "metadata = '[]'", "metadata = '{'"]
)
async def test_no_damage_costs_more_than_its_checkpoints(memory: ReMe, written: Path, change: str) -> None:
    with closing(sqlite3.connect(written / "threads.db")) as connection:
        connection.execute(f"UPDATE checkpoints SET {change} WHERE thread_id = 'trip'")  # noqa: S608
        connection.commit()
    report = await memory.import_from("langgraph", written / "threads.db", user_id="ann")
    assert report.sessions == 1
    assert {item.where.partition(",")[0] for item in report.unreadable} == {"thread 'trip'"}


async def test_a_thread_of_several_users_goes_to_none_of_them(memory: ReMe, written: Path) -> None:
    with closing(sqlite3.connect(written / "threads.db")) as connection:
        last = "thread_id = 'trip' AND CAST(metadata AS TEXT) LIKE '%\"step\": 4%'"
        changed = "CAST(replace(CAST(metadata AS TEXT), '\"ann\"', '\"bob\"') AS BLOB)"
        connection.execute(f"UPDATE checkpoints SET metadata = {changed} WHERE {last}")  # noqa: S608
        connection.commit()
    report = await memory.import_from("langgraph", written / "threads.db", every_user=True, user_id="emma")
    assert [(user.source_user, user.sessions) for user in report.users] == [(None, 1)]
    assert "its runs name 2 users" in report.unreadable[0].reason


async def test_a_thread_without_messages_is_told(memory: ReMe, written: Path) -> None:
    from reme_langchain.importing.threads import LangGraphThreads

    report = await memory.import_from(LangGraphThreads(str(written / "threads.db"), channel="talk"), user_id="ann")
    assert [item.reason for item in report.unreadable] == ["has no messages in its channel 'talk'"] * 2


def test_a_class_of_the_application_is_not_built_to_read_messages(written: Path) -> None:
    from reme_langchain.importing.foreign_savers import foreign_saver
    from reme_langchain.importing.threads import SAFE

    with foreign_saver(str(written / "threads.db"), SAFE) as saver:
        found = saver.get_tuple({"configurable": {"thread_id": "trip", "checkpoint_ns": ""}})
    assert found is not None
    assert found.checkpoint["channel_values"]["orders"] == [{"number": 7}] * len(
        found.checkpoint["channel_values"]["orders"]
    )


def test_items_move_with_namespaces_keys_and_values(written: Path, tmp_path: Path, capsys: Any) -> None:
    source = str(written / "store.db")
    with ReMeStore.from_path(tmp_path / "ours") as store:
        planned = import_items(source, store, dry_run=True)
        assert store.search(()) == []
        assert import_items(source, store, prefix=("documents",)).imported == 2
        store.put(("documents",), "plan", {"title": "Newer"})
        rest = import_items(source, store)
        assert (planned.imported, rest.imported, rest.present) == (7, 5, 2)
        assert store.get(("documents",), "plan").value == {"title": "Newer"}
        assert store.get(("documents",), "draft").value == {"title": "Draft"}
        assert len(store.search(("memories", "ann"))) == 4
    assert move_items([source, str(tmp_path / "ours")]) == 0
    assert capsys.readouterr().out == "imported 0 items; 7 were there, 0 are over\n"


async def test_what_moved_under_memories_is_found_by_the_memory(written: Path, tmp_path: Path) -> None:
    with ReMeStore.from_path(tmp_path / "ours") as store:
        import_items(str(written / "store.db"), store)
    async with ReMe("default", str(tmp_path / "ours"), llm=None, embedding=None) as memory:
        assert "Has a dog" in str(await memory.retrieve("dog", user_id="ann"))


def test_threads_of_a_sqlite_saver_go_on_with_ours(written: Path, tmp_path: Path, capsys: Any) -> None:
    allowed = [("__main__", "Order")]
    with ReMeSaver(tmp_path / "ours", allow=allowed) as ours:
        planned = import_checkpoints(str(written / "threads.db"), ours, dry_run=True)
        done = import_checkpoints(str(written / "threads.db"), ours)
        assert planned == done
        assert (done.threads, done.imported) == (2, 9)
        found = ours.get_tuple({"configurable": {"thread_id": "b / 1", "checkpoint_ns": ""}})
        assert found.checkpoint["channel_values"]["messages"][0] == HumanMessage("Hello", id="b0")
    assert move_threads([str(written / "threads.db"), str(tmp_path / "ours")]) == 0
    assert "9 were there" in capsys.readouterr().out


def test_a_dry_run_makes_nothing_and_calls_no_function_that_a_checkpoint_names(
    written: Path, tmp_path: Path, capsys: Any
) -> None:
    made = ormsgpack.Ext(0, ormsgpack.packb(("os", "mkdir", str(tmp_path / "called"))))
    held = {"v": 4, "ts": "2025-01-01T00:00:00Z", "id": "x", "channel_values": {"a": made}}
    with closing(sqlite3.connect(written / "threads.db")) as connection:
        packed = ormsgpack.packb({**held, "channel_versions": {}, "versions_seen": {}})
        connection.execute("UPDATE checkpoints SET checkpoint = ?", (packed,))
        connection.commit()
    assert move_threads([str(written / "threads.db"), str(tmp_path / "ours"), "--dry-run"]) == 1
    assert "holds a os.mkdir" in capsys.readouterr().err
    assert move_items([str(written / "store.db"), str(tmp_path / "ours"), "--dry-run"]) == 0
    assert not (tmp_path / "ours").exists()
    assert not (tmp_path / "called").exists()


async def test_files_of_something_else_are_refused(memory: ReMe, written: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no table `store`"):
        await memory.import_from("langmem", written / "threads.db", every_user=True)
    with pytest.raises(ConfigurationError, match="no checkpoints of SqliteSaver"):
        await memory.import_from("langgraph", written / "store.db", every_user=True)
    with pytest.raises(ConfigurationError) as told:
        await memory.import_from("langgraph", "postgresql+psycopg://ann:secret@localhost:1/x", every_user=True)
    assert "secret" not in str(told.value)
    with pytest.raises(StoreAccessError, match=r"nowhere\.db"):
        await memory.import_from("langmem", tmp_path / "nowhere.db", every_user=True)
