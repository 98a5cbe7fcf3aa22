"""The memories of a service: one `ReMe` for each memory space, on one store and with the same models and settings."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from reme_core.facade.reme import ReMe
from reme_core.ports import Clock, Store


@dataclass(frozen=True, slots=True)
class Memories:
    """Makes the memory of a space when it is first asked for, and closes all of them at the end.

    Args:
        home: The memory of the service's own space; the others share its store, models and settings, and it closes
            what they stand on.
    """

    home: ReMe
    _opened: dict[str, ReMe] = field(default_factory=dict)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _gate: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def store(self) -> Store:
        """Where everything is kept."""
        return self.home.store

    @property
    def clock(self) -> Clock:
        """Tells the time."""
        return self.home.clock

    async def __aenter__(self) -> Self:
        """Open the service's own space; what earlier processes left undone begins."""
        self._opened[self.home.memory_space] = await self._stack.enter_async_context(self.home)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish what is acknowledged, then close."""
        await self._stack.__aexit__(kind, error, trace)

    async def of(self, memory_space: str) -> ReMe:
        """Return the memory of a space."""
        memory = self._opened.get(memory_space)
        if memory is not None:
            return memory
        async with self._gate:
            if memory_space not in self._opened:
                self._opened[memory_space] = await self._stack.enter_async_context(self.home.in_space(memory_space))
            return self._opened[memory_space]
