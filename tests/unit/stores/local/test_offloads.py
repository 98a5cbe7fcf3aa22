"""Offloads in the local store's file: passages, counts, damage, and what a removed text leaves behind."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core.errors import CorruptDataError, InvalidInputError, StorageFullError, StoreUnavailableError
from reme_core.ports import AppendMessages, CleanOffloads, Counts, HoldOffloads, OffloadSearch, Store
from reme_core.schema import OffloadKind, OffloadRecord
from reme_core.stores import LocalStore
from reme_core.stores.local.file.dialect import FileConnection
from reme_core.stores.sql.offload_rows import cut_passages
from reme_core.stores.sql.offload_search import search_offloads
from reme_core.testing.store_values import ALICE, BOB, NOW, at, in_new_process, message
from reme_core.text import terms
from tests.contract.suites.offload_values import (
    SESSION,
    clean,
    hold,
    listed,
    pointer_to,
    put,
    references,
    result_of,
    search,
    text_of,
    texts,
)
from tests.support.file_checks import bytes_on_disk, problems_of_file
from tests.support.processes import offload

LONGEST = 1_500


async def said(store: LocalStore, *message_ids: str) -> None:
    messages = [message("said", message_id=message_id) for message_id in message_ids]
    await store.append(ALICE, AppendMessages(session_id=SESSION, messages=messages))


async def test_where_no_offload_can_be_found_no_word_is_looked_for(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    await put(store, text_of("the walrus", session_id="full"))
    await store.append(ALICE, AppendMessages(session_id="empty", messages=[message("said", message_id="m1")]))
    await store.close()
    statements: list[str] = []
    with closing(sqlite3.connect(tmp_path / "memory.db", factory=FileConnection)) as connection:
        connection.set_trace_callback(statements.append)
        for search_ in (
            OffloadSearch(text="walrus", session_id="empty"),
            OffloadSearch(text="walrus", session_id="none"),
            OffloadSearch(text="walrus", kinds=(OffloadKind.TOOL_RESULT,)),
            OffloadSearch(text="walrus", made_from=at(1)),
        ):
            assert search_offloads(connection, ALICE, search_) == []
        assert not any("offload_words" in statement or "offload_passages" in statement for statement in statements)
        [found] = search_offloads(connection, ALICE, OffloadSearch(text="walrus", session_id="full"))
        assert found.passage == "the walrus"
        assert any("offload_passages" in statement for statement in statements)


async def test_the_local_store_is_an_offload_store(tmp_path: Path) -> None:
    assert isinstance(LocalStore(tmp_path / "memory.db"), Store)


@given(st.lists(st.tuples(st.sampled_from(["\n", " ", "a", "网", "word ", "\r\n"]), st.integers(0, 900)), max_size=30))
@settings(deadline=None)
def test_passages_cover_a_text_overlap_and_are_none_too_long(parts: list[tuple[str, int]]) -> None:
    text = "".join(piece * count for piece, count in parts)
    passages = list(cut_passages(text))
    assert sum(1 for _ in passages) <= 1 + len(text) // 300
    reached = 0
    for passage in passages:
        assert passage.offset == 0 or reached - 400 <= passage.offset <= reached - 200
        assert 0 < passage.chars <= LONGEST
        assert passage.first_line == 1 + text.count("\n", 0, passage.offset)
        assert list(passage.words) == terms(text[passage.offset : passage.offset + passage.chars])
        reached = passage.offset + passage.chars
    assert reached == len(text)


def test_passages_begin_and_end_with_lines_where_there_are_any() -> None:
    text = "".join(f"this is line {n} of quite a few\n" for n in range(500))
    for passage in cut_passages(text):
        assert passage.offset == 0 or text[passage.offset - 1] == "\n"
        assert text[passage.offset + passage.chars - 1] == "\n"


async def test_a_line_of_two_million_characters_is_kept_found_and_removed(tmp_path: Path) -> None:
    chance = random.Random(1)
    cells = [f'{{"id":{n},"at":"/srv/{chance.randrange(1000)}/f{n}.log"}}' for n in range(160_000)]
    text = ("[" + ",".join(cells))[:2_000_000]
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    [reference] = await put(store, text_of(text))
    [hit] = await search(store, "f45678.log")
    assert "f45678.log" in hit.passage
    assert len(hit.passage) <= LONGEST
    assert (await store.get_offload(ALICE, reference)).text == text
    assert (await clean(store, max_bytes=0)).bytes_removed == 2_000_000
    assert await search(store, "f45678.log") == []
    await store.close()


async def test_offloads_are_counted_with_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path)
    await said(store, "m")
    await put(store, text_of("网球"), result_of("abcd", "m"), pointer_to("m"))
    await put(store, text_of("of Bob"), scope=BOB)
    assert await store.count(ALICE) == Counts(messages=1, sessions=1, offloads=3, offload_bytes=10)
    assert (await store.count(BOB)).offload_bytes == 6
    await clean(store, max_bytes=0)
    assert await store.count(ALICE) == Counts(messages=1, sessions=1, offloads=1)
    await store.close()
    assert problems_of_file(path) == []


async def test_a_session_of_which_nothing_is_left_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path)
    await said(store, "m")
    await put(store, text_of("one", session_id="with a text"), text_of("two"), hold=True)
    [one, _] = references(await listed(store))
    await hold(store, one, session_id="that holds another's")
    await hold(store, "unknown", session_id="that holds nothing")
    assert (await store.count(ALICE)).sessions == 3
    await hold(store, session_id="that holds another's")
    await hold(store, session_id="with a text")
    assert (await store.count(ALICE)).sessions == 2
    assert references((await clean(store, older=999)).removed) == [one]
    assert (await store.count(ALICE)).sessions == 1
    assert problems_of_file(path) == []
    await store.close()


async def test_whatever_is_done_in_whatever_order_the_file_stays_whole(tmp_path: Path) -> None:
    path, chance = tmp_path / "memory.db", random.Random(7)
    store = LocalStore(path, synchronous="NORMAL")
    for scope in (ALICE, BOB):
        await store.append(scope, AppendMessages(session_id=SESSION, messages=[message("said", message_id="m")]))
    for step in range(300):
        scope, session = chance.choice((ALICE, BOB)), f"s{chance.randrange(4)}"
        kept = references(await listed(store, scope=scope))
        match chance.randrange(5):
            case 0 | 1:
                size = chance.choice((1, 10, 2_000))
                item = text_of(f"word{step} " * size, minute=chance.randrange(300), session_id=session)
                await put(store, item, pointer_to("m"), hold=chance.random() < 0.5, scope=scope)
            case 2 | 3:
                some = chance.sample(kept, chance.randrange(len(kept) + 1))
                await hold(store, *some, session_id=session, minute=step, scope=scope)
            case _:
                older = chance.choice((None, chance.randrange(300)))
                before = {info.reference for info in await listed(store, scope=scope)}
                bound = chance.choice((None, 40_000))
                done = await clean(store, older=older, max_bytes=bound, idle=step - 60, scope=scope)
                left = await listed(store, scope=scope)
                assert before - set(references(left)) == set(references(done.removed))
                assert sum(info.bytes for info in left) == done.bytes_left
                assert set(references(done.held)) <= set(references(left))
        if step % 50 == 0:
            assert problems_of_file(path) == []
    await store.erase(ALICE)
    assert problems_of_file(path) == []
    await store.close()


async def test_an_offload_that_cannot_be_read_is_named_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path)
    await put(store, text_of("walrus", reference="a"))
    with closing(sqlite3.connect(path, factory=FileConnection)) as connection:
        connection.execute("UPDATE offloads SET info = '{}'")
        connection.commit()
    for call in (store.get_offload(ALICE, "a"), listed(store), search(store, "walrus"), clean(store, max_bytes=0)):
        with pytest.raises(CorruptDataError, match=r"memory.db"):
            await call
    await store.close()


@pytest.mark.parametrize("fts5", [True, False])
async def test_nothing_of_an_erased_scope_is_left_in_the_bytes_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fts5: bool
) -> None:
    if not fts5:
        monkeypatch.setattr("reme_core.stores.local.file.database.has_fts5", lambda _: False)
    path = tmp_path / "memory.db"
    store = LocalStore(path)
    await said(store, "secret-message")
    for number in range(20):
        long = "".join(f"secretword{n} of secret 秘密{n}\n" for n in range(number * 40, number * 40 + 400))
        secret = text_of(long, session_id=f"secret session {number}", reference=f"secret-{number}", name="secret name")
        await put(store, secret, hold=True)
        await put(store, text_of(f"open words {number} " * 200), hold=True, scope=BOB)
    await put(store, result_of("secret result", "secret-result"), pointer_to("secret-message"))
    await clean(store, max_bytes=50_000, idle=999)
    kept = await texts(store, scope=BOB)
    assert b"secret" in bytes_on_disk(path)
    assert (await store.erase(ALICE)).offloads > 3
    raw = bytes_on_disk(path)
    assert b"secret" not in raw
    assert "秘".encode() not in raw
    assert await texts(store, scope=BOB) == kept
    assert len(await search(store, "open words", limit=100, scope=BOB)) == 20
    await store.close()
    assert b"secret" not in bytes_on_disk(path)


async def test_another_process_sees_what_was_kept_and_what_is_held(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path)
    mine = text_of("kept here")
    await put(store, mine, hold=True)
    theirs = await in_new_process(offload, path, mine.reference, "a pelican there")
    assert (await store.get_offload(ALICE, theirs)).text == "a pelican there"
    assert [hit.info.reference for hit in await search(store, "pelicans")] == [theirs]
    assert references((await clean(store, max_bytes=0)).held) == [mine.reference]
    await store.close()


async def test_a_locked_file_lets_nothing_through_and_can_still_be_searched_and_tried(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path, busy_timeout_s=0.05)
    await put(store, text_of("walrus"), hold=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for write in (put(store, text_of("more")), hold(store), clean(store, max_bytes=0)):
            with pytest.raises(StoreUnavailableError):
                await write
        assert len(await search(store, "walrus")) == 1
        assert len((await clean(store, max_bytes=0, dry_run=True)).held) == 1
        other.execute("ROLLBACK")
    assert await texts(store) == ["walrus"]
    await store.close()


async def test_a_text_that_has_no_room_is_an_error_and_what_was_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path, max_bytes=600_000, synchronous="NORMAL")
    await put(store, text_of("walrus " * 1_000))
    with pytest.raises(StorageFullError):
        await put(store, text_of("small"), text_of("pelican " * 100_000))
    assert len(await texts(store)) == 1
    await clean(store, max_bytes=0)
    assert await put(store, text_of("there is room again"))
    await store.close()


async def test_times_that_are_none_are_refused(tmp_path: Path) -> None:
    store, wrong = LocalStore(tmp_path / "memory.db"), at(-(10**9))
    for call in (
        store.hold_offloads(ALICE, HoldOffloads(session_id="s", references=frozenset(), now=wrong)),
        store.clean_offloads(ALICE, CleanOffloads(older_than=wrong, idle_since=NOW)),
        store.clean_offloads(ALICE, CleanOffloads(idle_since=wrong)),
        store.search_offloads(ALICE, OffloadSearch(text="walrus", made_from=wrong)),
        store.search_offloads(ALICE, OffloadSearch(text="walrus", made_to=wrong)),
    ):
        with pytest.raises(InvalidInputError, match="the year"):
            await call
    naive = NOW.replace(tzinfo=None)
    await put(store, text_of("walrus", minute=1), hold=True)
    found = await store.search_offloads(ALICE, OffloadSearch(text="walrus", made_from=naive))
    assert len(found) == 1
    assert (await store.clean_offloads(ALICE, CleanOffloads(older_than=naive, idle_since=naive))).bytes_left == 6
    await store.close()


async def test_cutting_a_large_text_into_words_keeps_neither_the_loop_nor_other_writers(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    await put(store, text_of("before"))
    large = asyncio.create_task(put(store, text_of("".join(f"word{n} " for n in range(300_000)))))
    await asyncio.sleep(0)
    await put(store, text_of("meanwhile"))
    assert not large.done()
    await large
    assert [text[:9] for text in await texts(store)] == ["before", "meanwhile", "word0 wor"]
    await store.close()


def test_an_offload_has_text_or_messages_and_never_what_no_file_keeps() -> None:
    for wrong in ({"text": "a\0b"}, {"text": "half \ud83d"}, {"text": ""}, {"message_ids": ("m",)}):
        with pytest.raises(ValueError, match=r"text|character"):
            OffloadRecord.model_validate({"session_id": "s", "kind": "text", "text": "t", **wrong})
