"""Settings of servers, roles and URLs change nothing, or are told in words."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator

import psycopg
import pytest

from reme_core.errors import ConfigurationError, ReMeError, StoreAccessError, StoreUnavailableError
from reme_core.ports import AppendMessages, FindMessages, ListMemories, MemoryFilter
from reme_core.stores import PostgresStore
from reme_core.stores.postgres import migrate as migrating
from reme_core.stores.postgres.settings import ServerSettings
from reme_core.testing.store_values import ALICE, batch, memory, message
from tests.support.postgres_server import PASSWORD, ROLE, TestServer

TEXT = "walrus übër €😀 \\ ' %s"
SETTINGS = (
    "standard_conforming_strings = off",
    "client_encoding = 'LATIN1'",
    "client_encoding = 'SQL_ASCII'",
    "bytea_output = escape",
    "DateStyle = 'German, DMY'",
    "TimeZone = 'Asia/Kolkata'",
    "default_transaction_isolation = serializable",
    "search_path = nowhere",
    "row_security = off",
    "extra_float_digits = -15",
    "idle_in_transaction_session_timeout = '5s'",
    "reme.scope = '1'",
)


@pytest.fixture
def of_role(server: TestServer) -> Iterator[Callable[[str], None]]:
    """Change the plain role; its settings are taken back afterwards."""

    def change(how: str) -> None:
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute(f"ALTER ROLE {ROLE} {how}".encode())

    yield change
    for how in ("RESET ALL", "LOGIN", "CONNECTION LIMIT -1"):
        change(how)


async def said(url: str, number: int = 0) -> list[str]:
    """Write a message and read all of them, as another process would."""
    store = PostgresStore(url, retry_s=0.5)
    try:
        written = message(f"{TEXT} {number}", message_id=f"m{number}")
        await store.append(ALICE, AppendMessages(session_id="s", messages=[written]))
        found = await store.find_messages(ALICE, FindMessages(keyword="walrus"))
        return [item.message.text for item in found.messages]
    finally:
        await store.close()


async def test_settings_of_a_role_change_nothing(shared_url: str, of_role: Callable[[str], None]) -> None:
    for number, setting in enumerate(SETTINGS):
        of_role(f"SET {setting}")
        assert (await said(shared_url, number))[-1] == f"{TEXT} {number}", setting
        of_role("RESET ALL")
    assert len(await said(shared_url)) == len(SETTINGS)


async def test_tables_made_under_strange_settings_are_as_others(url: str, of_role: Callable[[str], None]) -> None:
    for setting in SETTINGS:
        of_role(f"SET {setting}")
    assert await said(url) == [f"{TEXT} 0"]
    of_role("RESET ALL")
    assert await said(url) == [f"{TEXT} 0"]


async def test_an_encoding_that_the_url_or_the_environment_names_changes_nothing(
    shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign = "&" if "?" in shared_url else "?"
    assert await said(f"{shared_url}{sign}client_encoding=latin1") == [f"{TEXT} 0"]
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    assert await said(shared_url, 1) == [f"{TEXT} 0", f"{TEXT} 1"]
    monkeypatch.delenv("PGCLIENTENCODING")
    assert await said(shared_url, 1) == [f"{TEXT} 0", f"{TEXT} 1"]


async def test_what_a_role_may_not_is_told_at_once(shared_url: str, of_role: Callable[[str], None]) -> None:
    store = PostgresStore(shared_url)
    await store.count(ALICE)
    of_role("SET default_transaction_read_only = on")
    with pytest.raises(StoreUnavailableError, match="default_transaction_read_only"):
        await said(shared_url)
    of_role("NOLOGIN")
    with pytest.raises(StoreAccessError, match="not permitted to log in"):
        await said(shared_url)
    await store.close()


@pytest.mark.parametrize(
    ("option", "error", "told"),
    [
        ("sslmode=nonsense", ConfigurationError, "sslmode"),
        ("service=nosuch", ConfigurationError, "nosuch"),
        ("nosuch=1", ConfigurationError, "options are those of libpq"),
        ("host=127.0.0.1&port=9", StoreUnavailableError, "can't be reached"),
    ],
)
async def test_an_option_that_can_not_be_is_told_as_one(
    shared_url: str, option: str, error: type[ReMeError], told: str
) -> None:
    url = re.sub(r"(\?.*)?$", f"?{option}", shared_url, count=1)
    with pytest.raises(error, match=told) as failure:
        await said(url)
    assert PASSWORD not in str(failure.value)


def test_what_a_url_leaves_out_comes_from_the_environment(shared_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ServerSettings(url=shared_url).parameters()
    for name, variable in (("host", "PGHOST"), ("port", "PGPORT"), ("user", "PGUSER"), ("password", "PGPASSWORD")):
        if name in parts:
            monkeypatch.setenv(variable, parts[name])
    monkeypatch.setenv("PGDATABASE", parts["dbname"])
    assert asyncio.run(said("postgresql://")) == [f"{TEXT} 0"]
    monkeypatch.setenv("PGPASSWORD", "never-shown")
    assert "never-shown" not in repr(PostgresStore("postgresql://"))


async def test_a_first_call_outlives_a_connection_that_is_ended(
    server: TestServer, shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = [True, True]

    def ended(raw: psycopg.Connection, settings: ServerSettings) -> str | None:
        if ends:
            ends.pop()
            with psycopg.connect(server.url, autocommit=True) as admin:
                admin.execute("SELECT pg_terminate_backend(%s)", (raw.info.backend_pid,))
        return opened(raw, settings)

    opened = migrating.open_schema
    monkeypatch.setattr("reme_core.stores.postgres.database.open_schema", ended)
    store = PostgresStore(shared_url)
    await store.count(ALICE)
    assert not ends
    await store.close()


async def test_numbers_of_metadata_are_compared_exactly(shared_url: str) -> None:
    store = PostgresStore(shared_url)
    values = (1, 1.0, 1.5, 2**63 - 1, 2**62, 2**53 + 1, 2.0**53, 1e300, -0.0, 5e-324, 0.1)
    await store.put(ALICE, batch(*(memory(f"walrus {n}", metadata={"n": value}) for n, value in enumerate(values))))
    for value in (*values, 2.0**62, 2.0**63, 2**53, 0, 1e16, float("inf"), float("nan")):
        query = ListMemories(filter=MemoryFilter(metadata={"n": value}))
        found = (await store.list_memories(ALICE, query)).memories
        assert sorted(str(item.metadata["n"]) for item in found) == sorted(str(n) for n in values if n == value), value
    await store.close()
