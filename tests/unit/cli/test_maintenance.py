"""Copies, checks, users and spaces by `reme`, and settings from files."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path

import pytest

from reme_core.cli import ExitCode, maintenance, program
from tests.support.openai_server import KEY, Completion, OpenAIServer
from tests.unit.cli.conftest import Reme
from tests.unit.stores.local.test_copies import read_only


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


@pytest.mark.parametrize("arguments", [(), ("--dir", "elsewhere"), ("none.db",), ("empty.db",)], ids=" ".join)
def test_a_check_of_nothing_says_so_and_makes_no_store(reme: Reme, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "empty.db").touch()
    (tmp_path / ".reme").mkdir()
    (tmp_path / ".reme" / "memory.db").touch()
    before = sorted(tmp_path.rglob("*"))
    told = reme("check", *arguments)
    assert (told.code, told.out) == (ExitCode.NOTHING_FOUND, "")
    why = "is not there" if arguments in {("--dir", "elsewhere"), ("none.db",)} else "is empty (0 bytes)"
    assert f"{why}: nothing was checked" in told.err
    as_json = reme("check", *arguments, "--json")
    assert (as_json.code, as_json.value["problems"]) == (ExitCode.NOTHING_FOUND, [why])
    assert sorted(tmp_path.rglob("*")) == before
    assert not (tmp_path / ".reme" / "memory.db").stat().st_size


def test_a_check_of_a_store_that_was_emptied_says_what_was_there(reme: Reme, tmp_path: Path) -> None:
    reme("add", "Ana likes green tea")
    (tmp_path / ".reme" / "memory.db").write_bytes(b"")
    emptied = reme("check")
    assert emptied.code == ExitCode.NO_ACCESS
    assert "a store was at '.reme/memory.db' and is gone or empty now" in emptied.err


def test_a_file_that_is_no_copy_is_told_by_its_own_name(reme: Reme, tmp_path: Path) -> None:
    reme("add", "Ana likes green tea")
    (tmp_path / "junk.db").write_bytes(b"no database" * 500)
    (tmp_path / "empty.db").touch()
    reme("backup", "newer.db")
    with closing(sqlite3.connect(tmp_path / "newer.db")) as connection:
        connection.execute("PRAGMA user_version = 999")
    for name, why in (("junk.db", "is damaged or no SQLite file"), ("empty.db", "is empty"), ("newer.db", "999")):
        refused = reme("restore", name)
        assert refused.code == ExitCode.UNREADABLE
        assert refused.err.startswith(f"reme: '{name}'")
        assert why in refused.err
        assert ".part" not in refused.err
    assert "green tea" in reme("list").out


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
def test_a_copy_that_cannot_be_written_is_exported(reme: Reme, tmp_path: Path) -> None:
    reme("add", "Ana likes green tea")
    (tmp_path / "out").mkdir(mode=0o777)
    (tmp_path / "out").chmod(0o777)
    with read_only(tmp_path / ".reme"):
        for command, file in (("export", "all.jsonl"), ("dump", "library.jsonl")):
            done = reme(command, f"out/{file}")
            assert (done.code, done.err) == (ExitCode.DONE, "")
            assert "green tea" in (tmp_path / "out" / file).read_text(encoding="utf-8")


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


def test_web_tools_are_named_in_the_environment(reme: Reme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REME_WEB_TOOLS", "look, fetch,")
    result = {"role": "tool", "name": "fetch", "tool_call_id": "c", "content": "tea"}
    (tmp_path / "said.json").write_text(json.dumps([result]))
    reme("add", "--messages", str(tmp_path / "said.json"))
    assert reme("search", "tea", "--trust", "web").code == 0
    assert reme("search", "tea", "--trust", "tool").code == 1


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
    assert reme("cost", "--shared").out == ""
    assert reme("cost", "--user", "").code == ExitCode.BAD_INPUT
    assert reme("cost", "--until", day).out == ""
    wrong = reme("cost", "--since", "yesterday")
    assert (wrong.code, "--since" in wrong.err) == (ExitCode.BAD_INPUT, True)


def test_the_mcp_server_takes_no_settings_from_the_folder_that_it_is_started_in(
    reme: Reme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reme.toml").write_text('[llm]\nmodel = "theirs"\nbase_url = "http://127.0.0.1:9/v1"\napi_key = "k"\n')
    seen = []

    class Commands:
        def main(self, args: list[str], **_: object) -> int:
            seen.append((args[0], os.environ.get("REME_LLM_MODEL")))
            return 0

    monkeypatch.setattr(program, "_commands", Commands)
    for name in ("stats", "mcp"):
        reme(name)
    assert seen == [("stats", "theirs"), ("mcp", None)]


def test_copy_moves_everything_and_says_what_it_compared(reme: Reme, tmp_path: Path) -> None:
    assert reme("add", "Ana likes green tea").code == ExitCode.DONE
    assert reme("add", "Bob skis", "--user", "bob").code == ExitCode.DONE
    copied = reme("copy", "--from", ".reme", "--to", "there")
    assert (copied.code, "2 users" in copied.out, "2 memories" in copied.out) == (ExitCode.DONE, True, True)
    assert "green tea" in reme("list", "--dir", "there").out
    again = reme("copy", "--from", ".reme", "--to", "there", "--json").value
    assert [unit["outcome"] for unit in again["units"]] == ["there", "there"]
    assert reme("copy", "--from", ".reme", "--to", "all.jsonl", "--user", "bob").code == ExitCode.DONE
    assert reme("copy", "--from", "all.jsonl", "--to", "there", "--verify", "--user", "bob").code == ExitCode.DONE
    refused = reme("import", "all.jsonl")
    assert (refused.code, "reme copy --from" in refused.err) == (ExitCode.BAD_INPUT, True)
    assert reme("add", "Ana skis", "--dir", "there").code == ExitCode.DONE
    differ = reme("copy", "--from", ".reme", "--to", "there", "--verify")
    assert (differ.code, "user 'ana' of space 'default': memories" in differ.err) == (ExitCode.CONFLICT, True)
    refused = reme("copy", "--from", ".reme", "--to", "there")
    assert (refused.code, "--merge" in refused.err) == (ExitCode.CONFLICT, True)
    assert reme("copy", "--from", ".reme", "--to", "there", "--merge").code == ExitCode.DONE
    nothing = reme("copy", "--from", ".reme", "--to", "there", "--space", "other")
    assert (nothing.code, "--space" in nothing.err) == (ExitCode.NOTHING_FOUND, True)
