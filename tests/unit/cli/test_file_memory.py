"""`reme files`: a folder of Markdown taken over, told, checked and written."""

from __future__ import annotations

from pathlib import Path

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


def test_looking_at_a_folder_makes_none(reme: Reme, tmp_path: Path) -> None:
    assert reme("files", "status", "none").code == ExitCode.NO_ACCESS
    assert reme("files", "check", "none").code == ExitCode.NO_ACCESS
    assert not (tmp_path / "none").exists()


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
