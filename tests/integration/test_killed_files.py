"""Files that a killed process was writing are old or new, and what it left undone is done by the next sync."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from reme_core import FileMemory, Folders, ReMe
from reme_core.files.store_changes import list_all
from reme_core.ports import MemoryFilter
from reme_core.schema import STATEMENTS, make_scope
from tests.support.file_children import (
    edit_as_a_person,
    remember_with_files,
    sync_folder_of,
    version,
    write_versions,
)
from tests.support.new_processes import NEW_PROCESSES


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.torture) for seed in range(4, 16))])
def test_a_page_is_whole_wherever_its_writer_was_killed(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "page.md"
    path.write_bytes(version(0))
    ours, theirs = NEW_PROCESSES.Pipe(duplex=False)
    child = NEW_PROCESSES.Process(target=write_versions, args=(path, theirs))
    child.start()
    chance, begun = random.Random(seed), 0
    for _ in range(5 + chance.randrange(20)):
        begun = int(ours.recv_bytes())
    for _ in range(chance.randrange(2000)):
        path.read_bytes()[:1]
        if chance.random() < 0.01:
            break
    child.kill()
    child.join()
    while ours.poll():
        begun = int(ours.recv_bytes())
    read = path.read_bytes()
    number = int(read.split(b"\n", 1)[0].split()[1])
    assert read == version(number)
    assert number in {begun, begun - 1}


@pytest.mark.parametrize(
    "marked", [0, 3, 17, *(pytest.param(some, marks=pytest.mark.torture) for some in (1, 8, 23, 39))]
)
async def test_a_sync_that_was_killed_is_completed_by_the_next_one(tmp_path: Path, marked: int) -> None:
    root = tmp_path / "files"
    (root / "targets" / "personal").mkdir(parents=True)
    for number in range(40):
        page = root / "targets" / "personal" / f"p{number}.md"
        page.write_text(f"# P{number}\n\n- likes fish {number}\n- lives in street {number}\n\nMet in {number}.\n")
    ours, theirs = NEW_PROCESSES.Pipe(duplex=False)
    child = NEW_PROCESSES.Process(target=sync_folder_of, args=(tmp_path / "store", root, theirs))
    child.start()
    assert ours.recv_bytes() == b"begins"
    while sum("^mem-" in page.read_text() for page in root.rglob("*.md")) < marked:
        pass
    child.kill()
    child.join()
    async with ReMe("space", tmp_path / "store", llm=None, embedding=None) as memory:
        files = FileMemory(root, user_id="ann", memory=memory)
        await files.sync()
        held = await memory.list_memories(user_id="ann", limit=1000)
        assert len(held.memories) == 80
        for item in held.memories:
            page = (root / "targets" / "personal" / f"{item.memory_target}.md").read_text()
            assert page.count(f"- {item.content} ^mem-{item.memory_id}\n") == 1
        passages = await memory.list_memories(user_id="ann", memory_type="passage", limit=1000)
        assert len(passages.memories) == 80
        again = await files.sync()
        assert (again.runs, again.written, again.problems) == ((), (), ())


async def test_a_person_and_an_agent_who_write_one_file_at_once_lose_no_line(tmp_path: Path) -> None:
    root, seconds = tmp_path / "files", float(os.environ.get("REME_FILES_SECONDS", "1"))
    root.mkdir()
    page = root / "MEMORY.md"
    page.write_text("# Me\n")
    ours, theirs = NEW_PROCESSES.Pipe(duplex=False)
    child = NEW_PROCESSES.Process(target=edit_as_a_person, args=(page, seconds, theirs))
    async with ReMe("space", tmp_path / "store", llm=None, embedding=None) as memory:
        files = FileMemory(root, user_id="ann", memory=memory)
        child.start()
        written = 0
        while child.is_alive():
            await memory.add_memory(f"by agent {written}", user_id="ann")
            await files.sync()
            written += 1
        child.join()
        await files.sync()
        count = int(ours.recv_bytes())
        expected = {f"by hand {n}" for n in range(count)} | {f"by agent {n}" for n in range(written)}
        held = await list_all(memory.store, make_scope("space", "ann", shared=False), MemoryFilter(types=STATEMENTS))
    assert child.exitcode == 0
    assert {item.content for item in held} == expected
    lines = [line for line in page.read_text().splitlines() if line.startswith("- ")]
    assert sorted(line[2:].split(" ^mem-")[0] for line in lines) == sorted(expected)


async def test_files_beside_a_killed_memory_follow_later_and_hold_nothing_twice(tmp_path: Path) -> None:
    root = tmp_path / "files"
    for acknowledged in (1, 7, 12):
        ours, theirs = NEW_PROCESSES.Pipe(duplex=False)
        child = NEW_PROCESSES.Process(target=remember_with_files, args=(tmp_path / "store", root, theirs))
        child.start()
        for _ in range(acknowledged):
            ours.recv_bytes()
        child.kill()
        child.join()
        async with ReMe(
            "space", tmp_path / "store", llm=None, embedding=None, files=Folders(users={"ann": root})
        ) as memory:
            await memory.list_memories(user_id="ann")
            said = (await memory.find_messages(user_id="ann", limit=1000)).messages
            texts, _ = await memory.list_offloads(user_id="ann", limit=1000)
            assert await FileMemory(root, user_id="ann", memory=memory).check() == []
        lines = [line for day in sorted((root / "dialog").iterdir()) for line in day.read_text().splitlines()]
        assert [json.loads(line)["message_id"] for line in lines] == [item.message.message_id for item in said]
        journal = "".join(day.read_text() for day in (root / "memory").iterdir())
        assert [journal.count(f"> user: said {number}\n") for number in range(len(said))] == [1] * len(said)
        assert {path.stem for path in (root / "tool_result").iterdir()} == {info.reference for info in texts}
