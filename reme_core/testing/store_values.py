"""Values and small helpers for tests of stores: scopes, memories, messages, vectors, new processes and threads."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing import get_all_start_methods, get_context
from typing import ParamSpec, TypeAlias, TypeVar

import numpy as np
import pytest
from pydantic import JsonValue

from reme_core.ports import DeleteMemory, PutMemory, Vector, WriteBatch
from reme_core.schema import Block, Memory, MemoryType, Message, Role, Scope, TextBlock, new_id

P = ParamSpec("P")
T = TypeVar("T")
Opener: TypeAlias = Callable[[], T | Awaitable[T]]
"""Opens a store, at once or when awaited; has to survive pickling (a function of a module, or a `partial` of one)."""

DIMENSION = 8
NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
ALICE = Scope(memory_space="space", user_id="alice")
BOB = Scope(memory_space="space", user_id="bob")
SHARED = Scope(memory_space="space", user_id="")
ELSEWHERE = Scope(memory_space="elsewhere", user_id="alice")

LOOKALIKES = tuple(
    Scope(memory_space=space, user_id=user)
    for space, user in (
        ("space", "Alice"),
        ("space", "alic\u0435"),  # a Cyrillic letter at the end
        ("space", "ａｌｉｃｅ"),
        ("space", "alice\u0301"),
        ("space", "alic\u00e9"),
        ("Space", "alice"),
        ("space", "*"),
        ("space", "%"),
        ("space", "alic_"),
        ("*", "alice"),
        ("*", "*"),
        ("space", "null"),
        ("space", "None"),
        ("space/alice", ""),
        ("space:alice", ""),
        ("spacealice", ""),
        ("spaceal", "ice"),
        ("alice", "space"),
        ('["space", "alice"]', ""),
        ('space","user_id":"alice', ""),
        ("space", '{"$ne": ""}'),
        ("space", "alice' OR '1'='1"),
        ("space", "alice' --"),
    )
)
"""Scopes that careless keys, patterns, case folding or normalisation would mix up with `ALICE`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCapabilities:
    """What a backend promises beyond its port; whatever is declared is tested, and failing it is a failure.

    Attributes:
        persistent: What was written is found when the store is opened again, in a new process. Needs the fixture
            `opener` (see `Opener`), which opens what the store fixture opened.
        shared: Several processes may have it open and write at the same time. Needs `opener` as well.
    """

    persistent: bool = False
    shared: bool = False


def at(minute: float) -> datetime:
    """Return a time so many minutes after `NOW`."""
    return NOW + timedelta(minutes=minute)


def memory(
    content: str,
    *,
    scope: Scope = ALICE,
    memory_id: str | None = None,
    minute: float = 0,
    memory_type: MemoryType = MemoryType.PERSONAL,
    target: str = "self",
    metadata: Mapping[str, JsonValue] | None = None,
) -> Memory:
    """Build a current memory that was said and stored `minute` minutes after `NOW`."""
    return Memory(
        memory_id=memory_id or new_id(),
        memory_space=scope.memory_space,
        user_id=scope.user_id,
        memory_type=memory_type,
        memory_target=target,
        content=content,
        observed_at=at(minute),
        valid_from=at(minute),
        created_at=at(minute),
        updated_at=at(minute),
        metadata=dict(metadata or {}),
    )


def changed(value: Memory, changes: Mapping[str, object]) -> Memory:
    """Return the memory with some fields changed, validated again."""
    return Memory.model_validate({**value.model_dump(), **changes})


def closed(value: Memory, *, minute: float, by: str | None = None) -> Memory:
    """Return the memory as superseded at a time."""
    return changed(value, {"valid_to": at(minute), "superseded_by": by or new_id()})


def lasting(value: Memory, *, minute: float | None, until: float | None) -> Memory:
    """Return the memory with an own time from one minute to another; None: as it was, and without an end."""
    begins = value.valid_from if minute is None else at(minute)
    return changed(value, {"valid_from": begins, "valid_to": None if until is None else at(until)})


def message(
    text: str, *, name: str | None = None, role: Role = "user", message_id: str | None = None, minute: float = 0
) -> Message:
    """Build a message that was said `minute` minutes after `NOW`."""
    return Message(
        message_id=message_id or new_id(),
        role=role,
        name=name,
        content=(TextBlock(text=text),),
        created_at=at(minute),
    )


def block(session_id: str, *messages: Message, summary: str = "", block_id: str | None = None) -> Block:
    """Build the block of some messages of a session."""
    return Block(
        block_id=block_id or new_id(),
        session_id=session_id,
        message_ids=tuple(item.message_id for item in messages),
        started_at=messages[0].created_at,
        ended_at=messages[-1].created_at,
        summary=summary,
        created_at=messages[-1].created_at,
    )


def axis(index: int, *, dimension: int = DIMENSION) -> Vector:
    """Return the unit vector along an axis: axes are orthogonal to each other."""
    vector = np.zeros(dimension, np.float32)
    vector[index] = 1.0
    return vector


def leaning(cosine: float, *, index: int = 0, other: int = 1) -> Vector:
    """Return a unit vector whose cosine with `axis(index)` is given; the rest of it lies along another axis."""
    vector = cosine * axis(index) + float(np.sqrt(1.0 - cosine * cosine)) * axis(other)
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def random_unit(seed: int, *, dimension: int = DIMENSION) -> Vector:
    """Return a unit vector of a random direction, the same for the same seed."""
    vector = np.random.default_rng(seed).normal(size=dimension)
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def bad_vectors() -> dict[str, Vector]:
    """Return what is no vector of unit norm, by what is wrong with it."""
    with_nan, with_inf = axis(0), axis(0)
    with_nan[3], with_inf[3] = np.nan, np.inf
    return {
        "not a number": with_nan,
        "infinite": with_inf,
        "zero": np.zeros(DIMENSION, np.float32),
        "too long": axis(0) * np.float32(2),
        "too short": axis(0) * np.float32(0.5),
        "integers": axis(0).astype(np.int64),  # wrong on purpose
        "two-dimensional": axis(0).reshape(1, DIMENSION),
    }


def batch(*puts: Memory | PutMemory, deletes: tuple[DeleteMemory, ...] = (), reason: str = "") -> WriteBatch:
    """Build a write of memories, without vectors where they come bare."""
    wrapped = tuple(item if isinstance(item, PutMemory) else PutMemory(memory=item) for item in puts)
    return WriteBatch(puts=wrapped, deletes=deletes, reason=reason, at=NOW)


def require(*, declared: bool, capability: str) -> None:
    """Skip a test of something that the backend does not promise."""
    if not declared:
        pytest.skip(f"this backend does not declare the capability {capability!r}")


async def opened(opener: Opener[T]) -> T:
    """Open a store by its opener."""
    value = opener()
    return await value if inspect.isawaitable(value) else value


async def in_new_process(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function of a module in a process that inherits nothing of this one, and return its value.

    Arguments and value are pickled. Where there is a fork server, what `multiprocessing.set_forkserver_preload` names
    is imported once and not by each process.
    """
    method = "forkserver" if "forkserver" in get_all_start_methods() else "spawn"
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context(method)) as pool:
        return await asyncio.wrap_future(pool.submit(function, *args, **kwargs))


async def in_threads(work: Callable[[int], Coroutine[object, object, T]], *, count: int) -> list[T]:
    """Run `work(0) … work(count - 1)` at the same time, each in a thread with an event loop of its own."""

    def run(number: int) -> T:
        return asyncio.run(work(number))

    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(max_workers=count) as pool:
        return list(await asyncio.gather(*(loop.run_in_executor(pool, run, number) for number in range(count))))


async def at_once(*work: Coroutine[object, object, T]) -> list[T]:
    """Run coroutines at the same time in this event loop; the first failure ends all of them."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(item) for item in work]
    return [task.result() for task in tasks]
