"""What the local store adds to the contract of tool calls: which rows its questions read, and what stays readable."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from reme_core.errors import CorruptDataError
from reme_core.ports import AddedToolCalls, ListToolCalls, ListTools, Store
from reme_core.schema import Scope
from reme_core.stores import LocalStore
from reme_core.stores.local.file.dialect import FileConnection
from reme_core.stores.sql import tool_call_rows as tool_calls
from reme_core.testing.store_values import ALICE, BOB
from tests.contract.suites.tool_call_values import add, call, failed, random_calls
from tests.support.file_checks import bytes_on_disk, problems_of_file


async def filled(path: Path) -> LocalStore:
    store = LocalStore(path, synchronous="NORMAL")
    for number, scope in enumerate((ALICE, BOB)):
        await add(store, *random_calls(number, 200, ("a", "b", "c")), scope=scope)
    return store


def plans(path: Path, work: Callable[[sqlite3.Connection], object]) -> list[str]:
    """Return how SQLite goes about each question that some work asks of `tool_calls`."""
    with closing(sqlite3.connect(path, isolation_level=None, factory=FileConnection)) as connection:
        asked: list[str] = []
        connection.set_trace_callback(asked.append)
        work(connection)
        connection.set_trace_callback(None)
        return [
            row[3]
            for query in asked
            if "FROM tool_calls" in query
            for row in connection.execute(f"EXPLAIN QUERY PLAN {query}")
        ]


async def test_statistics_and_names_are_read_along_one_index_without_any_body(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = await filled(path)
    await store.close()
    steps = plans(path, lambda c: tool_calls.tool_statistics(c, ALICE, ["a"]))
    steps += plans(path, lambda c: tool_calls.list_tools(c, ALICE, ListTools(cursor=None)))
    searches = [step for step in steps if step.startswith(("SEARCH", "SCAN"))]
    assert len(searches) == 4
    assert all("USING COVERING INDEX tool_calls_by_tool (scope=? AND tool_name" in step for step in searches)


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (ListToolCalls(), "tool_calls_by_age (scope=?)"),
        (ListToolCalls(newest_first=False, success=False), "tool_calls_by_age (scope=?)"),
        (ListToolCalls(tool_name="a"), "tool_calls_by_tool (scope=? AND tool_name=?)"),
        (ListToolCalls(tool_name="a", success=False, error="HTTP 503"), "tool_calls_by_tool (scope=? AND tool_name=?)"),
    ],
    ids=["all", "failures", "tool", "errors"],
)
async def test_a_page_is_read_in_its_order_and_nothing_is_sorted(
    tmp_path: Path, query: ListToolCalls, index: str
) -> None:
    path = tmp_path / "memory.db"
    store = await filled(path)
    await store.close()
    steps = plans(path, lambda c: tool_calls.list_calls(c, ALICE, query))
    assert steps == [f"SEARCH tool_calls USING INDEX {index}"]


async def test_recording_asks_nothing_of_the_other_calls_of_a_tool(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = await filled(path)
    await store.close()
    prepared = tool_calls.prepare_calls([call("new", "a"), call("newer", "a")])

    def record(connection: sqlite3.Connection) -> None:
        assert tool_calls.add_calls(connection, ALICE, prepared) == AddedToolCalls(added=("new", "newer"))

    assert plans(path, record) == []


async def test_nothing_of_an_erased_scope_stays_in_the_bytes_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = await filled(path)
    secret = Scope(memory_space="space", user_id="secretuser")
    calls = [
        failed(f"SecretError: secret {n} " + "secret text " * 500, tool_name=f"secret tool {n}") for n in range(40)
    ]
    await add(store, *calls, scope=secret)
    assert b"secret" in bytes_on_disk(path)
    assert (await store.erase(secret)).tool_calls == 40
    assert b"secret" not in bytes_on_disk(path).lower()
    assert (await store.count(ALICE)).tool_calls == 200
    await store.close()
    assert problems_of_file(path) == []


async def test_recording_nothing_leaves_no_scope_behind(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    await add(store, scope=Scope(memory_space="space", user_id="passer-by"))
    await store.close()
    assert b"passer-by" not in bytes_on_disk(tmp_path / "memory.db")


async def test_a_body_that_cannot_be_read_is_named_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = await filled(path)
    with closing(sqlite3.connect(path, factory=FileConnection)) as connection:
        connection.execute("UPDATE tool_calls SET body = '{}'")
        connection.commit()
    with pytest.raises(CorruptDataError, match=r"memory\.db"):
        await store.list_tool_calls(ALICE, ListToolCalls())
    await store.close()


def test_the_local_store_says_that_it_keeps_tool_calls(tmp_path: Path) -> None:
    assert isinstance(LocalStore(tmp_path / "memory.db"), Store)
