"""`reme doctor` on set-ups that are broken: it names cause and cure."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tomllib
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from reme_core.cli import ExitCode, doctor
from tests.support.file_checks import leave_free_pages
from tests.support.openai_server import KEY, OpenAIServer, Status, Vectors
from tests.unit.cli.conftest import Done, Reme
from tests.unit.stores.local.test_copies import read_only


def line(done: Done, name: str) -> str:
    """Return what was found of a thing."""
    (found,) = [text for text in done.out.splitlines() if text.partition("  ")[2].startswith(f"{name}:")]
    return found


def use_model(monkeypatch: pytest.MonkeyPatch, part: str, url: str, **more: str) -> None:
    for name, value in {"MODEL": "m-1", "BASE_URL": url, "API_KEY": KEY, **more}.items():
        monkeypatch.setenv(f"REME_{part}_{name}", value)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)  # seconds between tries where nobody answers


def test_a_set_up_that_works_is_told_in_full(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    reme("add", "Ana likes green tea")
    with OpenAIServer() as server:
        use_model(monkeypatch, "LLM", server.base_url)
        use_model(monkeypatch, "EMBEDDING", server.base_url, DIMENSION="8")
        done = reme("doctor")
        assert len(server.requests) == 2
    assert (done.code, done.err) == (ExitCode.DONE, "")
    assert sqlite3.sqlite_version in line(done, "versions")
    assert "schema version 14" in line(done, "file")
    assert line(done, "chat model").startswith("ok  chat model:  OpenAIChat('m-1'")
    assert "dimension=8" in line(done, "embedding model")
    assert KEY not in done.out


def test_room_that_an_erasure_left_in_the_file_is_told_with_what_gives_it_back(
    reme: Reme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reme("add", "Ana likes green tea")
    file = tmp_path / ".reme" / "memory.db"
    assert line(reme("doctor"), "file").startswith("ok")
    leave_free_pages(file)
    monkeypatch.setattr(doctor, "_LEAST_FREE_BYTES", 0)
    told = line(reme("doctor"), "file")
    assert told.startswith("hint")
    assert "1,003,520 of them free" in told
    for command in ("backup", "restore"):
        assert f"reme {command}" in told
        assert reme(command, str(tmp_path / "copy.db")).code == ExitCode.DONE
    assert ", 0 of them free" in line(reme("doctor"), "file")


def test_no_model(reme: Reme) -> None:
    done = reme("doctor")
    assert done.code == ExitCode.DONE
    assert line(done, "chat model").startswith("hint")
    assert "REME_LLM_MODEL" in line(done, "chat model")
    assert "REME_EMBEDDING_MODEL" in line(done, "embedding model")
    assert {item["state"] for item in reme("doctor", "--json").value["findings"]} == {"ok", "hint"}


def test_a_model_without_a_key(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REME_LLM_MODEL", "m-1")
    assert "REME_LLM_API_KEY" in line(reme("doctor"), "chat model")


def test_a_wrong_key(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer() as server:
        use_model(monkeypatch, "LLM", server.base_url)
        server.replies(Status(401, message=f"no {KEY}", code="invalid_api_key"))
        done = reme("doctor")
    assert done.code == ExitCode.MODEL_FAILED
    assert "401" in line(done, "chat model")
    assert "the key was refused: set REME_LLM_API_KEY" in line(done, "chat model")
    assert KEY not in done.out


def test_an_endpoint_that_is_down(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer() as server:
        url = server.base_url
    use_model(monkeypatch, "EMBEDDING", url, DIMENSION="8")
    done = reme("doctor")
    assert done.code == ExitCode.MODEL_FAILED
    assert "is the server up, and is the URL right (REME_EMBEDDING_BASE_URL)?" in line(done, "embedding model")


def test_a_model_of_another_dimension_than_it_is_said_to_have(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer() as server:
        use_model(monkeypatch, "EMBEDDING", server.base_url, DIMENSION="8")
        server.replies(Vectors(dimension=16))
        done = reme("doctor")
    assert done.code == ExitCode.MODEL_FAILED
    assert "8" in line(done, "embedding model")
    assert "16" in line(done, "embedding model")


def test_a_model_of_another_dimension_than_the_file(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer() as server:
        use_model(monkeypatch, "EMBEDDING", server.base_url, DIMENSION="8")
        reme("add", "Ana likes green tea")
        use_model(monkeypatch, "EMBEDDING", server.base_url, DIMENSION="16")
        done = reme("doctor")
    assert done.code == ExitCode.BAD_INPUT
    assert "16 dimensions, this store holds vectors of 8: use the embedding model" in line(done, "embedding model")


def test_another_model_than_that_of_the_file(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer() as server:
        use_model(monkeypatch, "EMBEDDING", server.base_url, DIMENSION="8")
        reme("add", "Ana likes green tea")
        assert "of 'm-1', 8 dimensions" in line(reme("doctor"), "stored vectors")
        monkeypatch.setenv("REME_EMBEDDING_MODEL", "m-2")
        done = reme("doctor")
    assert done.code == ExitCode.BAD_INPUT
    assert "'m-2', this memory space holds vectors of 'm-1'" in line(done, "embedding model")
    assert "`reme reembed`" in line(done, "embedding model")


def test_a_change_of_the_model_that_is_under_way(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer() as server:
        use_model(monkeypatch, "EMBEDDING", server.base_url, DIMENSION="8")
        reme("add", "Ana likes green tea")
        server.replies(Status(401, message="no", code="invalid_api_key"), Status(401), Status(401))
        assert reme("reembed", "--model", "m-2").code == ExitCode.MODEL_FAILED
        done = reme("doctor")
        assert done.code == ExitCode.DONE
        assert "'m-2', 8 dimensions is under way" in line(done, "reembed")
        assert "reme reembed --abandon" in line(done, "reembed")
        assert reme("reembed", "--abandon").code == ExitCode.DONE
        assert "reembed:" not in reme("doctor").out


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
def test_a_folder_that_cannot_be_written(reme: Reme, tmp_path: Path) -> None:
    reme("add", "Ana likes green tea")
    with read_only(tmp_path / ".reme"):
        done = reme("doctor")
    assert done.code == ExitCode.NO_ACCESS
    assert "can't be written: change the rights" in line(done, "rights")
    assert line(done, "file").startswith("ok")


def test_a_full_disk(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    reme("add", "Ana likes green tea")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=4096))
    done = reme("doctor")
    assert done.code == ExitCode.UNAVAILABLE
    assert "4,096 bytes are free" in line(done, "room")
    assert "free some space" in line(done, "room")


def test_a_newer_file(reme: Reme, tmp_path: Path) -> None:
    reme("add", "Ana likes green tea")
    with closing(sqlite3.connect(tmp_path / ".reme" / "memory.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    done = reme("doctor")
    assert done.code == ExitCode.UNREADABLE
    assert "schema version 99" in line(done, "file")
    assert "install a newer release" in line(done, "file")


def test_a_file_that_is_no_database(reme: Reme, tmp_path: Path) -> None:
    (tmp_path / ".reme").mkdir()
    (tmp_path / ".reme" / "memory.db").write_text("hello " * 200)
    done = reme("doctor")
    assert done.code == ExitCode.UNREADABLE
    assert "restore a copy" in line(done, "file")


def test_another_agentscope(reme: Reme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tmp_path / "site" / "agentscope-0.1.6.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: agentscope\nVersion: 0.1.6\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    done = reme("doctor")
    assert done.code == ExitCode.BAD_INPUT
    assert "agentscope 0.1.6 is installed" in line(done, "agentscope")
    assert "pip install 'agentscope>=1.0.16,<2' or 'agentscope>=2.0.4,<3'" in line(done, "agentscope")


def test_another_program_of_this_name_first_on_the_path(
    reme: Reme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("other", "own"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "reme").write_text("#!/bin/sh\n")
        (tmp_path / name / "reme").chmod(0o755)
    monkeypatch.setattr(doctor.sysconfig, "get_path", lambda name: str(tmp_path / "own"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'own'}{os.pathsep}{tmp_path / 'other'}")
    assert reme("doctor").code == ExitCode.DONE
    monkeypatch.setenv("PATH", f"{tmp_path / 'other'}{os.pathsep}{tmp_path / 'own'}")
    done = reme("doctor")
    assert done.code == ExitCode.BAD_INPUT
    assert str(tmp_path / "other" / "reme") in line(done, "program")
    assert f"call {tmp_path / 'own' / 'reme'}, or reme-memory" in line(done, "program")


def test_a_space_that_is_empty_beside_others(reme: Reme) -> None:
    reme("add", "Ana likes green tea", "--space", "home")
    assert "memory space 'default' is empty; there is 'home': use --space" in line(reme("doctor"), "space")


def test_what_is_degraded(reme: Reme, chat: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer() as server:
        url = server.base_url
    use_model(monkeypatch, "EMBEDDING", url, DIMENSION="8")
    reme("add", "--messages", chat)
    assert "3 texts without a vector, found by words alone: reme flush" in line(reme("doctor"), "vectors")


def test_the_versions_of_frameworks_are_those_that_the_project_names() -> None:
    root = Path(__file__).resolve().parents[3]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = [text for group in extras.values() for text in group]
    for name, ranges in doctor._FRAMEWORKS.items():
        for first, _ in ranges:
            wanted = f"{name}>={'.'.join(map(str, first))}"
            assert any(text.startswith(wanted) for text in named), wanted


def test_nothing_is_written_by_looking(reme: Reme, tmp_path: Path) -> None:
    assert reme("doctor").code == ExitCode.DONE
    assert list(tmp_path.iterdir()) == []
