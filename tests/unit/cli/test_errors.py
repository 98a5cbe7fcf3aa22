"""What goes wrong ends in one line on stderr and an exit code of its own, and changes nothing."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import reme_core.errors
from reme_core.cli import ExitCode, exit_code
from reme_core.errors import (
    DimensionMismatchError,
    EmbeddingModelMismatchError,
    MissingExtraError,
    ModelOutputError,
    NotFoundError,
    PartialFailureError,
    ReMeError,
)
from tests.support.openai_server import OpenAIServer, Status
from tests.unit.cli.conftest import MESSAGES, Reme

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        monkeypatch.setenv("REME_EMBEDDING_MODEL", "any")
        monkeypatch.setenv("REME_EMBEDDING_API_KEY", "sk-test")
        monkeypatch.setenv("REME_EMBEDDING_BASE_URL", running.base_url)
        yield running


def program(*arguments: str, setup: str = "pass") -> list[str]:
    # A suite that runs in the background ignores SIGINT, and its children with it, unless they are told otherwise.
    heard = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"import signal, sys; {heard}; {setup}; from reme_core.cli import main; sys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-c", code, *arguments]


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join(part for part in [str(ROOT), os.environ.get("PYTHONPATH", "")] if part)
    return {**os.environ, "PYTHONPATH": path, "REME_USER": "ana", **more}


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("frobnicate",),
        ("search",),
        ("search", "--frob", "x"),
        ("search", ""),
        ("search", "x", "--limit", "none"),
        ("search", "x", "--limit", "0"),
        ("search", "x", "--tokens", "-1"),
        ("search", "x", "--from", "whenever"),
        ("search", "x", "--type", "fact"),
        ("search", "x", "--layer", "basement"),
        ("search", "x", "--metadata", "not json"),
        ("search", "x", "--metadata", "[1]"),
        ("search", "x", "--metadata", '{"a": {"$gt": 1}}'),
        ("search", "x", "--layer", "message", "--target", "t"),
        ("add",),
        ("add", "x", "--messages", "chat.json"),
        ("add", "x", "--session", "s"),
        ("add", "x", "--end"),
        ("add", ""),
        ("add", "x", "--type", "fact"),
        ("add", "x", "--observed", "2999-01-01"),
        ("add", "x", "--metadata", "{"),
        ("add", "-m", "missing.json"),
        ("add", "-m", "chat.json", "--target", "t"),
        ("add", "-m", "chat.json", "--session", "\x1b[2J"),
        ("list", "--layer", "message", "--type", "personal"),
        ("list", "--session", "s"),
        ("list", "--cursor", "no cursor"),
        ("import", "missing.jsonl"),
        ("import", "chat.json"),
        ("delete",),
        ("delete", "x", "--all"),
        ("stats", "--user", "../../etc"),
        ("stats", "--space", "/"),
        ("stats", "--user", ""),
        ("stats", "--dir", ""),
        ("stats", "--dir", "postgresql://ana:secret@host/reme"),
        ("add", "x", "--dir", "postgresql://ana:secret@host/reme"),
    ],
    ids=" ".join,
)
def test_bad_input_ends_with_2_one_line_and_nothing_changed(reme: Reme, chat: str, arguments: tuple[str, ...]) -> None:
    reme("add", "first")
    done = reme(*arguments, *(("--json",) if arguments else ()))
    assert done.code == ExitCode.BAD_INPUT
    error = json.loads(done.err)["error"] if arguments else {"message": done.err, "exit_code": 2}
    assert error["exit_code"] == 2
    assert error["message"]
    assert "\x1b" not in done.err
    assert "secret" not in done.err
    assert reme("stats", "--json").value["events"] == 1
    assert reme("stats", "--json").value["messages"] == 0


@pytest.mark.parametrize("user", [None, ""])
def test_a_user_is_never_guessed(reme: Reme, monkeypatch: pytest.MonkeyPatch, user: str | None) -> None:
    monkeypatch.delenv("REME_USER")
    if user is not None:
        monkeypatch.setenv("REME_USER", user)
    done = reme("add", "whose is this?")
    assert done.code == 2
    assert "--user NAME or set REME_USER" in done.err
    assert not Path(".reme").exists()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b"", "is empty"),
        (b'{"role": "user", "content": "fine"}\nnot json\n', "line 2"),
        (b'{"role": "user", "content": "fine"}\n7\n', "line 2"),
        (b'[{"role": "user", "content": "fine"}, {"role": "pirate", "content": "x"}]', "messages[1].role"),
        (b'[{"role": "user"}]', "messages[0]"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b'[{"role": "user", "content": "\\ud83d"}]', "surrogate"),
        (b"[" * 100_000, "line 1"),
    ],
    ids=["empty", "no json", "a number", "role", "no content", "not utf-8", "surrogate", "deep"],
)
def test_a_bad_file_of_messages_is_refused_whole_with_the_place(reme: Reme, text: bytes, place: str) -> None:
    done = reme("add", "--messages", "-", typed=text)
    assert done.code == 2
    assert place in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", ["show", "history", "delete"])
@pytest.mark.parametrize("hostile", ["nope", "*", "%", "' OR 1=1 --", '{"$ne": ""}', "ｍ-1", "m-1\u200b", "x" * 512])
def test_an_unknown_id_is_not_found_whatever_it_looks_like(reme: Reme, chat: str, command: str, hostile: str) -> None:
    reme("add", "--messages", chat)
    reme("add", "a fact")
    sure = ("--yes",) if command == "delete" else ()
    done = reme(command, hostile, *sure, "--json")
    assert done.code == ExitCode.NOT_FOUND
    assert done.error["exit_code"] == 3
    assert reme("stats", "--json").value["memories"] == 1


@pytest.mark.parametrize("hostile", ["", " ", "x" * 513, "a\nb", "\x1b]0;title\x07", "\udcff"])
def test_an_id_that_can_not_be_one_is_bad_input(reme: Reme, hostile: str) -> None:
    reme("add", "a fact")
    done = reme("show", hostile)
    assert done.code == ExitCode.BAD_INPUT
    assert not any(char in done.err for char in "\x1b\x07")


@pytest.mark.parametrize(
    "command",
    [("search", "x"), ("list",), ("show", "x"), ("history", "x"), ("export", "f"), ("delete", "x"), ("stats",)],
)
def test_looking_where_nothing_was_written_is_not_found_and_makes_no_file(reme: Reme, command: tuple[str, ...]) -> None:
    done = reme(*command, "--json")
    assert done.error["type"] == "NoFileError"
    assert done.code == ExitCode.NOT_FOUND
    assert list(Path.cwd().iterdir()) == []


def test_a_locked_file_is_unavailable_and_worth_another_try(reme: Reme) -> None:
    reme("add", "first")
    other = sqlite3.connect(".reme/memory.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    done = reme("add", "second", "--wait", "0.01", "--json")
    assert (done.code, done.error["retryable"]) == (ExitCode.UNAVAILABLE, True)
    other.execute("ROLLBACK")
    other.close()
    assert reme("add", "second").code == 0


def test_a_damaged_file_and_a_newer_one_are_unreadable_and_left_as_they_are(reme: Reme) -> None:
    Path(".reme").mkdir()
    path = Path(".reme/memory.db")
    path.write_bytes(b"this is no database" * 100)
    assert reme("stats").code == ExitCode.UNREADABLE
    assert path.read_bytes() == b"this is no database" * 100
    path.unlink()
    reme("add", "first")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    newer = reme("stats", "--json")
    assert (newer.code, newer.error["type"]) == (ExitCode.UNREADABLE, "SchemaVersionError")


def test_a_place_that_can_not_be_written_is_no_access(reme: Reme) -> None:
    Path("file").write_text("in the way")
    assert reme("add", "x", "--dir", "file").code == ExitCode.NO_ACCESS
    reme("add", "x")
    done = reme("export", "no/such/folder/x.jsonl")
    assert done.code == ExitCode.NO_ACCESS
    assert done.out == ""


def test_a_message_id_that_is_taken_is_a_conflict(reme: Reme, chat: str) -> None:
    reme("add", "--messages", chat, "--session", "s1")
    other = json.dumps([{**MESSAGES[0], "content": "something else"}])
    done = reme("add", "--messages", "-", "--session", "s1", typed=other)
    assert done.code == ExitCode.CONFLICT
    assert "'m-1'" in done.err


def test_an_embedding_model_that_refuses_leaves_words_and_its_key_is_not_told(reme: Reme, server: OpenAIServer) -> None:
    server.replies(*[Status(401)] * 9)
    done = reme("add", "Ana drinks tea", "--json")
    assert done.code == 0
    found = reme("search", "tea", "--json")
    assert "the key was refused: set REME_EMBEDDING_API_KEY" in found.value["degraded"][0]
    assert found.value["results"][0]["memory"] == "Ana drinks tea"
    assert "the key was refused" in reme("search", "tea").err
    assert "sk-test" not in done.err + found.err + found.out


def test_messages_that_could_not_be_embedded_are_kept_and_partly_done(
    reme: Reme, server: OpenAIServer, chat: str
) -> None:
    server.replies(*[Status(401)] * 9)
    done = reme("add", "--messages", chat, "--json")
    assert done.code == ExitCode.PARTLY_DONE
    assert reme("stats", "--json").value["waiting_for_vectors"] == 3
    assert reme("search", "puppy", "--no-embedding").code == 0


def test_the_embedding_model_of_the_environment_is_used(reme: Reme, server: OpenAIServer, chat: str) -> None:
    reme("add", "--messages", chat)
    assert reme("search", "puppy", "--json").value["usage"]["embedding_calls"] == 1
    assert reme("stats", "--json").value["waiting_for_vectors"] == 0


def kinds() -> list[type[ReMeError]]:
    found = [kind for kind in vars(reme_core.errors).values() if isinstance(kind, type) and issubclass(kind, ReMeError)]
    return sorted(found, key=lambda kind: kind.__name__)


def make(kind: type[ReMeError]) -> ReMeError:
    if issubclass(kind, MissingExtraError):
        return kind(library="l", extra="e", wanted_for="w")
    if issubclass(kind, DimensionMismatchError):
        return kind(expected=1, found=2, what="w")
    if issubclass(kind, EmbeddingModelMismatchError):
        return kind(expected="a", found="b", what="w")
    if issubclass(kind, ModelOutputError):
        return kind("m", raw="")
    if issubclass(kind, PartialFailureError):
        return kind("m", done=None, failures=[])
    return kind(["x"]) if issubclass(kind, NotFoundError) else kind("m")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_error_has_a_code_of_its_own_kind(kind: type[ReMeError]) -> None:
    abstract = {"ReMeError", "StoreError", "RunError"}
    never_here = {"StoreClosedError", "BudgetExceededError", "StepLimitError"}
    expected = kind.__name__ in abstract | never_here
    assert (exit_code(make(kind)) == ExitCode.UNEXPECTED) is expected


def test_a_bug_ends_in_one_line_with_a_code_of_its_own(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    class BrokenInput:
        @property
        def buffer(self) -> object:
            raise RuntimeError("surprise\nin two lines")

        def isatty(self) -> bool:
            return False

    reme("add", "first")
    from reme_core.cli import main

    monkeypatch.setattr(sys, "stdin", BrokenInput())
    assert main(["add", "-"]) == ExitCode.UNEXPECTED


@pytest.mark.parametrize("library", ["typer", "rich"])
def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path, library: str) -> None:
    command = program("stats", setup=f"sys.modules[{library!r}] = None")
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'reme-memory[cli]'" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["mcp", "serve", "inspect"])
def test_without_any_extra_a_server_names_the_one_that_brings_all_it_needs(tmp_path: Path, command: str) -> None:
    bare = program(command, setup="sys.modules['typer'] = None")
    done = subprocess.run(bare, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'reme-memory[serve]'" in done.stderr


def test_importing_the_package_loads_neither_library() -> None:
    check = "import sys, reme_core.cli; sys.exit(any(name in sys.modules for name in ('typer', 'rich', 'openai')))"
    assert subprocess.run([sys.executable, "-c", check], env=environment()).returncode == 0


def test_the_package_is_a_program_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "reme_core.cli", "stats"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 3


def test_a_pipe_that_is_closed_ends_quietly(reme: Reme, tmp_path: Path) -> None:
    assert reme("add", "x").code == 0
    reading, writing = os.pipe()
    os.close(reading)
    for arguments in (("list",), ("list", "--json"), ("--help",), ("watch", "--since", "1h", "--json")):
        done = subprocess.run(
            program(*arguments), cwd=tmp_path, env=environment(), stdout=writing, stderr=subprocess.PIPE, text=True
        )
        assert (done.returncode, done.stderr) == (ExitCode.PIPE_CLOSED, ""), arguments
    os.close(writing)


def test_ctrl_c_ends_with_130_and_nothing_half_done(tmp_path: Path) -> None:
    command = program("add", "--messages", "-", "--json")
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), **streams) as child:
        assert child.stdin is not None
        child.stdin.write(b'{"role": "user", "content": "' + b"x" * 1_000_000)  # until most of it has been read
        child.stdin.flush()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (130, b"")
    assert json.loads(err)["error"]["message"] == "interrupted"


def test_commands_leave_no_thread_behind(reme: Reme) -> None:
    before = set(threading.enumerate())  # other tests have threads as well
    reme("add", "x")
    reme("search", "x")
    assert [thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("reme")] == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes in folders")
@pytest.mark.parametrize("command", [("add", "--messages"), ("import",), ("load",)], ids=lambda item: item[0])
def test_a_pipe_or_a_device_is_refused(reme: Reme, tmp_path: Path, command: tuple[str, ...]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (str(pipe), "/dev/zero"):
        done = reme(*command, path)
        assert done.code == 2
        assert "a pipe or a device" in done.err
