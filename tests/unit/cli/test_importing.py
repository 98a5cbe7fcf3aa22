"""`reme import --from`: what another memory wrote, its report, and what is refused."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from reme_core.cli import ExitCode
from tests.unit.cli.conftest import Reme

PACKED = Path(__file__).parents[2] / "data" / "importers" / "mem0.zip"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    with zipfile.ZipFile(PACKED) as archive:
        archive.extractall(tmp_path)
    return "qdrant"


def test_a_dry_run_tells_what_the_import_then_does_and_makes_no_file(reme: Reme, store: str, tmp_path: Path) -> None:
    dry = reme("import", store, "--from", "mem0", "--source-user", "ann", "--user", "emma", "--dry-run", "--json").value
    assert not (tmp_path / ".reme").exists()
    done = reme("import", store, "--from", "mem0", "--source-user", "ann", "--user", "emma")
    assert done.code == ExitCode.DONE
    assert "mem0: 1 session of 1 message and 5 memories, said 2025-03-04 20:00" in done.out
    assert "user 'ann': 1 session of 1 message and 5 memories, to user 'emma'" in done.out
    assert "user 'bob': 0 sessions of 0 messages and 1 memory, left out" in done.out
    assert "imported 1 message and 5 memories\n" in done.out
    assert "reme undo takes them back" in done.out
    assert (dry["dry_run"], dry["added_memories"], dry["added_messages"]) == (True, 5, 1)
    assert "Ann has a dog called Rex" in reme("list", "--user", "emma").out
    again = reme("import", store, "--from", "mem0", "--source-user", "ann", "--user", "emma", "--dry-run")
    assert "would import 0 messages and 0 memories; beside them 1 message and 5 memories known before" in again.out


def test_several_users_are_named_and_nothing_is_guessed(reme: Reme, store: str, tmp_path: Path) -> None:
    refused = reme("import", store, "--from", "mem0", "--user", "emma")
    assert refused.code == ExitCode.BAD_INPUT
    assert "'ann', 'bob', nobody in particular. Name one by --source-user" in refused.err
    assert "by --every-user" in refused.err
    assert reme("list", "--user", "emma").code == ExitCode.NOT_FOUND
    assert reme("import", store, "--from", "mem0", "--every-user").code == ExitCode.DONE
    assert "Bob swims" in reme("list", "--user", "bob").out


def test_what_could_not_be_read_is_told_and_the_exit_code_says_so(reme: Reme, tmp_path: Path) -> None:
    (tmp_path / "told.json").write_text('[{"id": "1", "memory": "Rows"}, {"id": "2", "memory": "\\u001b[31m"}, 7]')
    done = reme("import", "told.json", "--from", "mem0", "--user", "emma")
    assert done.code == ExitCode.PARTLY_DONE
    assert "left out told.json, item 3: is no memory with an id" in done.out
    assert "imported 0 messages and 2 memories" in done.out


def test_what_is_not_ours_is_refused_with_the_names_to_give(reme: Reme, store: str, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"memories": []}')
    folder, file = reme("import", store, "--user", "emma"), reme("import", "other.json", "--user", "emma")
    assert folder.code == file.code == ExitCode.BAD_INPUT
    assert "is a folder, and reme export writes a file: name what wrote it, as by --from mem0, openmemory" in folder.err
    assert "if another memory wrote it, name that, as by --from mem0, openmemory" in file.err
    unknown = reme("import", store, "--from", "mem9", "--user", "emma")
    assert "wanted one of mem0, openmemory" in unknown.err
    assert reme("import", "other.json", "--dry-run", "--user", "emma").code == ExitCode.BAD_INPUT
