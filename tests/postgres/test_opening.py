"""Opening a database: who may, what is made, what an older or newer one is told as."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from reme_core import ReMe
from reme_core.errors import ConfigurationError, SchemaVersionError, StoreAccessError
from reme_core.schema import Scope
from reme_core.stores.postgres import migrate as migrating
from reme_core.stores.postgres.adapter_tables import OF_SCOPE, OF_SPACE
from reme_core.stores.postgres.admin import database_facts, migrate_database, planned_migrations
from reme_core.stores.postgres.database import PostgresDatabase
from reme_core.stores.postgres.settings import ServerSettings
from reme_core.stores.postgres.tables import MIGRATIONS, Migration
from reme_core.text import TERMS_VERSION
from tests.support.postgres_server import ROLE, TestServer

ANNA = Scope(memory_space="space", user_id="anna")
SPREAD_BY = {
    "row_changes": "owner",
    **dict.fromkeys(
        ("item_namespaces", "items", "item_vectors", "new_vectors", "files_left", *OF_SPACE), "memory_space"
    ),
    **dict.fromkeys(OF_SCOPE, "erased_with"),
}
# Small ones that every machine of a spread database would hold a copy of.
COPIED = {"meta", "migrations", "scopes", "last_writes"}


async def use(settings: ServerSettings, *, writes: bool = False) -> list[str]:
    """Open a database and look at it, or write a session."""
    database = PostgresDatabase(settings, None)  # type: ignore[arg-type]

    def work(connection: Any) -> list[str]:
        if writes:
            insert = "INSERT INTO scopes (memory_space, user_id) VALUES ('space', 'anna') RETURNING scope"
            (number,) = connection.execute(insert).fetchone()
            connection.execute("INSERT INTO sessions (scope, session_id) VALUES (?, 'kept')", (number,))
        return [name for (name,) in connection.execute("SELECT session_id FROM sessions")]

    try:
        run: Callable[..., Any] = database.write if writes else database.read
        found: list[str] = await run(work, within=ANNA)
        return found
    finally:
        await database.close()


def as_admin(server: TestServer, name: str, *statements: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    with psycopg.connect(server.url_of(name, admin=True), autocommit=True) as admin:
        for statement in statements:
            cursor = admin.execute(statement.encode())
            rows = cursor.fetchall() if cursor.description else []
    return rows


def test_many_that_open_an_empty_database_at_once_make_it_once(server: TestServer, url: str, database: str) -> None:
    def open_(number: int) -> list[str]:
        return asyncio.run(use(ServerSettings(url=url, max_connections=1)))

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(open_, range(16))) == [[]] * 16
    made = as_admin(server, database, "SELECT version, name FROM reme.migrations ORDER BY version")
    assert made == [(number, step.name) for number, step in enumerate(MIGRATIONS, 1)]


async def test_a_role_that_no_wall_binds_is_refused_unless_it_is_allowed(
    server: TestServer, url: str, database: str
) -> None:
    superuser = server.url_of(database, admin=True)
    with pytest.raises(StoreAccessError, match="superuser"):
        await use(ServerSettings(url=superuser))
    assert as_admin(server, database, "SELECT 1 FROM pg_namespace WHERE nspname = 'reme'") == []
    await use(ServerSettings(url=url))
    assert await use(ServerSettings(url=superuser, allow_superuser=True)) == []
    try:
        as_admin(server, database, f"ALTER ROLE {ROLE} BYPASSRLS")
        with pytest.raises(StoreAccessError, match="BYPASSRLS"):
            await use(ServerSettings(url=url))
    finally:
        as_admin(server, database, f"ALTER ROLE {ROLE} NOBYPASSRLS")


@pytest.mark.parametrize("how", ["NO FORCE ROW LEVEL SECURITY", "DISABLE ROW LEVEL SECURITY"])
async def test_a_wall_that_was_taken_down_is_told(server: TestServer, url: str, database: str, how: str) -> None:
    await use(ServerSettings(url=url))
    as_admin(server, database, f"ALTER TABLE reme.memories {how}")
    with pytest.raises(StoreAccessError, match="memories"):
        await use(ServerSettings(url=url))
    assert database_facts(ServerSettings(url=url)).unwalled == ("memories",)


async def test_a_role_that_may_make_nothing_uses_what_its_owner_has_made(
    server: TestServer, url: str, database: str
) -> None:
    as_admin(server, database, f"REVOKE CREATE ON DATABASE {database} FROM {ROLE}")
    with pytest.raises(StoreAccessError, match=r"reme migrate.*--grant"):
        await use(ServerSettings(url=url), writes=True)
    owner = ServerSettings(url=server.url_of(database, admin=True))
    steps = [f"{number}: {step.name}" for number, step in enumerate(MIGRATIONS, 1)]
    assert planned_migrations(owner) == steps
    assert migrate_database(owner, grant_to=ROLE) == steps
    assert migrate_database(owner, grant_to=ROLE) == []
    assert await use(ServerSettings(url=url), writes=True) == ["kept"]


async def test_two_schemas_of_one_database_are_two_memories(url: str) -> None:
    assert await use(ServerSettings(url=url), writes=True) == ["kept"]
    assert await use(ServerSettings(url=url, schema="other")) == []
    for name in ("pg_own", "No", "a b", 'x"; DROP SCHEMA reme; --', ""):
        with pytest.raises(ConfigurationError):
            ServerSettings(url=url, schema=name)


async def test_a_newer_database_is_refused_and_an_older_one_only_read(
    server: TestServer, url: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await use(ServerSettings(url=url), writes=True) == ["kept"]
    steps = (*MIGRATIONS, Migration(name="a column", statements=("ALTER TABLE sessions ADD COLUMN more text",)))
    later(monkeypatch, steps)
    assert await use(ServerSettings(url=url)) == ["kept"]
    with pytest.raises(SchemaVersionError, match="reme migrate"):
        await use(ServerSettings(url=url), writes=True)
    with psycopg.connect(url, autocommit=True) as raw:
        assert migrating.migrate(raw, ServerSettings(url=url), migrations=steps) == [f"{len(steps)}: a column"]
    assert await use(ServerSettings(url=url)) == ["kept"]
    monkeypatch.undo()
    with pytest.raises(SchemaVersionError, match="newer release"):
        await use(ServerSettings(url=url))


async def test_words_of_an_older_release_are_cut_anew(server: TestServer, url: str, database: str) -> None:
    async with ReMe("space", llm=None, embedding=None, vector_store={"backend": "postgres", "url": url}) as memory:
        await memory.add_memory("Otters hold hands", user_id="anna")
        await memory.summary([("user", "a walrus sings")], user_id="anna")
        left = [{"role": "user", "content": "long words " * 3_000}]
        await memory.offload_context(left, user_id="anna", session_id="s")
    older = "UPDATE reme.meta SET value = '1' WHERE key = 'terms'"
    as_admin(server, database, older, "UPDATE reme.messages SET terms = ''", "UPDATE reme.memories SET terms = ''")
    settings = ServerSettings(url=url)
    assert await use(settings) is not None
    with pytest.raises(SchemaVersionError, match="reme migrate"):
        await use(settings, writes=True)
    assert planned_migrations(settings) == migrate_database(settings) == [f"words of version {TERMS_VERSION}"]
    assert planned_migrations(settings) == migrate_database(settings) == []
    assert database_facts(settings).unwalled == ()
    async with ReMe("space", llm=None, embedding=None, vector_store={"backend": "postgres", "url": url}) as memory:
        found = await memory.retrieve("otters and a walrus", user_id="anna")
    assert {hit.layer for hit in found.results} >= {"memory", "message"}


def later(monkeypatch: pytest.MonkeyPatch, steps: Sequence[Migration]) -> None:
    """Be a release that knows more steps."""
    opened = migrating.open_schema
    monkeypatch.setattr(
        "reme_core.stores.postgres.database.open_schema", lambda raw, settings: opened(raw, settings, migrations=steps)
    )


def test_a_step_that_fails_leaves_nothing_and_an_index_half_made_is_made_anew(
    server: TestServer, url: str, database: str
) -> None:
    settings = ServerSettings(url=url)
    bad = Migration(name="bad", statements=("CREATE TABLE half (a text)", "SELECT 1 / 0"))
    index = "CREATE UNIQUE INDEX CONCURRENTLY twice ON sessions (session_id)"
    with psycopg.connect(url, autocommit=True) as raw:
        with pytest.raises(psycopg.errors.DivisionByZero):
            migrating.migrate(raw, settings, migrations=(*MIGRATIONS, bad))
        assert migrating.schema_state(raw, settings).version == len(MIGRATIONS)
        assert raw.execute("SELECT to_regclass('reme.half')").fetchone() == (None,)
        same = "INSERT INTO reme.sessions (scope, session_id) VALUES (1, 'same'), (2, 'same')"
        as_admin(server, database, same)
        good = Migration(name="good", statements=(), concurrently=(("twice", index),))
        with pytest.raises(psycopg.errors.UniqueViolation):
            migrating.migrate(raw, settings, migrations=(*MIGRATIONS, good))
        as_admin(server, database, "DELETE FROM reme.sessions WHERE scope = 2")
        assert migrating.migrate(raw, settings, migrations=(*MIGRATIONS, good)) == []
        assert raw.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = 'reme.twice'::regclass").fetchone() == (
            True,
        )


async def test_a_database_that_holds_no_utf8_is_refused(server: TestServer, url: str) -> None:
    name = server.make_database(encoding="SQL_ASCII")
    try:
        with pytest.raises(ConfigurationError, match="UTF8"):
            await use(ServerSettings(url=server.url_of(name)))
    finally:
        server.drop_database(name)


async def test_each_table_is_walled_and_has_what_it_is_spread_by_in_every_key(
    server: TestServer, url: str, database: str
) -> None:
    await use(ServerSettings(url=url))
    tables = as_admin(
        server,
        database,
        "SELECT relname, relrowsecurity AND relforcerowsecurity, (SELECT array_agg(polname) FROM pg_policy"
        " WHERE polrelid = pg_class.oid) FROM pg_class WHERE relnamespace = 'reme'::regnamespace AND relkind = 'r'",
    )
    walled = {name for name, is_walled, policies in tables if is_walled and policies}
    assert {name for name, *_ in tables} - walled == {"meta", "migrations", "last_writes"}
    keys = as_admin(
        server,
        database,
        "SELECT indrelid::regclass::text, array_agg(attname::text) FROM pg_index JOIN pg_attribute ON"
        " attrelid = indrelid AND attnum = ANY(indkey) WHERE indisunique AND indrelid IN (SELECT oid FROM pg_class"
        " WHERE relnamespace = 'reme'::regnamespace) GROUP BY indexrelid, indrelid",
    )
    assert len(keys) > len(tables)
    for table, columns in keys:
        name = table.removeprefix("reme.")
        if name not in COPIED:
            assert SPREAD_BY.get(name, "scope") in columns, name
