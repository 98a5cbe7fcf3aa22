"""The event loop in a thread of its own, beside forks."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

from reme_core import EventLoopThread


async def nothing() -> None:
    return


def test_a_forked_child_ends_without_waiting_for_what_its_parent_has_begun() -> None:
    loop, begun, release = EventLoopThread("owner", thread_name="apart"), threading.Event(), asyncio.Event()

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
