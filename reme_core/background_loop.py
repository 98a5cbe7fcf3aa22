"""An event loop in a thread, for callers that have none, or that may not wait on theirs; all of a process share it."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, TypeVar

from reme_core.errors import ConfigurationError, StoreClosedError

T = TypeVar("T")

# Seconds for what goes on in the background, such as jobs, when the thread ends; what takes longer is cut off.
_GRACE_S = 5.0
# No wait is longer at a time: Ctrl-C that comes just before a wait begins doesn't end that.
_WAKE_S = 0.2


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
                raise self._closed()
            future = asyncio.run_coroutine_threadsafe(call, self._running())
            self._calls = {earlier for earlier in self._calls if not earlier.done()} | {future}
        return future

    def run(self, call: Coroutine[object, object, T]) -> T:
        """Run a coroutine and return what it returns; the caller's thread waits, never its loop's callbacks.

        The thread of the loop itself can't wait for itself: there it runs apart. Where the wait is broken off, by
        Ctrl-C say, the coroutine is cancelled.

        Raises:
            StoreClosedError: It was ended before the call, or ended and cut off in its midst.
        """
        if not self._ended and _SHARED.is_current():
            return _run_apart(call)
        begun = self.submit(call)
        try:
            return _result(begun)
        except CancelledError:
            if not self._ended:
                raise
            raise self._closed() from None

    def end(self, last: Coroutine[object, object, None], *, cut_off: bool = False) -> bool:
        """Refuse further calls, finish those begun, and run `last`. Ending twice does nothing.

        Args:
            last: What closes the owner.
            cut_off: Cancel the calls begun, instead of waiting for them.

        Returns:
            Whether this call was the one that ended it.

        Raises:
            ConfigurationError: It was called in the thread of the loop, which can't wait for itself; nothing has ended.
        """
        with self._gate:
            if self._ended or _SHARED.is_current():
                last.close()
                if self._ended:
                    return False
                msg = f"{self._owner!r} can't be closed within a call that it runs: close it after that call"
                raise ConfigurationError(msg)
            self._ended = True
            begun = self._calls if self._pid == os.getpid() else set()  # the child of a fork has none of them
        if self._forgotten is not None:
            self._forgotten.detach()
        if self._loop is None or self._pid != os.getpid():
            _run_apart(last)
            return True
        try:
            if cut_off:
                _cancel(begun)
            self._finish(begun, last, self._loop)
        finally:
            thread = _SHARED.release(self._pid)
            if thread is not None:
                thread.join()
        return True

    def _finish(
        self, begun: set[Future[Any]], last: Coroutine[object, object, None], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Wait for what other threads have begun, then for `last`."""
        try:
            while wait(begun, timeout=_WAKE_S).not_done:
                continue
        except BaseException:  # Ctrl-C, say
            _cancel(begun)
            last.close()
            raise
        _result(asyncio.run_coroutine_threadsafe(last, loop))

    def _closed(self) -> StoreClosedError:
        return StoreClosedError(f"{self._owner!r} was closed: make a new one")

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
        self._stop: asyncio.Future[None] | None = None
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
                self._stop = self._loop.create_future()
                self._thread = threading.Thread(target=_serve, args=(self._stop,), name="reme-loop", daemon=True)
                self._thread.start()
            return self._loop

    def release(self, pid: int) -> threading.Thread | None:
        """Count a user of this process less; return the thread that ends, if this was the last one."""
        with self._gate:
            if pid != os.getpid() or pid != self._pid:  # a parent's, whose thread is not here
                return None
            self._users -= 1
            if self._users or self._loop is None or self._stop is None:
                return None
            self._loop.call_soon_threadsafe(self._stop.set_result, None)
            self._loop = None
            return self._thread


# The one state of a module here: a process has one such thread, however many memories it opens.
_SHARED = _SharedThread()


def _run_apart(call: Coroutine[object, object, T]) -> T:
    """Run a coroutine in a thread: that of the caller may be running a loop of its own, as in a notebook."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, call).result()


def _result(future: Future[T]) -> T:
    """Wait for what a future gives; who breaks the wait off (Ctrl-C, say) breaks off the call."""
    try:
        while not future.done():
            wait([future], timeout=_WAKE_S)
        return future.result()
    except BaseException:
        future.cancel()  # nothing, where the call itself has failed
        raise


def _cancel(calls: set[Future[Any]]) -> None:
    for call in calls:
        call.cancel()


def _serve(stop: asyncio.Future[None]) -> None:
    """Run a loop until it is told to stop. A coroutine that ends the program (SystemExit) ends that of its caller."""
    loop = stop.get_loop()
    while not stop.done():
        with suppress(SystemExit, KeyboardInterrupt):  # asyncio hands it to the caller, and ends the loop as well
            loop.run_until_complete(stop)
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
