"""A process that summarises, and is killed at a named point between two steps of it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

from reme_core import ReMe, RetryPolicy
from reme_core.ports import ChatRequest, ChatResult
from reme_core.stores import IndexedStore, LocalStore, QdrantIndex
from reme_core.testing import HashedEmbedder
from tests.support.rule_model import RuleModel

T = TypeVar("T")

SPACE, USER = "space", "alice"

Place: TypeAlias = tuple[str, int]
"""A point by its name and how often that has been passed with it, from 1: what runs beside other things comes in an
order that differs from run to run, so that a number in the whole row would be another point."""


class Steps:
    """Counts the points passed, by name, and ends the process at one of them, or stops it there."""

    def __init__(self, kill_at: Place | None, signal_there: signal.Signals = signal.SIGKILL) -> None:
        self.kill_at = kill_at
        self.signal_there = signal_there
        self.passed: list[str] = []

    def point(self, name: str) -> None:
        self.passed.append(name)
        if (name, self.passed.count(name)) == self.kill_at:
            os.kill(os.getpid(), self.signal_there)

    def end(self) -> None:
        """Send the signal here, if its point has not come this time."""
        if self.kill_at is not None and self.passed.count(self.kill_at[0]) < self.kill_at[1]:
            os.kill(os.getpid(), self.signal_there)

    async def around(self, name: str, work: Awaitable[T]) -> T:
        self.point(f"before {name}")
        result = await work
        self.point(f"after {name}")
        return result


def places_to_kill(points: Sequence[str], *, every: bool) -> list[Place]:
    """Return the places at which to end a process: all of these points, or the first of each name."""
    passed: Counter[str] = Counter()
    places = []
    for name in points:
        passed[name] += 1
        places.append((name, passed[name]))
    return places if every else [(name, 1) for name in passed]


_STEPPED = {
    "append": "append",
    "put_vectors": "put vectors",
    "claim_job": "claim",
    "get_blocks": "read blocks",
    "get_messages": "read messages",
    "count_targets": "read targets",
    "list_memories": "read memories",
    "search": "search",
    "put_and_settle": "write and end",
    "settle_job": "end",
    "memory_changes": "read changes",
}
"""What is done by a store, and what that is called here."""


class SteppedStore(LocalStore):
    """A local store whose calls are points."""

    steps: Steps
    stepped: ClassVar[Mapping[str, str]] = _STEPPED

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if name not in type(self).stepped:
            return value
        call: Callable[..., Awaitable[Any]] = value
        return lambda *given: self.steps.around(type(self).stepped[name], call(*given))


class SteppedModel(RuleModel):
    """A model whose calls are points."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps

    async def chat(self, request: ChatRequest) -> ChatResult:
        return await self.steps.around("asking", super().chat(request))


def store_of(folder: Path, kind: type[LocalStore], *, indexed: bool) -> LocalStore | IndexedStore:
    """Return a store in a folder, with an index beside it or without."""
    store = kind(folder / "memory.db")
    return IndexedStore(store, QdrantIndex(path=folder / "qdrant", dimension=16)) if indexed else store


def run(folder: Path, said: list[Any], kill_at: Place | None, agentic: bool, indexed: bool, lines: Connection) -> None:
    """Summarise, and say which points were passed if nothing killed the process."""
    asyncio.run(_run(folder, said, Steps(kill_at), agentic=agentic, indexed=indexed, lines=lines))


async def _run(folder: Path, said: list[Any], steps: Steps, *, agentic: bool, indexed: bool, lines: Connection) -> None:
    SteppedStore.steps = steps
    store = store_of(folder, SteppedStore, indexed=indexed)
    async with ReMe(
        SPACE,
        folder,
        llm=SteppedModel(steps),
        embedding=HashedEmbedder(16),
        vector_store=store,
        use_agentic_mode=agentic,
    ) as memory:
        await memory.summary(said, user_id=USER)
        steps.end()
        lines.send(steps.passed)
    await store.close()


def run_and_stop(folder: Path, said: list[Any], stop_at: Place | None, hold_s: float, lines: Connection) -> None:
    """Summarise, stop at a point until continued, and say which points were passed."""
    asyncio.run(_run_and_stop(folder, said, Steps(stop_at, signal.SIGSTOP), hold_s, lines))


async def _run_and_stop(folder: Path, said: list[Any], steps: Steps, hold_s: float, lines: Connection) -> None:
    SteppedStore.steps = steps
    store = SteppedStore(folder / "memory.db")
    async with ReMe(
        SPACE,
        folder,
        llm=SteppedModel(steps),
        embedding=HashedEmbedder(16),
        vector_store=store,
        retry=RetryPolicy(hold_s=hold_s),
    ) as memory:
        await memory.summary(said, user_id=USER)
        steps.end()
        lines.send(steps.passed)
    await store.close()
