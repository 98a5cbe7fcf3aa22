"""An event loop in a thread of its own, for callers that have none, or that may not wait on theirs."""

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


class EventLoopThread:
    """Runs coroutines for any number of threads. The thread begins with the first call and is a daemon.

    A child process of a fork has none of its parent's threads, and so gets a loop of its own with its first call. One
    that nobody has any more ends its thread.
    """

    def __init__(self, owner: object, *, thread_name: str) -> None:
        """Keep the names; `owner` is named in the error of calls after the end."""
        self._owner = owner
        self._thread_name = thread_name
        self._gate = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
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
        """Run a coroutine and return what it returns; the caller's thread waits, never its loop's callbacks."""
        return self.submit(call).result()

    def end(self, last: Coroutine[object, object, None]) -> bool:
        """Refuse further calls, finish those begun, run `last`, and end the thread. Ending twice does nothing.

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
        loop, thread = self._loop, self._thread
        if self._forgotten is not None:
            self._forgotten.detach()
        if loop is None or thread is None or self._pid != os.getpid():
            _run_apart(last)
            return True
        try:
            asyncio.run_coroutine_threadsafe(last, loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
        return True

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._pid != os.getpid():
            self._calls = set()
            self._pid = os.getpid()
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_serve, args=(self._loop,), name=self._thread_name, daemon=True)
            self._thread.start()
            self._forgotten = weakref.finalize(self, _stop, self._loop, self._pid)
            self._forgotten.atexit = False
        return self._loop


def _run_apart(last: Coroutine[object, object, None]) -> None:
    """Run a coroutine in a thread: that of the caller may be running a loop of its own, as in a notebook."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, last).result()


def _stop(loop: asyncio.AbstractEventLoop, pid: int) -> None:
    if pid == os.getpid():  # the child of a fork has the loop, and shares its waking with the parent, but no thread
        loop.call_soon_threadsafe(loop.stop)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
