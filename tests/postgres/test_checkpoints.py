"""LangGraph's official suite of checkpointers, and what the saver's own tests show on a file, with PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate

from reme_core.ports import AppendMessages
from reme_core.stores import PostgresStore
from reme_core.testing.store_values import ALICE, batch, memory, message
from reme_langchain import ReMeSaver
from tests.adapters.langchain.saver.test_conformance import Check, official_checks
from tests.adapters.langchain.saver.test_safety import config, loaded, put
from tests.support.postgres_server import TestServer
from tests.support.round_trips import traced_connections


@pytest.mark.postgres
async def test_the_official_suite_is_passed_in_full(shared_url: str) -> None:
    @checkpointer_test(name="ReMeSaver")
    async def savers() -> AsyncIterator[ReMeSaver]:
        async with ReMeSaver.from_conn_string(shared_url) as saver:
            yield saver

    report = await validate(savers)

    assert report.passed_all()
    assert sum(result.tests_passed for result in report.results.values()) == len(official_checks()) == 81


@pytest.mark.postgres
@pytest.mark.parametrize("check", official_checks(), ids=lambda check: check.__name__)
async def test_each_official_check_passes_on_a_fresh_saver(check: Check, shared_url: str) -> None:
    async with ReMeSaver.from_conn_string(shared_url) as saver:
        await check(saver)


def test_what_another_saver_removed_is_written_again(shared_url: str) -> None:
    messages = [HumanMessage(f"{number}", id=f"{number}") for number in range(70)]
    with ReMeSaver.from_conn_string(shared_url) as one, ReMeSaver.from_conn_string(shared_url) as other:
        for _ in range(2):
            put(one, config(), messages=messages)  # now it remembers what the thread holds
        put(one, config(), messages=messages[:1])
        other.prune(["t"])
        at = put(one, config(), messages=messages)
        assert loaded(other, at)["messages"] == messages
        other.delete_thread("t")
        at = put(one, config(), messages=messages)
        assert loaded(other, at)["messages"] == messages


def test_a_checkpoint_that_is_put_again_leaves_nothing_of_what_it_held(server: TestServer, database: str) -> None:
    def held() -> int:
        with psycopg.connect(server.url_of(database, admin=True)) as admin:
            (found,) = admin.execute("SELECT count(*) FROM reme.langgraph_blobs").fetchone() or (0,)
        return int(found)

    old, new = empty_checkpoint(), empty_checkpoint()
    with ReMeSaver.from_conn_string(server.url_of(database)) as saver:
        for number, made in enumerate((old, new, old, new, old)):
            said = [HumanMessage(f"{number}", id=f"{number}")]
            versions: dict[str, str | int | float] = {"messages": number + 1}
            put_in = {**made, "channel_values": {"messages": said}, "channel_versions": versions}
            at = saver.put(config(), put_in, {}, versions)  # type: ignore[arg-type]
            assert loaded(saver, at)["messages"] == said
            assert held() == min(number + 1, 2)


async def test_the_server_is_waited_for_once_where_nothing_has_to_be_looked_up(shared_url: str) -> None:
    with traced_connections() as traced:
        store = PostgresStore(shared_url)
        async with ReMeSaver.from_conn_string(shared_url) as saver:
            versions: dict[str, str | int | float] = {"a": 1}

            async def keep() -> None:
                made = {**empty_checkpoint(), "channel_values": {"a": 1}, "channel_versions": versions}
                await saver.aput(config(), made, {}, versions)  # type: ignore[arg-type]

            async def append() -> None:
                await store.append(ALICE, AppendMessages(session_id="s", messages=[message("x") for _ in range(20)]))

            async def remember() -> None:
                await store.put(ALICE, batch(memory(f"fact {traced.round_trips()}", scope=ALICE)))

            counts = []
            for call in (keep, append, remember):
                for _ in range(2):
                    await call()
                before = traced.round_trips()
                await call()
                counts.append(traced.round_trips() - before)
        await store.close()
    assert counts == [1, 2, 2]
