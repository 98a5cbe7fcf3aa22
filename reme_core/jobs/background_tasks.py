"""Tasks that go on after a call has returned. Jobs keep what they do: losing a task loses nothing."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from weakref import WeakKeyDictionary

from reme_core.schema import Scope

_LOG = logging.getLogger("reme")


class BackgroundTasks:
    """At most one task a scope and event loop, which works as long as it is told that there is something to do."""

    def __init__(self, work: Callable[[Scope], Awaitable[None]], *, max_scopes: int = 8) -> None:
        """Keep the work, which does what there is to do for a scope; for so many scopes at a time on an event loop."""
        self._work = work
        self._max_scopes = max_scopes
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._gate = threading.Lock()
        self._running: dict[tuple[int, Scope], _RunningTask] = {}

    def start(self, scope: Scope) -> None:
        """See to it that the work is done for a scope, with what was there when this was called."""
        loop = asyncio.get_running_loop()
        key = (id(loop), scope)
        with self._gate:
            running = self._running.get(key)
            if running is not None and running.loop is loop:
                running.again = True
                return
            running = self._running[key] = _RunningTask(loop)
            self._slots.setdefault(loop, asyncio.Semaphore(self._max_scopes))
        running.task = loop.create_task(self._run(key, running))
        running.task.add_done_callback(lambda _: self._end(key, running))  # also of one that never came to run

    async def join(self) -> None:
        """Wait for every task whose event loop still runs."""
        while True:
            with self._gate:
                ended = [running.ended for running in self._running.values() if running.loop.is_running()]
            if not ended:
                return
            for future in ended:
                await asyncio.shield(asyncio.wrap_future(future))  # who is cancelled here must not cancel the future

    async def cancel(self) -> None:
        """Cancel every task whose event loop still runs, and wait until each has given back what it held."""
        with self._gate:
            running = [item for item in self._running.values() if item.task is not None and item.loop.is_running()]
        for item in running:
            if item.task is not None:
                item.loop.call_soon_threadsafe(item.task.cancel)
        await self.join()

    def _end(self, key: tuple[int, Scope], running: _RunningTask) -> None:
        with self._gate:
            if self._running.get(key) is running:
                del self._running[key]
        running.ended.set_result(None)

    async def _run(self, key: tuple[int, Scope], running: _RunningTask) -> None:
        try:
            while True:
                async with self._slots[running.loop]:
                    running.again = False
                    await self._work(key[1])
                with self._gate:
                    if not running.again:
                        del self._running[key]
                        return
        except Exception:  # noqa: BLE001  # the outer edge of a background task; the jobs keep their own reasons
            _LOG.exception("background work has failed; its jobs are still there")


class _RunningTask:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.again = False
        self.ended: Future[None] = Future()
        self.task: asyncio.Task[None] | None = None
