"""An event loop in a thread, for callers that have none, or that may not wait on theirs; all of a process share it."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from reme_core.errors import StoreClosedError

T = TypeVar("T")

# Seconds for what goes on in the background, such as jobs, when the thread ends; what takes longer is cut off.
_GRACE_S = 5.0


class EventLoopThread:
    """Runs coroutines for any number of threads. The thread begins with the first call and is a daemon.

    All objects of this class run theirs in one thread, which ends with the last of them: with its `end`, or when nobody
    has it any more. A coroutine must not block. A child process of a fork has none of its parent's threads, and so gets
    one of its own with its first call.
    """

    def __init__(self, owner: object) -> None:
        """Keep the owner, who is named in the error of calls after the end."""
        self._owner = owner
        self._gate = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = False
        self._pid = os.getpid()
        self._calls: set[Future[Any]] = set()
        self._forgotten: weakref.finalize[..., EventLoopThread] | None = None

    @property
    def ended(self) -> bool:
        """Whether calls are refused."""
        return self._ended

    def submit(self, call: Coroutine[object, object, T]) -> Future[T]:
        """Begin a coroutine; the future's result waits for it (StoreClosedError after the end)."""
        with self._gate:
            if self._ended:
                call.close()
                msg = f"{self._owner!r} was closed: make a new one"
                raise StoreClosedError(msg)
            future = asyncio.run_coroutine_threadsafe(call, self._running())
            self._calls = {earlier for earlier in self._calls if not earlier.done()} | {future}
        return future

    def run(self, call: Coroutine[object, object, T]) -> T:
        """Run a coroutine and return what it returns; the caller's thread waits, never its loop's callbacks.

        The thread of the loop itself can't wait for itself: there it runs apart.
        """
        if not self._ended and _SHARED.is_current():
            return _run_apart(call)
        return self.submit(call).result()

    def end(self, last: Coroutine[object, object, None]) -> bool:
        """Refuse further calls, finish those begun, and run `last`. Ending twice does nothing.

        Returns:
            Whether this call was the one that ended it.
        """
        with self._gate:
            if self._ended:
                last.close()
                return False
            self._ended = True
            begun = self._calls if self._pid == os.getpid() else set()  # the child of a fork has none of them
        wait(begun)  # what other threads have begun is finished first
        loop = self._loop
        if self._forgotten is not None:
            self._forgotten.detach()
        if loop is None or self._pid != os.getpid():
            _run_apart(last)
            return True
        try:
            asyncio.run_coroutine_threadsafe(last, loop).result()
        finally:
            thread = _SHARED.release(self._pid)
            if thread is not None:
                thread.join()
        return True

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._pid != os.getpid():
            self._calls = set()
            self._pid = os.getpid()
            self._loop = _SHARED.acquire()
            self._forgotten = weakref.finalize(self, _SHARED.release, self._pid)
            self._forgotten.atexit = False
        return self._loop


class _SharedThread:
    """The thread with its loop, as long as somebody uses it."""

    def __init__(self) -> None:
        self._gate = threading.RLock()  # objects are thrown away at any time, within `acquire` too
        self._users = 0
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def acquire(self) -> asyncio.AbstractEventLoop:
        with self._gate:
            if self._pid != os.getpid():
                self._users, self._loop, self._pid = 0, None, os.getpid()
            self._users += 1
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="reme-loop", daemon=True)
                self._thread.start()
            return self._loop

    def release(self, pid: int) -> threading.Thread | None:
        """Count a user of this process less; return the thread that ends, if this was the last one."""
        with self._gate:
            if pid != os.getpid() or pid != self._pid:  # a parent's, whose thread is not here
                return None
            self._users -= 1
            if self._users or self._loop is None:
                return None
            loop, self._loop = self._loop, None
            loop.call_soon_threadsafe(loop.stop)
            return self._thread


# The one state of a module here: a process has one such thread, however many memories it opens.
_SHARED = _SharedThread()


def _run_apart(call: Coroutine[object, object, T]) -> T:
    """Run a coroutine in a thread: that of the caller may be running a loop of its own, as in a notebook."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, call).result()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_finish_tasks())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _finish_tasks() -> None:
    """Wait for what goes on in the background, and cut off what takes longer: it is on disk as a job."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if not others:
        return
    _, late = await asyncio.wait(others, timeout=_GRACE_S)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=_GRACE_S)
