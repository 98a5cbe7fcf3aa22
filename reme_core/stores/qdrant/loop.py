"""One event loop in one thread, which callers of any loop hand their work to; and the folder of the local mode.

Clients of asynchronous libraries belong to the event loop that they were made in; here they all live in the same one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeVar

import portalocker
from qdrant_client import AsyncQdrantClient

from reme_core.errors import StoreClosedError, StoreUnavailableError

T = TypeVar("T")


_LOCK = ".lock"  # the name qdrant-client gives it


def open_folder(folder: Path) -> AsyncQdrantClient:
    """Open a folder unless somebody else has it open.

    The client asks for the lock itself, but where it is refused it leaves the lock's file open until the garbage is
    collected. So we ask first.

    Raises:
        StoreUnavailableError: Another client, of this process or another, has the folder open.
    """
    lock = folder / _LOCK
    if lock.is_file():
        with lock.open("r+b") as handle:
            try:
                portalocker.lock(handle, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
            except portalocker.exceptions.LockException as exc:
                msg = f"opening {str(folder)!r}: another client has this folder open; run a Qdrant server instead"
                raise StoreUnavailableError(msg) from exc
            portalocker.unlock(handle)
    return AsyncQdrantClient(path=str(folder))


class QdrantLoopThread:
    """An event loop in a thread of its own, started with the first call and stopped by `close`."""

    def __init__(self, name: str) -> None:
        """Name the thread; nothing starts yet."""
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    async def run(self, work: Callable[[], Coroutine[object, object, T]], *, uninterrupted: bool = False) -> T:
        """Run a coroutine in the loop and await it here.

        Cancelling the await cancels the work, unless it is `uninterrupted`: then it goes on to its end unwatched.

        Raises:
            StoreClosedError: After `close`.
        """
        with self._lock:
            loop = self._running()
            future = asyncio.run_coroutine_threadsafe(work(), loop)
        waiting = asyncio.wrap_future(future)
        if not uninterrupted:
            return await waiting
        waiting.add_done_callback(_look_at)
        return await asyncio.shield(waiting)

    async def close(self, last: Callable[[], Coroutine[object, object, None]]) -> None:
        """Let the calls that are under way end, run `last`, and stop; later calls are refused. Harmless when closed."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        try:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_finish(last), loop))
        finally:
            loop.call_soon_threadsafe(loop.stop)
            await asyncio.to_thread(thread.join)
            loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            msg = "this store was closed: open a new one"
            raise StoreClosedError(msg)
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
            self._thread.start()
        return self._loop


async def _finish(last: Callable[[], Coroutine[object, object, None]]) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others)
    await last()


def _look_at(future: asyncio.Future[T]) -> None:
    """Fetch the outcome of work that nobody awaits any longer, so that asyncio doesn't report it as forgotten."""
    if not future.cancelled():
        future.exception()
