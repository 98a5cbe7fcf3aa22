"""Folders that mean harm, as a cloned repository may: nothing of others is read or written, and no sync hangs."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reme_core import FileMemory, ReMe
from reme_core.errors import ConfigurationError, StoreAccessError
from reme_core.files import page_runs, writer
from reme_core.files.folder import MAX_FILE_BYTES
from reme_core.schema.memories import MAX_MEMORY_CHARS

DIARY = "keeps a diary under the floor"


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe(working_dir=tmp_path / "store", llm=None, embedding=None) as made:
        yield made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    return tmp_path / "notes"


@pytest.fixture
def files(memory: ReMe, root: Path) -> FileMemory:
    return FileMemory(root, user_id="ann", memory=memory)


async def contents(memory: ReMe, user_id: str = "ann") -> set[str]:
    return {item.content for item in (await memory.list_memories(user_id=user_id)).memories}


async def test_a_lock_that_is_a_link_changes_nothing_where_it_leads(files: FileMemory, root: Path) -> None:
    (root.parent / "precious").write_text("precious")
    (root / ".reme").mkdir()
    (root / ".reme" / "lock").symlink_to(root.parent / "precious")
    with pytest.raises(StoreAccessError):
        await files.sync()
    assert (root.parent / "precious").read_text() == "precious"


@pytest.mark.parametrize("name", [".reme", ".reme/folder.json"])
async def test_a_mark_behind_a_link_is_refused(files: FileMemory, root: Path, name: str) -> None:
    (root.parent / "outside").mkdir()
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).symlink_to(root.parent / "outside")
    with pytest.raises(ConfigurationError, match="link"):
        await files.sync()
    assert list((root.parent / "outside").iterdir()) == []


@pytest.mark.parametrize("folder_id", ["", "../x\0", "\ud800", "a" * 31])
async def test_a_damaged_mark_is_told(files: FileMemory, memory: ReMe, root: Path, folder_id: str) -> None:
    (root / ".reme").mkdir()
    mark = {"folder_id": folder_id, "memory_space": memory.memory_space, "user_id": "ann"}
    (root / ".reme" / "folder.json").write_text(json.dumps(mark))
    with pytest.raises(ConfigurationError, match="damaged"):
        await files.sync()


async def test_a_mark_that_names_another_users_folder_shows_and_changes_nothing_of_it(
    files: FileMemory, memory: ReMe, root: Path, tmp_path: Path
) -> None:
    (root / "MEMORY.md").write_text(f"- {DIARY}\n")
    (root / "private plan.md").write_text("a plan\n")
    await files.sync()
    (tmp_path / "eve" / ".reme").mkdir(parents=True)
    mark = json.loads((root / ".reme" / "folder.json").read_text()) | {"user_id": "eve"}
    (tmp_path / "eve" / ".reme" / "folder.json").write_text(json.dumps(mark))
    eve = FileMemory(tmp_path / "eve", user_id="eve", memory=memory)
    assert (await eve.status()).files == {}
    assert (await eve.sync()).written == ()
    assert await files.check() == []
    assert await contents(memory) == {DIARY}


async def test_a_folder_of_another_user_within_is_neither_read_nor_written(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    await FileMemory(root / "bo", user_id="bo", memory=memory).sync()
    (root / "bo" / "MEMORY.md").write_text(f"- {DIARY}\n")
    report = await files.sync()
    assert [problem.path for problem in report.problems] == ["bo"]
    assert await files.memory_search("diary under the floor") == []
    with pytest.raises(StoreAccessError):
        await files.memory_get("bo/MEMORY.md")


async def test_an_id_of_another_user_in_a_line_touches_nothing_of_theirs(
    files: FileMemory, memory: ReMe, root: Path, tmp_path: Path
) -> None:
    (root / "MEMORY.md").write_text(f"- {DIARY}\n")
    await files.sync()
    eve = FileMemory(tmp_path / "eve", user_id="eve", memory=memory)
    (tmp_path / "eve").mkdir()
    page = tmp_path / "eve" / "MEMORY.md"
    page.write_text((root / "MEMORY.md").read_text().replace(DIARY, "has no diary"))
    await eve.sync()
    assert (await contents(memory), await contents(memory, "eve")) == ({DIARY}, {"has no diary"})
    page.write_text("")
    await eve.sync()
    assert (await contents(memory), await contents(memory, "eve")) == ({DIARY}, set())
    assert await files.check() == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/".join(["d" * 60] * 12) + "/x.md", "words\n"),
        ("targets/personal/x.md", '---\ntarget: "\\ud800"\n---\n- words\n'),
        ("targets/personal/x.md", '---\ntarget: "a\\u0000b"\n---\n- words\n'),
        ("big.md", "x" * (MAX_FILE_BYTES + 1)),
        ("targets/personal/x.md", "- a\n" * (MAX_FILE_BYTES // 5)),
    ],
)
async def test_a_page_that_no_memory_can_be_about_is_told_and_stops_no_other(
    files: FileMemory, memory: ReMe, root: Path, path: str, text: str
) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)
    (root / "MEMORY.md").write_text("- drinks tea\n")
    report = await files.sync()
    assert [problem.path for problem in report.problems] == [path]
    assert await contents(memory) == {"drinks tea"}
    assert [problem.path for problem in await files.check()] == [path]


async def test_no_page_is_written_that_would_be_too_large_to_be_read_again(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    text = "text\n" + "x" * (MAX_FILE_BYTES - 40)
    (root / "MEMORY.md").write_text(text)
    await memory.add_memory(DIARY, user_id="ann")
    [problem] = (await files.sync()).problems
    assert (problem.path, "would have more than" in problem.message) == ("MEMORY.md", True)
    assert (root / "MEMORY.md").read_text() == text
    (root / "MEMORY.md").write_text("")
    assert (await files.sync()).problems == ()
    assert DIARY in (root / "MEMORY.md").read_text()


async def test_pipes_are_neither_waited_for_nor_read(files: FileMemory, memory: ReMe, root: Path) -> None:
    await memory.add_memory("drinks tea", user_id="ann")
    (root / "dialog").mkdir()
    for name in ("MEMORY.md", "AGENTS.md", "dialog/2026-11-22.jsonl"):
        os.mkfifo(root / name)
    assert [problem.path for problem in (await files.sync()).problems] == ["MEMORY.md"]
    for name in ("MEMORY.md", "dialog/2026-11-22.jsonl"):
        with pytest.raises(StoreAccessError, match="no regular file"):
            await files.memory_get(name)


async def test_lines_of_a_dialogue_that_no_parser_survives_are_told_and_stop_no_other(
    files: FileMemory, root: Path
) -> None:
    good = '{"message_id": "m1", "role": "user", "content": "hello"}'
    bad = ["[" * 200_000, '{"message_id": []}', '{"role": "user", "content": "x", "session_id": "\\ud800"}']
    (root / "dialog").mkdir()
    (root / "dialog" / "2026-11-22.jsonl").write_text("\n".join([*bad, good, ""]))
    report = await files.sync()
    assert [problem.path for problem in report.problems] == [f"dialog/2026-11-22.jsonl:{n}" for n in (1, 2, 3)]
    await files.add_dialog(
        [{"message_id": "m2", "role": "user", "content": "hi", "created_at": "2026-11-22T10:00:00Z"}]
    )
    assert (await files.memory_search("hello"))[0].message_id == "m1"


async def test_ten_thousand_equal_headings_are_taken_over_and_edited_in_seconds(files: FileMemory, root: Path) -> None:
    (root / "x.md").write_text("# a\n" * 10_000)
    await files.sync()
    (root / "x.md").write_text("# b\n" + "# a\n" * 10_000)
    [run] = (await files.sync()).runs
    assert (run.put, run.deleted) == (1, 0)


async def test_erasing_goes_by_no_folder_of_another_user(files: FileMemory, memory: ReMe, root: Path) -> None:
    await files.sync()
    (root / "MEMORY.md").write_text(f"- {DIARY}\n")
    async with ReMe(working_dir=root.parent / "store", llm=None, embedding=None, files=root.parent) as other:
        with pytest.raises(ConfigurationError):
            await other.delete_all_memories(user_id="notes")
    assert (root / "MEMORY.md").read_text() == f"- {DIARY}\n"


@pytest.mark.parametrize("text", ["# Code\n```\nnever closed\n", "---\nx: 1\n---\n~~~\nnever closed\n"])
async def test_a_memory_is_written_once_into_a_page_whose_code_never_ends(
    files: FileMemory, memory: ReMe, root: Path, text: str
) -> None:
    (root / "MEMORY.md").write_text(text)
    added = await memory.add_memory(DIARY, user_id="ann")
    await files.sync()
    page = (root / "MEMORY.md").read_text()
    assert page.count(DIARY) == 1
    assert page.replace(f"- {DIARY} ^mem-{added.memory_id}\n", "").replace("\n\n", "\n") == text
    assert (await files.sync()).written == ()
    assert await files.check() == []


async def test_a_line_that_comes_back_into_code_stands_before_it(files: FileMemory, memory: ReMe, root: Path) -> None:
    (root / "MEMORY.md").write_text("one\ntwo\n- drinks tea\n")
    await files.sync()
    (root / "MEMORY.md").write_text("```\none\ntwo\nthree\n```\n")
    [run] = (await files.sync()).runs
    await memory.undo(run.run_id, user_id="ann")
    for _ in range(2):
        await files.sync()
    assert (root / "MEMORY.md").read_text().count("drinks tea") == 1
    assert "drinks tea" in await contents(memory)


async def test_memories_that_no_line_can_hold_or_that_name_a_break_are_written_once_or_never(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    texts = {"a\nb", "a<br>b", "a&lt;br>b", "<br>", "x\n" * (MAX_MEMORY_CHARS // 3) + "x"}
    for text in texts:
        await memory.add_memory(text, user_id="ann")
    await files.sync()
    page = (root / "MEMORY.md").read_text()
    assert len(page.splitlines()) == 4
    assert (await files.sync()).written == ()
    assert await files.check() == []
    await files.rebuild()
    assert await contents(memory) == texts


async def test_two_folders_of_a_user_follow_each_other(files: FileMemory, memory: ReMe, root: Path) -> None:
    (root / "MEMORY.md").write_text("- drinks tea\n- has a cat\n")
    (root / "note.md").write_text("of this folder alone\n")
    await files.sync()
    other = FileMemory(root.parent / "other", user_id="ann", memory=memory)
    await other.sync()
    page = root.parent / "other" / "MEMORY.md"
    page.write_text(
        "".join(line.replace("tea", "milk") for line in page.read_text().splitlines(keepends=True) if "cat" not in line)
    )
    await other.sync()
    await files.sync()
    assert (root / "MEMORY.md").read_text() == page.read_text()
    assert await files.check() == await other.check() == []
    assert not (page.parent / "note.md").exists()


async def test_many_new_files_of_a_folder_wait_for_their_names_on_disk_once(
    files: FileMemory, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "targets" / "personal").mkdir(parents=True)
    for number in range(50):
        (root / "targets" / "personal" / f"p{number}.md").write_text(f"- likes fish {number}\n")
    synced: list[Path] = []
    monkeypatch.setattr(writer, "sync_folder", synced.append)
    monkeypatch.setattr(page_runs, "sync_folder", synced.append)
    assert len((await files.sync()).written) == 50
    assert [path.name for path in synced] == ["personal", "personal"]
