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
