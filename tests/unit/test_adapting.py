"""Appends that must not keep a reply waiting: order, bounds, loops, errors, and nothing lost or left behind."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from reme_core import ReMe, adapting
from reme_core.adapting import Appends
from reme_core.errors import InvalidInputError, PartialFailureError, StoreClosedError, StoreUnavailableError

pytestmark = pytest.mark.requirement("AS-PKG-06")

Written = Callable[[], Coroutine[None, None, None]]


def noting(notes: list[str], note: str, after: asyncio.Event | None = None) -> Written:
    async def append() -> None:
        if after is not None:
            await after.wait()
        notes.append(note)

    return append


def failing(*errors: Exception, notes: list[str] | None = None) -> Written:
    """Fail with each of these, and then note that it is done."""
    left = list(errors)

    async def append() -> None:
        await asyncio.sleep(0)
        if left:
            raise left.pop(0)
        (notes if notes is not None else []).append("done")

    return append


@pytest.mark.requirement("LC-MW-09")
@pytest.mark.requirement("AS2-MW-09")
async def test_appends_of_a_session_are_in_order_and_sessions_do_not_wait_for_each_other() -> None:
    appends, notes, gate = Appends("test"), [], asyncio.Event()
    appends.put("a", noting(notes, "a1", gate))
    appends.put("a", noting(notes, "a2"))
    appends.put("b", noting(notes, "b1"))
    assert notes == []
    assert await appends.wait("b")
    assert notes == ["b1"]
    assert appends.pending == 2
    gate.set()
    assert await appends.flush()
    assert notes == ["b1", "a1", "a2"]
    assert appends.pending == 0
    assert await appends.wait("never heard of")


@pytest.mark.requirement("LC-MW-08")
async def test_a_reply_waits_so_long_in_all_and_the_next_one_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    appends, notes, gate = Appends("test"), [], asyncio.Event()
    loop = asyncio.get_running_loop()
    now = loop.time()

    async def wait(_: object, *, timeout: float | None = None) -> None:  # noqa: ASYNC109  # asyncio's
        nonlocal now
        waited.append(timeout or 0.0)
        now += timeout or 0.0
        await real(())

    async def real(_: object) -> None:
        await asyncio.sleep(0)

    appends.put("a", noting(notes, "a", gate))
    with monkeypatch.context() as patch:
        patch.setattr(loop, "time", lambda: now)
        patch.setattr(adapting.asyncio, "wait", wait)
        assert not await appends.wait("a", begins_reply=True)
        assert not await appends.wait("a")  # the end of the same reply
        assert waited == [pytest.approx(adapting.PATIENCE_S)]
        assert not await appends.wait("a", begins_reply=True)
        assert waited == [pytest.approx(adapting.PATIENCE_S)] * 2
    gate.set()
    assert await appends.flush()
    assert notes == ["a"]


async def test_flush_gives_up_when_its_time_is_up_and_the_append_goes_on() -> None:
    appends, notes, gate = Appends("test"), [], asyncio.Event()
    appends.put("a", noting(notes, "a", gate))
    assert not await appends.flush(0.01)
    assert not await appends.flush(0)
    gate.set()
    assert await appends.flush(60)
    assert notes == ["a"]


async def test_after_flush_no_task_is_left_and_the_next_append_starts_again() -> None:
    appends, notes = Appends("test"), []
    for note in ("first", "again"):
        appends.put("a", noting(notes, note))
        assert await appends.flush()
        assert asyncio.all_tasks() == {asyncio.current_task()}
    assert notes == ["first", "again"]


async def test_tasks_are_held_strongly() -> None:
    appends, notes, gate = Appends("test"), [], asyncio.Event()
    appends.put("a", noting(notes, "a", gate))
    await appends.flush(0)
    for _ in range(3):
        await asyncio.sleep(0)
        gc.collect()
    gate.set()
    await appends.flush()
    assert notes == ["a"]


@pytest.mark.requirement("LC-MW-09")
async def test_an_append_that_fails_is_done_again_before_what_follows_and_told_without_words_of_the_talk(
    caplog: pytest.LogCaptureFixture,
) -> None:
    appends, notes = Appends("test"), []
    errors = [ValueError("My rabbit is called Flopsy"), StoreUnavailableError("the store is locked")]
    appends.put("a", failing(*errors, notes=notes))
    appends.put("a", noting(notes, "after"))
    appends.put("b", noting(notes, "another session"))
    assert await appends.wait("b")
    assert not await appends.wait("a")
    assert (appends.error_of("a"), appends.error_of("b"), appends.last_error) == (errors[0], None, errors[0])
    assert not await appends.flush()
    assert appends.pending == 2
    assert await appends.flush()
    assert notes == ["another session", "done", "after"]
    assert appends.last_error is None
    assert appends.take_errors() == errors
    assert appends.take_errors() == []
    assert "Flopsy" not in caplog.text
    assert "ValueError" in caplog.text
    assert "the store is locked" in caplog.text


async def test_what_is_refused_for_good_and_what_is_on_disk_already_is_not_done_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    appends, notes = Appends("test"), []
    refused, kept = InvalidInputError("too long"), PartialFailureError("no model", done=None, failures=[])
    for error in (refused, kept):
        appends.put("a", failing(error, notes=notes))
    appends.put("a", noting(notes, "after"))
    with caplog.at_level(logging.ERROR, "reme"):
        assert await appends.wait("a")
    assert notes == ["after"]
    assert appends.take_errors() == [refused]
    assert "still to be done: no model" in caplog.text


async def test_a_store_that_stays_broken_does_not_fill_the_memory(caplog: pytest.LogCaptureFixture) -> None:
    appends, notes = Appends("test"), []
    for number in range(1_005):
        appends.put("a", noting(notes, f"{number}"))
    assert appends.pending == 1_000
    assert await appends.flush()
    assert notes[0] == "5"
    assert "given up" in caplog.text


async def test_what_is_given_up_is_never_the_append_under_way_nor_the_one_behind_it() -> None:
    appends, notes, gate = Appends("test"), [], asyncio.Event()
    appends.put("a", noting(notes, "under way", gate))
    waiting = asyncio.create_task(appends.wait("a"))
    await asyncio.sleep(0)
    for number in range(1_000):
        appends.put("a", noting(notes, f"{number}"))
    gate.set()
    assert await appends.flush()
    await waiting
    assert notes[:2] == ["under way", "1"]
    assert len(notes) == 1_000


async def test_cancelling_the_wait_does_not_cancel_the_append() -> None:
    appends, notes, gate = Appends("test"), [], asyncio.Event()
    appends.put("a", noting(notes, "a", gate))
    waiting = asyncio.create_task(appends.wait("a"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    gate.set()
    assert await appends.flush()
    assert notes == ["a"]


def test_an_append_that_its_loop_cut_off_is_done_again_on_the_next_loop() -> None:
    appends, notes = Appends("test"), []

    async def append() -> None:
        notes.append("begun")
        if notes == ["begun"]:
            await asyncio.Event().wait()
        notes.append("done")

    async def cut_off() -> None:
        appends.put("a", append)
        appends.put("a", noting(notes, "second"))
        await appends.flush(0.01)

    asyncio.run(cut_off())
    assert appends.pending == 2
    assert asyncio.run(appends.flush())
    assert notes == ["begun", "begun", "done", "second"]
    assert appends.take_errors() == []


def test_an_append_that_never_began_on_a_loop_that_ended_is_done_on_the_next_one() -> None:
    appends, notes = Appends("test"), []

    async def hand_in() -> None:
        appends.put("a", noting(notes, "first"))

    async def next_loop() -> None:
        appends.put("a", noting(notes, "second"))
        assert await appends.wait("a")

    asyncio.run(hand_in())
    asyncio.run(next_loop())
    assert notes == ["first", "second"]


def test_a_loop_that_only_rests_does_no_append_twice() -> None:
    appends, notes = Appends("test"), []
    resting = asyncio.new_event_loop()
    gate = asyncio.Event()

    async def append() -> None:
        notes.append("begun")
        if len(notes) == 1:
            await gate.wait()
        notes.append("done")

    appends.put("a", append)
    assert not resting.run_until_complete(appends.flush(0.01))
    assert asyncio.run(appends.flush())
    assert notes == ["begun", "begun", "done"]
    gate.set()
    resting.run_until_complete(asyncio.sleep(0))
    assert resting.run_until_complete(appends.flush())
    resting.run_until_complete(asyncio.sleep(0))
    resting.close()
    assert notes == ["begun", "begun", "done"]


async def test_another_loop_in_another_thread_waits_for_the_appends_of_this_one() -> None:
    appends, notes, gate = Appends("test"), [], asyncio.Event()
    appends.put("a", noting(notes, "a", gate))
    await appends.flush(0)
    elsewhere = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(appends.flush(60))))
    await asyncio.sleep(0)
    gate.set()
    assert await elsewhere
    assert notes == ["a"]


async def test_a_hundred_sessions_lose_nothing() -> None:
    appends, notes = Appends("test"), []
    for number in range(300):
        appends.put(f"s{number % 100}", noting(notes, f"{number}"))
    assert await appends.flush()
    assert sorted(notes, key=int) == [f"{number}" for number in range(300)]
    for session in range(100):
        assert [int(note) for note in notes if int(note) % 100 == session] == [session, session + 100, session + 200]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_child_of_a_fork_does_not_wait_for_an_append_under_way_in_its_parent() -> None:
    appends, notes, gate = Appends("test"), [], asyncio.Event()

    async def parent() -> int:
        appends.put("a", noting(notes, "of the parent", gate))
        await appends.flush(0)
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # it would wait for ever
            os._exit(0 if asyncio.run(appends.flush()) else 1)
        gate.set()
        assert await appends.flush()
        return child

    _, status = os.waitpid(asyncio.run(parent()), 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert notes == ["of the parent"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_child_of_a_fork_leaves_what_waits_to_its_parent() -> None:
    appends, notes = Appends("test"), []
    appends.put("a", noting(notes, "of the parent"))
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # it would wait for ever
        appends.put("a", noting(notes, "of the child"))
        asyncio.run(appends.flush())
        os._exit(0 if notes == ["of the child"] else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert asyncio.run(appends.flush())
    assert notes == ["of the parent"]


async def test_a_thousand_appends_leave_no_hook_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks: list[object] = []
    monkeypatch.setattr(os, "register_at_fork", lambda **given: hooks.append(given), raising=False)
    monkeypatch.setattr(threading, "_register_atexit", hooks.append)
    kept = len(adapting._ALL)
    for _ in range(1000):
        appends, notes = Appends("test"), list[str]()
        appends.put("a", noting(notes, "done"))
        assert await appends.flush()
        assert notes == ["done"]
    del appends
    gc.collect()
    assert hooks == []
    assert len(adapting._ALL) <= kept


SEVERAL = """
import asyncio
from reme_core.adapting import Appends
every = [Appends(name) for name in "abc"]

async def note():
    await asyncio.to_thread(lambda: None)  # the pools still take work
    raise OSError

for appends in every:
    appends.put("s", note)
del appends, every[0]
"""


async def test_the_end_of_the_process_comes_to_all_that_are_left() -> None:
    told = await run_script(SEVERAL)
    lost = [line for line in told.splitlines() if "lost" in line]
    assert sorted(lost) == [f"{name}: 1 turn(s) are lost at the end of the process: OSError" for name in "bc"]


SCRIPT = """
import asyncio, sys
from reme_core import ReMe
from reme_core.adapting import Appends
memory = ReMe("space", sys.argv[1], llm=None, embedding=None)
appends = Appends("test")

async def main():
    for text in ("first", "second"):
        said = [{"role": "user", "content": text, "message_id": text}]
        appends.put("s", lambda said=said: memory.summary(said, user_id="ann", session_id="s", background=True))

asyncio.run(main())
"""


async def run_script(script: str, *arguments: str) -> str:
    """Run a program, and return what it says as an error."""
    command = [sys.executable, "-c", script, *arguments]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=True)
    return done.stderr


@pytest.mark.requirement("LC-MW-09")
async def test_the_end_of_the_process_waits_for_what_is_left(tmp_path: Path) -> None:
    assert await run_script(SCRIPT, str(tmp_path)) == ""
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        kept = await memory.find_messages(user_id="ann", session_id="s")
    assert [item.message.text for item in kept.messages] == ["first", "second"]


async def test_turns_that_the_end_of_the_process_loses_are_told_once(tmp_path: Path) -> None:
    told = await run_script(SCRIPT + "asyncio.run(memory.close())", str(tmp_path))
    assert told == "test: 2 turn(s) are lost at the end of the process: StoreClosedError\n"


STUBBORN = """
import asyncio, sys
from reme_core.adapting import Appends
appends = Appends("test", end_s=0.05)

async def stubborn():
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

appends.put("s", stubborn)
"""


async def test_the_end_of_the_process_waits_no_longer_than_it_says() -> None:
    assert await run_script(STUBBORN) == "test: 1 turn(s) are lost at the end of the process: not done within 0.05 s\n"


async def test_what_waits_for_a_closed_store_is_an_error_told_once(caplog: pytest.LogCaptureFixture) -> None:
    appends = Appends("test")
    closed = StoreClosedError("it was closed: make a new one")
    appends.put("a", failing(closed, closed))
    appends.put("a", noting([], "after"))
    assert not await appends.flush()
    assert not await appends.flush()
    [told] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "2 turn(s) wait: StoreClosedError: it was closed" in told.getMessage()
    appends.drop("a")


async def test_a_session_that_begins_anew_while_the_old_one_ends_is_kept() -> None:
    appends, notes = Appends("test"), []

    async def dropped() -> None:
        raise StoreUnavailableError("locked")

    appends.put("a", dropped)
    assert not await appends.wait("a")
    old = appends._sessions["a"]
    appends.drop("a")
    appends.put("a", noting(notes, "new"))
    old.waiting.clear()
    assert appends._next(old, old.ended) is None
    assert appends.pending == 1
    assert await appends.flush()
    assert notes == ["new"]


async def test_what_failed_and_was_told_can_be_given_up() -> None:
    appends, notes = Appends("test"), []
    appends.put("a", failing(StoreUnavailableError("locked"), notes=notes))
    assert not await appends.wait("a")
    appends.drop("a")
    appends.drop("never heard of")
    assert await appends.flush()
    assert notes == []
