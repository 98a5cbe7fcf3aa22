"""The event loop in a thread of its own, beside forks."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from reme_core import EventLoopThread
from reme_core.errors import ConfigurationError, StoreClosedError


async def nothing() -> None:
    return


def test_a_forked_child_ends_without_waiting_for_what_its_parent_has_begun() -> None:
    loop, begun, release = EventLoopThread("owner"), threading.Event(), asyncio.Event()

    async def held() -> None:
        begun.set()
        await release.wait()

    waiting = loop.submit(held())
    assert begun.wait(20)
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # it would wait for ever
        status = 1
        try:
            status = 0 if loop.end(nothing()) else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0

    async def let_go() -> None:
        release.set()

    loop.run(let_go())
    waiting.result(20)
    assert loop.end(nothing())


class Held:
    """A call that never ends by itself."""

    def __init__(self) -> None:
        self.begun, self.cancelled = threading.Event(), threading.Event()

    async def call(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


def test_calls_that_are_cut_off_say_that_their_owner_was_closed() -> None:
    loop, held = EventLoopThread("owner"), Held()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(loop.run, held.call())
        assert held.begun.wait(20)
        assert loop.end(nothing(), cut_off=True)
        with pytest.raises(StoreClosedError, match="'owner' was closed"):
            waiting.result(20)
    assert held.cancelled.wait(20)


async def test_the_end_within_a_call_is_an_error_at_once_and_the_end_after_it_works() -> None:
    loop = EventLoopThread("owner")

    async def ends_itself() -> None:
        loop.end(nothing())

    calling = asyncio.to_thread(loop.run, ends_itself())
    with pytest.raises(ConfigurationError, match="close it after that call"):
        await asyncio.wait_for(calling, 20)
    assert not loop.ended
    assert await asyncio.to_thread(loop.end, nothing())


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_call_that_ends_the_program_ends_that_of_its_caller_and_not_the_loop(error: BaseException) -> None:
    loop, other = EventLoopThread("owner"), EventLoopThread("other")
    loop.run(nothing())

    async def ends_the_program() -> None:
        raise error

    with pytest.raises(type(error)):
        loop.run(ends_the_program())
    loop.run(nothing())
    other.run(nothing())
    assert loop.end(nothing())
    assert other.end(nothing())


def test_ctrl_c_while_closing_ends_the_wait_for_the_calls_of_others(ctrl_c: Callable[[], None]) -> None:
    loop, held = EventLoopThread("owner"), Held()
    waiting = loop.submit(held.call())
    assert held.begun.wait(20)

    def press() -> None:
        while not loop.ended:
            pass
        ctrl_c()

    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        loop.end(nothing())
    assert waiting.cancelled()
    assert held.cancelled.wait(20)
