"""`reme capture`: transcripts of coding agents in the memory, each line once."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core import ReMe
from reme_core.cli import ExitCode
from reme_core.cli.transcripts import MAX_TOOL_CHARS, Transcript
from reme_core.schema import Hit
from reme_core.schema.hits import found_text
from tests.support import transcripts
from tests.support.forked_program import ForkedProgram
from tests.support.transcripts import SAID, SESSION, write
from tests.unit.cli.conftest import Reme, Remy
from tests.unit.cli.test_errors import environment, program

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TYPES = {
    "claude_code": transcripts.claude_code,
    "codex": transcripts.codex,
    "cursor": transcripts.cursor,
    "opencode": transcripts.opencode,
}


def said(user: str = "ana", session: str = SESSION) -> list[tuple[str, str]]:
    with ReMe.sync(llm=None, embedding=None) as memory:
        page = memory.find_messages(user_id=user, session_id=session, limit=500)
    return [(item.message.role, item.message.full_text) for item in page.messages]


def read(*lines: Any) -> list[tuple[str, str]]:
    data = b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    found = Transcript(data, name="name").messages(known=(), now=NOW)
    return [(message.role, message.full_text) for message in found.messages]


def user(text: str, name: str, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": text}
    return {"type": "user", "uuid": name, "sessionId": SESSION, "message": message, **more}


@pytest.mark.parametrize("client", ["claude_code", "codex", "cursor"])
def test_what_was_said_is_kept_and_nothing_else(client: str) -> None:
    assert read(*TYPES[client]()) == list(SAID)


@pytest.mark.parametrize(
    "text",
    [
        found_text([Hit(memory="We deploy with kamal", layer="memory", score=1.0)]),
        "<system-reminder>\nBe brief\n</system-reminder>",
        "  <SUBAGENT_NOTIFICATION>{}</subagent_notification>",
        "# AGENTS.md instructions for /repo\n\n<INSTRUCTIONS>",
        '<hook_prompt hook_run_id="1">Go on</hook_prompt>',
    ],
)
def test_what_a_client_or_our_own_hook_puts_into_the_users_mouth_is_not_said(text: str) -> None:
    assert read(user(text, "u-1"), user(f"Look: {text}", "u-2")) == [("user", f"Look: {text}")]


def test_what_was_typed_while_claude_code_was_at_work_is_said_by_the_user() -> None:
    def queued(prompt: Any, **more: Any) -> dict[str, Any]:
        return {
            "type": "attachment",
            "uuid": str(prompt),
            "attachment": {"type": "queued_command", "prompt": prompt, **more},
        }

    lines = [
        queued("also add tests"),
        queued(
            [{"type": "text", "text": "match this"}, {"type": "image"}], commandMode="prompt", origin={"kind": "human"}
        ),
        queued("another agent's", commandMode="prompt", origin={"kind": "peer"}),
        queued("a task's", commandMode="task-notification"),
        user("goes on by itself", "u-1", origin={"kind": "auto-continuation"}),
        {**user("API Error: 500", "u-2"), "isApiErrorMessage": True},
    ]
    assert read(*lines) == [("user", "also add tests"), ("user", "match this")]


def test_a_message_of_opencode_holds_calls_and_results() -> None:
    call = f"{SAID[1][1]}\n{SAID[2][1]}"
    assert read(*transcripts.opencode()) == [SAID[0], ("assistant", call), SAID[3]]


def test_an_export_of_opencode_is_read_as_it_is_printed() -> None:
    whole = {"info": {"id": SESSION}, "messages": transcripts.opencode()}
    assert read(json.dumps(whole, indent=2).encode()) == read(*transcripts.opencode())


def test_an_answer_that_opencode_still_writes_is_left_for_the_next_time() -> None:
    [*before, last] = transcripts.opencode()
    del last["info"]["time"]["completed"]
    assert read(*before, last) == read(*before)


@pytest.mark.parametrize("client", list(TYPES))
def test_the_session_is_that_of_the_transcript_or_the_name_of_its_file(client: str) -> None:
    data = "\n".join(map(json.dumps, TYPES[client]())).encode()
    assert Transcript(data, name="file-name").session_id == ("file-name" if client == "cursor" else SESSION)


def test_calls_and_results_belong_together() -> None:
    data = "\n".join(map(json.dumps, transcripts.claude_code())).encode()
    _, call, result, _ = Transcript(data, name="x").messages(known=(), now=NOW).messages
    assert call.call_ids == result.result_ids == ("toolu_1",)
    assert call.created_at == datetime(2026, 3, 1, 22, 38, 44, 557000, tzinfo=UTC)


def test_tool_results_and_arguments_are_bounded() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x" * 100_000}
    call = {"type": "tool_use", "id": "t", "name": "Write", "input": {"content": "y" * 100_000}}
    lines = [
        {"type": "assistant", "uuid": "a", "message": {"role": "assistant", "content": [call]}},
        {"type": "user", "uuid": "b", "message": {"role": "user", "content": [result]}},
    ]
    for _, text in read(*lines):
        assert len(text) < MAX_TOOL_CHARS + 100
        assert text.rstrip(")").endswith("characters left out]")


def test_a_time_that_lies_ahead_or_is_none_is_now() -> None:
    lines = [user("a", "1", timestamp="2999-01-01T00:00:00Z"), user("b", "2", timestamp="soon"), user("c", "3")]
    data = "\n".join(map(json.dumps, lines)).encode()
    assert {item.created_at for item in Transcript(data, name="x").messages(known=(), now=NOW).messages} == {NOW}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_WORDS = (
    "type uuid message role content payload parts info id time created state sessionId timestamp text name input",
    "call_id arguments output tool_use_id tool_result tool_use user assistant response_item function_call completed",
)
_KEYS = st.sampled_from(" ".join(_WORDS).split())
_RECORDS = st.recursive(_JSON | _KEYS, lambda inner: st.dictionaries(_KEYS, inner, max_size=6), max_leaves=12)


@given(st.lists(_RECORDS, max_size=4), st.binary(max_size=20))
def test_hostile_lines_cost_those_lines(records: list[Any], junk: bytes) -> None:
    lines = [json.dumps(record).encode() for record in records]
    data = b"\n".join([*lines, json.dumps(user("kept", "u-1")).encode(), junk.replace(b"\n", b""), b""])
    found = Transcript(data, name="x").messages(known=(), now=NOW)
    assert "kept" in [message.text for message in found.messages]


def test_lines_that_can_not_be_used_are_counted() -> None:
    data = b'not json\n[1, 2]\n{"deep": ' + b"[" * 100_000 + b"\n\xff\xfe\n" + json.dumps(user("kept", "u")).encode()
    found = Transcript(data, name="x").messages(known=(), now=NOW)
    assert (len(found.messages), found.unusable, found.unfinished) == (1, 4, False)


def test_a_line_that_lies_too_deep_costs_that_line() -> None:
    deep = '{"a": ' * 900 + "1" + "}" * 900
    call = f'{{"type": "tool_use", "id": "c", "name": "n", "input": {deep}}}'
    line = f'{{"uuid": "d", "message": {{"role": "assistant", "content": [{call}]}}}}'
    data = f"{line}\n{json.dumps(user('kept', 'u'))}".encode()
    found = Transcript(data, name="x").messages(known=(), now=NOW)
    assert (len(found.messages), found.unusable, found.unfinished) == (1, 1, False)


def test_a_torn_last_line_is_left_for_next_time(reme: Reme, tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", transcripts.claude_code())
    line = json.dumps(user("Thanks, that worked", "u-9"))
    with path.open("a", encoding="utf-8") as file:
        file.write(line[:40])
    first = reme("capture", "--transcript", str(path), "--json").value
    assert (first["messages"], first["unusable"], first["unfinished"]) == (4, 0, True)
    with path.open("a", encoding="utf-8") as file:
        file.write(line[40:] + "\n")
    again = reme("capture", "--transcript", str(path), "--json").value
    assert (again["messages"], again["unfinished"]) == (1, False)
    assert said()[-1] == ("user", "Thanks, that worked")


@pytest.mark.parametrize("client", list(TYPES))
def test_capturing_after_each_line_keeps_each_message_once(reme: Reme, tmp_path: Path, client: str) -> None:
    lines, path = TYPES[client](), tmp_path / f"{SESSION}.jsonl"
    for count in range(1, len(lines) + 1):
        write(path, lines[:count])
        assert reme("capture", "--transcript", str(path)).code == 0
    assert said() == read(*lines)
    assert reme("capture", "--transcript", str(path), "--json").value["messages"] == 0


def test_only_the_lines_behind_those_known_are_read(tmp_path: Path) -> None:
    lines = [user(f"text {number}", f"u-{number}") for number in range(5)]
    data = "\n".join(map(json.dumps, lines)).encode()
    transcript = Transcript(data, name="x")
    known = transcript.messages(known=(), now=NOW).messages
    assert [item.text for item in transcript.messages(known=known[3:4], now=NOW).messages] == ["text 4"]
    assert len(transcript.messages(known=[known[0].model_copy(update={"message_id": "other"})], now=NOW).messages) == 5


def test_what_others_write_into_the_session_does_not_matter(reme: Reme, tmp_path: Path, chat: str) -> None:
    lines, path = transcripts.claude_code(), tmp_path / "t.jsonl"
    write(path, lines[:6])
    reme("capture", "--transcript", str(path))
    assert reme("add", "--messages", chat, "--session", SESSION, "--open").code == 0
    write(path, lines)
    reme("capture", "--transcript", str(path))
    assert [item for item in said() if item in SAID] == list(SAID)


def test_a_forked_session_that_repeats_ids_loses_nothing(reme: Reme, tmp_path: Path) -> None:
    first = [user("from the first", "u-1")]
    fork = [{**user("from the first", "u-1"), "sessionId": "fork"}, {**user("new", "u-2"), "sessionId": "fork"}]
    reme("capture", "--transcript", str(write(tmp_path / "a.jsonl", first)))
    for _ in range(2):
        assert reme("capture", "--transcript", str(write(tmp_path / "b.jsonl", fork))).code == 0
    assert (len(said()), len(said(session="fork"))) == (1, 2)


def test_the_same_id_on_two_lines_is_one_message(reme: Reme, tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", [user("one", "u-1"), user("two", "u-1")])
    assert reme("capture", "--transcript", str(path), "--json").value["messages"] == 1


def test_thousands_of_lines_are_kept_in_order(reme: Reme, tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", [user(f"text {number}", f"u-{number}") for number in range(2_500)])
    assert reme("capture", "--transcript", str(path), "--json").value["messages"] == 2_500
    with ReMe.sync(llm=None, embedding=None) as memory:
        newest = memory.find_messages(user_id="ana", session_id=SESSION, limit=2, newest_first=True)
        assert memory.stats(user_id="ana").messages == 2_500
    assert [item.message.text for item in newest.messages] == ["text 2499", "text 2498"]


def test_user_space_session_and_folder_are_those_that_are_named(reme: Reme, tmp_path: Path) -> None:
    path = str(write(tmp_path / "t.jsonl", transcripts.codex()))
    reme("capture", "--transcript", path, "--user", "bob", "--space", "work", "--session", "mine", "--dir", "other")
    with ReMe.sync("work", "other", llm=None, embedding=None) as memory:
        assert len(memory.find_messages(user_id="bob", session_id="mine").messages) == 4
        assert memory.find_messages(user_id="ana").messages == ()


def test_with_a_model_jobs_are_left_and_nobody_is_asked(reme: Reme, remy: Remy, tmp_path: Path) -> None:
    lines = [*transcripts.claude_code(), user("By the way, I drink tea", "u-99")]
    path = write(tmp_path / "t.jsonl", lines)
    assert reme("capture", "--transcript", str(path), "--json").value["jobs"] > 0
    assert remy.requests == []
    assert reme("flush").code == 0
    assert "Ana likes green tea" in reme("list").out


def test_without_a_model_no_job_is_left(reme: Reme, remy: Remy, tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", transcripts.claude_code())
    assert reme("capture", "--transcript", str(path), "--no-llm", "--json").value["jobs"] == 0


def test_with_an_embedding_model_messages_wait_for_their_vectors(
    reme: Reme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REME_EMBEDDING_MODEL", "any")
    reme("capture", "--transcript", str(write(tmp_path / "t.jsonl", transcripts.codex())))
    with ReMe.sync(llm=None, embedding=None) as memory:
        assert memory.stats(user_id="ana").waiting_for_vectors == 4


def test_a_console_that_knows_few_characters_is_told_all(tmp_path: Path) -> None:
    write(tmp_path / "会话😊.jsonl", [{"role": "user", "message": {"content": "你好 😊"}}])
    command = [*program(), "capture", "--transcript", "会话😊.jsonl"]
    told = {**environment(), "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    done = subprocess.run(command, cwd=tmp_path, env=told, capture_output=True, check=True)
    assert done.stdout.decode("cp1252").strip() == "1 new message, session \\u4f1a\\u8bdd\\U0001f60a"
    with ReMe.sync(working_dir=tmp_path / ".reme", llm=None, embedding=None) as memory:
        [item] = memory.find_messages(user_id="ana", session_id="会话😊").messages
    assert item.message.text == "你好 😊"


def test_mistakes_are_told_with_a_code(reme: Reme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = reme("capture", "--transcript", "nowhere.jsonl", "--json")
    assert (missing.code, missing.error["type"]) == (ExitCode.BAD_INPUT, "InvalidInputError")
    assert "it is a folder" in reme("capture", "--transcript", str(tmp_path)).err
    assert reme("capture").code == ExitCode.BAD_INPUT
    assert reme("capture", "--transcript", "x", "--nope").code == ExitCode.BAD_INPUT
    monkeypatch.delenv("REME_USER")
    assert "whose memory?" in reme("capture", "--transcript", "x").err
    assert list(tmp_path.iterdir()) == []


def test_files_of_the_folder_say_nothing_about_whose_memory_it_is(
    reme: Reme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reme.toml").write_text('user = "mallory"\ndir = "evil"\n', encoding="utf-8")
    (tmp_path / ".env").write_text("REME_SPACE=evil\n", encoding="utf-8")
    reme("capture", "--transcript", str(write(tmp_path / "t.jsonl", transcripts.codex())))
    assert said() == list(SAID)
    assert not (tmp_path / "evil").exists()


def test_the_help_of_the_program_lists_both_commands_and_each_has_its_own(reme: Reme) -> None:
    listed = reme("--help").out
    assert " capture " in listed
    assert " hook " in listed
    told = reme("capture", "--help")
    assert (told.code, "--transcript FILE" in told.out) == (0, True)


def test_killed_while_capturing_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", [user(f"text {number}", f"u-{number}") for number in range(3_000)])
    command = ["capture", "--transcript", str(path), "--user", "ana"]
    child = ForkedProgram(command, tmp_path, environment())
    while not (tmp_path / ".reme" / "memory.db").exists() and child.poll() is None:
        pass
    child.kill()
    child.communicate(timeout=60)
    again = ForkedProgram(command, tmp_path, environment())
    again.communicate(timeout=60)
    assert again.returncode == 0
    with ReMe.sync(working_dir=tmp_path / ".reme", llm=None, embedding=None) as memory:
        page = memory.find_messages(user_id="ana", session_id=SESSION, limit=5_000)
    assert [item.message.text for item in page.messages] == [f"text {number}" for number in range(3_000)]


def test_no_module_of_typer_rich_or_a_model_is_loaded(tmp_path: Path) -> None:
    write(tmp_path / "t.jsonl", transcripts.codex())
    code = (
        "import sys; from reme_core.cli import main;"
        "assert main(['capture', '--transcript', 't.jsonl', '--user', 'ana']) == 0;"
        "print(sorted({'typer', 'rich', 'openai', 'httpx', 'reme_core.facade.reme'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
