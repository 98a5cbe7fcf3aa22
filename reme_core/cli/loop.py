"""An event loop that works on while somebody types."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, wait
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")

WAKE_S = 0.2
"""The main thread never waits longer at a time: a signal that comes just before it begins to wait doesn't end that."""


class InputLoop:
    """An event loop in a thread of its own, from `__enter__` to `__exit__`.

    The main thread reads and prints, so that Ctrl-C reaches it wherever it is.
    """

    def __init__(self) -> None:
        """Make the loop."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="reme-loop", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel what is still under way, wait for it and end the thread."""
        try:
            self.run(_cancel_others())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def submit(self, call: Coroutine[object, object, T]) -> Future[T]:
        """Begin a call."""
        return asyncio.run_coroutine_threadsafe(call, self._loop)

    def run(self, call: Coroutine[object, object, T]) -> T:
        """Do a call and wait for it; Ctrl-C cancels it."""
        future = self.submit(call)
        try:
            while not future.done():
                wait([future], timeout=WAKE_S)
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _serve(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        if not task.cancelling():  # once more would cut short what it puts away
            task.cancel()
    if others:
        await asyncio.wait(others)
