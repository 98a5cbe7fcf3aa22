"""A working memory on disk: reopened, shared by objects and processes, killed, erased."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agentscope.message import Msg

from reme_agentscope.v1.working_memory import _contents as _held
from reme_agentscope.v1.working_memory import _memory_state as state
from reme_agentscope.v1.working_memory.memory import ReMeMemory
from reme_core import ReMe
from reme_core.errors import InvalidInputError, ReMeError
from tests.adapters.agentscope1.working_memory.memory_rules import BLOCKS, TEXTS, Mark, ids, said

ROOT = Path(__file__).parents[4]

CHILD = """
import asyncio, sys
from agentscope.message import Msg
from reme_agentscope.v1.working_memory.memory import ReMeMemory

async def main(location, name):
    memory = ReMeMemory(location=location)
    number = 0
    while True:
        msg = Msg(name, f"{name} {number}", "user")
        msg.id = f"{name}-{number}"
        await memory.add(msg, marks=[name])
        print(msg.id, flush=True)
        if sys.stdin.readline() == "stop\\n":
            break
        number += 1
    await memory.close()

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


def child(location: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CHILD, str(location), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def next_id(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def answer(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


@pytest.mark.requirement("AS1-MEM-26")
@pytest.mark.requirement("AS1-MEM-05")
@pytest.mark.requirement("AS1-MEM-06")
@pytest.mark.requirement("AS1-MEM-08")
async def test_a_reopened_memory_has_messages_marks_order_and_summary(tmp_path: Path) -> None:
    given = [said("blocks", BLOCKS, role="assistant", metadata={"a": [1]}, invocation_id="inv")]
    given += [said(str(place), text) for place, text in enumerate([*TEXTS, "a \ud83d b"])]
    async with ReMeMemory(location=tmp_path) as memory:
        await memory.add(given, marks=Mark.COMPRESSED)
        await memory.add(said("last"))
        await memory.update_compressed_summary("so far \ud83d")
    async with ReMeMemory(location=tmp_path) as again:
        shown = await again.get_memory(exclude_mark="compressed")
        assert [msg.content for msg in shown] == ["so far \ud83d", "text last"]
        await again.add(said("blocks", "another"))
        old = await again.get_memory(mark="compressed", prepend_summary=False)
        assert [msg.to_dict() for msg in old] == [msg.to_dict() for msg in given]
        assert old[0].invocation_id == "inv"


@pytest.mark.requirement("AS1-MEM-26")
async def test_what_is_read_first_need_not_be_awaited(tmp_path: Path) -> None:
    async with ReMeMemory(location=tmp_path) as memory:
        await memory.add(said("0"), marks="a")
        await memory.update_compressed_summary("so far")
    again = ReMeMemory(location=tmp_path)
    state = again.state_dict()
    assert state["_compressed_summary"] == again.get_compressed_summary() == "so far"
    assert [fields["id"] for fields, _ in state["content"]] == [msg.id for msg, _ in again.content] == ["0"]
    again.load_state_dict({"content": [[said("9").to_dict(), ["z"]]], "_compressed_summary": ""})
    other = ReMeMemory(location=tmp_path)
    assert await ids(other) == ["9"]
    await again.close()
    await other.close()


@pytest.mark.requirement("AS1-MEM-27")
async def test_sessions_and_users_share_nothing(tmp_path: Path) -> None:
    names = [("alice", "s"), ("alice", "t"), ("bob", "s")]
    memories = [ReMeMemory(location=tmp_path, user_id=user, session_id=session) for user, session in names]
    for number, memory in enumerate(memories):
        await memory.add([said("same", f"of {number}"), said("more")], marks=["m"])
        await memory.update_compressed_summary(f"summary {number}")
    first, *others = memories
    await first.delete(["more"])
    await first.update_messages_mark("x")
    await first.delete_by_mark("x")
    await first.clear()
    for number, memory in enumerate(others, 1):
        shown = await memory.get_memory(mark="m")
        assert [msg.content for msg in shown] == [f"summary {number}", f"of {number}", "text more"]
        assert await memory.get_memory(mark="x", prepend_summary=False) == []
    assert await first.get_memory() == []
    for memory in memories:
        await memory.close()


@pytest.mark.requirement("AS1-MEM-27")
@pytest.mark.parametrize("name", ["", " a", "a\nb", "../up", "s" * 5000, "🦜", "'; DROP TABLE agentscope_messages"])
async def test_any_session_name_is_a_name(tmp_path: Path, name: str) -> None:
    async with ReMeMemory(location=tmp_path, session_id=name, max_tokens=200) as memory:
        await memory.add([said(str(n), "word " * 60) for n in range(5)])
        await memory.get_memory()
        assert await memory.get_memory(mark="compressed", prepend_summary=False)
    async with ReMeMemory(location=tmp_path, session_id=name) as again:
        assert await again.size() == 5


@pytest.mark.requirement("AS1-MEM-27")
@pytest.mark.parametrize(
    "names", [{"session_id": "a\0"}, {"session_id": "\ud83d"}, {"user_id": "../x"}, {"user_id": "a\n"}]
)
def test_names_that_no_file_keeps_are_refused(tmp_path: Path, names: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError):
        ReMeMemory(location=tmp_path, **names)  # type: ignore[arg-type]


@pytest.mark.requirement("AS1-MEM-26")
async def test_two_open_objects_see_each_others_changes(tmp_path: Path) -> None:
    one, two = ReMeMemory(location=tmp_path), ReMeMemory(location=tmp_path)
    await one.add([said("0"), said("1")])
    await two.add([said("2"), said("0", "again")])
    kept = (await one.get_memory())[0]
    await two.update_messages_mark("m", msg_ids=["1"])
    await two.update_compressed_summary("by two")
    assert [msg.content for msg in await one.get_memory()] == ["by two", "text 0", "text 1", "text 2"]
    assert (await one.get_memory())[1] is kept
    await one.delete(["0"])
    assert await ids(two, prepend_summary=False) == ["1", "2"]
    assert await ids(one, mark="m", prepend_summary=False) == ["1"]
    await two.clear()
    assert await one.get_memory() == []
    await asyncio.gather(*(memory.add(said(f"{n}")) for n in range(10) for memory in (one, two)))
    assert sorted(await ids(one)) == sorted(await ids(two)) == [str(n) for n in range(10)]
    assert await ids(one) == await ids(two)
    await one.close()
    await two.close()


@pytest.mark.requirement("AS1-MEM-26")
async def test_a_killed_process_loses_nothing_that_it_had_acknowledged(tmp_path: Path) -> None:
    process = child(tmp_path, "a")
    mine = ReMeMemory(location=tmp_path)
    acknowledged: list[str] = []
    for turn in range(5):
        acknowledged.append(await asyncio.to_thread(next_id, process))
        if turn < 4:
            answer(process, "go on")
            await mine.add(said(f"mine-{turn}"))
            acknowledged.append(f"mine-{turn}")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert sorted(await ids(mine)) == sorted(acknowledged)
    await mine.close()
    async with ReMeMemory(location=tmp_path) as memory:
        assert sorted(await ids(memory)) == sorted(acknowledged)
        assert await ids(memory, mark="a") == [f"a-{n}" for n in range(5)]
    with sqlite3.connect(tmp_path / "memory.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


@pytest.mark.requirement("AS1-MEM-26")
async def test_only_what_has_changed_is_written(tmp_path: Path) -> None:
    async with ReMeMemory(location=tmp_path) as memory:
        await memory.add([said(str(n), "long " * 200) for n in range(50)])
        connection = sqlite3.connect(tmp_path / "memory.db")
        query = "SELECT position, body FROM agentscope_messages ORDER BY position"
        before = connection.execute(query).fetchall()
        await memory.add(said("more"))
        (await memory.get_memory())[3].content = "pruned by a client"
        await memory.flush()
        await memory.delete(["5"])
        after = connection.execute(query).fetchall()
        connection.close()
    gone = {before[5][0]}
    same = {row for row in before if row in after}
    assert same == {row for row in before if row[0] not in gone | {before[3][0]}}
    assert len(after) == 50
    assert b"pruned by a client" in dict(after)[before[3][0]]


@pytest.mark.requirement("AS1-MEM-26")
async def test_an_add_encodes_what_is_new_or_has_changed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[str] = []

    def encode(entry: Any) -> bytes:
        encoded.append(entry[0].id)
        return state.encode(entry)

    monkeypatch.setattr(_held, "encode", encode)
    async with ReMeMemory(location=tmp_path) as memory:
        await memory.add([said(str(n), [{"type": "text", "text": f"{n}"}], metadata={"a": [n]}) for n in range(50)])
        encoded.clear()
        await memory.add(said("new"))
        assert encoded == ["new"]
        shown: list[Any] = await memory.get_memory()
        shown[3].content[0]["text"] = "pruned"
        shown[4].metadata["a"].append("more")
        shown[5].name = "another"
        memory.content[6][1].append("mark")
        encoded.clear()
        await memory.add(said("newer"))
        assert sorted(encoded) == ["3", "4", "5", "6", "newer"]
        shown[7].metadata["a"] = [True]  # equal to another one for Python
        shown[1].metadata["a"] = [True]
        kept = memory.state_dict()
    async with ReMeMemory(location=tmp_path) as again:
        assert json.dumps(again.state_dict()) == json.dumps(kept)
        assert await again.get_memory() != []
        encoded.clear()
        await again.add(said("last"))
        assert encoded == ["last"]


@pytest.mark.requirement("AS1-MEM-23")
async def test_metadata_that_is_no_json_and_summaries_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    endless: list[Any] = []
    endless.append(endless)
    async with ReMeMemory(location=tmp_path) as memory:
        odd: Any = {(1, 2): "pair"}
        await memory.add(said("odd", metadata=odd))
        await memory.add(said("endless", metadata={"l": endless}))
        await memory.update_compressed_summary("so far")
        wrong: Any = 5
        with pytest.raises(TypeError):
            await memory.update_compressed_summary(wrong)
        with pytest.raises(TypeError):
            memory.load_state_dict({"content": [], "_compressed_summary": 5})
        json.dumps(memory.state_dict())
    async with ReMeMemory(location=tmp_path) as again:
        shown = await again.get_memory()
        assert [msg.get_text_content() for msg in shown] == ["so far", "text odd", "text endless"]
        assert shown[1].metadata == {"(1, 2)": "pair"}
        nothing: Any = None
        await again.update_compressed_summary(nothing)
        assert again.get_compressed_summary() == ""


async def test_what_clients_do_to_content_is_kept_by_the_next_write(tmp_path: Path) -> None:
    async with ReMeMemory(location=tmp_path) as memory:
        await memory.add([said("0"), said("1"), said("2")])
        memory.content = [memory.content[2], memory.content[0]]
        memory.content.append((said("3"), ["x"]))
        memory.content[0][1].append("y")
        await memory.flush()
    async with ReMeMemory(location=tmp_path) as again:
        assert await ids(again) == ["2", "0", "3"]
        assert await ids(again, mark="y") == ["2"]
        again.clear_content()
        assert await again.size() == 0
    async with ReMeMemory(location=tmp_path) as empty:
        assert await empty.size() == 0
        await empty.add(said("0"))
        assert await ids(empty) == ["0"]
    connection = sqlite3.connect(tmp_path / "memory.db")
    assert connection.execute("SELECT count(*) FROM agentscope_messages WHERE has_left").fetchone() == (3,)
    connection.close()


async def test_the_shared_scope_is_asked_for_by_name(tmp_path: Path) -> None:
    for user in ("", " "):
        with pytest.raises(InvalidInputError, match="shared=True"):
            ReMeMemory(location=tmp_path, user_id=user)
    with pytest.raises(InvalidInputError, match="two scopes"):
        ReMeMemory(location=tmp_path, user_id="alice", shared=True)
    shared, own = ReMeMemory(location=tmp_path, shared=True), ReMeMemory(location=tmp_path)
    await shared.add(said("0"))
    assert await ids(shared) == ["0"]
    assert await own.get_memory() == []
    await shared.close()
    await own.close()
    connection = sqlite3.connect(tmp_path / "memory.db")  # as files of before have it
    assert connection.execute("SELECT user FROM agentscope_sessions").fetchall() == [("",)]
    connection.close()


async def test_what_is_erased_is_gone_from_the_file_and_from_open_objects(tmp_path: Path) -> None:
    mine, other = ReMeMemory(location=tmp_path, user_id="alice"), ReMeMemory(location=tmp_path, user_id="bob")
    for memory in (mine, other):
        await memory.add(said("0", "a quagga"))
        await memory.update_compressed_summary("quaggas")
    async with ReMe(working_dir=tmp_path, llm=None, embedding=None) as core:
        await core.delete_all_memories(user_id="alice")
    assert await mine.get_memory() == []
    await mine.add(said("1"))
    assert await ids(mine) == ["1"]
    assert len(await other.get_memory()) == 2
    await mine.close()
    await other.close()


@pytest.mark.requirement("AS1-MEM-10")
@pytest.mark.parametrize("is_copy", [True, False])
async def test_returned_messages_are_the_stored_ones_unless_copies_are_wanted(is_copy: bool) -> None:
    memory = ReMeMemory(copy_on_read=is_copy)
    await memory.add(said("0", [{"type": "text", "text": "a"}]))
    (await memory.get_memory())[0].content[0]["text"] = "changed"  # type: ignore[index]
    [kept] = await memory.get_memory()
    assert kept.content == [{"type": "text", "text": "a" if is_copy else "changed"}]


async def test_an_add_that_can_not_be_written_is_not_acknowledged_and_can_be_said_again(tmp_path: Path) -> None:
    memory = ReMeMemory(location=tmp_path)
    await memory.add(said("0"))
    connection = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    connection.execute(
        "CREATE TRIGGER full BEFORE INSERT ON agentscope_messages BEGIN SELECT RAISE(ABORT, 'full'); END"
    )
    with pytest.raises(ReMeError):
        await memory.add(said("1"))
    assert await ids(memory) == ["0"]
    connection.execute("DROP TRIGGER full")
    connection.close()
    await memory.add(said("1"))
    await memory.close()
    async with ReMeMemory(location=tmp_path) as again:
        assert await ids(again) == ["0", "1"]


async def test_metadata_that_is_no_json_does_not_end_a_reply(tmp_path: Path) -> None:
    async with ReMeMemory(location=tmp_path) as memory:
        await memory.add(said("0", metadata={"at": tmp_path, "odd": object()}))
        json.dumps(memory.state_dict())
        assert await memory.size() == 1


async def test_a_cancelled_add_is_there_wholly_or_not_at_all(tmp_path: Path) -> None:
    async with ReMeMemory(location=tmp_path) as memory:
        await memory.add(said("0"))
        for number in range(1, 20):
            task = asyncio.create_task(memory.add([said(f"{number}a"), said(f"{number}b")]))
            for _ in range(number % 5):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await memory.add(said("last"))
        kept = await ids(memory)
    assert len(kept) == len(set(kept))
    assert {name[:-1] for name in kept if name.endswith("a")} == {name[:-1] for name in kept if name.endswith("b")}
    async with ReMeMemory(location=tmp_path) as again:
        assert await ids(again) == kept


def test_it_works_in_one_event_loop_after_another(tmp_path: Path) -> None:
    memory = ReMeMemory(location=tmp_path, max_tokens=200)

    async def turn(number: int) -> None:
        await asyncio.gather(*(memory.add(said(f"{number}.{n}", "word " * 30)) for n in range(5)))
        await asyncio.gather(*(memory.get_memory() for _ in range(3)))

    for number in range(3):
        asyncio.run(turn(number))
    asyncio.run(memory.close())
    assert len(memory.state_dict()["content"]) == 15
    asyncio.run(memory.close())


async def test_a_state_of_agentscopes_own_class_loads(tmp_path: Path) -> None:
    from agentscope.memory import InMemoryMemory

    theirs = InMemoryMemory()
    await theirs.add(said("0"), marks=Mark.HINT)
    await theirs.update_compressed_summary("so far")
    async with ReMeMemory(location=tmp_path) as memory:
        memory.load_state_dict(json.loads(json.dumps(theirs.state_dict())))
        assert await ids(memory, mark="hint", prepend_summary=False) == ["0"]
        theirs.load_state_dict(json.loads(json.dumps(memory.state_dict())))
    assert [msg.content for msg in await theirs.get_memory()] == ["so far", "text 0"]


async def test_clients_of_the_older_class_find_its_names() -> None:
    memory = ReMeMemory()
    await memory.add([said("0"), Msg("bot", [{"type": "text", "text": "answer"}], "assistant")])
    await memory.update_compressed_summary("so far")
    assert await memory.mark_messages_compressed([said("0")]) == 1
    use = await memory.estimate_tokens(max_input_length=1000)
    assert use["total_messages"] == len(use["messages_detail"]) == 1
    assert 0 < use["context_usage_ratio"] < 100
    assert "answer" in await memory.get_history_str(max_input_length=1000)
    memory.clear_compressed_summary()
    assert memory.get_compressed_summary() == ""
    memory.clear_content()
    assert memory.content == []
