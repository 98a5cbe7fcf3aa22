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


async def test_a_transaction_that_reaches_the_server_late_is_not_done_beside_its_repetition(shared_url: str) -> None:
    """All of it went in one message, which a proxy held back while the client took it for lost and tried again."""
    with relayed(shared_url) as (relay, url):
        db = database_of(url)
        await db.read(names, within=ANNA)  # opens it
        cuts = 0

        def decide(said: bytes, from_client: bool) -> Fate:
            nonlocal cuts
            if not (from_client and b"COMMIT" in said and b"reme_sign" in said) or cuts:
                return "pass"
            cuts += 1
            return "cut and late"

        tries = 0

        def work(connection: Any) -> int:
            nonlocal tries
            tries += 1
            connection.execute("INSERT INTO scopes (memory_space, user_id) VALUES ('space', ?)", (f"{tries}",))
            return tries

        relay.decide = decide
        relay.arrived.clear()
        assert await db.write(work, within="space") == 2
        relay.late.set()
        assert await asyncio.to_thread(relay.arrived.wait, 20)
        users = await db.read(lambda c: c.execute("SELECT user_id FROM scopes").fetchall(), within="space")
        await db.close()
    assert users == [("2",)]


@pytest.mark.parametrize("from_client", [True, False])
async def test_a_connection_that_is_cut_at_any_message_writes_once(shared_url: str, from_client: bool) -> None:
    """What is sent, or the answer to it, is lost; what is told as done is there, once."""
    with relayed(shared_url) as (relay, url):
        db = database_of(url)
        await db.write(lambda c: add(c, ANNA, "first"), within=ANNA)
        for scope in (ANNA, BOB):
            for at in range(8):
                seen = 0

                def decide(_: bytes, is_clients: bool, at: int = at) -> Fate:
                    nonlocal seen
                    seen += is_clients == from_client
                    return "cut" if seen == at + 1 and is_clients == from_client else "pass"

                name = f"{at}"
                relay.decide = decide
                await db.write(lambda c, name=name, scope=scope: add(c, scope, name), within=scope)
                assert await db.read(names, within=scope) == [*map(str, range(at + 1)), *["first"] * (scope is ANNA)]
        await db.close()


async def test_commits_that_are_lost_each_time_are_told_as_unknown_in_the_end(shared_url: str) -> None:
    with relayed(shared_url) as (relay, url):
        db = database_of(url, retry_s=0.1)
        await db.write(lambda c: add(c, ANNA, "first"), within=ANNA)
        relay.decide = lambda said, from_client: "cut" if from_client and b"reme_sign" in said else "pass"
        with pytest.raises(StoreUnavailableError, match="whether it was written is not known"):
            await db.write(lambda c: add(c, ANNA, "second"), within=ANNA)
        relay.decide = lambda _, __: "pass"
        assert await db.read(names, within=ANNA) == ["first"]
        await db.close()


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


async def test_a_connection_of_a_transaction_that_has_ended_is_used_no_more(shared_url: str) -> None:
    """Others may have it: what was kept of a transaction neither asks on it nor tells anything of theirs."""
    db = database_of(shared_url)
    for submit in (db.submit_read, db.submit_write):
        kept: list[Any] = []

        def keep(connection: Any, kept: list[Any] = kept) -> Any:
            kept.append(connection)
            return connection.stream("SELECT scope FROM scopes", ())

        stream = submit(keep, within=ANNA).result()
        for use in (stream.fetchall, kept[0].execute("SELECT 1").fetchone, kept[0].flush):
            with pytest.raises(psycopg.InterfaceError, match="has ended"):
                use()
    await db.close()


async def test_what_failed_beside_another_statement_is_told_at_once(shared_url: str) -> None:
    db = database_of(shared_url)

    def work(connection: Any) -> None:
        wrong, behind = connection.execute("SELECT 'x'::int"), connection.execute("SELECT 1")
        with pytest.raises(psycopg.Error):
            wrong.fetchone()
        behind.fetchone()

    with pytest.raises(StoreError, match="failed") as raised:
        await db.read(work, within=ANNA)
    assert not isinstance(raised.value, StoreUnavailableError)
    await db.close()


def test_a_row_that_others_have_taken_away_is_no_wrong_value() -> None:
    settings = ServerSettings(url="postgresql://reme@host/reme")
    assert isinstance(mapped(psycopg.errors.DivisionByZero(), settings), StoreUnavailableError)


async def test_large_values_are_not_kept_until_many_have_come(shared_url: str) -> None:
    with traced_connections() as traced:
        db = database_of(shared_url)
        await db.write(lambda c: enter(c, ANNA), within=ANNA)
        before = traced.round_trips()
        rows = [("x" * (1 << 20),)] * 20
        await db.write(lambda c: c.executemany("SELECT length(?)", rows), within=ANNA)
        assert 5 <= traced.round_trips() - before <= 8
        await db.close()


@pytest.mark.parametrize("bytes_each", [1, 3_000, 1 << 24])
async def test_much_goes_both_ways_at_once(shared_url: str, bytes_each: int) -> None:
    """Neither side reads what it should, if each of them waits until all that it has to say is taken."""
    db = database_of(shared_url)
    many = 4 if bytes_each > 1 << 20 else 1_000

    def work(connection: Any) -> int:
        number = enter(connection, ANNA)
        rows = [connection.execute("SELECT ?::text || ?", ("y" * bytes_each, str(n))) for n in range(many)]
        connection.executemany(
            "INSERT INTO sessions (scope, session_id) VALUES (?, ?)", [(number, f"{n:04}") for n in range(many)]
        )
        return sum(len(text) for found in rows for (text,) in found)

    assert await db.write(work, within=ANNA) == many * bytes_each + len("".join(map(str, range(many))))
    assert len(await db.read(names, within=ANNA)) == many
    await db.close()


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
