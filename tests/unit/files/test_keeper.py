"""A memory with files beside it: the store has what a call acknowledges, and the files follow."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from reme_core import FileMemory, Folders, ReMe
from reme_core.errors import ConfigurationError, MemoryNotFoundError
from reme_core.files.folder import FileProblem, held
from reme_core.schema import Message, Scope, TextBlock
from reme_core.testing import FixedClock, ScriptedChatModel

LONG = "".join(f"line {number}\n" for number in range(20_000))


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock("2026-11-22T12:00:00Z")


@pytest.fixture
async def memory(tmp_path: Path, clock: FixedClock) -> AsyncIterator[ReMe]:
    async with opened(tmp_path, clock) as made:
        yield made


def opened(folder: Path, clock: FixedClock) -> ReMe:
    return ReMe(working_dir=folder / "store", llm=None, embedding=None, files=folder / "notes", clock=clock)


def said(text: str, message_id: str, at: str = "2026-11-22T10:42:00Z") -> Message:
    return Message.model_validate(
        {"message_id": message_id, "role": "user", "content": (TextBlock(text=text),), "created_at": at}
    )


def dialog(folder: Path, day: str = "2026-11-22") -> list[str]:
    lines = (folder / "dialog" / f"{day}.jsonl").read_text().splitlines()
    return [json.loads(line)["message_id"] for line in lines]


async def test_memories_journal_and_dialogue_of_each_user_follow_into_a_folder_of_their_own(
    memory: ReMe, tmp_path: Path
) -> None:
    await memory.add_memory("drinks tea", user_id="ann")
    await memory.add_memory("likes fish", user_id="bo/b", memory_target="Bo")
    await memory.add_memory("the door is green", shared=True)
    await memory.summary([said("I painted the door.", "m1")], user_id="ann", session_id="s1")
    await memory.flush()
    notes = tmp_path / "notes"
    assert "- drinks tea ^mem-" in (notes / "ann" / "MEMORY.md").read_text()
    assert "- likes fish ^mem-" in (notes / "bo%2fb" / "targets" / "personal" / "Bo.md").read_text()
    assert "- the door is green ^mem-" in (notes / "+shared" / "MEMORY.md").read_text()
    assert dialog(notes / "ann") == ["m1"]
    journal = (notes / "ann" / "memory" / "2026-11-22.md").read_text()
    assert "## 10:42 · session s1\n\n> " in journal
    assert "painted the door" in journal
    assert not (notes / "bo%2fb" / "dialog").exists()


async def test_an_edit_by_a_person_is_found_by_the_next_call(memory: ReMe, tmp_path: Path) -> None:
    await memory.add_memory("drinks tea", user_id="ann")
    await memory.flush()
    page = tmp_path / "notes" / "ann" / "MEMORY.md"
    page.write_text(page.read_text().replace("tea", "coffee") + "- has a boat\n")
    found = await memory.retrieve("what boat", user_id="ann", layers=["memory"])
    assert [hit.memory for hit in found.results] == ["has a boat"]
    listed = await memory.list_memories(user_id="ann")
    assert {item.content for item in listed.memories} == {"drinks coffee", "has a boat"}


async def test_nothing_is_written_twice_and_what_was_cut_off_follows_later(
    memory: ReMe, tmp_path: Path, clock: FixedClock
) -> None:
    await memory.summary([said("one", "m1")], user_id="ann", session_id="s1")
    await memory.flush()
    await memory.close()
    folder = tmp_path / "notes" / "ann"
    journal = (folder / "memory" / "2026-11-22.md").read_bytes()
    async with ReMe(working_dir=tmp_path / "store", llm=None, embedding=None, clock=clock) as without:
        await without.summary([said("two", "m2")], user_id="ann", session_id="s2")  # no file follows
        async with FileMemory(folder, user_id="ann", memory=without) as files:
            assert await files.check() == []  # it goes on with the record
        assert dialog(folder) == ["m1", "m2"]
    async with opened(tmp_path, clock) as again:
        await again.list_memories(user_id="ann")
    assert dialog(folder) == ["m1", "m2"]
    assert (folder / "memory" / "2026-11-22.md").read_bytes().startswith(journal)
    async with opened(tmp_path, clock) as again:
        index = await FileMemory(folder, user_id="ann", memory=again).status()
        await index.load()
        await index.forget()  # as after a crash that lost how far it was
        await again.list_memories(user_id="ann")
    assert dialog(folder) == ["m1", "m2"]
    assert (folder / "memory" / "2026-11-22.md").read_text().count("> user: one") == 1


async def test_a_file_that_can_not_be_written_costs_that_file_is_logged_once_and_mended_by_the_next_sync(
    memory: ReMe, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "notes" / "ann"
    (folder / "dialog").mkdir(parents=True)
    (folder / "dialog" / "2026-11-22.jsonl").mkdir()
    (folder / "MEMORY.md").mkdir()
    with caplog.at_level(logging.ERROR, "reme"):
        await memory.summary(
            [said("one", "m1"), said("two", "m2", "2026-11-23T00:00:00Z")][:1], user_id="ann", session_id="s1"
        )
        kept = await memory.add_memory("drinks tea", user_id="ann")
        await memory.add_memory("likes fish", user_id="ann", memory_target="Bo")
        await memory.flush()
        assert await memory.get_memory(kept.memory_id, user_id="ann") == kept
    told = [record.getMessage() for record in caplog.records]
    assert len([line for line in told if "2026-11-22.jsonl" in line]) == 1
    assert len([line for line in told if "MEMORY.md" in line]) == 1
    assert "likes fish" in (folder / "targets" / "personal" / "Bo.md").read_text()
    files = FileMemory(folder, user_id="ann", memory=memory)
    problems = await files.check()
    assert FileProblem("MEMORY.md", "1 of its memories stand in no file yet: sync the folder") in problems
    assert any(problem.path == "dialog" and "1 message" in problem.message for problem in problems)
    (folder / "dialog" / "2026-11-22.jsonl").rmdir()
    (folder / "MEMORY.md").rmdir()
    await memory.list_memories(user_id="ann")
    assert dialog(folder) == ["m1"]
    assert "drinks tea" in (folder / "MEMORY.md").read_text()
    assert await files.check() == []


async def test_long_tool_results_are_files_until_they_are_three_days_old(
    memory: ReMe, tmp_path: Path, clock: FixedClock
) -> None:
    note = await memory.offload_text(LONG, user_id="ann", session_id="s1", name="log")
    await memory.flush()
    folder = tmp_path / "notes" / "ann" / "tool_result"
    (folder / "mine.txt").write_text("a person's")
    assert (folder / f"{note.reference}.txt").read_text() == LONG
    clock.advance(timedelta(days=4))
    await memory.add_memory("drinks tea", user_id="ann")
    await memory.flush()
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
    [piece] = (await memory.reload_context(user_id="ann", reference=note.reference, start_line=7, end_line=7)).results
    assert piece.memory == "line 6\n"  # the store has it still


async def test_the_journal_has_what_a_model_wrote_of_a_conversation(tmp_path: Path, clock: FixedClock) -> None:
    answer = {"summary": "Ann painted her door green.", "facts": []}
    async with ReMe(
        working_dir=tmp_path / "store",
        llm=ScriptedChatModel([json.dumps(answer)]),
        embedding=None,
        files=Folders(users={"ann": tmp_path / "mine"}),
        clock=clock,
    ) as memory:
        await memory.summary([said("I painted the door green.", "m1")], user_id="ann", session_id="s1")
        await memory.add_memory("likes fish", user_id="bob")
    journal = (tmp_path / "mine" / "memory" / "2026-11-22.md").read_text()
    assert "## 10:42 · session s1\n\nAnn painted her door green.\n" in journal
    assert not (tmp_path / "notes").exists()


async def test_whoever_watches_the_folder_writes_the_files(memory: ReMe, tmp_path: Path) -> None:
    await memory.add_memory("drinks tea", user_id="ann")
    await memory.flush()
    folder = tmp_path / "notes" / "ann"
    with held(folder):
        (folder / "MEMORY.md").write_text("- has a boat\n")
        assert len((await memory.list_memories(user_id="ann")).memories) == 1


async def test_erasing_a_user_removes_the_files_that_were_kept_and_no_other_note(memory: ReMe, tmp_path: Path) -> None:
    await memory.add_memory("drinks tea", user_id="ann")
    await memory.summary([said("one", "m1")], user_id="ann", session_id="s1")
    await memory.flush()
    folder = tmp_path / "notes" / "ann"
    (folder / "ideas.md").write_text("A boat.\n")
    (folder / "MEMORY (conflict 2026-11-22 1042).md").write_text("- drinks tea\n")
    (folder / ".reme-1.part").write_text("- drinks tea\n")
    (folder / "AGENTS.md").write_text("Be kind.\n<!-- reme:begin -->\n- drinks tea\n<!-- reme:end -->\n")
    erased = await memory.delete_all_memories(user_id="ann")
    assert erased.files == 4
    assert sorted(path.name for path in folder.iterdir()) == [".reme", "AGENTS.md", "ideas.md"]
    assert not any("tea" in path.read_text() for path in folder.rglob("*") if path.is_file())
    assert (folder / "AGENTS.md").read_text().startswith("Be kind.\n")
    assert (await memory.list_memories(user_id="ann")).memories == ()


async def test_the_line_of_an_erased_memory_goes(memory: ReMe, tmp_path: Path) -> None:
    kept = await memory.add_memory("the secret is 37919-K", user_id="ann")
    await memory.add_memory("drinks tea", user_id="ann")
    await memory.flush()
    page = tmp_path / "notes" / "ann" / "MEMORY.md"
    page.write_text(page.read_text() * 2)
    await memory.list_memories(user_id="ann")
    await memory.delete_memory(kept.memory_id, user_id="ann", erase=True)
    await memory.flush()
    assert [line.partition(" ^")[0] for line in page.read_text().splitlines()] == ["- drinks tea"] * 2


async def test_the_line_of_an_erased_memory_goes_with_the_next_start_where_it_could_not_go_at_once(
    memory: ReMe, tmp_path: Path, clock: FixedClock
) -> None:
    kept = await memory.add_memory("the secret is 37919-K", user_id="ann")
    await memory.flush()
    page = tmp_path / "notes" / "ann" / "MEMORY.md"
    with held(page.parent):
        await memory.delete_memory(kept.memory_id, user_id="ann", erase=True)
        await memory.close(finish_jobs=False)
        assert "37919-K" in page.read_text()
    async with opened(tmp_path, clock) as next_one:
        await next_one.list_memories(user_id="bo")
    assert page.read_text() == ""


async def test_a_line_whose_memory_could_not_be_erased_stays(memory: ReMe, tmp_path: Path) -> None:
    await memory.add_memory("drinks tea", user_id="ann")
    with pytest.raises(MemoryNotFoundError):
        await memory.delete_memory("0" * 32, user_id="ann", erase=True)
    await memory.flush()
    assert "drinks tea" in (tmp_path / "notes" / "ann" / "MEMORY.md").read_text()


async def test_what_another_machine_appends_to_a_dialogue_is_found_by_the_next_question(
    memory: ReMe, tmp_path: Path
) -> None:
    await memory.add_memory("drinks tea", user_id="ann")
    await memory.flush()
    await memory.list_memories(user_id="ann")
    (tmp_path / "notes" / "ann" / "dialog").mkdir()
    line = {"session_id": "s1", **said("My walrus is called Olaf.", "m1").model_dump(mode="json")}
    (tmp_path / "notes" / "ann" / "dialog" / "2026-11-22.jsonl").write_text(json.dumps(line) + "\n")
    assert "Olaf" in (await memory.retrieve("What is the walrus called?", user_id="ann")).text


def test_each_scope_has_a_folder_of_its_own() -> None:
    folders = Folders(root="notes", users={"cy": "elsewhere"})
    names = ["ann", "a/b", "a%2fb", "a.", ".hidden", "+shared", "a b", "李", "ann@x.org", "x" * 50]
    names += ["x/a", "x\u02fa", "e\u0301", "\u00e9", "\u03011", "\u3011", *("李" * 100 + end for end in "ab")]
    found = [folders.of(Scope(memory_space="s", user_id=name)) for name in names]
    shared = folders.of(Scope(memory_space="s", user_id=""))
    assert all(path is not None and path.parent == Path("notes") and path.name for path in [*found, shared])
    assert len({*found, shared}) == len(names) + 1
    assert all(len(path.name.encode()) <= 255 for path in found if path is not None)
    assert folders.of(Scope(memory_space="s", user_id="cy")) == Path("elsewhere")
    assert Folders(users={"cy": "x"}).of(Scope(memory_space="s", user_id="ann")) is None


@pytest.mark.parametrize("files", ["", 3, ["a"]])
def test_what_is_no_folder_is_refused(tmp_path: Path, files: object) -> None:
    with pytest.raises(ConfigurationError, match="files: wanted"):
        ReMe(working_dir=tmp_path, llm=None, embedding=None, files=files)  # type: ignore[arg-type]


async def test_no_file_is_written_through_a_link_that_leads_out(memory: ReMe, tmp_path: Path) -> None:
    folder, outside = tmp_path / "notes" / "ann", tmp_path / "outside"
    outside.mkdir()
    folder.mkdir(parents=True)
    for name in ("dialog", "memory", "tool_result", "targets"):
        (folder / name).symlink_to(outside)
    (folder / "MEMORY.md").symlink_to(outside / "MEMORY.md")
    await memory.summary([said("one", "m1")], user_id="ann", session_id="s1")
    await memory.add_memory("drinks tea", user_id="ann")
    await memory.add_memory("likes fish", user_id="ann", memory_target="Bo")
    await memory.offload_text(LONG, user_id="ann", session_id="s1", name="log")
    await memory.flush()
    assert list(outside.iterdir()) == []
    problems = await FileMemory(folder, user_id="ann", memory=memory).check()
    assert {problem.path for problem in problems} >= {"dialog", "MEMORY.md", "targets/personal/Bo.md"}


def test_files_follow_a_blocking_memory_too(tmp_path: Path) -> None:
    with ReMe.sync(working_dir=tmp_path / "store", llm=None, embedding=None, files=tmp_path / "notes") as memory:
        memory.add_memory("drinks tea", user_id="ann")
    assert "- drinks tea ^mem-" in (tmp_path / "notes" / "ann" / "MEMORY.md").read_text()
    with ReMe.sync(working_dir=tmp_path / "store", llm=None, embedding=None, files=tmp_path / "notes") as memory:
        (tmp_path / "notes" / "ann" / "MEMORY.md").write_text("- has a boat\n")
        assert [item.content for item in memory.list_memories(user_id="ann").memories] == ["has a boat"]


async def test_two_memories_over_one_store_and_one_folder_lose_nothing(tmp_path: Path, clock: FixedClock) -> None:
    async with opened(tmp_path, clock) as one, opened(tmp_path, clock) as two, asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(one.add_memory(f"one {number}", user_id="ann"))
            group.create_task(two.add_memory(f"two {number}", user_id="ann"))
            group.create_task(two.summary([said(f"said {number}", f"m{number}")], user_id="ann"))
    page = (tmp_path / "notes" / "ann" / "MEMORY.md").read_text()
    assert {f"- {who} {number}" for who in ("one", "two") for number in range(20)} == {
        line.partition(" ^mem-")[0] for line in page.splitlines()
    }
    assert sorted(dialog(tmp_path / "notes" / "ann")) == sorted(f"m{number}" for number in range(20))


async def test_another_space_keeps_no_files_of_this_one(memory: ReMe, tmp_path: Path) -> None:
    async with memory.in_space("other") as other:
        await other.add_memory("drinks tea", user_id="ann")
    await memory.flush()
    assert not (tmp_path / "notes").exists()
