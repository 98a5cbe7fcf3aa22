"""A copy between the file and PostgreSQL answers as the source does, ids, order, times and history included."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.errors import ConflictError, InvalidInputError, StoreAccessError
from reme_core.ports import (
    AppendMessages,
    ClaimJob,
    EventQuery,
    FindMessages,
    HoldOffloads,
    ItemAddress,
    ListMemories,
    ListOffloads,
    ListToolCalls,
    MemoryFilter,
    MemorySearch,
    MessageSearch,
    OffloadSearch,
    PutItem,
    PutMemory,
    SearchItems,
    Store,
    WriteBatch,
    WriteItems,
)
from reme_core.schema import ImageBlock, Job, Scope, ToolCallResult, Usage
from reme_core.steps.costs import CostBook
from reme_core.stores import LocalStore, PostgresStore, ServerSettings, migrate_database
from reme_core.stores.copying.copy_store import compare_stores, copy_store, copy_to_file
from reme_core.stores.copying.places import CopyRequest, run_copy
from reme_core.stores.copying.stores_as_rows import Chosen, StoreRows
from reme_core.stores.sql.bookkeeping import put_once
from reme_core.stores.sql.connection import SqlDatabase
from reme_core.testing import FixedClock
from reme_core.testing.store_values import ALICE, BOB, NOW, batch, memory, message, random_unit
from tests.postgres.test_same_answers import WORDS, fill
from tests.support import copying_child
from tests.support.new_processes import NEW_PROCESSES
from tests.support.postgres_server import ROLE, TestServer

SPACE = Chosen(spaces=("space",))


def rows_of(store: LocalStore | PostgresStore) -> StoreRows[SqlDatabase]:
    return StoreRows(database=store.database, shown=store.database.path, shows_spaces=isinstance(store, LocalStore))


async def fill_all(store: Store) -> None:
    """Write something into every table of two users, the numbers of one between those of the other."""
    await store.append(BOB, AppendMessages(session_id="s", messages=[message("Walrus", message_id="b0")]))
    await fill(store, 3)
    tennis = message("Tennis", message_id="b1")
    shown = ImageBlock.model_validate({"data": bytes(range(256)) * 300, "media_type": "image/x", "caption": "a court"})
    tennis = tennis.model_copy(update={"content": (*tennis.content, shown)})
    await store.append(BOB, AppendMessages(session_id="s", messages=[tennis]))
    await store.put(BOB, batch(memory("Bob plays tennis", scope=BOB, memory_id="m000")))
    jobs = [Job(job_id=f"j{n}", kind="summary", created_at=NOW, due_at=NOW) for n in range(3)]
    await store.add_jobs(ALICE, jobs)
    held = ClaimJob(kinds=("summary",), owner="p1", now=NOW, hold=timedelta(hours=1), is_gone=lambda _: False)
    assert await store.claim_job(ALICE, held) is not None
    await store.hold_offloads(ALICE, HoldOffloads(session_id="s", references=frozenset({"ref1", "ref2"}), now=NOW))
    calls = [
        ToolCallResult(tool_name="shell", call_id=f"c{n}", output="crème" * n, success=n % 2 == 0, create_time=NOW)
        for n in range(5)
    ]
    await store.add_tool_calls(ALICE, calls)
    mine = PutItem(address=ItemAddress(namespace=("n", "a"), key="mine"), value={"text": "海象"}, owner=ALICE)
    await store.write_items("space", WriteItems(writes=[mine], at=NOW))


async def answers(store: Store) -> dict[str, object]:
    """Ask what stores answer; lists have ids, scores, times, revisions and places in their order."""
    said: dict[str, object] = {}
    for n, text in enumerate((*WORDS, "walrus tea", "")):
        vector = random_unit(n) if n % 2 or not text else None
        search = MemorySearch(text=text, vector=vector, limit=20, filter=MemoryFilter())
        messages = MessageSearch(text=text, vector=vector, limit=20, now=NOW)
        said[f"memories {text}"] = await store.search(ALICE, search)
        said[f"messages {text}"] = await store.search_messages(ALICE, messages)
        said[f"keyword {text}"] = await store.find_messages(ALICE, FindMessages(keyword=text or None, limit=9))
        said[f"offloads {text}"] = await store.search_offloads(ALICE, OffloadSearch(text=text, limit=9)) if text else ()
        items = SearchItems(prefix=("n",), text=text, vector=vector, limit=50, at=NOW)
        said[f"items {text}"] = await store.search_items("space", items)
    for scope in (ALICE, BOB):
        every = ListMemories(limit=30, filter=MemoryFilter(include_superseded=True))
        said[f"list {scope}"] = await store.list_memories(scope, every)
        said[f"events {scope}"] = await store.events(scope, EventQuery(limit=500))
        said[f"count {scope}"] = await store.count(scope)
        said[f"targets {scope}"] = await store.count_targets(scope)
    said["offloads"] = await store.list_offloads(ALICE, ListOffloads(limit=50))
    said["reload"] = await store.get_offload(ALICE, "ref3")
    said["calls"] = await store.list_tool_calls(ALICE, ListToolCalls(limit=50))
    return said


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[LocalStore]:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    yield store
    await store.close()


@pytest.fixture
async def remote(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)  # of its own: numbers are kept where none was given before
    yield store
    await store.close()


@pytest.fixture
async def back(tmp_path: Path) -> AsyncIterator[LocalStore]:
    store = LocalStore(tmp_path / "back" / "memory.db", synchronous="NORMAL")
    yield store
    await store.close()


async def test_a_copy_to_the_server_and_back_answers_as_the_file_does(
    local: LocalStore, remote: PostgresStore, back: LocalStore
) -> None:
    await fill_all(local)
    wanted = await answers(local)

    there = await copy_store(rows_of(local), rows_of(remote), SPACE)
    again = await copy_store(rows_of(local), rows_of(remote), SPACE)
    home = await copy_store(rows_of(remote), rows_of(back), SPACE)

    assert await answers(remote) == wanted
    assert await answers(back) == wanted
    assert {unit.outcome for unit in there.units} == {"copied"}
    assert {unit.outcome for unit in again.units} == {"there"}
    assert there.rows == again.rows == home.rows
    assert there.left_out == home.left_out == ()
    assert set(there.rows) >= {"messages", "memories", "events", "jobs", "offload_holds", "tool_calls", "items"}
    for store in (remote, back):
        jobs = await store.list_jobs(ALICE)
        assert [(job.job_id, job.state, job.owner, job.attempts) for job in jobs] == [
            (f"j{n}", "pending", None, 0) for n in range(3)
        ]
    assert (await back.database.read(lambda c: c.execute("PRAGMA integrity_check").fetchall())) == [("ok",)]


async def test_a_database_is_asked_for_named_spaces(remote: PostgresStore, tmp_path: Path) -> None:
    await remote.put(ALICE, batch(memory("fact")))
    with pytest.raises(InvalidInputError, match="--space"):
        await copy_to_file(rows_of(remote), tmp_path / "all.jsonl", Chosen())
    done = await copy_to_file(rows_of(remote), tmp_path / "all.jsonl", SPACE)
    assert done.rows == {"memories": 1, "events": 1}


async def test_a_database_with_other_things_of_a_user_is_refused_and_merged(
    local: LocalStore, remote: PostgresStore
) -> None:
    await fill_all(local)
    await remote.put(BOB, batch(memory("Bob skis", scope=BOB, memory_id="skis")))
    with pytest.raises(ConflictError, match=r"'bob'.*memories has 1 rows in the source, 1 in|says other things"):
        await copy_store(rows_of(local), rows_of(remote), SPACE)
    await copy_store(rows_of(local), rows_of(remote), SPACE, merge=True)
    found = await remote.list_memories(BOB, ListMemories(limit=9))
    assert {item.memory_id for item in found.memories} == {"skis", "m000"}
    asked = SearchItems(prefix=("n",), limit=50, at=NOW)
    assert await remote.search_items("space", asked) == await local.search_items("space", asked)


async def test_costs_go_along_with_their_user_and_with_the_erasure_there(
    local: LocalStore, remote: PostgresStore
) -> None:
    for scope in (ALICE, BOB):
        await local.put(scope, batch(memory("fact", scope=scope)))
        await CostBook(local, FixedClock(NOW)).add(scope, "summary", Usage(model_calls=1))
    await copy_store(rows_of(local), rows_of(remote), SPACE)
    book = CostBook(remote, FixedClock(NOW))
    assert await book.read("space") == await CostBook(local, FixedClock(NOW)).read("space")
    assert (await remote.erase(ALICE)).store_items == 1
    assert [cost.user_id for cost in await book.read("space")] == ["bob"]


async def test_numbers_of_costs_are_set_aside_as_those_of_other_items(remote: PostgresStore) -> None:
    items = [PutItem(address=ItemAddress(namespace=("n",), key=str(n)), value={"n": n}, owner=ALICE) for n in range(9)]
    await remote.put(ALICE, batch(memory("fact")))
    await remote.write_items("space", WriteItems(writes=items[:1], at=NOW))
    await remote.write_items("others", WriteItems(writes=[replace(item, owner=None) for item in items], at=NOW))
    await CostBook(remote, FixedClock(NOW)).add(ALICE, "summary", Usage(model_calls=1))  # the highest number

    survey = await rows_of(remote).survey(SPACE)

    highest = await remote.database.read(lambda c: c.execute("SELECT max(item) FROM items").fetchone(), within=ALICE)
    assert survey.highest["items"] == highest[0] == 11


async def test_undo_works_behind_a_copy_as_it_did_before(local: LocalStore, url: str, tmp_path: Path) -> None:
    await local.put(ALICE, batch(memory("Ana likes tea", memory_id="m")))
    edit = memory("Ana likes green tea", memory_id="m")
    await local.put(ALICE, WriteBatch(puts=[PutMemory(memory=edit)], run_id="r1", actor="me", at=NOW))
    history = await local.events(ALICE, EventQuery(memory_id="m", limit=9))
    remote = PostgresStore(url)
    await copy_store(rows_of(local), rows_of(remote), SPACE)
    assert await remote.events(ALICE, EventQuery(memory_id="m", limit=9)) == history
    await remote.close()
    settings = {"backend": "postgres", "url": url}
    async with ReMe("space", tmp_path / "x", llm=None, embedding=None, vector_store=settings) as there:
        assert (await there.undo("r1", user_id="alice")).restored == ("m",)
        found = await there.list_memories(user_id="alice")
        assert [item.content for item in found.memories] == ["Ana likes tea"]


@pytest.mark.parametrize("kills", [1, pytest.param(12, marks=pytest.mark.postgres)])
async def test_a_copy_to_the_server_that_was_killed_is_finished_by_the_next_one(
    local: LocalStore, url: str, kills: int
) -> None:
    users = [Scope(memory_space="space", user_id=f"user {n}") for n in range(8)]
    for turn in range(3):
        for scope in users:
            fact = memory(f"{scope.user_id} {turn}", scope=scope, memory_id=f"m{turn}")
            await local.put(scope, batch(fact))
            said = [message(f"walrus {turn}", message_id=f"w{turn}")]
            await local.append(scope, AppendMessages(session_id="s", messages=said))
    for kill in range(kills):
        receiver, sender = NEW_PROCESSES.Pipe(duplex=False)
        child = NEW_PROCESSES.Process(target=copying_child.run, args=(local.database.path, url, sender))
        child.start()
        sender.close()
        with suppress(EOFError):  # it was done
            for _ in range(1 + kill * 3):
                receiver.recv()
        child.kill()
        await asyncio.to_thread(child.join)
        receiver.close()

    remote = PostgresStore(url)
    await copy_store(rows_of(local), rows_of(remote), SPACE)

    assert (await compare_stores(rows_of(local), rows_of(remote), SPACE)).rows["messages"] == 24
    for scope in users:
        query = EventQuery(limit=9)  # with their numbers
        assert await remote.events(scope, query) == await local.events(scope, query)
    await remote.close()


async def test_a_role_that_owns_no_table_is_told_who_may_copy(
    local: LocalStore, server: TestServer, database: str, url: str
) -> None:
    owner = PostgresStore(server.url_of(database, admin=True), allow_superuser=True)
    await owner.count(ALICE)
    await owner.close()
    migrate_database(ServerSettings(url=server.url_of(database, admin=True)), grant_to=ROLE)
    await local.put(ALICE, batch(memory("fact")))
    plain = PostgresStore(url)
    with pytest.raises(StoreAccessError, match="owns the tables"):
        await copy_store(rows_of(local), rows_of(plain), SPACE)
    assert (await plain.count(ALICE)).memories == 0
    await plain.close()


async def test_a_copy_goes_on_with_the_plan_of_its_own_schema_alone(
    url: str, tmp_path: Path, local: LocalStore, remote: PostgresStore
) -> None:
    killed = json.dumps({"highest": {"memories": 9}, "higher": {"memories": 1_000}})
    mark = f"copying:{remote.database.path}"
    await local.database.write(lambda c: put_once(c, mark, killed), within=None)  # of a copy from the schema `reme`
    other = PostgresStore(url, schema="other")
    await other.put(ALICE, batch(memory("of another schema", scope=ALICE)))
    await other.close()
    await run_copy(CopyRequest(source=url, target=str(tmp_path), chosen=SPACE, schema="other"))
    numbers = await local.database.read(lambda c: c.execute("SELECT row FROM memories").fetchall(), within=ALICE)
    assert numbers == [(1,)]
