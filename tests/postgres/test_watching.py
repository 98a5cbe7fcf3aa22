"""What happens is told from a database as it is from the file, and a preview leaves no row of it."""

from __future__ import annotations

import psycopg
import pytest

from reme_core import ReMe
from reme_core.stores import PostgresStore
from tests.support.postgres_server import TestServer
from tests.unit.facade.test_preview import BERLIN, LISBON, FreeModel, U
from tests.unit.recall.test_activity import follow

pytestmark = pytest.mark.postgres
TABLES = "SELECT relname FROM pg_stat_user_tables WHERE schemaname = 'reme' ORDER BY relname"


def rows(url: str) -> dict[str, list[object]]:
    with psycopg.connect(url) as plain:
        names = [name for (name,) in plain.execute(TABLES)]
        return {name: sorted(map(str, plain.execute(f"SELECT * FROM reme.{name}".encode()))) for name in names}  # noqa: S608


async def test_what_another_machine_writes_is_told_once(url: str) -> None:
    one, other = PostgresStore(url), PostgresStore(url)
    writer = ReMe("space", llm=FreeModel(), embedding=None, vector_store=one)
    reader = ReMe("space", llm=None, embedding=None, vector_store=other)
    async with writer, reader:
        await follow(writer, reader)
    await one.close()
    await other.close()


async def test_a_preview_writes_no_row(server: TestServer, url: str, database: str) -> None:
    store, everything = PostgresStore(url), server.url_of(database, admin=True)
    async with ReMe("space", llm=FreeModel(), embedding=None, vector_store=store) as memory:
        await memory.summary([BERLIN], **U)
        before = rows(everything)
        assert before["memories"]
        assert {str(item.kind) for item in (await memory.preview_summary([LISBON], **U)).changes} == {
            "added",
            "replaced",
        }
        assert rows(everything) == before
    await store.close()
