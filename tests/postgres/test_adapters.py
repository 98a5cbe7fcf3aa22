"""Sessions of the OpenAI Agents SDK, bytes by key, and users that are erased, as on a file, with PostgreSQL."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langgraph.checkpoint.base import empty_checkpoint

from reme_core import ReMe, Scope, SpacePart, SqlConnection
from reme_core.errors import StoreAccessError
from reme_core.openai_agents import ReMeSession
from reme_core.stores import LocalStore, PostgresStore
from reme_core.stores.copying.copy_store import copy_store
from reme_core.stores.copying.stores_as_rows import Chosen, StoreRows
from reme_core.stores.postgres.adapter_tables import OF_SCOPE, OF_SPACE
from reme_langchain import ReMeByteStore, ReMeSaver, ReMeStore
from reme_langchain.saver._message_blobs import Blobs, KnownDigests
from reme_langchain.saver._payloads import find_payload
from reme_langchain.saver._remove_and_copy import copy_thread, delete_thread
from reme_langchain.saver._saver_tables import make_thread
from tests.adapters.langchain import test_kv
from tests.adapters.langchain.saver.test_payloads import PHOTO, kept, of_user, shown
from tests.adapters.langchain.saver.test_safety import put
from tests.adapters.langchain.test_erasing import Login, at, graph
from tests.adapters.langchain.test_kv import store as store  # the fixture
from tests.adapters.openai_agents import test_session
from tests.adapters.openai_agents.test_session import session as session  # the fixture
from tests.support.postgres_server import waits_for_me

OF_A_FOLDER = {
    "test_a_closed_memory_is_told",
    "test_nothing_of_deleted_items_stays_in_the_file",
    "test_what_was_said_stays_when_items_go_and_goes_with_its_user",
    "test_an_image_that_is_said_and_shown_is_one_blob_and_base64_in_no_table",
    "test_bytes_that_are_gone_are_told",
    "test_two_memory_spaces_with_the_same_user_share_nothing",
    "test_two_processes_on_one_session_lose_nothing_and_keep_their_order",
    "test_another_process_goes_on_with_the_session",
    "test_who_adds_items_again_after_a_failure_says_nothing_twice",
    "test_with_a_chat_model_memories_are_made_of_runs_in_the_background",
    "test_the_module_loads_no_framework",
    "test_any_json_object_comes_back_equal",
    "test_namespaces_and_memory_spaces_are_apart",
    "test_values_outlive_the_process_and_the_store_closes_what_it_opened",
    "test_settings_that_cannot_be_used_are_refused",
    "test_keys_with_a_prefix_are_those_that_begin_with_it",
}
for module in (test_session, test_kv):
    globals().update(
        {
            name: pytest.mark.postgres(test)
            for name, test in vars(module).items()
            if name.startswith("test_") and name not in OF_A_FOLDER
        }
    )


def on_server(url: str, space: str = "default") -> ReMe:
    return ReMe(space, llm=None, embedding=None, vector_store={"backend": "postgres", "url": url})


@pytest.fixture
def memory(shared_url: str) -> Iterator[ReMe]:
    opened = on_server(shared_url)
    yield opened
    asyncio.run(opened.close())


@pytest.fixture
async def two(shared_url: str) -> AsyncIterator[tuple[ReMe, ReMe]]:
    async with on_server(shared_url) as one, on_server(shared_url) as other:
        yield one, other


async def test_a_session_is_there_for_another_machine_and_ends_with_its_user(two: tuple[ReMe, ReMe]) -> None:
    anas, here = (ReMeSession("chat", memory, user_id="ana") for memory in two)
    bens = ReMeSession("chat", two[0], user_id="ben")
    elsewhere = ReMeSession("chat", on_server_space(two[0], "elsewhere"), user_id="ana")
    for number in range(3):
        await anas.add_items([{"role": "user", "content": f"tea {number}\0"}])
    await bens.add_items([{"role": "user", "content": "coffee"}])
    assert [item["content"] for item in await here.get_items(limit=2)] == ["tea 1\0", "tea 2\0"]
    assert await elsewhere.get_items() == []
    erased = await two[1].delete_all_memories(user_id="ana")
    assert erased.adapter_rows == {"openai_agents_items": 3}
    assert await anas.get_items() == []
    assert len(await bens.get_items()) == 1


def on_server_space(memory: ReMe, space: str) -> ReMe:
    return memory.in_space(space)


def test_a_byte_store_of_a_url_closes_what_it_opened(shared_url: str) -> None:
    with ReMeByteStore(shared_url) as kept:
        kept.mset([("a", b"1"), ("a", b"2"), ("b\0", b"")])
    with ReMeByteStore(shared_url) as again, ReMeByteStore(shared_url, namespace="other") as other:
        assert again.mget(["a", "b\0", "c"]) == [b"2", b"", None]
        assert list(again.yield_keys()) == ["a", "b\0"]
        assert other.mget(["a"]) == [None]


async def test_the_threads_of_a_user_go_with_the_user(two: tuple[ReMe, ReMe]) -> None:
    memory, other = two
    saver = ReMeSaver(memory)
    app = graph(saver)
    for user, thread, text in (("ann", "anns", "xyzzy"), ("ben", "bens", "plugh")):
        await app.ainvoke({"said": [text]}, at(thread), context=Login(user))
    await saver.acopy_thread("anns", "copy")
    await app.ainvoke({"said": ["nobody"]}, at("nobodys"))
    erased = await other.delete_all_memories(user_id="ann")
    assert erased.adapter_rows["langgraph_threads"] == 2
    assert erased.adapter_rows["langgraph_thread_checkpoints"] >= 4
    assert [await saver.aget_tuple(at(name)) for name in ("anns", "copy")] == [None, None]
    for table in ("checkpoints", "writes", "blobs"):
        kept = f"SELECT count(DISTINCT thread) FROM langgraph_{table}"  # noqa: S608  # constants
        assert (await memory.database.read(lambda c, q=kept: c.execute(q).fetchone(), within="default"))[0] <= 2
    assert (await app.aget_state(at("bens"))).values == {"said": ["plugh", "noted"]}
    assert (await app.aget_state(at("nobodys"))).values == {"said": ["nobody", "noted"]}
    await app.ainvoke({"said": ["again"]}, at("anns"), context=Login("ann"))  # nothing of before is remembered
    assert (await app.aget_state(at("anns"))).values == {"said": ["again", "noted"]}


async def test_threads_of_one_name_are_apart_in_two_memory_spaces(shared_url: str) -> None:
    async with on_server(shared_url, "one") as one, on_server(shared_url, "two") as two:
        for memory, text in ((one, "xyzzy"), (two, "plugh")):
            await graph(ReMeSaver(memory)).ainvoke({"said": [text]}, at("t"))
        assert (await graph(ReMeSaver(one)).aget_state(at("t"))).values == {"said": ["xyzzy", "noted"]}
        await ReMeSaver(two).adelete_thread("t")
        assert await ReMeSaver(one).aget_tuple(at("t")) is not None
        assert len([found async for found in ReMeSaver(two).alist(None)]) == 0


async def test_setup_makes_the_tables_as_those_who_come_from_other_savers_call_it(url: str, tmp_path: Path) -> None:
    async with ReMeSaver.from_conn_string(url) as saver:
        await saver.setup()
        assert [found async for found in saver.alist(None)] == []
    with ReMeStore.from_conn_string(url, index={"embed": DeterministicFakeEmbedding(size=64), "dims": 64}) as store:
        store.setup()
        store.put(("notes",), "k", {"text": "otters hold hands"})
        assert [item.key for item in store.search(("notes",), query="otters")] == ["k"]
    assert "REME" not in repr(saver)


@pytest.mark.parametrize("times", [6])
async def test_two_machines_write_to_one_thread_and_nothing_is_lost(shared_url: str, times: int) -> None:
    savers = [ReMeSaver.from_conn_string(shared_url) for _ in range(2)]
    apps: list[Any] = [graph(saver) for saver in savers]
    for number in range(times):
        await apps[number % 2].ainvoke({"said": [f"{number}"]}, at("t"))
        if number == 3:
            await savers[1].aprune(["t"])
    said = (await apps[0].aget_state(at("t"))).values["said"]
    assert said[::2] == [f"{number}" for number in range(times)]
    await asyncio.gather(*(app.ainvoke({"said": ["at once"]}, at(f"{n}")) for n in range(8) for app in apps))
    for saver in savers:
        await saver.aclose()


UNUSED = {"langchain_journal", "agentscope_sessions", "agentscope_messages"}


async def test_no_transaction_reaches_rows_of_another_space_or_user(shared_url: str) -> None:
    async with on_server(shared_url, "one") as one, on_server(shared_url, "two") as two:
        await graph(ReMeSaver(one)).ainvoke({"said": [secrets.token_hex(2_000)]}, at("t"), context=Login("ann"))
        await ReMeByteStore(one).amset([("key", b"xyzzy")])
        await ReMeSession("chat", one, user_id="ann").add_items([{"role": "user", "content": "xyzzy"}])
        ann, ben = (Scope(memory_space="one", user_id=name) for name in ("ann", "ben"))
        for table in (*OF_SPACE, *OF_SCOPE):
            count = f"SELECT count(*) FROM {table}"  # noqa: S608  # constants

            def counted(connection: SqlConnection, count: str = count) -> int:
                return int(connection.execute(count).fetchone()[0])

            within = ann if table in OF_SCOPE else "one"
            own = await one.database.read(counted, within=within)
            assert own > 0 or table in UNUSED, table
            others: list[Any] = ["two", SpacePart("two", "t"), None, *([ben] if table in OF_SCOPE else [])]
            for other in others:
                assert await two.database.read(counted, within=other) == 0, (table, other)
        foreign = "INSERT INTO langgraph_threads (name, memory_space) VALUES ('mine', 'one')"
        with pytest.raises(StoreAccessError):
            await two.database.write(lambda c: c.execute(foreign).close(), within="two")


async def test_a_new_thread_that_another_machine_erased_is_begun_anew(two: tuple[ReMe, ReMe]) -> None:
    savers = [ReMeSaver(memory) for memory in two]
    for text in ("first", "second"):
        made = {**empty_checkpoint(), "channel_values": {"x": text}, "channel_versions": {"x": "1"}}
        await savers[0].aput(at("t", checkpoint_ns=""), made, {}, {"x": "1"})
        found = await savers[1].aget_tuple(at("t"))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"x": text}
        await savers[1].adelete_thread("t")


async def test_a_session_that_is_copied_from_a_file_goes_on_here(shared_url: str, tmp_path: Path) -> None:
    source, target = LocalStore(tmp_path / "memory.db"), PostgresStore(shared_url)
    async with ReMe("space", llm=None, embedding=None, vector_store=source) as memory:
        for number in range(3):
            await ReMeSession("chat", memory, user_id="ana").add_items([{"role": "user", "content": f"{number}"}])
    async with ReMe("space", llm=None, embedding=None, vector_store=target) as memory:
        rows = [
            StoreRows(database=opened.database, shown=opened.database.path, shows_spaces=opened is source)
            for opened in (source, target)
        ]
        done = await copy_store(rows[0], rows[1], Chosen(spaces=("space",)))
        assert done.left_out == ()
        session = ReMeSession("chat", memory, user_id="ana")
        await session.add_items([{"role": "user", "content": "3"}])
        assert [item["content"] for item in await session.get_items()] == ["0", "1", "2", "3"]
    for opened in (source, target):
        await opened.close()


@pytest.mark.postgres
async def test_a_thread_that_is_written_while_its_user_is_erased_is_whole_or_gone(shared_url: str, server: Any) -> None:
    async with on_server(shared_url) as memory, on_server(shared_url) as eraser:
        savers = [ReMeSaver(memory) for _ in range(2)]
        apps = [graph(saver) for saver in savers]

        async def write(number: int) -> None:
            for turn in range(4):
                await apps[number % 2].ainvoke({"said": [f"{turn}"]}, at(f"{number % 3}"), context=Login("ann"))

        async def erase() -> None:
            for _ in range(12):
                await eraser.delete_all_memories(user_id="ann")

        await asyncio.gather(erase(), *(write(number) for number in range(8)))
        left = "SELECT count(*) FROM langgraph_threads WHERE erased_with NOT IN (SELECT scope FROM scopes)"
        assert await memory.database.read(lambda c: c.execute(left).fetchone(), within="default") == (0,)
        for table in ("checkpoints", "writes", "blobs"):
            left = f"SELECT count(*) FROM langgraph_{table} WHERE thread NOT IN (SELECT id FROM langgraph_threads)"  # noqa: S608
            assert await memory.database.read(lambda c, q=left: c.execute(q).fetchone(), within="default") == (0,)
        await eraser.delete_all_memories(user_id="ann")
        assert [found async for found in savers[0].alist(None)] == []


@pytest.mark.postgres
async def test_a_thread_that_is_copied_while_its_user_is_erased_goes_with_the_user(two: tuple[ReMe, ReMe]) -> None:
    memory, other = two
    await graph(ReMeSaver(memory)).ainvoke({"said": ["xyzzy"]}, at("anns"), context=Login("ann"))
    copied = threading.Event()

    def copy(connection: SqlConnection) -> None:
        copy_thread(connection, KnownDigests(b"key"), "anns", "copy")
        copied.set()
        waits_for_me(connection)

    copying = asyncio.create_task(memory.database.write(copy, within=SpacePart("default", "a copy")))
    await asyncio.to_thread(copied.wait, 10)
    await other.delete_all_memories(user_id="ann")
    await copying
    left = "SELECT (SELECT count(*) FROM langgraph_threads), (SELECT count(*) FROM langgraph_checkpoints)"
    assert await memory.database.read(lambda c: c.execute(left).fetchone(), within="default") == (0, 0)


@pytest.mark.postgres
async def test_bytes_of_threads_go_with_the_user_and_are_counted(two: tuple[ReMe, ReMe]) -> None:
    memory, other = two
    saver = ReMeSaver(memory)
    for thread, user in (("1", "ann"), ("2", "ann"), ("3", "ben")):
        await asyncio.to_thread(put, saver, of_user(thread, user), messages=[shown()])
    erased = await other.delete_all_memories(user_id="ann")
    assert erased.adapter_rows["langgraph_thread_bytes"] == 1
    assert await asyncio.to_thread(kept, saver) == [PHOTO]


@pytest.mark.postgres
async def test_bytes_outlive_their_thread_where_another_one_begins_to_refer_to_them(two: tuple[ReMe, ReMe]) -> None:
    memory, other = two
    await asyncio.to_thread(put, ReMeSaver(memory), of_user("1"), state={"raw": PHOTO})
    ann, digest, referred = Scope(memory_space="default", user_id="ann"), sha256(PHOTO).digest(), threading.Event()

    def refer(connection: SqlConnection) -> int:
        known = KnownDigests(b"key")
        thread = make_thread(connection, known, "2", ann)
        Blobs(connection, thread, known).keep_payloads([(digest, PHOTO)])
        referred.set()
        waits_for_me(connection)
        return thread

    referring = asyncio.create_task(memory.database.write(refer, within=SpacePart("default", "langgraph thread 2")))
    await asyncio.to_thread(referred.wait, 10)
    await ReMeSaver(other).adelete_thread("1")
    thread = await referring
    assert await memory.database.read(lambda c: find_payload(c, thread, digest), within="default") == PHOTO


@pytest.mark.postgres
async def test_who_waits_to_remove_a_thread_keeps_no_bytes_from_others(two: tuple[ReMe, ReMe]) -> None:
    memory, other = two
    saver, own = ReMeSaver(memory), PHOTO + b"own"
    await asyncio.to_thread(put, saver, of_user("1"), state={"raw": PHOTO})
    await asyncio.to_thread(put, saver, of_user("2"), first={"raw": own}, second={"raw": PHOTO})
    begun = threading.Event()

    def remove(connection: SqlConnection) -> None:
        delete_thread(connection, "1")
        begun.set()
        waits_for_me(connection)
        connection.execute("SELECT 1 FROM langgraph_blobs WHERE digest = ? FOR UPDATE NOWAIT", (sha256(own).digest(),))

    removing = asyncio.create_task(memory.database.write(remove, within=SpacePart("default", "langgraph thread 1")))
    await asyncio.to_thread(begun.wait, 10)
    await ReMeSaver(other).adelete_thread("2")
    await removing
    assert await asyncio.to_thread(kept, saver) == []
