"""Background writes: order, loops, errors, and nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine

import pytest

from reme_agentscope._shared.background_writes import BackgroundWrites
from reme_core.errors import ReMeError, StoreUnavailableError

pytestmark = pytest.mark.requirement("AS-PKG-06")


def noting(
    notes: list[str], note: str, after: asyncio.Event | None = None
) -> Callable[[], Coroutine[None, None, None]]:
    async def write() -> None:
        if after is not None:
            await after.wait()
        notes.append(note)

    return write


def failing(error: BaseException) -> Callable[[], Coroutine[None, None, None]]:
    async def write() -> None:
        await asyncio.sleep(0)
        raise error

    return write


async def test_writes_of_a_session_are_in_order_and_sessions_do_not_wait_for_each_other() -> None:
    writes, notes, gate = BackgroundWrites("test"), [], asyncio.Event()
    writes.submit("a", noting(notes, "a1", gate))
    writes.submit("a", noting(notes, "a2"))
    writes.submit("b", noting(notes, "b1"))
    assert notes == []
    assert await writes.flush("b")
    assert notes == ["b1"]
    assert writes.pending == 2
    gate.set()
    assert await writes.flush()
    assert notes == ["b1", "a1", "a2"]
    assert writes.pending == 0


async def test_flush_gives_up_when_its_time_is_up_and_the_write_goes_on() -> None:
    writes, notes, gate = BackgroundWrites("test"), [], asyncio.Event()
    writes.submit("a", noting(notes, "a", gate))
    assert not await writes.flush(timeout_s=0.01)
    assert not await writes.flush(timeout_s=0)
    gate.set()
    assert await writes.flush(timeout_s=60)
    assert notes == ["a"]


async def test_after_close_no_task_is_left_and_the_next_write_starts_again() -> None:
    writes, notes = BackgroundWrites("test"), []

    async def more() -> None:
        writes.submit("b", noting(notes, "later"))

    writes.submit("a", more)
    await writes.close()
    assert notes == ["later"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    writes.submit("a", noting(notes, "again"))
    await writes.close()
    assert notes == ["later", "again"]


async def test_tasks_are_held_strongly() -> None:
    writes, notes, gate = BackgroundWrites("test"), [], asyncio.Event()
    writes.submit("a", noting(notes, "a", gate))
    for _ in range(3):
        await asyncio.sleep(0)
        gc.collect()
    gate.set()
    await writes.flush()
    assert notes == ["a"]


async def test_an_error_is_logged_without_its_words_kept_once_and_told_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    writes, notes, told = BackgroundWrites("test"), [], []
    writes.submit("a", failing(ValueError("My rabbit is called Flopsy")), on_failure=told.append)
    writes.submit("a", failing(StoreUnavailableError("the store is locked")))
    writes.submit("a", noting(notes, "after"))
    with caplog.at_level(logging.ERROR, "reme_agentscope"):
        assert await writes.flush()
    assert notes == ["after"]
    assert [str(error) for error in told] == ["My rabbit is called Flopsy"]
    failures = writes.take_failures()
    assert [(failure.session, type(failure.error)) for failure in failures] == [
        ("a", ValueError),
        ("a", StoreUnavailableError),
    ]
    assert writes.take_failures() == []
    assert "Flopsy" not in caplog.text
    assert "ValueError" in caplog.text
    assert "the store is locked" in caplog.text


async def test_a_write_that_is_waited_for_raises_its_error_and_keeps_none() -> None:
    writes = BackgroundWrites("test")
    with pytest.raises(StoreUnavailableError):
        await writes.run("a", failing(StoreUnavailableError("locked")))
    assert writes.take_failures() == []


async def test_cancelling_the_wait_does_not_cancel_the_write_and_its_error_is_kept() -> None:
    writes, gate = BackgroundWrites("test"), asyncio.Event()

    async def write() -> None:
        await gate.wait()
        msg = "locked"
        raise StoreUnavailableError(msg)

    waiting = asyncio.create_task(writes.run("a", write))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    gate.set()
    await writes.flush()
    assert [type(failure.error) for failure in writes.take_failures()] == [StoreUnavailableError]


async def test_a_write_that_is_cancelled_from_within_is_a_failure_and_the_next_one_is_done() -> None:
    writes, notes = BackgroundWrites("test"), []
    writes.submit("a", failing(asyncio.CancelledError()))
    writes.submit("a", noting(notes, "after"))
    assert await writes.flush()
    assert notes == ["after"]
    assert [type(failure.error) for failure in writes.take_failures()] == [ReMeError]


async def test_a_write_that_flushes_does_not_wait_for_itself() -> None:
    writes, notes = BackgroundWrites("test"), []

    async def write() -> None:
        assert await writes.flush()
        notes.append("done")

    writes.submit("a", write)
    await writes.close()
    assert notes == ["done"]


def test_a_write_that_its_loop_cut_off_is_done_again_on_the_next_loop(caplog: pytest.LogCaptureFixture) -> None:
    writes, notes = BackgroundWrites("test"), []

    async def cut_off() -> None:
        begun = asyncio.Event()

        async def write() -> None:
            notes.append("begun")
            begun.set()
            if notes == ["begun"]:
                await asyncio.Event().wait()
            notes.append("done")

        writes.submit("a", write)
        writes.submit("a", noting(notes, "second"))
        await begun.wait()

    asyncio.run(cut_off())
    assert "2 writes of session 'a' undone" in caplog.text
    assert writes.pending == 2
    asyncio.run(writes.close())
    assert notes == ["begun", "begun", "done", "second"]
    assert writes.take_failures() == []


def test_a_write_that_never_began_on_a_loop_that_ended_is_done_on_the_next_one() -> None:
    writes, notes = BackgroundWrites("test"), []

    async def hand_in() -> None:
        writes.submit("a", noting(notes, "first"))

    asyncio.run(hand_in())

    async def next_loop() -> None:
        writes.submit("a", noting(notes, "second"))
        await writes.close()

    asyncio.run(next_loop())
    assert notes == ["first", "second"]


def test_a_loop_that_only_rests_does_no_write_twice() -> None:
    writes, notes = BackgroundWrites("test"), []
    resting = asyncio.new_event_loop()
    gate = asyncio.Event()

    async def write() -> None:
        notes.append("begun")
        if len(notes) == 1:
            await gate.wait()
        notes.append("done")

    async def begin() -> None:
        writes.submit("a", write)
        await asyncio.sleep(0)

    resting.run_until_complete(begin())
    asyncio.run(writes.close())
    assert notes == ["begun", "begun", "done"]
    gate.set()
    resting.run_until_complete(asyncio.sleep(0))
    resting.run_until_complete(writes.close())
    resting.close()
    assert notes == ["begun", "begun", "done"]


async def test_another_loop_in_another_thread_waits_for_the_writes_of_this_one() -> None:
    writes, notes, gate = BackgroundWrites("test"), [], asyncio.Event()
    writes.submit("a", noting(notes, "a", gate))
    elsewhere = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(writes.flush(timeout_s=60))))
    await asyncio.sleep(0)
    gate.set()
    assert await elsewhere
    assert notes == ["a"]


async def test_a_hundred_sessions_lose_nothing() -> None:
    writes, notes = BackgroundWrites("test"), []
    for number in range(300):
        writes.submit(f"s{number % 100}", noting(notes, f"{number}"))
    await writes.close()
    assert sorted(notes, key=int) == [f"{number}" for number in range(300)]
    for session in range(100):
        assert [int(note) for note in notes if int(note) % 100 == session] == [session, session + 100, session + 200]
