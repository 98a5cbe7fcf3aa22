"""What a chat costs on disk: transactions, statements and bytes."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from reme_core import Database, ReMe
from reme_core.errors import ReMeError
from reme_langchain import ReMeSaver
from reme_langchain.saver._shared_commits import SharedCommits


def at(thread: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


def checkpoint(number: int, **values: object) -> Checkpoint:
    made = empty_checkpoint()
    made["id"] = str(uuid6(clock_seq=number))
    made["channel_values"] = values
    made["channel_versions"] = dict.fromkeys(values, f"{number:016}.0")
    return made


async def put(saver: ReMeSaver, thread: str, number: int, **values: object) -> Any:
    made = checkpoint(number, **values)
    return await saver.aput(at(thread), made, {}, made["channel_versions"])


async def read(saver: ReMeSaver, thread: str) -> Any:
    found = await saver.aget_tuple(at(thread))
    assert found is not None
    return found.checkpoint["channel_values"]["messages"]


def commits(log: Path) -> int:
    """Count the transactions of a write-ahead log: https://sqlite.org/fileformat.html#the_write_ahead_log."""
    data = log.read_bytes()
    frame = 24 + int.from_bytes(data[8:12], "big")
    salt = data[16:24]
    frames = (data[start : start + 24] for start in range(32, len(data), frame))
    return sum(head[8:16] == salt and head[4:8] != bytes(4) for head in frames)


async def busy(memory: ReMe, release: threading.Event) -> None:
    """Keep the thread that writes, as a slow disk does, until it is released."""
    await memory.database.write(lambda _: release.wait(20), within=None)


async def behind_a_slow_commit(memory: ReMe, saver: ReMeSaver, *calls: Any) -> list[Any]:
    release = threading.Event()
    slow = asyncio.ensure_future(busy(memory, release))
    await asyncio.sleep(0)
    asked = [asyncio.ensure_future(call) for call in calls]
    for _ in range(5):
        await asyncio.sleep(0)  # each of them waits for the file by then
    release.set()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    await slow
    return answers


async def test_writes_that_come_during_a_commit_share_the_next_one(tmp_path: Path) -> None:
    async with ReMe("m", tmp_path, llm=None, embedding=None) as memory:
        saver = ReMeSaver(memory)
        await put(saver, "t", 0, x=1)
        log = tmp_path / "memory.db-wal"
        before = commits(log)
        await behind_a_slow_commit(memory, saver, *(put(saver, f"t{n}", 1, x=n) for n in range(8)))
        assert commits(log) - before <= 2  # the first, which found the queue empty, and the others
        for n in range(8):
            found = await saver.aget_tuple(at(f"t{n}"))
            assert found is not None
            assert found.checkpoint["channel_values"] == {"x": n}


async def test_a_write_that_fails_takes_no_other_with_it(tmp_path: Path) -> None:
    async with ReMe("m", tmp_path, llm=None, embedding=None) as memory:
        saver = ReMeSaver(memory)
        await put(saver, "full", 0, x=1)
        said = [HumanMessage("hello", id="1")]
        answers = await behind_a_slow_commit(
            memory,
            saver,
            put(saver, "a", 1, messages=said),
            saver.acopy_thread("a", "full"),
            put(saver, "b", 1, messages=said),
        )
        assert [isinstance(answer, ReMeError) for answer in answers] == [False, True, False]
        for thread in "ab":
            found = await saver.aget_tuple(at(thread))
            assert found is not None
            assert found.checkpoint["channel_values"]["messages"] == said


async def test_what_follows_a_removal_in_one_commit_is_written_anew(tmp_path: Path) -> None:
    one = [HumanMessage("hello", id="1")]
    two = [*one, HumanMessage("again", id="2")]
    three = [*two, HumanMessage("at last", id="3")]
    async with ReMe("m", tmp_path, llm=None, embedding=None) as memory:
        saver = ReMeSaver(memory)
        for thread in ("deleted", "pruned"):
            await put(saver, thread, 1, messages=two)
            await put(saver, thread, 2, messages=one)
        await behind_a_slow_commit(
            memory,
            saver,
            saver.adelete_thread("deleted"),
            put(saver, "deleted", 3, messages=three),
            saver.aprune(["pruned"]),
            put(saver, "pruned", 3, messages=three),
        )
        for thread in ("deleted", "pruned"):
            found = await saver.aget_tuple(at(thread))
            assert found is not None
            assert found.checkpoint["channel_values"]["messages"] == three


async def test_a_copy_goes_to_a_thread_that_had_writes_alone(tmp_path: Path) -> None:
    async with ReMeSaver.from_path(tmp_path / "m.db") as saver:
        stored = await put(saver, "source", 1, x=1)
        ahead = {"configurable": stored["configurable"] | {"thread_id": "target"}}
        await saver.aput_writes(ahead, [("x", 2)], "task")
        await saver.acopy_thread("source", "target")
        found = await saver.aget_tuple(at("target"))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"x": 1}


_FORK = """
import os, sys, threading
from reme_langchain.saver._saver_file import SaverFile
file = SaverFile(sys.argv[1])
file.write(lambda connection, known: 1)
began, release = threading.Event(), threading.Event()
slow = file.begin(lambda connection, known: (began.set(), release.wait(20)))
began.wait(20)
bad = file.begin(lambda connection, known: 1 / 0)
good = file.begin(lambda connection, known: 2)
threading.Timer(0.3, release.set).start()
if os.fork() == 0:
    os._exit(0)
os.wait()
assert isinstance(bad.exception(20), ZeroDivisionError)
assert good.result(20) == 2
file.close()
"""


def test_a_fork_waits_for_writes_of_which_one_fails(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _FORK, str(tmp_path / "m.db")], check=True, timeout=30)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that SQLite is given from now on."""
    seen: list[str] = []
    connect = sqlite3.connect

    def traced(*args: Any, **options: Any) -> sqlite3.Connection:
        made = connect(*args, **options)
        made.set_trace_callback(seen.append)
        return made

    monkeypatch.setattr(sqlite3, "connect", traced)
    return seen


async def test_a_put_of_a_running_chat_takes_few_statements(tmp_path: Path, seen: list[str]) -> None:
    # Python gives up its lock for each, and a busy thread keeps it for up to 5 ms.
    async with ReMeSaver.from_path(tmp_path / "m.db") as saver:
        said = [HumanMessage("0", id="0")]
        for number in range(1, 4):
            said.append(HumanMessage(f"{number}", id=f"{number}"))
            seen.clear()
            await put(saver, "t", number, messages=said)
        assert len(seen) <= 5  # begin, removals, message, checkpoint, commit
        await saver.aget_tuple(at("t"))  # the first one opens a connection
        seen.clear()
        await saver.aget_tuple(at("t"))
        assert len(seen) <= 5  # begin, checkpoint, writes, messages, commit


async def test_what_was_read_of_a_list_is_not_read_again(tmp_path: Path, seen: list[str]) -> None:
    async with ReMeSaver.from_path(tmp_path / "m.db") as saver:
        said = [HumanMessage(f"{number}", id=f"{number}") for number in range(100)]
        await put(saver, "t", 1, messages=said)
        assert await read(saver, "t") == said
        said.append(HumanMessage("new", id="new"))
        await put(saver, "t", 2, messages=said)
        seen.clear()
        assert await read(saver, "t") == said
        assert sum("FROM langgraph_blobs" in statement for statement in seen) == 1  # the new one
        seen.clear()
        assert await read(saver, "t") == said
        assert not any("FROM langgraph_blobs" in statement for statement in seen)


async def test_a_number_that_is_given_again_stands_for_what_has_it_now(tmp_path: Path) -> None:
    async with ReMeSaver.from_path(tmp_path / "m.db") as saver, ReMeSaver.from_path(tmp_path / "m.db") as other:
        for number, text in enumerate(["the first", "the second", "the third"]):
            said = [HumanMessage(f"{text} {each}", id=f"{each}") for each in range(40)]
            await put(other if number % 2 else saver, "t", number, messages=said)
            assert await read(saver, "t") == await read(other, "t") == said
            await (saver if number % 2 else other).adelete_thread("t")
            assert await saver.aget_tuple(at("t")) is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_the_child_of_a_fork_writes_although_a_thread_of_its_parent_was_about_to(tmp_path: Path) -> None:
    async with ReMe("m", tmp_path, llm=None, embedding=None) as memory:
        saver, release, statuses = ReMeSaver(memory), threading.Event(), list[int]()
        await put(saver, "parent", 1, x=1)
        database, commits = saver._file.database, saver._file._commits
        assert isinstance(database, Database)
        assert isinstance(commits, SharedCommits)

        def fork() -> None:
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                made = checkpoint(3, x=3)
                saver.put(at("child"), made, {}, made["channel_versions"])
                os._exit(0)
            statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

        def write() -> None:
            made = checkpoint(2, x=2)
            saver.put(at("parent"), made, {}, made["channel_versions"])

        database.submit_write(lambda _: release.wait(20))
        forking, writing = threading.Thread(target=fork), threading.Thread(target=write)
        forking.start()
        while forking.is_alive() and not database._gate.locked():  # noqa: ASYNC110  # the fork has begun
            await asyncio.sleep(0)
        writing.start()
        while writing.is_alive() and not commits._submitting.locked():  # noqa: ASYNC110  # it says so to nobody
            await asyncio.sleep(0)
        release.set()
        await asyncio.to_thread(forking.join, 30)
        await asyncio.to_thread(writing.join, 30)
        assert statuses == [0]
        assert [saver.get_tuple(at(thread)) is not None for thread in ("parent", "child")] == [True, True]


async def test_a_write_for_which_no_thread_can_begin_fails_and_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ReMeSaver.from_path(tmp_path / "m.db", synchronous="NORMAL") as saver:
        await put(saver, "t", 1, x=1)
        database = saver._file.database
        assert isinstance(database, Database)
        database.before_fork()  # its threads end
        database.after_fork()

        def start(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", start)
            for number in (2, 3):
                with pytest.raises(RuntimeError, match="new thread"):
                    await asyncio.wait_for(put(saver, "t", number, x=number), 20)
        await put(saver, "t", 4, x=4)
        assert [found.checkpoint["channel_values"] for found in saver.list(at("t"))] == [{"x": 4}, {"x": 1}]


def test_a_write_ends_although_the_loop_that_asked_for_it_was_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()

    async def leave(saver: ReMeSaver) -> None:
        await put(saver, "t", 0, x=0)
        kept = saver._file.database.submit_write(lambda _: release.wait(20))
        asyncio.ensure_future(put(saver, "t", 1, x=1))  # noqa: RUF006  # the end of the loop cancels it
        for _ in range(3):
            await asyncio.sleep(0)
        assert not kept.done()

    with ReMeSaver.from_path(tmp_path / "m.db") as saver:
        asyncio.run(leave(saver))
        release.set()
        saver.put(at("other"), checkpoint(2, x=2), {}, {"x": f"{2:016}.0"})  # after it
        found = saver.get_tuple(at("t"))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"x": 1}
    assert not caplog.records


async def test_a_put_writes_one_page(tmp_path: Path) -> None:
    # The bundled saver writes its row and an index of it.
    log, sizes = tmp_path / "m.db-wal", []
    async with ReMeSaver.from_path(tmp_path / "m.db") as saver:
        for number in range(10):
            await put(saver, "t", number, x="a" * 1000)
            sizes.append(log.stat().st_size)
    assert statistics.median(after - before for before, after in pairwise(sizes)) == 24 + 4096


async def test_a_value_that_stays_is_written_once_beside_the_checkpoints(tmp_path: Path) -> None:
    stays = random.Random(1).randbytes(300).hex()  # which nothing makes short
    async with ReMeSaver.from_path(tmp_path / "m.db") as saver:
        parent = at("t")
        for number in range(30):
            made = checkpoint(number, stays=stays, counter=number)
            made["channel_versions"]["stays"] = "1"
            new = {"counter": made["channel_versions"]["counter"], **({} if number else {"stays": "1"})}
            parent = await saver.aput(parent, made, {}, new)
        found = [tuple_.checkpoint["channel_values"] async for tuple_ in saver.alist(at("t"))]
        assert found == [{"stays": stays, "counter": number} for number in reversed(range(30))]

        def bytes_of(connection: sqlite3.Connection) -> tuple[int, int]:
            (rows,) = connection.execute("SELECT sum(length(entries)) FROM langgraph_checkpoints").fetchone()
            (blobs,) = connection.execute("SELECT sum(length(data)) FROM langgraph_blobs").fetchone()
            return rows, blobs

        rows, blobs = await saver._file.aread(bytes_of)
        assert rows + blobs < 3 * len(stays)


_FORMER_TABLES = """
    DROP VIEW langgraph_thread_bytes; DROP INDEX langgraph_payloads;
    DROP VIEW langgraph_thread_checkpoints; DROP TRIGGER langgraph_thread_ends; DROP INDEX langgraph_runs;
    CREATE TABLE langgraph_values (id INTEGER PRIMARY KEY, thread INTEGER NOT NULL, ns TEXT NOT NULL,
        channel TEXT NOT NULL, form INTEGER NOT NULL, type TEXT NOT NULL, data BLOB NOT NULL);
    ALTER TABLE langgraph_checkpoints RENAME COLUMN entries TO refs;
    CREATE INDEX langgraph_runs ON langgraph_checkpoints (run) WHERE run IS NOT NULL;
    CREATE VIEW langgraph_thread_checkpoints AS SELECT erased_with FROM langgraph_threads
        JOIN langgraph_checkpoints ON thread = langgraph_threads.id;
    CREATE TRIGGER langgraph_thread_ends AFTER DELETE ON langgraph_threads BEGIN
        DELETE FROM langgraph_values WHERE id IN (SELECT each.value FROM langgraph_checkpoints c, json_each(c.refs) each
            WHERE c.thread = OLD.id AND each.value IS NOT NULL);
        DELETE FROM langgraph_checkpoints WHERE thread = OLD.id;
    END;
    UPDATE langgraph_meta SET value = 3 WHERE name = 'version';
"""


def make_version_3(connection: sqlite3.Connection) -> None:
    """Give a file the tables that it had: values in one of their own, to which checkpoints refer."""
    connection.executescript(_FORMER_TABLES)
    kept: dict[tuple[Any, ...], int] = {}
    for thread, ns, id_, entries in connection.execute(
        "SELECT thread, ns, checkpoint_id, refs FROM langgraph_checkpoints"
    ).fetchall():
        refs: dict[str, int | None] = {}
        for channel, entry in ormsgpack.unpackb(entries).items():
            row = (thread, ns, channel, *(entry or ()))
            if entry is not None and row not in kept:
                sql = "INSERT INTO langgraph_values VALUES (NULL, ?, ?, ?, ?, ?, ?) RETURNING id"
                (kept[row],) = connection.execute(sql, row).fetchone()
            refs[channel] = None if entry is None else kept[row]
        connection.execute(
            "UPDATE langgraph_checkpoints SET refs = ? WHERE thread = ? AND ns = ? AND checkpoint_id = ?",
            (json.dumps(refs), thread, ns, id_),
        )


# A number for each checkpoint.
_VERSION_2 = """
    DROP VIEW langgraph_thread_checkpoints; DROP TRIGGER langgraph_thread_ends; DROP INDEX langgraph_runs;
    ALTER TABLE langgraph_checkpoints RENAME TO other;
    CREATE TABLE langgraph_checkpoints (id INTEGER PRIMARY KEY, thread INTEGER NOT NULL, ns TEXT NOT NULL,
        checkpoint_id TEXT NOT NULL, parent TEXT, run TEXT, hidden INTEGER NOT NULL DEFAULT 0,
        type TEXT NOT NULL, body BLOB NOT NULL, metadata TEXT NOT NULL, refs TEXT NOT NULL,
        UNIQUE (thread, ns, checkpoint_id));
    INSERT INTO langgraph_checkpoints SELECT NULL, * FROM other; DROP TABLE other;
    UPDATE langgraph_meta SET value = 2 WHERE name = 'version';
"""
# A number for each write, and no owner of a thread.
_VERSION_1 = """
    ALTER TABLE langgraph_threads DROP COLUMN erased_with;
    ALTER TABLE langgraph_writes RENAME TO other; CREATE TABLE langgraph_writes (id INTEGER PRIMARY KEY,
        thread INTEGER NOT NULL, ns TEXT NOT NULL, checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL,
        idx INTEGER NOT NULL, task_path TEXT NOT NULL, channel TEXT NOT NULL, form INTEGER NOT NULL,
        type TEXT NOT NULL, data BLOB NOT NULL, UNIQUE (thread, ns, checkpoint_id, task_id, idx));
    INSERT INTO langgraph_writes SELECT NULL, * FROM (SELECT thread, ns, checkpoint_id, task_id, idx,
        task_path, channel, form, type, data FROM other); DROP TABLE other;
    ALTER TABLE langgraph_values ADD COLUMN version; UPDATE langgraph_values SET version = id;
    UPDATE langgraph_meta SET value = 1 WHERE name = 'version'
"""


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_file_of_an_earlier_version_keeps_its_checkpoints(tmp_path: Path, version: int) -> None:
    path = tmp_path / "m.db"
    said = [HumanMessage(f"{n}", id=f"{n}") for n in range(70)]
    async with ReMeSaver.from_path(path) as saver:
        for number in range(3):
            long = random.Random(number).randbytes(200).hex()
            stored = await put(saver, "t", number, x=number, long=long, messages=said[: 66 + number])
            await saver.aput_writes(stored, [("x", 2), ("y", "long " * 50)], "task", "path")
        await put(saver, "other", 4, x="kept")
        expected = [found async for found in saver.alist(None)]
    with sqlite3.connect(path) as connection:
        make_version_3(connection)
        connection.executescript("".join((_VERSION_2, _VERSION_1)[: 3 - version]))
    connection.close()
    for _ in range(2):  # it is moved once
        async with ReMeSaver.from_path(path) as saver:
            assert [found async for found in saver.alist(None)] == expected
    async with ReMeSaver.from_path(path) as saver:
        await put(saver, "t", 5, messages=said)
        await saver.adelete_thread("t")
        assert [found async for found in saver.alist(None)] == expected[:1]
    with sqlite3.connect(path) as connection:
        for table, left in (("threads", 1), ("checkpoints", 1), ("writes", 0), ("blobs", 0)):
            found = connection.execute(f"SELECT count(*) FROM langgraph_{table}")  # noqa: S608  # constants
            assert found.fetchone() == (left,)
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        assert not {name for name in names if "before" in name or name == "langgraph_values"}
    connection.close()
