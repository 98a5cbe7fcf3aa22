"""Memories made by `reme add`, and the work that is left: `jobs`, `flush`, `undo`."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from reme_core.cli import ExitCode
from tests.support.forked_program import ForkedProgram
from tests.support.openai_server import Completion, Hold, Status
from tests.unit.cli.conftest import Reme, Remy
from tests.unit.cli.test_errors import environment

REFUSAL = Status(400, "no facts today")


@pytest.fixture
def waiting(reme: Reme, remy: Remy, chat: str) -> str:
    """The id of a job whose first attempt has failed."""
    remy.replied["facts"] = REFUSAL
    assert reme("add", "--messages", chat, "--session", "s1").code == ExitCode.PARTLY_DONE
    remy.replied.clear()
    job_id: str = reme("jobs", "--json").value["jobs"][0]["job_id"]
    return job_id


def test_added_messages_become_memories_that_undo_takes_back(reme: Reme, remy: Remy, chat: str) -> None:
    added = reme("add", "--messages", chat, "--session", "s1")
    assert added.code == 0
    assert "3 messages in 1 new block, session s1" in added.out
    assert "Ana has a puppy called Biscuit" in added.out
    run_id = added.out.rsplit("written by run ", 1)[1].split(";")[0]
    undone = reme("undo", run_id)
    assert (undone.code, undone.out.split(";")[0]) == (0, "removed 1 memory and put back 0 memories")
    assert reme("list", "--json").value["memories"] == []
    again = reme("undo", undone.out.rsplit("run ", 1)[1].strip(), "--json").value
    assert (len(again["restored"]), again["removed"]) == (1, [])
    assert len(reme("list", "--json").value["memories"]) == 1


def test_add_tells_programs_the_run_and_the_memories(reme: Reme, remy: Remy, chat: str) -> None:
    value = reme("add", "--messages", chat, "--json").value
    assert [memory["content"] for memory in value["memories"]] == ["Ana has a puppy called Biscuit"]
    assert reme("undo", value["run_id"]).code == 0


def test_a_dry_run_shows_what_would_be_remembered_and_makes_no_file(
    reme: Reme, remy: Remy, chat: str, tmp_path: Path
) -> None:
    remy.facts["Biscuit"] = "Ana has a puppy\x1b[2J called \u202eBiscuit"
    done = reme("add", "--messages", chat, "--dry-run")
    assert done.code == 0
    assert (
        done.out
        == "Would be remembered:\n    - added (personal / Ana): Ana has a puppy\\x1b[2J called \\u202eBiscuit\n"
    )
    assert done.err == "nothing was written; it took 1 call of the chat model\n"
    assert not (tmp_path / ".reme").exists()


def test_a_dry_run_leaves_a_memory_and_its_open_jobs_as_they_are(
    reme: Reme, remy: Remy, waiting: str, tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    other.write_text('[{"role": "user", "content": "I drink tea", "created_at": "2025-03-04T20:00:00Z"}]')
    value = reme("add", "--messages", str(other), "--dry-run", "--json").value
    assert [change["after"]["content"] for change in value["changes"]] == ["Ana likes green tea"]
    [job] = reme("jobs", "--json").value["jobs"]
    assert (job["job_id"], job["attempts"]) == (waiting, 1)
    stats = reme("stats", "--json").value
    assert (stats["messages"], stats["memories"], stats["events"]) == (3, 0, 0)
    assert "preview" in reme("cost").out


def test_a_dry_run_needs_messages_and_a_model(reme: Reme, chat: str) -> None:
    refused = reme("add", "--messages", chat, "--dry-run")
    assert (refused.code, "a preview needs a chat model: set REME_LLM_MODEL" in refused.err) == (2, True)
    assert "--dry-run says nothing about a memory" in reme("add", "Ana swims", "--dry-run").err
    assert "--background says nothing about --dry-run" in reme("add", "-m", chat, "--dry-run", "--background").err


def test_add_without_the_model_calls_none_and_leaves_no_job(reme: Reme, remy: Remy, chat: str) -> None:
    assert reme("add", "--messages", chat, "--no-llm").code == 0
    assert remy.requests == []
    assert reme("jobs", "--json").value == {"jobs": []}


def test_a_single_memory_needs_no_model(reme: Reme, remy: Remy) -> None:
    assert reme("add", "Ana plays the cello").code == 0
    assert remy.requests == []


def test_add_in_the_background_leaves_the_memories_to_flush(reme: Reme, remy: Remy, chat: str) -> None:
    added = reme("add", "--messages", chat, "--session", "s1", "--background")
    assert added.code == 0
    assert "1 job left: reme flush makes memories of these messages" in added.out
    [job] = reme("jobs", "--json").value["jobs"]
    assert (job["state"], job["attempts"], job["user_id"], job["error"]) == ("pending", 0, "ana", "")
    assert reme("list", "--json").value["memories"] == []
    flushed = reme("flush")
    assert (flushed.code, flushed.out) == (0, "1 job done, 1 call of the chat model\n")
    assert len(reme("list", "--json").value["memories"]) == 1


def test_add_in_the_background_without_a_model_keeps_the_messages(reme: Reme, chat: str) -> None:
    assert reme("add", "--messages", chat, "--background", "--json").value["job_ids"] == []
    assert reme("stats", "--json").value["messages"] == 3


def test_messages_whose_memories_failed_are_printed_as_kept(reme: Reme, remy: Remy, chat: str) -> None:
    remy.replied["facts"] = REFUSAL
    done = reme("add", "--messages", chat, "--session", "s1")
    assert done.code == ExitCode.PARTLY_DONE
    assert done.out.startswith("3 messages in 1 new block, session s1\n1 job left")
    assert done.err.count("\n") == 1
    as_json = reme("add", "--messages", "-", "--json", typed='{"role": "user", "content": "one more"}')
    assert (as_json.code, len(as_json.value["job_ids"])) == (ExitCode.PARTLY_DONE, 1)
    assert json.loads(as_json.err)["error"]["type"] == "PartialFailureError"


def test_the_next_command_with_a_model_does_what_an_earlier_one_has_left(reme: Reme, remy: Remy, chat: str) -> None:
    reme("add", "--messages", chat, "--background")
    reme("add", "--messages", "-", "--user", "bob", typed='{"role": "user", "content": "hello"}')
    assert len(reme("list", "--json").value["memories"]) == 1


def test_ctrl_c_while_the_model_works_keeps_the_messages_and_gives_the_job_back(
    reme: Reme, remy: Remy, chat: str, tmp_path: Path
) -> None:
    remy.replied["facts"] = Hold()
    child = ForkedProgram(["add", "--messages", chat], tmp_path, environment())
    remy.wait_for_requests(1)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (130, b"reme: interrupted\n")
    [job] = reme("jobs", "--json").value["jobs"]
    assert (job["state"], job["attempts"]) == ("pending", 0)
    assert reme("stats", "--json").value["messages"] == 3
    assert len(remy.requests) == 1


def test_jobs_say_what_waits_until_when_and_why(reme: Reme, waiting: str) -> None:
    head, reason, foot = reme("jobs").out.splitlines()
    due = reme("jobs", "--json").value["jobs"][0]["due_at"][:16].replace("T", " ")
    assert head == f"summary  pending  1 attempt  due {due}"
    assert reason.startswith("    ModelRejectedError: ")
    assert "400" in reason
    assert foot == f"    id {waiting}  user ana"
    assert reme("stats").out.count("jobs:  1\n") == 1


def test_jobs_of_everyone_name_their_users(reme: Reme, remy: Remy, chat: str, waiting: str) -> None:
    remy.replied["facts"] = REFUSAL
    reme("add", "--messages", chat, "--user", "bob", "--background")
    assert [job["user_id"] for job in reme("jobs", "--json").value["jobs"]] == ["ana"]
    assert {job["user_id"] for job in reme("jobs", "--all", "--json").value["jobs"]} == {"ana", "bob"}
    assert "user bob" in reme("jobs", "--all").out
    assert reme("jobs", "--all", "--space", "other", "--json").value["jobs"] == []


def test_all_jobs_are_listed_without_naming_a_user(reme: Reme, waiting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REME_USER")
    assert reme("jobs", "--all", "--json").value["jobs"][0]["job_id"] == waiting
    assert reme("flush").code == 0
    assert reme("jobs").code == ExitCode.BAD_INPUT


def test_a_job_that_keeps_failing_is_dead_until_it_is_retried(reme: Reme, remy: Remy, waiting: str) -> None:
    remy.replied["facts"] = Completion(text="this is no JSON")
    for _ in range(4):
        assert reme("flush").code == ExitCode.PARTLY_DONE
    [job] = reme("jobs", "--json").value["jobs"]
    assert (job["state"], job["attempts"], job["raw"]) == ("dead", 5, "this is no JSON")
    listed = reme("jobs")
    assert listed.out.startswith("summary  dead  5 attempts\n")
    assert f"id {waiting}" in listed.out
    assert "1 dead: reme jobs --retry ID" in listed.err
    assert "jobs:  1 (1 dead)" in reme("stats").out
    idle = reme("flush")
    assert (idle.code, idle.out) == (0, "nothing was left to do\n")
    assert "1 job given up" in idle.err
    remy.replied.clear()
    assert reme("jobs", "--retry", waiting).out == f"job {waiting} is done\n"
    assert len(reme("list", "--json").value["memories"]) == 1


def test_a_fact_that_could_not_be_read_is_told_beside_those_that_were_kept(reme: Reme, remy: Remy, chat: str) -> None:
    good = {"type": "personal", "target": "Ana", "content": "Ana likes green tea", "messages": [1]}
    bad = {**good, "content": "Ana is a wizard", "type": "spell"}
    remy.replied["facts"] = Completion(text=json.dumps({"facts": [good, bad]}))
    done = reme("add", "--messages", chat)
    assert "Ana likes green tea" in done.out
    assert "left out: Ana is a wizard" in done.err


def test_a_retry_that_fails_again_is_partly_done(reme: Reme, remy: Remy, waiting: str) -> None:
    remy.replied["facts"] = REFUSAL
    done = reme("jobs", "--retry", waiting)
    assert done.code == ExitCode.PARTLY_DONE
    assert "400" in done.err
    assert "no facts today" not in done.err  # the endpoint's own words may repeat keys and prompts
    assert done.err.count("\n") == 1


def test_without_a_model_jobs_are_listed_revived_and_dropped(
    reme: Reme, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REME_LLM_MODEL")
    retried = reme("jobs", "--retry", waiting)
    assert (retried.code, retried.out.split(":")[0]) == (0, f"job {waiting} waits")
    [job] = reme("jobs", "--json").value["jobs"]
    assert (job["state"], job["attempts"], job["error"]) == ("pending", 0, "")
    assert reme("jobs", "--retry", waiting, "--json").value == {"retried": waiting, "done": False}
    assert reme("jobs", "--drop", waiting, "--yes", "--json").value == {"dropped": waiting}
    assert reme("jobs", "--json").value["jobs"] == []
    assert reme("stats", "--json").value["messages"] == 3


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 130, 1), ("", 130, 1)])
def test_dropping_a_job_asks_on_a_terminal(reme: Reme, waiting: str, answer: str, code: int, left: int) -> None:
    done = reme("jobs", "--drop", waiting, typed=answer, at_terminal=True)
    assert done.code == code
    assert f"drop job {waiting} (summary, pending)? Its messages stay." in done.err
    assert len(reme("jobs", "--json").value["jobs"]) == left


def test_dropping_a_job_without_a_terminal_and_without_yes_changes_nothing(reme: Reme, waiting: str) -> None:
    assert reme("jobs", "--drop", waiting).code == ExitCode.BAD_INPUT
    assert len(reme("jobs", "--json").value["jobs"]) == 1


def test_jobs_of_another_user_are_not_found(reme: Reme, waiting: str) -> None:
    for other in (("--user", "bob"), ("--space", "elsewhere"), ("--shared",)):
        assert reme("jobs", "--retry", waiting, *other).code == ExitCode.NOT_FOUND
        assert reme("jobs", "--drop", waiting, "--yes", *other).code == ExitCode.NOT_FOUND
    assert len(reme("jobs", "--json").value["jobs"]) == 1


def test_flush_says_what_it_did_and_what_failed(reme: Reme, remy: Remy, chat: str, waiting: str) -> None:
    reme("add", "--messages", chat, "--user", "bob", "--background")
    remy.replies(REFUSAL)
    done = reme("flush", "--json")
    assert done.code == ExitCode.PARTLY_DONE
    assert (len(done.value["done"]), len(done.value["left"]), done.value["dead"]) == (1, 1, [])
    assert json.loads(done.err)["error"]["exit_code"] == 9
    rest = reme("flush", "--json").value
    assert (len(rest["done"]), rest["left"], rest["usage"]["model_calls"]) == (1, [], 1)
    assert reme("flush").out == "nothing was left to do\n"


def test_flush_without_a_model_says_what_to_set(reme: Reme, waiting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REME_LLM_MODEL")
    done = reme("flush")
    assert done.code == ExitCode.BAD_INPUT
    assert "finishing 1 job needs a chat model: set REME_LLM_MODEL" in done.err
    assert len(reme("jobs", "--json").value["jobs"]) == 1


def test_flush_gives_vectors_to_what_waits_for_them(
    reme: Reme, remy: Remy, chat: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REME_EMBEDDING_MODEL", "any")
    monkeypatch.setenv("REME_EMBEDDING_API_KEY", "sk-test")
    monkeypatch.setenv("REME_EMBEDDING_BASE_URL", remy.base_url)
    remy.replies(*[Status(401)] * 5)
    assert reme("add", "--messages", chat, "--no-llm").code == ExitCode.PARTLY_DONE
    assert reme("flush").out == "1 call of the embedding model\n"
    assert reme("stats", "--json").value["waiting_for_vectors"] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("jobs", "--retry", "x", "--drop", "y"),
        ("jobs", "--all", "--retry", "x"),
        ("jobs", "--all", "--drop", "x", "--yes"),
        ("jobs", "--yes"),
        ("jobs", "--retry", ""),
        ("jobs", "--drop", "", "--yes"),
        ("jobs", "--retry", "\x1b[2J"),
        ("jobs", "x"),
        ("jobs", "--user", ""),
        ("flush", "x"),
        ("flush", "--user", "ana"),
        ("flush", "--space", "/"),
        ("undo",),
        ("undo", ""),
        ("undo", "a\nb"),
        ("undo", "x", "--user", "../x"),
        ("add", "a fact", "--background"),
    ],
    ids=lambda value: " ".join(value).replace("\x1b", "ESC").replace("\n", "LF"),
)
def test_bad_input_ends_with_2_one_line_and_nothing_changed(
    reme: Reme, waiting: str, arguments: tuple[str, ...]
) -> None:
    done = reme(*arguments, "--json")
    assert (done.code, done.error["exit_code"]) == (ExitCode.BAD_INPUT, 2)
    assert "\x1b" not in done.err
    assert reme("jobs", "--json").value["jobs"][0]["job_id"] == waiting


@pytest.mark.parametrize(
    "arguments",
    [("jobs", "--retry", "nope"), ("jobs", "--drop", "nope", "--yes"), ("undo", "nope")],
    ids=" ".join,
)
def test_an_unknown_job_or_run_is_not_found(reme: Reme, waiting: str, arguments: tuple[str, ...]) -> None:
    assert reme(*arguments, "--json").error["exit_code"] == ExitCode.NOT_FOUND


@pytest.mark.parametrize("command", [("jobs",), ("jobs", "--all"), ("jobs", "--retry", "x"), ("flush",), ("undo", "x")])
def test_looking_for_work_where_nothing_was_written_makes_no_file(reme: Reme, command: tuple[str, ...]) -> None:
    assert reme(*command, "--json").error["type"] == "NoFileError"
    assert list(Path.cwd().iterdir()) == []


def test_a_run_whose_memories_were_changed_since_is_a_conflict(reme: Reme, remy: Remy, chat: str) -> None:
    run_id = reme("add", "--messages", chat, "--json").value["run_id"]
    assert reme("undo", run_id).code == 0
    assert reme("undo", run_id).code == ExitCode.CONFLICT


def test_a_reason_is_data_and_fits_a_narrow_terminal(
    reme: Reme, remy: Remy, chat: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    remy.replied["facts"] = Status(400, "a\x1b[31m [bold]b[/bold]\nc\u202e" + "x" * 100)
    reme("add", "--messages", chat)
    piped = reme("jobs").out
    assert len(piped.splitlines()) == 3
    assert "\x1b" not in piped
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    shown = reme("jobs").out
    assert "\x1b[31m [bold]" not in shown
    assert reme("jobs", "--json").value["jobs"][0]["job_id"] in shown
    assert max(len(line) for line in re.sub(r"\x1b\[\d*m", "", shown).splitlines()) <= 40


def test_targets_named_by_hand_are_listed_only_where_asked_for(reme: Reme) -> None:
    reme("add", "personal memories about Ana", "--type", "meta", "--target", "personal/Ana")
    assert reme("list", "--json").value["memories"] == []
    assert "meta / personal/Ana\n    personal memories about Ana" in reme("list", "--type", "meta").out


def test_a_memory_that_was_replaced_says_from_when_to_when_it_held_and_by_what(reme: Reme, tmp_path: Path) -> None:
    new = reme("add", "Ana lives in Lisbon", "--observed", "2023-05-08", "--json").value
    old = {
        **new,
        "memory_id": "old",
        "content": "Ana lives in Berlin",
        "valid_from": "2019-01-01T00:00:00Z",
        "valid_to": "2023-05-08T00:00:00Z",
        "superseded_by": new["memory_id"],
    }
    (tmp_path / "in.jsonl").write_text(json.dumps({"kind": "memory", "value": old}), encoding="utf-8")
    assert reme("import", "in.jsonl").code == 0
    assert "Berlin" not in reme("list").out
    held = "1 January 2019 to 8 May 2023"
    for command in (("list", "--superseded"), ("show", "old")):
        assert held in reme(*command).out
        assert f"replaced by {new['memory_id']}" in reme(*command).out
    found = reme("search", "where does Ana live", "--superseded").out
    assert held in found
    assert f"replaced by {new['memory_id']}" in found


def test_a_memory_is_added_with_its_own_time_and_shows_it_as_it_was_told(reme: Reme) -> None:
    reme("add", "Ana took a trip to Rome", "--since", "2023-06-12", "--until", "2023-06-18")
    reme("add", "Ana worked at Acme", "--until", "2019")
    out = reme("search", "what did Ana do").out
    assert "12 June 2023 to 18 June 2023" in out
    assert "2019" in out
    assert reme("add", "x", "--since", "soon").code == 2
    assert reme("add", "--messages", "in.jsonl", "--since", "2023").code == 2
