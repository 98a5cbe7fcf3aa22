"""A bound on the calls under way at once, over all event loops and threads of the process."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class CallSlots:
    """At most `limit` holders at a time, first come first served.

    An asyncio semaphore belongs to one event loop; this one is shared by all loops and threads of the process.
    """

    def __init__(self, limit: int) -> None:
        """Allow `limit` holders, at least 1."""
        self._lock = threading.Lock()
        self._free = limit
        self._waiters: deque[_Waiter] = deque()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Wait for a slot and hold it. Cancelling the wait gives up the place in the queue."""
        await self._acquire()
        try:
            yield
        finally:
            self._release()

    async def _acquire(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            waiter = _Waiter(asyncio.get_running_loop())
            self._waiters.append(waiter)
        try:
            await waiter.woken
        except BaseException:  # a cancelled wait; it goes on below
            self._withdraw(waiter)
            raise

    def _release(self) -> None:
        with self._lock:
            while self._waiters:
                if self._waiters.popleft().grant():
                    return
            self._free += 1

    def _withdraw(self, waiter: _Waiter) -> None:
        with self._lock:
            granted = waiter.granted
            if not granted and waiter in self._waiters:
                self._waiters.remove(waiter)
        if granted:
            self._release()


class _Waiter:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.woken: asyncio.Future[None] = loop.create_future()
        self.granted = False
        self._loop = loop

    def grant(self) -> bool:
        """Hand the slot over; False where the waiter's loop is closed, and nobody waits any more."""
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            return False
        self.granted = True
        return True

    def _wake(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)
