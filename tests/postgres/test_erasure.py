"""Erasing a scope in PostgreSQL takes everything with it, and nothing of anybody else's."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from unittest.mock import patch

import psycopg
import pytest
from psycopg.sql import SQL, Identifier, Literal

from reme_core.errors import StoreAccessError
from reme_core.ports import (
    AppendMessages,
    DeleteMemory,
    GetItems,
    ItemAddress,
    PutItem,
    PutMemory,
    PutOffloads,
    WriteItems,
)
from reme_core.schema import Job, OffloadRecord, Scope, ToolCallResult, Usage
from reme_core.steps.costs import CostBook
from reme_core.stores import PostgresStore
from reme_core.stores.postgres import erasure
from reme_core.stores.postgres.tables import SCOPED
from reme_core.stores.sql.bookkeeping import find_scope
from reme_core.stores.sql.connection import SqlConnection
from reme_core.testing import FixedClock
from reme_core.testing.store_values import ALICE, BOB, NOW, batch, block, memory, message, random_unit
from tests.postgres.test_same_answers import fill
from tests.support.postgres_server import TestServer


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    await store.close()


async def test_no_table_has_a_row_of_an_erased_user(
    store: PostgresStore, server: TestServer, database: str, tmp_path: Path
) -> None:
    await fill(store, 1)
    await store.put(BOB, batch(memory("stays", scope=BOB)))
    draft = tmp_path / "draft.jsonl"
    draft.write_text("secret")
    await store.note_file(ALICE, draft)
    alice = await store.database.read(lambda c: find_scope(c, ALICE), within=ALICE)

    erased = await store.erase(ALICE)

    assert erased.memories
    assert erased.messages
    assert erased.offloads
    assert erased.files == 1
    assert not draft.exists()
    with psycopg.connect(server.url_of(database, admin=True)) as admin:
        for table in SCOPED:
            count = SQL("SELECT count(*) FROM {} WHERE scope = %s").format(Identifier("reme", table))
            assert admin.execute(count, (alice,)).fetchone() == (0,), table
        assert admin.execute("SELECT count(*) FROM reme.scopes WHERE user_id = 'alice'").fetchone() == (0,)
        left = "SELECT count(*) FROM reme.row_changes WHERE owner = %s AND layer <> 4"
        assert admin.execute(left, (alice,)).fetchone() == (0,)
    assert (await store.count(BOB)).memories == 1


async def test_no_column_of_any_table_holds_a_word_of_an_erased_user(
    store: PostgresStore, server: TestServer, database: str
) -> None:
    word = "quokka-9f3a"
    eve = Scope(memory_space="space", user_id=word)

    async def write(scope: Scope, word: str) -> None:
        said = message(f"{word} said it", message_id=f"{word}-1")
        await store.append(scope, AppendMessages(session_id=word, messages=[said]))
        await store.put_blocks(scope, [block(word, said, summary=word, block_id=f"b-{word}")])
        fact = memory(word, scope=scope, memory_id=f"m-{word}", metadata={"x": word})
        await store.put(scope, batch(PutMemory(memory=fact, vector=random_unit(1))))
        await store.put(scope, batch(deletes=[DeleteMemory(memory_id=f"m-{word}")]))
        await store.put(scope, batch(memory(f"{word} stays", scope=scope)))
        job = Job(kind="summary", payload={"x": word}, created_at=NOW, due_at=NOW)
        await store.add_jobs(scope, [job])
        text = OffloadRecord(session_id=word, kind="tool_result", name=word, text=f"{word} " * 900, created_at=NOW)
        await store.put_offloads(scope, PutOffloads(offloads=[text], hold=True))
        await store.add_tool_calls(scope, [ToolCallResult(tool_name=word, output=word)])
        mine = PutItem(address=ItemAddress(namespace=("n", word), key=word), value={"text": word}, owner=scope)
        await store.write_items("space", WriteItems(writes=[mine], at=NOW))
        await CostBook(store, FixedClock(NOW)).add(scope, "summary", Usage(model_calls=1))

    def columns_with(what: str) -> list[str]:
        with psycopg.connect(server.url_of(database, admin=True)) as admin:
            columns = admin.execute(
                "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'reme'"
                " AND data_type IN ('text', 'bytea', 'character varying', 'json', 'jsonb')"
            ).fetchall()
            return [
                f"{table}.{column}"
                for table, column, kind in columns
                if admin.execute(
                    SQL("SELECT 1 FROM {} WHERE position({} IN {}) > 0 LIMIT 1").format(
                        Identifier("reme", table),
                        Literal(what.encode() if kind == "bytea" else what),
                        Identifier(column) if kind == "bytea" else SQL("{}::text").format(Identifier(column)),
                    )
                ).fetchone()
            ]

    def note(connection: SqlConnection) -> None:
        connection.execute("CREATE TABLE adapter_notes (erased_with bigint, said bytea)")
        connection.execute("INSERT INTO adapter_notes VALUES (?, ?)", (find_scope(connection, eve), word.encode()))

    await write(eve, word)
    await write(BOB, "walrus-77")
    await store.database.write(note, within=eve)
    before, of_bob = columns_with(word), columns_with("walrus-77")

    erased = await store.erase(eve)

    assert {name.partition(".")[0] for name in before} >= {
        *("scopes", "sessions", "messages", "blocks", "memories", "events", "jobs", "offloads", "tool_calls", "items"),
        *("item_namespaces", "adapter_notes"),
    }
    assert columns_with(word) == []
    assert columns_with("walrus-77") == of_bob
    assert erased.store_items == 2  # the item, and what a model cost
    assert erased.adapter_rows == {"adapter_notes": 1}
    told = " ".join(erased.left_to_operator)
    assert "VACUUM" in told
    assert "backups" in told


async def test_rows_of_adapters_go_with_their_scope(store: PostgresStore) -> None:
    def make(connection: SqlConnection) -> None:
        connection.execute("CREATE TABLE adapter_notes (erased_with bigint, said text)")
        rows = [(find_scope(connection, scope), scope.user_id) for scope in (ALICE, ALICE, BOB)]
        connection.executemany("INSERT INTO adapter_notes (erased_with, said) VALUES (?, ?)", rows)

    for scope in (ALICE, BOB):
        await store.put(scope, batch(memory("fact", scope=scope)))
    await store.database.write(make, within="space")

    erased = await store.erase(ALICE)

    assert erased.adapter_rows == {"adapter_notes": 2}
    notes = "SELECT said FROM adapter_notes"
    assert await store.database.read(lambda c: c.execute(notes).fetchall(), within=None) == [("bob",)]


async def test_a_file_of_another_machine_is_told_and_removed_there(
    store: PostgresStore, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for scope in (ALICE, BOB):
        await store.put(scope, batch(memory("fact", scope=scope)))
    for path, machine in ((here, "desk"), (there, "server")):
        path.write_text("secret")
        monkeypatch.setattr(erasure, "node", lambda machine=machine: machine)
        await store.note_file(ALICE, path)

    monkeypatch.setattr(erasure, "node", lambda: "desk")
    erased = await store.erase(ALICE)

    assert erased.files == 1
    assert erased.files_elsewhere == [f"server:{there}"]
    assert not here.exists()
    assert there.exists()
    monkeypatch.setattr(erasure, "node", lambda: "server")
    await store.note_file(BOB, tmp_path / "of bob")
    assert not there.exists()
    assert (await store.erase(ALICE)).files_elsewhere == []


async def test_a_file_that_stays_is_removed_by_the_next_call(store: PostgresStore, tmp_path: Path) -> None:
    await store.put(ALICE, batch(memory("fact")))
    refused = tmp_path / "refused"
    refused.mkdir()
    await store.note_file(ALICE, refused)
    failing = patch.object(shutil, "rmtree", side_effect=PermissionError(13, "Permission denied"))
    with failing, pytest.raises(StoreAccessError, match="refused"):
        await store.erase(ALICE)

    assert (await store.count(ALICE)).memories == 0
    assert refused.exists()
    await store.erase(ALICE)
    assert not refused.exists()


async def test_items_of_a_user_in_other_spaces_go_with_the_user(
    store: PostgresStore, server: TestServer, database: str
) -> None:
    def item(space: str, owner: Scope, key: str) -> Awaitable[None]:
        address = ItemAddress(namespace=("notes", key), key=key)
        put = PutItem(address=address, value={"said": key}, vectors=random_unit(1)[None], owner=owner)
        return store.write_items(space, WriteItems(writes=[put], at=NOW))

    for space in ("space", "service", "third"):
        await item(space, ALICE, "alice")
        await item(space, BOB, "bob")

    assert (await store.erase(ALICE)).store_items == 3

    with psycopg.connect(server.url_of(database, admin=True)) as admin:
        for table in ("items", "item_vectors", "item_namespaces"):
            count = SQL("SELECT memory_space, count(*) FROM reme.{} GROUP BY 1 ORDER BY 1").format(Identifier(table))
            assert admin.execute(count).fetchall() == [("service", 1), ("space", 1), ("third", 1)], table
    address = ItemAddress(namespace=("notes", "bob"), key="bob")
    (found,) = await store.get_items("third", GetItems(addresses=[address], at=NOW))
    assert found is not None
    assert found.value == {"said": "bob"}


async def test_a_folder_that_a_user_who_came_back_uses_again_stays(store: PostgresStore, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for scope in (ALICE, BOB):
        await store.put(scope, batch(memory("fact", scope=scope)))
    await store.note_file(ALICE, folder)
    with patch.object(erasure, "node", lambda: "another machine"):
        await store.erase(ALICE)
    await store.put(ALICE, batch(memory("fact")))
    database = store.database
    await database.write(lambda c: database.note_file(c, ALICE, folder), within=ALICE)

    await store.erase(BOB)
    assert folder.exists()
    await store.erase(ALICE)
    assert not folder.exists()
