"""`reme watch`: what happens, as it happens, for people and for programs."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reme_core import Job, JobState, MemoryChange, Message, StoredMessage
from reme_core.cli import ExitCode
from reme_core.cli.output import Output
from reme_core.cli.watch import _print
from reme_core.recall.activity import Activity
from reme_core.schema import ChangeKind, Memory, MemoryType, TextBlock
from tests.support.forked_program import ForkedProgram
from tests.unit.cli.conftest import Reme
from tests.unit.cli.test_errors import environment

NOW = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)
HOSTILE = "a\x1b[2J\u202eb\u2066\x9b1m\x07\n2026-11-23 09:30  said  by Ana"


def test_what_another_process_writes_is_shown_until_ctrl_c(reme: Reme, tmp_path: Path) -> None:
    reme("add", "Ana likes tea", "--target", "Ana")
    child = ForkedProgram(["watch", "--json", "--since", "1h", "--pause", "0.05"], tmp_path, environment())
    assert json.loads(child.stdout.readline())["change"]["after"]["content"] == "Ana likes tea"
    said = json.dumps({"role": "user", "content": "I moved to Rome", "created_at": "2025-03-04T20:00:00Z"})
    reme("add", "--messages", "-", "--no-llm", typed=said)
    news = json.loads(child.stdout.readline())["message"]
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert news["message"]["content"][0]["text"] == "I moved to Rome"
    assert (child.returncode, json.loads(err)["error"]["message"]) == (ExitCode.INTERRUPTED, "interrupted")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--pause", "0"), ExitCode.BAD_INPUT, "--pause: wanted 0.05 to 3600 seconds"),
        (("--pause", "inf"), ExitCode.BAD_INPUT, "--pause: wanted"),
        (("--since", "soon"), ExitCode.BAD_INPUT, "--since: not a time: 'soon'"),
        (("--dir", "nowhere"), ExitCode.NOT_FOUND, "there is no memory"),
        (("--user", ""), ExitCode.BAD_INPUT, "whose memory? Give --user NAME"),
    ],
)
def test_what_cannot_be_watched_is_refused(reme: Reme, arguments: tuple[str, ...], code: int, words: str) -> None:
    reme("add", "Ana likes tea")
    done = reme("watch", *arguments)
    assert (done.code, done.out, words in done.err) == (code, "", True), done.err


def test_people_read_what_was_said_what_was_made_of_it_and_what_it_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    old, new = memory_of("o", "Ana lives in Berlin"), memory_of("n", HOSTILE)
    message = Message(message_id="m", role="user", content=(TextBlock(text=HOSTILE + "x" * 1000),), created_at=NOW)
    replaced = change("o", ChangeKind.REPLACED, before=old, after=old, replaced_by=new)
    failed = Job(job_id="j", kind="summary", state=JobState.DEAD, error=HOSTILE, created_at=NOW, due_at=NOW)
    news = Activity(
        messages=[StoredMessage(message=message, session_id="s")],
        changes=[replaced, change("n", ChangeKind.ADDED, before=None, after=new)],
        jobs=[failed],
        ended_jobs=[failed],
    )
    _print(Output(as_json=False), news)
    out = capsys.readouterr().out
    assert not {char for char in out if not (char.isprintable() or char == "\n")}
    lines = out.splitlines()
    assert lines[0] == "2026-11-23 09:30  said  by user"
    assert lines[1] == r"    a\x1b[2J\u202eb\u2066\x9b1m\x07"
    assert "characters left out" in out
    heads = [line for line in lines if not line.startswith(" ")]
    assert [head.split("  ")[1] for head in heads] == ["said", "replaced", "summary", "summary"]
    assert "    - Ana lives in Berlin" in lines
    assert heads[-2].startswith("job j  summary  was given up: a")
    assert heads[-1] == "job j  summary  is over"


def memory_of(memory_id: str, content: str) -> Memory:
    at = {"observed_at": NOW, "valid_from": NOW, "created_at": NOW, "updated_at": NOW}
    kind = {"memory_type": MemoryType.PERSONAL, "memory_target": "Ana"}
    return Memory(memory_id=memory_id, memory_space="default", user_id="ana", content=content, **kind, **at)


def change(memory_id: str, kind: ChangeKind, **states: Memory | None) -> MemoryChange:
    about = {"memory_type": MemoryType.PERSONAL, "memory_target": "Ana"}
    return MemoryChange(kind=kind, memory_id=memory_id, **about, at=NOW, **states)
