"""What lasts of the journal goes into MEMORY.md as one run that is undone; the journal stays, nothing goes twice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reme_core import FileMemory, ReMe
from reme_core.errors import ModelUnavailableError
from reme_core.testing import FixedClock, ScriptedChatModel

DAY = """# 2026-11-20

## 10:42 · session s1

The parser moved to Python 3.13.
- door code 37919-K #keep
> [ ] call Mia #keepsake

Fixed two tests.
"""


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    clock = FixedClock("2026-11-22T12:00:00Z")
    async with ReMe(working_dir=tmp_path / "store", llm=None, embedding=None, clock=clock) as opened:
        yield opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files" / "memory").mkdir(parents=True)
    (tmp_path / "files" / "MEMORY.md").write_text("# Ann\n\n- The parser is for Python 3.12\n- drinks tea\n")
    (tmp_path / "files" / "memory" / "2026-11-20.md").write_text(DAY)
    return (tmp_path / "files").resolve()


@pytest.fixture
async def files(memory: ReMe, root: Path) -> AsyncIterator[FileMemory]:
    async with FileMemory(root, user_id="ann", memory=memory) as opened:
        yield opened


def answer(*items: tuple[str, int | list[int] | None, list[int]]) -> str:
    keep = [{"content": content, "replaces": replaces, "lines": lines} for content, replaces, lines in items]
    return json.dumps({"keep": keep})


def pages(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.rglob("*.md")}


async def test_without_a_model_what_a_person_has_marked_lasts(files: FileMemory, memory: ReMe, root: Path) -> None:
    before = pages(root)
    done = await files.consolidate()
    assert (done.days, done.added, done.changed, done.problems) == (("2026-11-20",), 1, 0, ())
    assert "+- door code 37919-K ^mem-" in done.difference
    page = (root / "MEMORY.md").read_text()
    assert page.startswith(before["MEMORY.md"].decode())
    assert page.count("door code 37919-K") == 1
    assert (root / "memory" / "2026-11-20.md").read_bytes() == before["2026-11-20.md"]
    assert done.run_id is not None
    await memory.undo(done.run_id, user_id="ann")
    await files.sync()
    assert pages(root) == before


async def test_a_dry_run_shows_the_difference_and_writes_nothing(files: FileMemory, memory: ReMe, root: Path) -> None:
    before, events = pages(root), (await memory.stats(user_id="ann")).events
    told = await files.consolidate(dry_run=True)
    assert "door code 37919-K" in told.difference
    assert told.run_id is None
    assert (pages(root), (await memory.stats(user_id="ann")).events) == (before, events)
    assert (await files.consolidate()).added == 1


async def test_a_model_chooses_in_one_call_a_day_and_what_is_no_longer_true_is_replaced(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    (root / "memory" / "2026-11-21.md").write_text("Ann has a boat now.\n")
    ids = {item.content: item.memory_id for item in (await memory.list_memories(user_id="ann")).memories}
    model = ScriptedChatModel(
        [answer(("The parser is for Python 3.13 (20 November 2026)", 1, [5])), answer(("Ann has a boat", None, [1]))]
    )
    with model:
        done = await files.consolidate(model)
    assert (done.added, done.changed) == (2, 1)
    old = ids["The parser is for Python 3.12"]
    assert f"-- The parser is for Python 3.12 ^mem-{old}" in done.difference
    assert f"+- The parser is for Python 3.13 (20 November 2026) ^mem-{old}" in done.difference
    listed = {item.memory_id: item.content for item in (await memory.list_memories(user_id="ann")).memories}
    assert listed[ids["The parser is for Python 3.12"]] == "The parser is for Python 3.13 (20 November 2026)"
    assert set(listed.values()) > {"Ann has a boat", "door code 37919-K", "drinks tea"}
    assert '{"n":1,"text":"The parser is for Python 3.13 (20' in model.requests[1].messages[1].text
    assert '{"n":6,"text":"- door code 37919-K #keep"}' in model.requests[0].messages[1].text
    costs = await memory.costs(user_id="ann")
    assert [(cost.purpose, cost.model_calls) for cost in costs] == [("consolidation", 2)]


async def test_a_statement_that_takes_in_others_leaves_one_line_and_undo_brings_both_back(
    files: FileMemory, memory: ReMe, root: Path
) -> None:
    before = (root / "MEMORY.md").read_bytes()
    with ScriptedChatModel([answer(("Ann drinks tea and writes a parser for 3.13", [1, 2], [5, 6]))]) as model:
        done = await files.consolidate(model)
    assert (done.added, done.changed, done.removed) == (0, 1, 1)
    lines = (root / "MEMORY.md").read_text().splitlines()
    assert [line.partition(" ^")[0] for line in lines] == ["# Ann", "", "- Ann drinks tea and writes a parser for 3.13"]
    assert done.run_id is not None
    await memory.undo(done.run_id, user_id="ann")
    await files.sync()
    assert sorted((root / "MEMORY.md").read_bytes().splitlines()) == sorted(before.splitlines())


async def test_again_nothing_is_asked_and_nothing_changes(files: FileMemory, root: Path) -> None:
    with ScriptedChatModel([answer(("Ann has a boat", None, [5]))]) as model:
        await files.consolidate(model)
        after = pages(root)
        again = await files.consolidate(model)
    assert (again.days, again.difference, again.run_id) == ((), "", None)
    assert pages(root) == after


async def test_a_day_that_was_changed_or_seen_by_no_model_is_looked_at_again_and_nothing_goes_twice(
    files: FileMemory, root: Path
) -> None:
    await files.consolidate()
    with ScriptedChatModel([answer(("The door code: 37919-K.", None, [6]), ("DRINKS tea", None, [5]))] * 2) as model:
        assert (await files.consolidate(model)).added == 1
        page = root / "memory" / "2026-11-20.md"
        page.write_text(f"{page.read_text()}More.\n")
        assert (await files.consolidate(model)).difference == ""


async def test_of_a_long_day_a_model_is_shown_the_beginning_and_what_is_left_out_is_told(
    files: FileMemory, root: Path
) -> None:
    (root / "memory" / "2026-11-20.md").write_text("".join(f"{number} {'x' * 80}\n" for number in range(400)))
    with ScriptedChatModel([answer()]) as model:
        [problem] = (await files.consolidate(model, dry_run=True)).problems
    assert problem.message.startswith("is long: the model was shown 28")
    assert len(model.requests[0].messages[1].text) < 40_000


async def test_what_names_no_line_of_the_journal_is_left_out(files: FileMemory, root: Path) -> None:
    items = [("Ann has a yacht", None, [99]), ("Ann has a horse", None, []), ("Ann has a boat", None, [5])]
    with ScriptedChatModel([answer(("x", 9, [5])), answer(*items)]) as model:
        done = await files.consolidate(model)
    page = (root / "MEMORY.md").read_text()
    assert done.added == 2
    assert "boat" in page
    assert "yacht" not in page
    assert "horse" not in page


async def test_a_day_that_the_model_fails_on_is_told_and_done_the_next_time(files: FileMemory, root: Path) -> None:
    (root / "memory" / "2026-11-21.md").write_text("Ann has a boat now.\n")
    with ScriptedChatModel([ModelUnavailableError("out"), answer(("Ann has a boat", None, [1])), answer()]) as model:
        done = await files.consolidate(model)
        assert (done.days, [problem.path for problem in done.problems]) == (
            ("2026-11-21",),
            ["memory/2026-11-20.md"],
        )
        assert (await files.consolidate(model)).days == ("2026-11-20",)
    assert "door code" in (root / "MEMORY.md").read_text()


async def test_a_statement_that_spans_lines_or_ends_a_fence_stays_one_line_of_the_page(
    files: FileMemory, root: Path
) -> None:
    with ScriptedChatModel([answer(("a\n- b ^mem-0000\n```", None, [5]))]) as model:
        await files.consolidate(model)
    lines = (root / "MEMORY.md").read_text().splitlines()
    assert next(line for line in lines if "<br>" in line).startswith("- a<br>- b ^mem-0000<br>``` ^mem-")
    assert (await files.sync()).runs == ()
