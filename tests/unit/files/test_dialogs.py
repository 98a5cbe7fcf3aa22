"""What was said is kept in files, found with file and line, and comes back where the database was lost."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reme_core import FileMemory, ReMe
from reme_core.errors import InvalidInputError
from reme_core.files.dialogs import _skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "files"


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path / "store", llm=None, embedding=None) as opened:
        yield opened


@pytest.fixture
def files(memory: ReMe, root: Path) -> FileMemory:
    return FileMemory(root, user_id="ann", memory=memory)


def said(text: str, number: int, name: str = "Ann") -> dict[str, str]:
    return {
        "message_id": f"m{number}",
        "role": "user",
        "name": name,
        "content": text,
        "created_at": f"2026-11-22T10:{number:02}:00Z",
    }


async def test_a_message_is_found_with_its_file_and_line_beside_statements(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    await memory.add_memory("has a cello at home", user_id="ann")
    await files.add_dialog([said("Hello there", 1), said("My cello teacher is Pablo", 2)], session_id="s1")
    hits = await files.memory_search("who teaches the cello")
    assert [(hit.path, hit.start_line, hit.end_line) for hit in hits if hit.message_id == "m2"] == [
        ("dialog/2026-11-22.jsonl", 2, 2)
    ]
    assert [hit.path for hit in hits if hit.memory_id is not None] == ["MEMORY.md"]
    assert "Pablo" in (await files.memory_get("dialog/2026-11-22.jsonl", 2, 2)).text
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


async def test_what_was_said_comes_back_from_the_files_alone_with_sessions_and_times(
    tmp_path: Path, files: FileMemory, memory: ReMe, root: Path
) -> None:
    await files.add_dialog([said("My parrot is called Coco", 1), said("It talks", 2)], session_id="s1")
    await files.add_dialog([said("Coco sings", 3)])
    before = {item.message.message_id: item for item in (await memory.find_messages(user_id="ann")).messages}
    shutil.rmtree(root / ".reme")
    async with ReMe("new", tmp_path / "new", llm=None, embedding=None) as other:
        found = await FileMemory(root, user_id="bo", memory=other).rebuild()
        assert found.problems == ()
        again = {item.message.message_id: item for item in (await other.find_messages(user_id="bo")).messages}
        assert again == before
        assert again["m1"].session_id == "s1"
        [hit] = (await other.retrieve("parrot's name", user_id="bo", limit=1)).results
        assert "Coco" in hit.memory


async def test_messages_that_the_memory_has_already_are_not_added_twice(files: FileMemory, memory: ReMe) -> None:
    await memory.summary([said("My parrot is called Coco", 1)], user_id="ann", session_id="s1")
    await files.add_dialog([said("My parrot is called Coco", 1)])
    assert (await files.rebuild()).problems == ()
    assert len((await memory.find_messages(user_id="ann")).messages) == 1
    assert [hit.path for hit in await files.memory_search("parrot")] == ["dialog/2026-11-22.jsonl"]


async def test_lines_that_a_synchronised_folder_brings_are_taken_over_and_none_is_lost_by_a_removal(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    await files.add_dialog([said("Hello", 1)])
    path = root / "dialog" / "2026-11-22.jsonl"
    path.write_text(path.read_text() + json.dumps(said("The ferry leaves at nine", 2)) + "\n")
    await files.sync()
    hit, *_ = await files.memory_search("ferry")
    assert (hit.start_line, hit.message_id) == (2, "m2")
    path.unlink()
    await files.sync()
    assert await files.memory_search("ferry") == []
    assert len((await memory.find_messages(user_id="ann")).messages) == 2


@pytest.mark.parametrize(
    "line", ["no json", "[]", '"text"', '{"role": "user"}', '{"role": "user", "content": "x", "session_id": 3}', "\xff"]
)
async def test_a_line_that_is_no_message_is_told_until_it_is_corrected_and_stops_no_other(
    files: FileMemory, memory: ReMe, root: Path, line: str
) -> None:
    path = root / "dialog" / "2026-11-22.jsonl"
    path.parent.mkdir(parents=True)
    good = json.dumps(said("Fine", 1)).encode()
    path.write_bytes(line.encode("latin-1") + b"\n\n" + good + b"\n")
    for _ in range(2):
        [problem] = (await files.sync()).problems
        assert problem.path == "dialog/2026-11-22.jsonl:1"
        assert "correct it, or remove the line" in problem.message
    assert [hit.message_id for hit in await files.memory_search("fine")] == ["m1"]
    path.write_bytes(good + b"\n")
    assert (await files.sync()).problems == ()


async def test_a_line_without_an_id_and_a_time_is_one_message_of_the_files_day_however_often_it_is_read(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    (root / "dialog").mkdir(parents=True, exist_ok=True)
    page = root / "dialog" / "2026-11-20.jsonl"
    page.write_text('{"role": "user", "content": "I have a walrus."}\nno message\n')
    for _ in range(3):
        assert len((await files.sync()).problems) == 1
    [hit] = await files.memory_search("walrus")
    assert (hit.path, hit.start_line) == ("dialog/2026-11-20.jsonl", 1)


async def test_a_dialogue_that_is_a_link_is_not_read(tmp_path: Path, files: FileMemory, root: Path) -> None:
    (tmp_path / "secret.jsonl").write_text(json.dumps(said("The secret", 1)) + "\n")
    (root / "dialog").mkdir(parents=True)
    (root / "dialog" / "2026-11-22.jsonl").symlink_to(tmp_path / "secret.jsonl")
    await files.sync()
    assert await files.memory_search("secret") == []


async def test_of_a_dialogue_that_grows_only_what_is_new_is_read_and_one_that_was_rewritten_is_read_whole(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    await files.add_dialog([said("Hello", 1)])
    path = root / "dialog" / "2026-11-22.jsonl"
    size = path.stat().st_size
    await files.add_dialog([said("The ferry leaves at nine", 2)])
    mark = (await files.status()).state.dialogs["dialog/2026-11-22.jsonl"]
    assert (mark[0], mark[2]) == (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
    with path.open("rb") as file:
        assert _skip(file, (size, 0, hashlib.sha256(path.read_bytes()[:size]).hexdigest()))[0] == 1
        assert file.tell() == size
    other = json.dumps(said("Another machine wrote this first", 0)) + "\n"
    path.write_text(other + path.read_text() + json.dumps(said("And the bus at ten", 3)) + "\n")
    await files.sync()
    held = {item.message.message_id for item in (await memory.find_messages(user_id="ann")).messages}
    assert held == {"m0", "m1", "m2", "m3"}
    with path.open("a") as file:
        file.write(json.dumps(said("A line without an end", 4)))
    await files.sync()
    await files.add_dialog([said("And one behind it", 5)])
    held = {item.message.message_id for item in (await memory.find_messages(user_id="ann")).messages}
    assert held == {f"m{number}" for number in range(6)}
    with path.open("a") as file:
        file.write("no message\n")
    [problem] = (await files.sync()).problems
    assert problem.path == "dialog/2026-11-22.jsonl:7"


async def test_an_image_that_is_elsewhere_or_broken_costs_its_line_alone_and_no_caption(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    elsewhere = {"type": "image", "url": "sha256:" + "0" * 64, "size": 3, "caption": "a red door"}
    broken = {"type": "image", "data": "*", "caption": "a blue door"}
    (root / "dialog").mkdir(parents=True)
    lines = [{**said("", number), "content": [part]} for number, part in ((1, elsewhere), (2, broken))]
    page = root / "dialog" / "2026-11-22.jsonl"
    page.write_text("".join(json.dumps(line) + "\n" for line in [*lines, said("And a green gate", 3)]))
    problems = [str(problem) for problem in (await files.sync()).problems]
    assert [("no image or file" in told, "base64" in told) for told in problems] == [(False, True), (True, False)]
    found = (await memory.find_messages(user_id="ann")).messages
    assert [item.message.full_text for item in found] == ["[image: a red door]", "And a green gate"]


async def test_what_is_taken_for_a_dialogue_can_be_read_from_it_however_large_and_nothing_else_is_written(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    with pytest.raises(InvalidInputError, match="base64"):
        await files.add_dialog([said("tea", 1), {**said("", 2), "content": [{"type": "image", "data": "*"}]}])
    assert not (root / "dialog").exists()
    await files.add_dialog([{**said("", 3), "content": [{"type": "image", "data": bytes(12_600_000)}]}])
    assert (await files.sync()).problems == ()
    assert (await memory.stats(user_id="ann")).blob_bytes == 12_600_000
