"""Attacks on statements that travel together: cuts at each message, late messages, and values that can't be sent."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import psycopg
import pytest

from reme_core.errors import InvalidInputError, StoreError, StoreUnavailableError
from reme_core.stores.postgres.database import PostgresDatabase
from reme_core.stores.postgres.dialect import POSTGRES
from reme_core.stores.postgres.failures import mapped
from reme_core.stores.postgres.pool import ConnectionPool
from reme_core.stores.postgres.settings import ServerSettings
from tests.postgres.test_engine import ANNA, BOB, add, enter, names
from tests.support.postgres_relay import Fate, relayed
from tests.support.postgres_server import TestServer
from tests.support.round_trips import traced_connections


def database_of(url: str, **given: Any) -> PostgresDatabase:
    return PostgresDatabase(ServerSettings(url=url, **given), POSTGRES)


async def test_a_value_that_cannot_be_sent_harms_no_later_use_of_the_statements_beside_it(shared_url: str) -> None:
    db = database_of(shared_url, prepare_threshold=0, max_connections=1)
    good = "SELECT session_id FROM sessions WHERE session_id = ?"

    def work(connection: Any) -> None:
        connection.execute(good, ("x",))
        connection.execute("SELECT ?::text", ("\ud800",)).fetchone()

    with pytest.raises(InvalidInputError):
        await db.read(work, within=ANNA)
    assert await db.read(lambda c: c.execute(good, ("x",)).fetchall(), within=ANNA) == []
    await db.close()


async def test_a_statement_that_fails_again_and_again_is_prepared_once(shared_url: str) -> None:
    db = database_of(shared_url, prepare_threshold=0, max_connections=1)
    for _ in range(5):
        with pytest.raises(InvalidInputError):
            await db.read(lambda c: c.execute("SELECT ?::text::int", ("x",)).fetchone(), within=ANNA)
    held = await db.read(
        lambda c: c.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%::int'").fetchone(),
        within=ANNA,
    )
    await db.close()
    assert held == (1,)


def test_other_threads_go_on_while_the_end_of_a_read_is_waited_for(shared_url: str, server: TestServer) -> None:
    pool = ConnectionPool(ServerSettings(url=shared_url, max_connections=1))
    begun = threading.Event()
    with psycopg.connect(server.url_of(psycopg.conninfo.conninfo_to_dict(shared_url)["dbname"], admin=True)) as other:
        other.execute("SELECT pg_advisory_xact_lock(19)")
        with pool.connection() as pipeline:
            pipeline.raw.execute("SET lock_timeout = '2s'")
            pipeline.raw.pgconn.send_query(b"SELECT pg_advisory_lock(19)")
            pipeline.raw.pgconn.flush()
        held: list[Any] = []

        def take() -> None:
            begun.set()
            with pool.connection() as pipeline:
                count = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'"
                held.append(pipeline.raw.execute(count).fetchone())

        taker = threading.Thread(target=take)
        taker.start()
        begun.wait()
        for _ in range(20):  # by then it waits
            other.execute("SELECT 1")
    taker.join(20)
    pool.close()
    assert held == [(1,)]
