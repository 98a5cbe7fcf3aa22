"""An event loop whose time is not that of the world: whoever sleeps is woken at once, and the clock says it was later.

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())

While nothing is ready, the clock jumps to the next thing that is due. Work in threads takes no time at all: as long as
a call of a `TimelessStore` is under way, the clock stands still and the loop waits for the thread.
"""

from __future__ import annotations

import asyncio
import inspect
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

from reme_core.stores import LocalStore


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; `time()` begins at 0 and moves by the sleeps alone."""

    def __init__(self) -> None:
        self.now = 0.0
        self.in_threads = 0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now

    async def shutdown_default_executor(self, *args: Any) -> None:
        self.in_threads += 1  # from here on only threads are waited for
        await super().shutdown_default_executor(*args)


class _Jumping(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        if self._loop.in_threads:
            return super().select(None)
        ready = super().select(0)
        if not ready:
            self._loop.now += timeout
        return ready


class TimelessStore(LocalStore):
    """A local store whose calls take no time on a `VirtualLoop`."""

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if name.startswith("_") or not inspect.iscoroutinefunction(value):
            return value
        return lambda *given, **named: _timeless(value, *given, **named)


async def _timeless(call: Callable[..., Awaitable[Any]], *given: Any, **named: Any) -> Any:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.in_threads += 1
    try:
        return await call(*given, **named)
    finally:
        loop.in_threads -= 1
