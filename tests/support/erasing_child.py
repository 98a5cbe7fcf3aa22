"""A process that erases a user, and stops at a point between two steps of it, or in one before its commit."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from reme_core import ReMe
from reme_core.stores.local.file import purging
from tests.support import processes

WORD = "secretgone"


async def fill(folder: Path, messages: int) -> None:
    """Write messages of two users, `gone` and `stays`, in turn; `messages` of each."""
    async with ReMe("space", folder, llm=None, embedding=None) as memory:
        for part in range(0, messages, 50):
            for user in ("gone", "stays"):
                said = [("user", f"secret{user} {number} and words around it {number * 7}") for number in range(50)]
                await memory.summary(said, user_id=user, session_id=f"s{part}")
        await memory.add_memory(f"{WORD} keeps pelicans", user_id="gone")


def erase(folder: Path, stop_at: int | None, lines: Connection) -> None:
    """Erase the user `gone`, in the smallest steps; say how many points were passed, and wait at one to be killed."""
    passed = 0
    writing = purging.Purge._writing

    def point() -> None:
        nonlocal passed
        passed += 1
        if passed == stop_at:
            lines.send(passed)
            signal.pause()

    @contextmanager
    def stopping(self: purging.Purge, begin: Callable[[], bool]) -> Iterator[None]:
        point()
        with writing(self, begin):
            yield
            point()

    purging._STEP_S = 0.0
    purging.Purge._writing = stopping  # type: ignore[method-assign]
    processes.erase(folder / "memory.db", "gone")
    lines.send(passed)
