"""Days in the life of a folder: people, agents, git and synchronised folders write the same files."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reme_core import FileMemory, Memory, ReMe
from reme_core.tools.base import read_arguments
from reme_core.tools.files import EditFileOp


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    (folder / "targets" / "personal").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Me\n\n- drinks tea\n- lives in Paris\n")
    (folder / "targets" / "personal" / "Bo.md").write_text("# Bo\n\n- is a cat\n- is afraid of thunder\n")
    return folder


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path / "store", llm=None, embedding=None) as opened:
        yield opened


@pytest.fixture
async def files(memory: ReMe, root: Path) -> FileMemory:
    opened = FileMemory(root, user_id="ann", memory=memory)
    await opened.sync()
    return opened


async def held(memory: ReMe, user: str = "ann") -> dict[str, Memory]:
    return {item.content: item for item in (await memory.list_memories(user_id=user, limit=1000)).memories}


def correct(page: Path, old: str, new: str) -> None:
    text = page.read_text()
    assert old in text
    page.write_text(text.replace(old, new))


async def test_a_person_corrects_a_line_while_an_agent_writes_the_same_file(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    page, before = root / "MEMORY.md", await held(memory)
    await memory.update_memory(before["drinks tea"].memory_id, user_id="ann", content="drinks green tea")
    await memory.add_memory("plays the cello", user_id="ann")
    correct(page, "lives in Paris", "lives in Lisbon")
    edit = EditFileOp(root=root)
    given = {"path": "MEMORY.md", "old_text": "# Me", "new_text": "# Ann"}
    await edit.run(read_arguments(edit, given), memory.tool_context(user_id="ann"))
    report = await files.sync()
    assert (report.conflicts, report.problems) == ((), ())
    after = await held(memory)
    about_me = [item for item in after.values() if item.memory_target == "self"]
    assert {item.content for item in about_me} == {"drinks green tea", "lives in Lisbon", "plays the cello"}
    assert after["lives in Lisbon"].memory_id == before["lives in Paris"].memory_id
    assert after["drinks green tea"].memory_id == before["drinks tea"].memory_id
    lines = page.read_text().splitlines()
    assert [line.partition(" ^")[0] for line in lines] == [
        "# Ann",
        "",
        "- drinks green tea",
        "- lives in Lisbon",
        "- plays the cello",
    ]


async def test_a_person_deletes_a_file_and_takes_that_back(files: FileMemory, memory: ReMe, root: Path) -> None:
    page, before = root / "targets" / "personal" / "Bo.md", await held(memory)
    text = page.read_bytes()
    page.unlink()
    [run] = (await files.sync()).runs
    assert set(await held(memory)) == {"drinks tea", "lives in Paris"}
    await memory.undo(run.run_id, user_id="ann")
    await files.sync()
    assert page.read_bytes() == text
    after = await held(memory)
    assert {content: item.memory_id for content, item in after.items()} == {
        content: item.memory_id for content, item in before.items()
    }


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="this system has no git")
async def test_a_file_that_git_restores_has_the_memories_that_it_had(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    git(root, "init", "--quiet")
    (root / ".gitignore").write_text(".reme/\n")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "Begin")
    before = await held(memory)
    (root / "targets" / "personal" / "Bo.md").unlink()
    correct(root / "MEMORY.md", "- drinks tea", "- drinks coffee")
    await files.sync()
    assert "is a cat" not in await held(memory)
    git(root, "checkout", "--quiet", "--", ".")
    assert (await files.sync()).problems == ()
    after = await held(memory)
    assert {content: item.memory_id for content, item in after.items()} == {
        content: item.memory_id for content, item in before.items()
    }
    assert git(root, "status", "--porcelain") == ""
    contents = [
        event.after.content
        for event in await memory.history(before["drinks tea"].memory_id, user_id="ann")
        if event.after
    ]
    assert contents == ["drinks tea", "drinks coffee", "drinks tea"]


@pytest.mark.skipif(shutil.which("git") is None, reason="this system has no git")
async def test_branches_of_git_are_merged_with_the_ids_of_their_lines(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    git(root, "init", "--quiet", "--initial-branch=main")
    (root / ".gitignore").write_text(".reme/\n")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "Begin")
    git(root, "checkout", "--quiet", "-b", "other")
    correct(root / "targets" / "personal" / "Bo.md", "is a cat", "is an old cat")
    git(root, "commit", "--quiet", "-am", "Bo")
    git(root, "checkout", "--quiet", "main")
    correct(root / "MEMORY.md", "lives in Paris", "lives in Lisbon")
    git(root, "commit", "--quiet", "-am", "Moved")
    git(root, "merge", "--quiet", "--no-edit", "other")
    before = await held(memory)
    await files.sync()
    after = await held(memory)
    assert after["is an old cat"].memory_id == before["is a cat"].memory_id
    assert after["lives in Lisbon"].memory_id == before["lives in Paris"].memory_id


@pytest.mark.skipif(shutil.which("git") is None, reason="this system has no git")
async def test_a_merge_of_git_that_conflicts_keeps_both_texts_until_a_person_decides(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "MEMORY.md")
    git(root, "commit", "--quiet", "-m", "Begin")
    git(root, "checkout", "--quiet", "-b", "other")
    page, before = root / "MEMORY.md", await held(memory)
    correct(page, "lives in Paris", "lives in Rome")
    git(root, "commit", "--quiet", "-am", "Rome")
    git(root, "checkout", "--quiet", "main")
    correct(page, "lives in Paris", "lives in Lisbon")
    git(root, "commit", "--quiet", "-am", "Lisbon")
    with pytest.raises(subprocess.CalledProcessError):
        git(root, "merge", "--quiet", "other")
    assert "<<<<<<<" in page.read_text()
    assert (await files.sync()).problems == ()
    assert {"lives in Lisbon", "lives in Rome"} < set(await held(memory))
    kept = [
        line for line in page.read_text().splitlines() if not line.startswith(("<<<", "===", ">>>", "- lives in Rome"))
    ]
    page.write_text("\n".join(kept) + "\n")
    assert (await files.sync()).problems == ()
    after = await held(memory)
    assert "lives in Rome" not in after
    assert after["lives in Lisbon"].memory_id == before["lives in Paris"].memory_id


async def test_a_person_renames_a_target(files: FileMemory, memory: ReMe, root: Path) -> None:
    before = await held(memory)
    (root / "targets" / "personal" / "Bo.md").rename(root / "targets" / "personal" / "Bobby.md")
    await files.sync()
    after = await held(memory)
    assert {content: item.memory_id for content, item in after.items()} == {
        content: item.memory_id for content, item in before.items()
    }
    assert {after["is a cat"].memory_target, after["is afraid of thunder"].memory_target} == {"Bobby"}
    [hit, *_] = await files.memory_search("thunder")
    assert (hit.path, hit.start_line) == ("targets/personal/Bobby.md", 4)
    await memory.add_memory("sleeps a lot", user_id="ann", memory_target="Bobby")
    await files.sync()
    assert "sleeps a lot" in (root / "targets" / "personal" / "Bobby.md").read_text()
    assert not (root / "targets" / "personal" / "Bo.md").exists()


async def test_a_paste_of_10_mb_is_told_and_what_was_known_stays(files: FileMemory, memory: ReMe, root: Path) -> None:
    page, before = root / "MEMORY.md", await held(memory)
    text = page.read_text()
    page.write_text(text + "pasted without a line break " * 375_000)
    correct(root / "targets" / "personal" / "Bo.md", "is a cat", "is an old cat")
    await memory.add_memory("plays the cello", user_id="ann")
    report = await files.sync()
    [problem] = report.problems
    assert (problem.path, "split it" in problem.message) == ("MEMORY.md", True)
    after = await held(memory)
    assert set(after) == (set(before) | {"is an old cat", "plays the cello"}) - {"is a cat"}
    assert page.stat().st_size > 10_000_000
    page.write_text(text)
    assert (await files.sync()).problems == ()
    assert "- plays the cello ^mem-" in page.read_text()


COPIES = [
    "{}.sync-conflict-20261122-104233-ABCDEFG.md",
    "{} (Ann's conflicted copy 2026-11-22).md",
    "{} (conflicted copy 2026-11-22 104233).md",
]


@pytest.mark.parametrize("copy_name", COPIES)
@pytest.mark.parametrize("page_name", ["MEMORY", "targets/personal/Bo"])
async def test_a_second_machine_edits_through_a_synchronised_folder_that_keeps_a_copy(
    files: FileMemory, memory: ReMe, root: Path, tmp_path: Path, copy_name: str, page_name: str
) -> None:
    second = tmp_path / "second"
    shutil.copytree(root, second)
    async with ReMe("space", tmp_path / "store2", llm=None, embedding=None) as there:
        elsewhere = FileMemory(second, user_id="ann", memory=there)
        await elsewhere.sync()
        ids = {content: item.memory_id for content, item in (await held(memory)).items()}
        assert {content: item.memory_id for content, item in (await held(there)).items()} == ids
        page, copy = f"{page_name}.md", copy_name.format(page_name)
        first_line = (root / page).read_text().splitlines()[2].partition(" ^")[0]
        last_line = (root / page).read_text().splitlines()[3].partition(" ^")[0]
        correct(root / page, first_line, f"{first_line} indeed")
        correct(second / page, last_line, f"{last_line} now")
        await files.sync()
        await elsewhere.sync()
        # The folder's program keeps the first machine's file on both, and the other one beside it.
        shutil.copy(second / page, second / copy)
        shutil.copy(second / copy, root / copy)
        shutil.copy(root / page, second / page)
        for opened, kept in ((files, memory), (elsewhere, there)):
            report = await opened.sync()
            assert [(problem.path, "bring both together" in problem.message) for problem in report.problems] == [
                (copy, True)
            ]
            contents = {content: item.memory_id for content, item in (await held(kept)).items()}
            assert contents.pop(f"{first_line[2:]} indeed") == ids[first_line[2:]]
            assert set(contents) == set(ids) - {first_line[2:]}
        correct(root / page, last_line, f"{last_line} now")
        (root / copy).unlink()
        shutil.copy(root / page, second / page)
        (second / copy).unlink()
        for opened, kept in ((files, memory), (elsewhere, there)):
            assert (await opened.sync()).problems == ()
            found = await held(kept)
            assert found[f"{last_line[2:]} now"].memory_id == ids[last_line[2:]]
            assert len(found) == 4
