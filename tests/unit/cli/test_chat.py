"""`reme chat`: what is typed is answered, kept and remembered; nothing that goes wrong ends it but its end."""

from __future__ import annotations

import os
import pty
import re
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reme_core.cli import ExitCode
from tests.support.forked_program import ForkedProgram, in_interpreter
from tests.support.openai_server import WAIT_S, Completion, Handler, Hold, Request, Status
from tests.unit.cli.conftest import Reme, Remy
from tests.unit.cli.test_errors import environment


@pytest.fixture
def tea(reme: Reme, remy: Remy) -> str:
    """Ana has told of her tea in an earlier talk; the id of the memory."""
    assert reme("chat", "--session", "first", typed="I drink green tea every morning\n").code == 0
    memory_id: str = reme("list", "--json").value["memories"][0]["memory_id"]
    remy.requests.clear()
    return memory_id


@pytest.fixture
def start(tmp_path: Path, remy: Remy) -> Iterator[Callable[..., ForkedProgram]]:
    """Start `reme chat` as a process of its own; what still runs at the end is killed."""
    children: list[ForkedProgram] = []

    def begin(*arguments: str, program: Any = ForkedProgram, stdin: Any = None, **more: str) -> ForkedProgram:
        children.append(program(["chat", *arguments], tmp_path, environment(**more), stdin=stdin))
        return children[-1]

    yield begin
    for child in children:
        child.kill()
        child.communicate(timeout=60)


def test_what_was_said_in_one_talk_answers_a_question_of_the_next(reme: Reme, remy: Remy) -> None:
    first = reme("chat", typed="I drink green tea every morning\n\n   \n/exit\nnot read any more\n")
    assert (first.code, first.out) == (0, "Noted.\n")
    assert "to go on: reme chat --session " in first.err
    assert remy.count_of("chat") == 1
    second = reme("chat", typed="please look up what I drink\n/why\n")
    assert second.code == 0
    assert second.out.startswith("You like green tea.\n1.  memory  ")
    assert "Ana likes green tea" in second.out
    assert "(1 thing looked at: /why)" in second.err


def test_the_answer_is_asked_for_as_a_stream(reme: Reme, remy: Remy) -> None:
    reme("chat", typed="hello\n")
    assert remy.bodies[0]["stream"] is True


@dataclass(frozen=True)
class HeldStream:
    """An answer whose second half waits until it is let go."""

    first: str
    second: str
    go_on: threading.Event = field(default_factory=threading.Event)

    def send(self, http: Handler, request: Request) -> None:
        http.send_stream(self._pieces(), None)

    def _pieces(self) -> Iterator[dict[str, Any]]:
        yield {"choices": [{"index": 0, "delta": {"role": "assistant", "content": self.first}, "finish_reason": None}]}
        assert self.go_on.wait(WAIT_S)
        yield {"choices": [{"index": 0, "delta": {"content": self.second}, "finish_reason": None}]}
        yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def test_an_answer_is_shown_while_the_model_still_writes_it(start: Callable[..., ForkedProgram], remy: Remy) -> None:
    held = HeldStream("The first half", " and the second.")
    remy.replies(held)
    child = start()
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"hello\n")
    child.stdin.flush()
    assert child.stdout.read(14) == b"The first half"
    held.go_on.set()
    out, _ = child.communicate(timeout=60)
    assert (child.returncode, out) == (0, b" and the second.\n")


def test_a_session_is_gone_on_with(reme: Reme, remy: Remy) -> None:
    reme("chat", "--session", "s1", typed="my cat is called Miso\n")
    remy.requests.clear()
    reme("chat", "--session", "s1", typed="and she is grey\n")
    said = [str(message["content"]) for message in remy.bodies[0]["messages"]]
    assert "my cat is called Miso" in "\n".join(said)
    messages = reme("list", "--layer", "message", "--session", "s1", "--json").value["messages"]
    assert len(messages) == 4


def test_why_shows_a_memory_with_its_dates_and_the_messages_it_comes_from(reme: Reme, tea: str) -> None:
    told = reme("chat", typed="look up my tea\n/why 1\n").out
    assert f"id {tea}" in told
    assert "personal / Ana" in told
    assert "from 1 message:" in told
    assert "I drink green tea every morning" in told
    assert re.search(r"changed \d{4}-\d\d-\d\d \d\d:\d\d", told)


def test_numbers_are_those_of_the_last_list_or_answer(reme: Reme, tea: str) -> None:
    newer = reme("add", "Ana plays the cello", "--target", "Ana", "--json").value["memory_id"]
    done = reme("chat", typed="/memories\n/why 1\nlook up my tea\n/why 1\n/memories cello\n/why 1\n/why 2\n")
    assert re.findall(r"id (\w+)  revision", done.out) == [newer, tea, newer]
    assert "no number 2: the numbers go up to 1" in done.err


@pytest.mark.parametrize(
    ("typed", "is_gone", "answered"),
    [
        ("/memories\n/forget 1\ny\n", True, 0),
        ("/memories\n/forget 1\nYES\n", True, 0),
        ("/memories\n/forget 1 --yes\n", True, 0),
        ("/memories\n/forget 1\nn\n", False, 0),
        ("/memories\n/forget 1\n\n", False, 0),
        ("/memories\n/forget 1\n", False, 0),
        ("/memories\n/forget 1\nyesterday I slept badly\n", False, 1),
    ],
    ids=["y", "yes", "--yes", "n", "nothing", "end", "another line"],
)
def test_forget_deletes_only_what_is_agreed_to(
    reme: Reme, remy: Remy, tea: str, typed: str, is_gone: bool, answered: int
) -> None:
    done = reme("chat", typed=typed)
    assert done.code == 0
    assert reme("show", tea).code == (3 if is_gone else 0)
    assert ("forgot 'Ana likes green tea'" in done.out) is is_gone
    assert ("forget 'Ana likes green tea'? [y/N]" in done.err) is ("--yes" not in typed)
    assert remy.count_of("chat") == answered


def test_forget_on_a_terminal_takes_any_other_line_as_a_no(reme: Reme, remy: Remy, tea: str) -> None:
    done = reme("chat", typed="/memories\n/forget 1\nyes please\n", at_terminal=True)
    assert "> " in done.err
    assert reme("show", tea).code == 0
    assert remy.count_of("chat") == 0


def test_a_memory_that_is_gone_meanwhile_is_told_and_the_talk_goes_on(reme: Reme, tea: str) -> None:
    done = reme("chat", typed="/memories\n/forget 1 --yes\n/why 1\n/forget 1 --yes\nhello\n")
    assert done.err.count(tea) == 2
    assert done.out.endswith("Noted.\n")
    assert done.code == ExitCode.NOT_FOUND


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/frobnicate", "there is no '/frobnicate' here, and it is not sent"),
        ("/", "there is no '/' here"),
        ("/EXIT", "there is no '/EXIT' here"),
        ("/exit now", "there is no '/exit now' here"),
        ("/help me", "/help takes nothing"),
        ("/\x1b[2Jclear", "\\x1b[2Jclear"),
        ("/why 0", "no number 0"),
        ("/why 2", "no number 2"),
        ("/why 1 1", "/why wants one number"),
        ("/why x", "/why wants one number"),
        ("/why -1", "/why wants one number"),
        ("/why " + "9" * 5000, "/why wants one number"),
        ("/forget", "/forget wants one number"),
        ("/forget --yes", "/forget wants one number"),
        ("/forget 99", "no number 99"),
    ],
    ids=lambda value: value[:20].replace("\x1b", "ESC"),
)
def test_a_wrong_command_is_told_in_one_line_and_never_sent(
    reme: Reme, remy: Remy, tea: str, line: str, told: str
) -> None:
    done = reme("chat", typed=f"/memories\n{line}\n")
    assert told in done.err
    assert done.err.count("\n") == 1
    assert "\x1b" not in done.err
    assert (done.code, remy.requests) == (0, [])
    assert reme("show", tea).code == 0


def test_what_was_said_is_no_memory_to_forget(reme: Reme, remy: Remy, tea: str) -> None:
    remy.lookup = ("read_history_memory", {"memory_ids": [tea]})
    done = reme("chat", typed="look up my tea\n/why\n/forget 1\n/why 1\n")
    assert "only memories can be forgotten" in done.err
    assert "1.  message  " in done.out
    assert done.code == 0


def test_help_tells_every_command(reme: Reme, remy: Remy) -> None:
    told = reme("chat", typed="/help\n").out
    for command in ("/memories", "/why N", "/forget N", "/help", "/exit"):
        assert command in told
    assert remy.requests == []


def test_lists_of_nothing_say_so(reme: Reme, remy: Remy) -> None:
    done = reme("chat", typed="/memories\n/memories tea\n/why\n/why 1\nhello\n/why\n")
    assert "no memories yet\n" in done.err
    assert "no memories that hold these words\n" in done.err
    assert "no answer yet\n" in done.err
    assert "nothing is numbered yet" in done.err
    assert "the last answer was based on nothing that is remembered\n" in done.err


def test_a_chat_without_a_model_says_which_variables_to_set_before_it_reads(reme: Reme) -> None:
    done = reme("chat", typed="hello\n", at_terminal=True)
    assert done.code == ExitCode.BAD_INPUT
    assert done.out == ""
    assert "set REME_LLM_MODEL and REME_LLM_API_KEY" in done.err
    assert done.err.count("\n") == 1
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--user", ""),
        ("--user", "../x"),
        ("--space", "/"),
        ("--session", ""),
        ("--session", "\x1b[2J"),
        ("--frob",),
        ("--json",),
        ("hello",),
    ],
    ids=lambda value: " ".join(value).replace("\x1b", "ESC"),
)
def test_bad_options_end_the_chat_before_anything_is_read_or_made(
    reme: Reme, remy: Remy, arguments: tuple[str, ...]
) -> None:
    done = reme("chat", *arguments, typed="hello\n")
    assert (done.code, done.out) == (ExitCode.BAD_INPUT, "")
    assert done.err.count("\n") == 1
    assert "\x1b" not in done.err
    assert remy.requests == []
    assert list(Path.cwd().iterdir()) == []


def test_a_turn_that_the_model_fails_is_told_in_one_line_and_the_talk_goes_on(reme: Reme, remy: Remy) -> None:
    remy.replies(Status(401), Completion(text="This is cut off here", cut_after=4))
    done = reme("chat", typed="one\ntwo\nthree\n")
    assert done.code == ExitCode.MODEL_FAILED
    assert done.out.endswith("Noted.\n")
    assert done.err.count("reme: ") == done.err.count("(nothing of this turn is kept)\n") == 2
    assert "sk-a-key" not in done.err
    kept = reme("list", "--layer", "message", "--json").value["messages"]
    assert [item["message"]["content"][0]["text"] for item in kept] == ["three", "Noted."]


def test_what_fails_in_the_background_is_told_at_the_end_and_waits(reme: Reme, remy: Remy) -> None:
    remy.replied["facts"] = Status(400, "no facts today")
    done = reme("chat", typed="I drink green tea\n")
    assert done.code == ExitCode.PARTLY_DONE
    assert done.out == "Noted.\n"
    assert "1 job(s) failed" in done.err
    assert reme("jobs", "--json").value["jobs"][0]["attempts"] == 1
    remy.replied.clear()
    assert reme("flush").code == 0
    assert "Ana likes green tea" in reme("list").out


def test_the_end_says_what_it_is_still_doing(reme: Reme, remy: Remy, start: Callable[..., ForkedProgram]) -> None:
    remy.replied["facts"] = hold = Hold(Completion(text='{"facts": []}'))
    child = start("--session", "s1")
    assert child.stdin is not None
    assert child.stderr is not None
    child.stdin.write(b"I drink green tea\n/exit\n")
    child.stdin.flush()
    said = next(line for line in child.stderr if b"making memories" in line)
    assert b"making memories of what was said (1 job left); Ctrl-C leaves that to later" in said
    hold.release()
    child.communicate(timeout=60)
    assert child.returncode == 0
    assert reme("jobs").out == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_what_was_answered_outlives_an_interrupt(
    reme: Reme, remy: Remy, start: Callable[..., ForkedProgram], number: signal.Signals
) -> None:
    remy.replied["facts"] = Hold()
    child = start("--session", "s1")
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"I drink green tea\n")
    child.stdin.flush()
    assert child.stdout.readline() == b"Noted.\n"
    remy.wait_for_requests(2)
    remy.replied["chat"] = Hold()
    child.stdin.write(b"and coffee\n")
    child.stdin.flush()
    remy.wait_for_requests(3)
    child.send_signal(number)
    out, err = child.communicate(timeout=60)
    assert out == b""
    if number is signal.SIGINT:
        assert child.returncode == 130
        assert err == b"what was answered is kept; 1 job left to the next start\nreme: interrupted\n"
        assert reme("jobs", "--json").value["jobs"][0]["attempts"] == 0
    kept = reme("list", "--layer", "message", "--json").value["messages"]
    assert [item["message"]["content"][0]["text"] for item in kept] == ["I drink green tea", "Noted."]
    remy.replied.clear()
    assert reme("flush").code == 0
    assert [item["content"] for item in reme("list", "--json").value["memories"]] == ["Ana likes green tea"]


def test_ctrl_c_at_the_end_leaves_the_work_to_the_next_start(
    reme: Reme, remy: Remy, start: Callable[..., ForkedProgram]
) -> None:
    remy.replied["facts"] = Hold()
    child = start()
    assert child.stdin is not None
    assert child.stderr is not None
    child.stdin.write(b"I drink green tea\n/exit\n")
    child.stdin.flush()
    while b"to go on" not in child.stderr.readline():
        pass
    remy.wait_for_requests(2)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    # Where it comes while that line is still being printed, the line is there again, and what is left is told.
    assert child.returncode == 130
    assert err.endswith(b"reme: interrupted\n")
    assert reme("jobs", "--json").value["jobs"][0]["attempts"] == 0
    remy.replied.clear()
    assert reme("flush").code == 0
    assert "Ana likes green tea" in reme("list").out


def test_a_real_terminal_prompts_and_its_ctrl_d_ends_the_talk(remy: Remy, start: Callable[..., ForkedProgram]) -> None:
    keyboard, terminal = pty.openpty()
    with os.fdopen(keyboard, "wb", buffering=0) as typing, os.fdopen(terminal, "rb", buffering=0) as screen:
        child = start(stdin=screen)
        assert child.stdout is not None
        typing.write("grüß dich\n".encode())
        assert child.stdout.readline() == b"Noted.\n"
        typing.write(b"\x04")
        _, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert b"> " in err


def test_any_terminal_shows_any_answer_and_nothing_of_it_is_obeyed(
    remy: Remy, start: Callable[..., ForkedProgram]
) -> None:
    remy.replied["chat"] = Completion(text="你好 \x1b[31mred\x07 [bold]é")
    child = start(program=in_interpreter, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    out, err = child.communicate(b"what is /this?\n")
    assert child.returncode == 0, err
    assert out == b"\\u4f60\\u597d \\x1b[31mred\\x07 [bold]\\xe9\n"


def test_a_line_that_is_no_text_is_refused_and_the_next_one_answered(reme: Reme, remy: Remy) -> None:
    done = reme("chat", typed=b"\xff\xfe broken\nhello\n")
    assert (done.code, done.out) == (0, "Noted.\n")
    assert done.err.startswith("reme: message")
    assert remy.count_of("chat") == 1


def test_a_closed_pipe_ends_the_talk_quietly(start: Callable[..., ForkedProgram]) -> None:
    child = start(program=in_interpreter)
    assert child.stdout is not None
    child.stdout.close()
    child.stdout = None
    _, err = child.communicate(b"hello\nhello again\n")
    assert child.returncode == ExitCode.PIPE_CLOSED
    assert b"Traceback" not in err


def test_a_talk_leaves_no_thread_behind(reme: Reme, remy: Remy) -> None:
    before = {thread.name for thread in threading.enumerate()}
    reme("chat", typed="hello\n")
    after = {thread.name for thread in threading.enumerate()}
    assert not [name for name in after - before if name.startswith(("reme", "asyncio"))]
