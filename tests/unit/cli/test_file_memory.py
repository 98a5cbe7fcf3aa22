"""`reme files`: a folder of Markdown taken over, told, checked and written."""

from __future__ import annotations

from pathlib import Path

import pytest

from reme_core.cli import ExitCode
from tests.unit.cli.conftest import Reme


def test_a_folder_is_taken_over_and_its_lines_are_memories(reme: Reme, tmp_path: Path) -> None:
    reme("add", "Ana likes green tea")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "MEMORY.md").write_text("# Ana\n\n- has a puppy\n")
    done = reme("files", "init", "notes")
    assert (done.code, done.err) == (ExitCode.DONE, "")
    assert "MEMORY.md" in done.out
    assert "notes: 1 file, 1 written" in done.out
    assert "has a puppy" in reme("list").out
    assert "- Ana likes green tea ^mem-" in (tmp_path / "notes" / "MEMORY.md").read_text()
    told = reme("files", "status", "notes", "--json").value
    assert told == {"folder": "notes", "files": 1, "statements": 2, "passages": 1}
    assert reme("files", "rebuild", "notes", "--json").value["problems"] == []


@pytest.mark.parametrize("command", ["rebuild", "watch", "status", "check", "consolidate"])
def test_a_mistyped_folder_is_not_found_and_not_made(reme: Reme, tmp_path: Path, command: str) -> None:
    done = reme("files", command, "ntoes")
    assert done.code == ExitCode.NOT_FOUND
    assert "reme files init makes it one" in done.err
    assert not (tmp_path / "ntoes").exists()


def test_a_check_tells_each_line_that_does_not_agree_and_changes_nothing(reme: Reme, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    page = tmp_path / "notes" / "MEMORY.md"
    page.write_text("- has a puppy\n- likes tea\n")
    reme("files", "init", "notes")
    assert reme("files", "check", "notes").code == ExitCode.DONE
    memory_id = page.read_text().splitlines()[0].rpartition("^mem-")[2]
    reme("delete", memory_id, "--erase", "--yes")
    text = page.read_text()
    (tmp_path / "notes" / "new.md").write_text("words")
    found = reme("files", "check", "notes")
    assert found.code == ExitCode.CONFLICT
    assert "MEMORY.md:1: its memory" in found.out
    assert "new.md: is not indexed yet" in found.out
    assert page.read_text() == text


def test_a_bad_file_is_told_by_name_and_the_others_are_taken_over(reme: Reme, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "bad.md").write_bytes(b"\xff")
    (tmp_path / "notes" / "MEMORY.md").write_text("- fine\n")
    done = reme("files", "init", "notes")
    assert done.code == ExitCode.PARTLY_DONE
    assert "bad.md: is not UTF-8" in done.out
    assert "fine" in reme("list").out


def test_memories_are_exported_into_an_empty_folder_alone(reme: Reme, tmp_path: Path) -> None:
    reme("add", "Ana likes green tea")
    reme("add", "Biscuit barks", "--target", "Biscuit")
    done = reme("files", "export", "copy")
    assert done.out.splitlines() == ["MEMORY.md  1 memory", "targets/personal/Biscuit.md  1 memory"]
    assert (tmp_path / "copy" / "MEMORY.md").read_text().startswith("- Ana likes green tea ^mem-")
    assert reme("files", "export", "copy").code == ExitCode.BAD_INPUT


def test_a_tree_of_another_maker_is_told_first_and_then_taken_over(reme: Reme, tmp_path: Path) -> None:
    (tmp_path / "tree" / "system").mkdir(parents=True)
    (tmp_path / "tree" / "system" / "human.md").write_text("---\ndescription: The user\n---\n- Likes green tea\n")
    (tmp_path / "tree" / "photo.jpg").write_bytes(b"x")
    (tmp_path / "tree" / "bad.md").write_bytes(b"\xff")
    told = reme("files", "import", "tree", "--dry-run")
    assert told.code == ExitCode.PARTLY_DONE
    assert told.out.splitlines()[:3] == [
        "read as memfs",
        "system/human.md  1 statement",
        "left out photo.jpg: is no Markdown",
    ]
    assert "bad.md: is not UTF-8" in told.out
    assert told.out.splitlines()[-1] == "would import 1 memory"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tree"]
    assert "green tea" not in reme("list").out
    done = reme("files", "import", "tree", "--json").value
    assert (done["kind"], len(done["added"]), done["known"]) == ("memfs", 1, 0)
    again = reme("files", "import", "tree", "--from", "memfs")
    assert "imported 0 memories; beside them 1 known before" in again.out
    reme("undo", done["run_id"])
    assert "green tea" not in reme("list").out


def test_a_kind_that_is_none_and_a_folder_without_a_sign_are_refused(reme: Reme, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.md").write_text("words")
    assert "wanted basic-memory, memfs, memory-md, agents-md" in reme("files", "import", "tree", "--from", "x").err
    refused = reme("files", "import", "tree")
    assert (refused.code, "name it by --from" in refused.err) == (ExitCode.BAD_INPUT, True)


def test_what_is_remembered_is_written_into_a_block_of_a_page_for_agents(reme: Reme, tmp_path: Path) -> None:
    page = tmp_path / "AGENTS.md"
    page.write_text("# Rules\n\nBe brief.\n")
    reme("add", "Ana likes green tea")
    reme("add", "Biscuit barks", "--target", "Biscuit")
    assert reme("files", "block", "AGENTS.md").out == "AGENTS.md: a block of 3 lines\n"
    told = "# Rules\n\nBe brief.\n\n<!-- reme:begin -->\n- Ana likes green tea\n<!-- reme:end -->\n"
    assert page.read_text() == told
    assert reme("files", "block", "README.md").code == ExitCode.BAD_INPUT
    assert reme("files", "block", "none/AGENTS.md").code == ExitCode.BAD_INPUT


def test_a_vault_holds_what_was_said_beside_what_is_remembered(reme: Reme, tmp_path: Path) -> None:
    reme("add", "Ana likes green tea")
    done = reme("files", "export", "vault", "--obsidian")
    assert done.out.splitlines() == ["MEMORY.md  1 memory"]
    assert list((tmp_path / "vault" / "memory").iterdir())


def test_the_journal_is_consolidated_after_its_difference_was_shown(reme: Reme, tmp_path: Path) -> None:
    (tmp_path / "notes" / "memory").mkdir(parents=True)
    (tmp_path / "notes" / "memory" / "2026-11-20.md").write_text("- has a boat #keep\n- rain\n")
    reme("files", "init", "notes")
    told = reme("files", "consolidate", "notes", "--dry-run")
    assert told.code == ExitCode.DONE
    assert "+- has a boat ^mem-" in told.out
    assert not (tmp_path / "notes" / "MEMORY.md").exists()
    done = reme("files", "consolidate", "notes", "--json").value
    assert (done["days"], done["added"], done["changed"], done["problems"]) == (["2026-11-20"], 1, 0, [])
    assert "- has a boat ^mem-" in (tmp_path / "notes" / "MEMORY.md").read_text()
    assert reme("undo", done["run_id"]).code == ExitCode.DONE
    reme("files", "init", "notes")
    assert "boat" not in (tmp_path / "notes" / "MEMORY.md").read_text()


def test_of_a_large_tree_as_much_is_told_as_a_person_reads(reme: Reme, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    for number in range(60):
        (tmp_path / "tree" / f"n{number:02}.md").write_text(f"- [fact] {number}\n")
    told = reme("files", "import", "tree").out.splitlines()
    assert told[50:53] == ["n49.md  1 statement", "and 10 more", "imported 60 memories"]
