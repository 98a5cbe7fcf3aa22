"""Erasing beside others that write, and what a page's gaps are."""

from __future__ import annotations

import gc
import sqlite3
from base64 import b64encode
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core import ReMe
from reme_core.schema import ImageBlock, Message
from reme_core.stores.local.file.purging import find_gaps, free_pages, is_map
from tests.support import processes
from tests.support.erasing_child import fill
from tests.support.file_checks import bytes_on_disk, problems_of_file
from tests.support.new_processes import NEW_PROCESSES


async def test_an_erasure_beside_a_writing_process_ends_and_loses_nothing(tmp_path: Path) -> None:
    await fill(tmp_path, 300)
    with ProcessPoolExecutor(1, mp_context=NEW_PROCESSES) as pool:
        writing = pool.submit(processes.write_many, tmp_path, "other", 120)
        async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
            erased = await memory.delete_all_memories(user_id="gone")
            found = await memory.retrieve("secretstays", user_id="stays")
        ids = writing.result()
    assert erased.messages == 300
    assert found.results
    assert b"secretgone" not in bytes_on_disk(tmp_path / "memory.db")
    assert problems_of_file(tmp_path / "memory.db") == []
    raw = bytes_on_disk(tmp_path / "memory.db")
    assert not [one for one in ids if one.encode() not in raw]


async def test_an_erasure_leaves_no_connection_open(tmp_path: Path) -> None:
    def connections() -> int:
        return sum(isinstance(thing, sqlite3.Connection) for thing in gc.get_objects())

    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        await memory.add_memory("secretgone keeps pelicans", user_id="gone")
        await memory.delete_all_memories(user_id="gone")
        before = connections()
        await memory.add_memory("secretgone keeps otters", user_id="gone")
        await memory.delete_all_memories(user_id="gone")
        assert connections() == before


async def test_room_of_an_erased_user_goes_back_to_the_system_while_others_have_the_file_open(tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        for number in range(6):  # in turn: what stays lies behind what goes
            for user in ("gone", "stays"):
                image = ImageBlock(url=f"data:image/x;base64,{b64encode(bytes([number]) * 200_000).decode()}")
                await memory.summary([Message(role="user", content=[image])], user_id=user, session_id="s")
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = file.stat().st_size
        async with ReMe("space", tmp_path, llm=None, embedding=None) as other:
            await other.add_memory("The spare key is under the red pot", user_id="stays")
            await memory.delete_all_memories(user_id="gone")
            assert file.stat().st_size < before - 6 * 190_000
            with closing(sqlite3.connect(file)) as connection:
                assert free_pages(connection) == 0
            await other.add_memory("The spare key is under the blue pot", user_id="stays")
    assert problems_of_file(file) == []


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=300), st.booleans(), st.randoms(use_true_random=False))
def test_gaps_of_pages_hold_no_byte_that_means_anything(lengths: list[int], has_maps: bool, chance: object) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA page_size = 512")
        connection.execute(f"PRAGMA auto_vacuum = {'INCREMENTAL' if has_maps else 'NONE'}")
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("CREATE TABLE texts (key INTEGER PRIMARY KEY, text TEXT, mark INTEGER)")
        connection.execute("CREATE INDEX by_text ON texts (text, mark)")
        order = list(enumerate(lengths))
        chance.shuffle(order)  # type: ignore[attr-defined]
        for key, length in order:
            connection.execute("INSERT INTO texts VALUES (?, ?, ?)", (key, f"{key}" + "x" * length, length))
        connection.execute("DELETE FROM texts WHERE mark % 3 = 0")
        connection.commit()
        kept = connection.execute("SELECT * FROM texts ORDER BY key").fetchall()
        image = bytearray(connection.serialize())
    size = int.from_bytes(image[16:18], "big")
    for start in range(0, len(image), size):
        if has_maps and is_map(start // size + 1, size=size, usable=size):
            continue
        page = bytes(image[start : start + size])
        for begin, end in find_gaps(page, header=100 if start == 0 else 0, usable=size):
            image[start + begin : start + end] = bytes(end - begin)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(bytes(image))
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT * FROM texts ORDER BY key").fetchall() == kept


@pytest.mark.parametrize("page", [bytes(512), b"\x0d" + b"\xff" * 511, b"\x00\x00\x00\x05" + b"text" * 127])
def test_a_page_that_is_no_sound_tree_page_has_no_gaps(page: bytes) -> None:
    assert find_gaps(page, header=0, usable=512) == []
