"""Copies, checks, users and spaces by `reme`, and settings from files."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path

import pytest

from reme_core.cli import ExitCode, maintenance
from tests.support.openai_server import KEY, Completion, OpenAIServer
from tests.unit.cli.conftest import Reme


def damage(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE memories SET body = replace(body, 'tea', 'tee')")


def test_a_backup_is_written_checked_and_restored(reme: Reme, tmp_path: Path) -> None:
    reme("add", "Ana likes green tea")
    made = reme("backup", "copy.db")
    assert (made.code, made.err) == (ExitCode.DONE, "")
    assert made.out.startswith("copied to copy.db: 2 rows, no problem")
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    again = reme("backup", "copy.db")
    assert (again.code, again.out) == (ExitCode.BAD_INPUT, "")
    assert "--force" in again.err
    assert reme("backup", "copy.db", "--force", "--json").value["problems"] == []
    reme("add", "Ana likes black tea")
    restored = reme("restore", "copy.db")
    assert restored.out.startswith("restored .reme/memory.db  what was there is now .reme/memory.db-replaced-")
    assert "black" not in reme("list").out


def test_a_changed_byte_is_told_by_row_and_not_repeated(reme: Reme, tmp_path: Path) -> None:
    reme("add", "Ana likes green tea")
    assert reme("check").code == ExitCode.DONE
    reme("backup", "copy.db")
    damage(tmp_path / ".reme" / "memory.db")
    for arguments in ((), (".reme/memory.db",)):
        found = reme("check", *arguments)
        assert found.code == ExitCode.UNREADABLE
        assert found.out.startswith("memories, row 1: its text is not what was written\n")
        assert "tee" not in found.out + found.err
    assert reme("backup", "other.db").code == ExitCode.UNREADABLE
    assert not (tmp_path / "other.db").exists()
    assert reme("check", "copy.db").code == ExitCode.DONE
    assert reme("check", "--repair-digests").code == ExitCode.UNREADABLE
    assert reme("check", "--json").value["problems"] == []
    assert reme("check", "copy.db", "--repair-digests").code == ExitCode.BAD_INPUT


def test_users_and_spaces_are_listed_with_what_is_kept_of_them(reme: Reme) -> None:
    assert reme("users").code == ExitCode.NOT_FOUND
    reme("add", "Ana likes green tea")
    reme("add", "Ben has a boat", "--user", "ben")
    reme("add", "The office is closed on Friday", "--shared", "--space", "work")
    assert reme("users").out == "ana  1 memory and 0 messages\nben  1 memory and 0 messages\n"
    assert reme("users", "--space", "work").out == "(shared)  1 memory and 0 messages\n"
    assert "reme spaces" in reme("users", "--space", "nowhere").err
    assert reme("spaces").out == "default  2 users\nwork  1 user\n"
    assert reme("spaces", "--json").value["spaces"][1] == {"memory_space": "work", "users": 1}


def test_an_empty_space_beside_others_is_a_hint_for_people_alone(reme: Reme) -> None:
    reme("add", "Ana likes green tea", "--space", "home")
    for command in (("search", "tea"), ("list",), ("stats",)):
        told = reme(*command)
        assert told.err.startswith("reme: memory space 'default' is empty; there is 'home': use --space\n")
        assert "empty" not in reme(*command, "--space", "home").err
        assert reme(*command, "--json").err == ""


def test_settings_come_from_the_environment_then_dot_env_then_toml(
    reme: Reme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reme.toml").write_text('user = "ben"\nspace = "toml"\ndir = "kept"\nwait = 3\n')
    (tmp_path / ".env").write_text("# ours\nexport REME_SPACE='dotted' # here\nOTHER=1\nREME_USER=carl\nnot a line\n")
    reme("add", "Ana likes green tea")
    assert (tmp_path / "kept" / "memory.db").exists()
    assert reme("spaces").out == "dotted  1 user\n"
    assert reme("users").out == "ana  1 memory and 0 messages\n"
    assert "REME_SPACE" not in os.environ
    monkeypatch.delenv("REME_USER")
    reme("add", "Carl likes black tea")
    (tmp_path / ".env").unlink()
    reme("add", "Ben likes no tea")
    assert reme("users", "--space", "dotted").out.splitlines()[1].startswith("carl")
    assert reme("users").out.startswith("ben")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("colour = 'red'", "'colour' is no setting"),
        ("[llm]\nmodell = 'x'", "'llm.modell' is no setting"),
        ("= 3", "no TOML"),
    ],
)
def test_a_setting_that_means_nothing_is_refused_by_name(reme: Reme, tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "reme.toml").write_text(text)
    done = reme("users")
    assert done.code == ExitCode.BAD_INPUT
    assert told in done.err


def test_a_key_of_the_environment_never_goes_to_an_address_of_the_folder(
    reme: Reme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OpenAIServer() as server:
        (tmp_path / "reme.toml").write_text(f'[llm]\nmodel = "m"\nbase_url = "{server.base_url}"\n')
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        done = reme("doctor")
        assert done.code == ExitCode.BAD_INPUT
        assert "REME_LLM_BASE_URL comes from a file" in done.err
        assert server.requests == []
        (tmp_path / ".env").write_text("REME_LLM_API_KEY=\n")  # an empty one is none
        assert reme("doctor").code == ExitCode.BAD_INPUT
        assert server.requests == []
        (tmp_path / ".env").write_text("REME_LLM_API_KEY=sk-of-the-folder\n")
        assert "answers" in reme("doctor").out
        assert KEY not in str(server.requests[0].headers)


def test_a_shell_gets_the_names_of_commands_to_complete(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_REME_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "reme ba")
    monkeypatch.setenv("COMP_CWORD", "1")
    done = reme()
    assert (done.code, done.out.split()) == (0, ["backup"])


def test_a_terminal_is_told_which_model_is_asked(reme: Reme, chat: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer() as server:
        monkeypatch.setenv("REME_LLM_MODEL", "m")
        monkeypatch.setenv("REME_LLM_BASE_URL", server.base_url)
        assert "is asked" not in reme("add", "--messages", chat).err
        monkeypatch.setattr(type(sys.stderr), "isatty", lambda self: True)
        done = reme("add", "--messages", chat)
        assert "OpenAIChat('m', base_url=" in done.err
        assert "is asked" in done.err
        assert "is asked" not in reme("add", "--messages", chat, "--json").err


def test_each_command_is_declared_once(reme: Reme) -> None:
    told = reme("--help").out
    for command in (maintenance.backup, maintenance.restore, maintenance.check, maintenance.users, maintenance.spaces):
        assert f" {command.__name__} " in told


def test_the_cost_is_told_by_day_user_and_purpose(reme: Reme, chat: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reme("cost").code == ExitCode.NOT_FOUND
    with OpenAIServer() as server:
        monkeypatch.setenv("REME_LLM_MODEL", "any")
        monkeypatch.setenv("REME_LLM_BASE_URL", server.base_url)
        monkeypatch.setenv("REME_LLM_API_KEY", KEY)
        server.replies(Completion(text='{"facts": [], "summary": "Ana and tea."}'))
        assert reme("add", "--messages", chat).code == ExitCode.DONE
        usage = server.prompt_tokens, server.completion_tokens
    assert reme("cost", "--json").value["total"] == {
        "model_calls": 1,
        "prompt_tokens": usage[0],
        "completion_tokens": usage[1],
    }
    day, purpose, total = reme("cost").out.split("\n")[0].split()[0], "summary", reme("cost").out.splitlines()[-1]
    assert f"{day} ana {purpose}" in reme("cost", "--since", day).out
    assert total.startswith("in all")
    assert reme("cost", "--user", "nobody").out == ""
    assert reme("cost", "--until", day).out == ""
    wrong = reme("cost", "--since", "yesterday")
    assert (wrong.code, "--since" in wrong.err) == (ExitCode.BAD_INPUT, True)
