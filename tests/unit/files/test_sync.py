"""What people write into files becomes memories, what memories say is written into files, and either is undone."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reme_core import FileMemory, ReMe
from reme_core.errors import ConfigurationError, ConflictError, MemoryNotFoundError, StoreAccessError
from reme_core.files.sync import SyncReport
from reme_core.schema import MemoryType


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe(working_dir=tmp_path / "store", llm=None, embedding=None) as opened:
        yield opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return (tmp_path / "files").resolve()


@pytest.fixture
async def files(memory: ReMe, root: Path) -> AsyncIterator[FileMemory]:
    async with FileMemory(root, user_id="ann", memory=memory) as opened:
        yield opened


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def unmount(root: Path) -> None:
    root.rename(root.with_name("away"))
    root.mkdir()


def pages(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*.md")}


async def contents(memory: ReMe, target: str | None = None) -> set[str]:
    page = await memory.list_memories(user_id="ann", memory_target=target)
    return {item.content for item in page.memories}


def told(report: SyncReport) -> dict[str, str]:
    return {problem.path: problem.message for problem in report.problems}


async def test_lines_become_memories_with_ids_and_the_rest_stays_byte_for_byte(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    text = "\ufeff---\r\ncolour: blue\r\n---\r\n# Ann\r\n\r\n- drinks tea\r\nSome prose.\r\n- has a cat"
    put(root / "MEMORY.md", text)
    report = await files.sync()
    assert await contents(memory) == {"drinks tea", "has a cat"}
    ids = {item.content: item.memory_id for item in (await memory.list_memories(user_id="ann")).memories}
    expected = text.replace("tea", f"tea ^mem-{ids['drinks tea']}") + f" ^mem-{ids['has a cat']}"
    assert (root / "MEMORY.md").read_bytes().decode() == expected
    assert [run.path for run in report.runs] == ["MEMORY.md"]
    assert (await files.sync()).runs == ()


async def test_an_edited_line_keeps_its_memory_and_the_edit_is_undone_by_its_run(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    put(root / "MEMORY.md", "- drinks tea\n")
    await files.sync()
    [before] = (await memory.list_memories(user_id="ann")).memories
    page = (root / "MEMORY.md").read_text()
    put(root / "MEMORY.md", page.replace("tea", "coffee"))
    [run] = (await files.sync()).runs
    [after] = (await memory.list_memories(user_id="ann")).memories
    assert (after.memory_id, after.content) == (before.memory_id, "drinks coffee")
    [*_, event] = await memory.history(after.memory_id, user_id="ann")
    assert (event.actor, event.run_id) == ("file", run.run_id)
    await memory.undo(run.run_id, user_id="ann")
    await files.sync()
    assert (root / "MEMORY.md").read_text() == page


async def test_a_removed_line_deletes_its_memory_and_its_undo_puts_the_line_back_in_its_place(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    put(root / "MEMORY.md", "# Me\n- one\n- two\n- three\n")
    await files.sync()
    page = (root / "MEMORY.md").read_text()
    put(root / "MEMORY.md", "".join(line for line in page.splitlines(keepends=True) if "two" not in line))
    [run] = (await files.sync()).runs
    assert await contents(memory) == {"one", "three"}
    await memory.undo(run.run_id, user_id="ann")
    await files.sync()
    assert (root / "MEMORY.md").read_text() == page


async def test_a_removed_file_is_restored_by_undo_with_its_lines_and_its_prose(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    text = "---\nupdated: today\n---\n# Bo\n\n- likes fish\n\nHe is a cat.\n- sleeps late\n"
    put(root / "targets" / "personal" / "Bo.md", text)
    await files.sync()
    page = (root / "targets" / "personal" / "Bo.md").read_text()
    (root / "targets" / "personal" / "Bo.md").unlink()
    [run] = (await files.sync()).runs
    assert await contents(memory) == set()
    await memory.undo(run.run_id, user_id="ann")
    await files.sync()
    assert (root / "targets" / "personal" / "Bo.md").read_text() == page
    assert await contents(memory, "Bo") == {"likes fish", "sleeps late"}


async def test_a_file_restored_from_a_copy_has_the_memories_that_it_had(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    put(root / "MEMORY.md", "- one\n- two\n")
    await files.sync()
    ids = {item.memory_id for item in (await memory.list_memories(user_id="ann")).memories}
    page = (root / "MEMORY.md").read_text()
    (root / "MEMORY.md").unlink()
    await files.sync()
    put(root / "MEMORY.md", page)
    await files.sync()
    assert {item.memory_id for item in (await memory.list_memories(user_id="ann")).memories} == ids


async def test_a_moved_file_keeps_the_ids_of_lines_and_passages(files: FileMemory, memory: ReMe, root: Path) -> None:
    put(root / "targets" / "personal" / "Bo.md", "- likes fish\n\nHe is a cat.\n")
    await files.sync()
    before = await memory.list_memories(user_id="ann", memory_type=["personal", "passage"])
    (root / "targets" / "personal" / "Bo.md").rename(root / "targets" / "personal" / "Bobo.md")
    report = await files.sync()
    after = await memory.list_memories(user_id="ann", memory_type=["personal", "passage"])
    assert {item.memory_id for item in after.memories} == {item.memory_id for item in before.memories}
    assert {item.memory_target for item in after.memories} == {"Bobo", "targets/personal/Bobo.md"}
    assert len(report.runs) == 1


async def test_a_line_moved_to_another_file_keeps_its_id_and_changes_its_target(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    put(root / "MEMORY.md", "- Bo likes fish\n- mine\n")
    await files.sync()
    moved, kept = (root / "MEMORY.md").read_text().splitlines(keepends=True)
    put(root / "MEMORY.md", kept)
    put(root / "targets" / "personal" / "Bo.md", moved)
    await files.sync()
    [found] = (await memory.list_memories(user_id="ann", memory_target="Bo")).memories
    assert found.memory_id in moved
    assert await contents(memory) == {"Bo likes fish", "mine"}


async def test_memories_are_written_into_the_files_of_their_targets(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    own = await memory.add_memory("first\nsecond", user_id="ann")
    await memory.add_memory("likes fish", user_id="ann", memory_target="Bo")
    await memory.add_memory("is a folder", user_id="ann", memory_target="a/b: c", memory_type="procedural")
    report = await files.sync()
    assert (root / "MEMORY.md").read_text() == f"- first<br>second ^mem-{own.memory_id}\n"
    assert (root / "targets" / "personal" / "Bo.md").read_text().startswith("- likes fish ^mem-")
    odd = (root / "targets" / "procedural" / "a-b- c.md").read_text()
    assert odd.startswith('---\ntype: procedural\ntarget: "a/b: c"\n---\n\n- is a folder ^mem-')
    assert report.problems == ()
    assert (await files.sync()).written == ()


async def test_targets_whose_names_differ_in_case_get_files_that_differ_in_more(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    await memory.add_memory("one", user_id="ann", memory_target="Bo")
    await memory.add_memory("two", user_id="ann", memory_target="bo")
    await files.sync()
    assert sorted(path.name for path in (root / "targets" / "personal").iterdir()) == ["Bo.md", "bo 2.md"]
    assert await contents(memory, "bo") == {"two"}


@pytest.mark.parametrize(
    "target",
    [
        "..",
        "../../up",
        "/etc/x",
        ".hidden",
        "AGENTS",
        "x (conflict 2026-11-22 1042)",
        "~",
        "a\\b",
        "#x#",
        "日" * 300,
        "-",
    ],
)
async def test_whatever_a_target_is_called_its_file_lies_in_the_folder_and_is_read_again(
    files: FileMemory, memory: ReMe, root: Path, target: str
) -> None:
    await memory.add_memory("one", user_id="ann", memory_target=target)
    [path] = (await files.sync()).written
    assert path.startswith("targets/personal/")
    assert (await files.sync()).written == ()
    put(root / path, (root / path).read_text().replace("one", "two"))
    await files.sync()
    assert await contents(memory, target) == {"two"}


async def test_changed_and_deleted_memories_change_their_lines_alone(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    put(root / "MEMORY.md", "# Me\n- one\ntext\n- two\n")
    await files.sync()
    ids = {item.content: item.memory_id for item in (await memory.list_memories(user_id="ann")).memories}
    await memory.update_memory(ids["one"], user_id="ann", content="uno")
    await memory.delete_memory(ids["two"], user_id="ann")
    await files.sync()
    assert (root / "MEMORY.md").read_text() == f"# Me\n- uno ^mem-{ids['one']}\ntext\n"


async def test_a_superseded_memory_is_replaced_in_its_file(files: FileMemory, memory: ReMe, root: Path) -> None:
    old = await memory.add_memory("lives in Rome", user_id="ann")
    await files.sync()
    new = await memory.supersede_memory(old.memory_id, "lives in Oslo", user_id="ann")
    await files.sync()
    assert (root / "MEMORY.md").read_text() == f"- lives in Oslo ^mem-{new.memory_id}\n"


async def test_a_person_and_an_agent_who_change_different_lines_both_keep_theirs(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    put(root / "MEMORY.md", "- one\n- two\n")
    await files.sync()
    ids = {item.content: item.memory_id for item in (await memory.list_memories(user_id="ann")).memories}
    await memory.update_memory(ids["one"], user_id="ann", content="uno")
    put(root / "MEMORY.md", (root / "MEMORY.md").read_text().replace("two", "due") + "- three\n")
    report = await files.sync()
    assert await contents(memory) == {"uno", "due", "three"}
    shown = [line.split(" ^")[0] for line in (root / "MEMORY.md").read_text().splitlines()]
    assert shown == ["- uno", "- due", "- three"]
    assert report.conflicts == ()


async def test_where_both_change_the_same_line_both_texts_stay_and_the_journal_says_so(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    put(root / "MEMORY.md", "- one\n- two\n")
    await files.sync()
    ids = {item.content: item.memory_id for item in (await memory.list_memories(user_id="ann")).memories}
    await memory.update_memory(ids["one"], user_id="ann", content="uno")
    put(root / "MEMORY.md", (root / "MEMORY.md").read_text().replace("one", "eins"))
    [copy] = (await files.sync()).conflicts
    assert "- eins ^mem-" in (root / "MEMORY.md").read_text()
    assert "- uno ^mem-" in (root / copy).read_text()
    assert await contents(memory) == {"eins", "two"}
    [journal] = (root / "memory").iterdir()
    assert copy in journal.read_text()
    assert (await files.sync()).conflicts == ()


async def test_a_line_that_was_told_anew_while_a_person_removed_it_comes_back(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    put(root / "MEMORY.md", "- one\n- two\n")
    await files.sync()
    ids = {item.content: item.memory_id for item in (await memory.list_memories(user_id="ann")).memories}
    await memory.update_memory(ids["one"], user_id="ann", content="uno")
    put(root / "MEMORY.md", (root / "MEMORY.md").read_text().splitlines(keepends=True)[1])
    await files.sync()
    assert f"- uno ^mem-{ids['one']}" in (root / "MEMORY.md").read_text()


async def test_two_lines_that_change_places_keep_what_they_say(files: FileMemory, memory: ReMe, root: Path) -> None:
    put(root / "MEMORY.md", "- one\n- two\n")
    await files.sync()
    page = (root / "MEMORY.md").read_text()
    put(root / "MEMORY.md", page.replace("one", "xxx").replace("two", "one").replace("xxx", "two"))
    [run] = (await files.sync()).runs
    for item in (await memory.list_memories(user_id="ann")).memories:
        assert f"- {item.content} ^mem-{item.memory_id}" in (root / "MEMORY.md").read_text()
    assert await contents(memory) == {"one", "two"}
    await memory.undo(run.run_id, user_id="ann")
    await files.sync()
    assert (root / "MEMORY.md").read_text() == page


async def test_a_line_that_stands_twice_is_one_memory_until_both_are_gone(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    put(root / "MEMORY.md", "- one\n- one\n")
    await files.sync()
    lines = (root / "MEMORY.md").read_text().splitlines(keepends=True)
    assert lines[1] == "- one\n"
    put(root / "MEMORY.md", lines[1])
    await files.sync()
    assert await contents(memory) == {"one"}


async def test_a_copied_line_that_says_something_else_is_a_memory_of_its_own(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    put(root / "MEMORY.md", "- one\n")
    await files.sync()
    page = (root / "MEMORY.md").read_text()
    put(root / "MEMORY.md", page + page.replace("one", "two"))
    await files.sync()
    assert await contents(memory) == {"one", "two"}
    ids = [line.rpartition("^mem-")[2] for line in (root / "MEMORY.md").read_text().splitlines()]
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    ("data", "word"),
    [(b"- caf\xe9\n", "UTF-8"), (b"- a\0b\n", "NUL"), (b"- long\n" + b"x" * (1 << 20), "too large")],
)
async def test_a_bad_file_is_told_and_stops_no_other_one(
    files: FileMemory, memory: ReMe, root: Path, data: bytes, word: str
) -> None:
    (root / "notes.md").write_bytes(data)
    put(root / "MEMORY.md", "- fine\n")
    report = await files.sync()
    assert word in told(report)["notes.md"]
    assert await contents(memory) == {"fine"}
    assert (root / "notes.md").read_bytes() == data


async def test_a_file_that_turned_bad_keeps_its_memories(files: FileMemory, memory: ReMe, root: Path) -> None:
    put(root / "MEMORY.md", "- fine\n")
    await files.sync()
    (root / "MEMORY.md").write_bytes(b"- fin\xe9\n")
    await memory.add_memory("new", user_id="ann")
    report = await files.sync()
    assert "MEMORY.md" in told(report)
    assert await contents(memory) == {"fine", "new"}
    put(root / "MEMORY.md", "- better\n")
    await files.sync()
    assert "- new ^mem-" in (root / "MEMORY.md").read_text()


async def test_names_that_differ_in_case_are_told_and_the_known_one_stays(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    put(root / "targets" / "personal" / "bo.md", "- one\n")
    await files.sync()
    put(root / "targets" / "personal" / "Bo.md", "- two\n")
    report = await files.sync()
    assert "case" in told(report)["targets/personal/Bo.md"]
    assert await contents(memory) == {"one"}


async def test_a_link_that_leads_out_is_told_and_never_read(
    files: FileMemory, memory: ReMe, root: Path, tmp_path: Path
) -> None:
    put(tmp_path / "secret.md", "secret words")
    (root / "link.md").symlink_to(tmp_path / "secret.md")
    (root / "folder").symlink_to(tmp_path)
    report = await files.sync()
    assert set(told(report)) == {"link.md", "folder"}
    assert await files.memory_search("secret words") == []
    with pytest.raises(StoreAccessError):
        await files.memory_get("link.md")


@pytest.mark.parametrize(
    "name", [".hidden.md", "MEMORY.md~", ".MEMORY.md.swp", "#MEMORY.md#", "~$notes.md", "a.md.tmp", "AGENTS.md"]
)
async def test_what_editors_leave_is_never_indexed(files: FileMemory, root: Path, name: str) -> None:
    put(root / name, "passing words")
    report = await files.sync()
    assert (report.files, report.runs) == (0, ())


async def test_a_folder_that_is_not_mounted_any_more_deletes_nothing(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    put(root / "MEMORY.md", "- one\n")
    await files.sync()
    unmount(root)
    with pytest.raises(StoreAccessError, match="mounted"):
        await files.sync()
    assert await contents(memory) == {"one"}


async def test_a_change_that_keeps_size_and_time_is_found_by_what_it_says(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    put(root / "MEMORY.md", "- one\n")
    await files.sync()
    before = (root / "MEMORY.md").stat()
    put(root / "MEMORY.md", (root / "MEMORY.md").read_text().replace("one", "two"))
    os.utime(root / "MEMORY.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    await files.sync()
    assert await contents(memory) == {"two"}


async def test_a_folder_of_another_user_is_refused(files: FileMemory, memory: ReMe, root: Path) -> None:
    with pytest.raises(ConfigurationError, match="'ann'"):
        await FileMemory(root, user_id="bob", memory=memory).sync()


async def test_another_process_that_watches_is_told_and_searching_works_all_the_same(memory: ReMe, root: Path) -> None:
    from reme_core.files.folder import held

    put(root / "MEMORY.md", "- drinks green tea\n")
    async with FileMemory(root, user_id="ann", memory=memory) as other:
        with held(root):
            async with FileMemory(root, user_id="ann", memory=memory) as reader:
                with pytest.raises(ConflictError, match="watched"):
                    await reader.sync()
                [hit] = await reader.memory_search("green tea")
                assert (hit.path, hit.start_line) == ("MEMORY.md", 1)
        put(root / "MEMORY.md", "# Title\n" + (root / "MEMORY.md").read_text())
        await other.sync()
        [hit] = await reader.memory_search("green tea")
        assert hit.start_line == 2


async def test_passages_are_found_with_their_lines_and_never_among_the_statements(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    put(root / "memory" / "2026-11-20.md", "# 2026-11-20\n\nWe painted the kitchen yellow.\n\n## Evening\n\nSoup.\n")
    await files.sync()
    [hit] = await files.memory_search("who painted the kitchen")
    assert (hit.path, hit.start_line, hit.end_line) == ("memory/2026-11-20.md", 1, 3)
    assert (await files.memory_get(hit.path, hit.end_line, hit.end_line)).text == "We painted the kitchen yellow.\n"
    assert await contents(memory) == set()
    assert (await memory.retrieve("kitchen", user_id="ann")).results == ()
    found = await memory.list_memories(user_id="ann", memory_type="passage")
    assert {item.memory_type for item in found.memories} == {MemoryType.PASSAGE}


async def test_an_edited_passage_keeps_its_id_and_its_undo_writes_the_file(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    page = root / "memory" / "2026-11-20.md"
    put(page, "# Day\n\nWe painted the kitchen yellow.\n\n## Evening\n\nSoup.\n")
    await files.sync()
    text = page.read_text()
    put(page, text.replace("yellow", "blue"))
    [run] = (await files.sync()).runs
    assert (run.put, run.deleted) == (1, 0)
    await memory.undo(run.run_id, user_id="ann")
    await files.sync()
    assert page.read_text() == text


async def test_journal_and_dialogue_are_appended_under_their_day(files: FileMemory, root: Path) -> None:
    at = "2026-11-22T10:42:00Z"
    place = await files.append_journal("Fixed the bike.", title="workshop", session_id="s1", at=at)
    await files.append_journal("Then it rained.", at="2026-11-22T11:00:00Z")
    assert (root / place.path).read_text() == (
        "# 2026-11-22\n\n## 10:42 · workshop · session s1\n\nFixed the bike.\n\n## 11:00\n\nThen it rained.\n"
    )
    assert (await files.memory_get(*place)).text.startswith("## 10:42")
    [hit] = await files.memory_search("bike")
    assert (hit.path, hit.start_line) == ("memory/2026-11-22.md", 3)
    said = {"role": "user", "content": "Hello", "created_at": "2026-11-22T10:42:00Z"}
    assert await files.add_dialog([said]) == await files.add_dialog([said])
    assert len((root / "dialog" / "2026-11-22.jsonl").read_text().splitlines()) == 2


async def test_the_files_alone_are_enough_for_a_new_store(
    files: FileMemory, memory: ReMe, root: Path, tmp_path: Path
) -> None:
    await memory.add_memory("likes fish", user_id="ann", memory_target="Bo")
    put(root / "MEMORY.md", "- one\n\nProse.\n")
    await files.sync()
    before = pages(root)
    ids = {item.memory_id for item in (await memory.list_memories(user_id="ann")).memories}
    async with (
        ReMe(working_dir=tmp_path / "new", llm=None, embedding=None) as other,
        FileMemory(root, user_id="ann", memory=other),
    ):
        assert {item.memory_id for item in (await other.list_memories(user_id="ann")).memories} == ids
    assert pages(root) == before


async def test_rebuild_indexes_anew_without_changing_a_file(files: FileMemory, memory: ReMe, root: Path) -> None:
    put(root / "MEMORY.md", "- one\n\nProse about painting.\n")
    await files.sync()
    before = (root / "MEMORY.md").read_bytes()
    report = await files.rebuild()
    assert (root / "MEMORY.md").read_bytes() == before
    assert await contents(memory) == {"one"}
    assert len(await files.memory_search("painting")) == 1
    assert report.problems == ()


async def test_erasing_the_user_leaves_no_index(files: FileMemory, memory: ReMe, root: Path) -> None:
    put(root / "MEMORY.md", "- one\n")
    await files.sync()
    await memory.delete_all_memories(user_id="ann")
    assert (await files.status()).files == {}
    with pytest.raises(MemoryNotFoundError):
        await memory.history("nothing", user_id="ann")
