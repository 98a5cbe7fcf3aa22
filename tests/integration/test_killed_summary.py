"""A summarising process is killed between any two steps: the next start ends as if nothing had happened."""

from __future__ import annotations

import asyncio
import os
import shutil
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.errors import ModelUnavailableError, PartialFailureError
from reme_core.ports import ChatRequest, ChatResult, ListMemories, MemoryFilter, MemorySearch, Store
from reme_core.schema import Memory, Scope
from reme_core.stores import LocalStore
from reme_core.testing import HashedEmbedder
from tests.support import summary_child
from tests.support.new_processes import NEW_PROCESSES
from tests.support.rule_model import RuleModel
from tests.support.summary_child import SPACE, USER, Place, places_to_kill, store_of

SCOPE = Scope(memory_space=SPACE, user_id=USER)
EARLIER = [{"role": "user", "content": "Alice lives in Berlin", "created_at": "2023-05-08T10:00:00Z", "id": "e1"}]
SAID = [
    {"role": "user", "content": "Alice moved to Lisbon", "created_at": "2023-06-08T10:00:00Z", "id": "m1"},
    {"role": "user", "content": "Bob likes tea", "created_at": "2023-06-08T10:01:00Z", "id": "m2"},
]
FAULT_POINTS = {
    "append", "put vectors", "claim", "read blocks", "read messages", "read targets", "read memories", "search",
    "asking", "write and end",
}  # fmt: skip
"""The steps of a simple summary; a kill before and after each."""

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]


class Out(RuleModel):
    """A model that can't be reached."""

    async def chat(self, request: ChatRequest) -> ChatResult:
        raise ModelUnavailableError("out")


def flush_in_child(folder: Path, lines: Connection) -> None:
    """Finish what is there, and say how often the model was asked."""

    async def work() -> int:
        model = RuleModel()
        async with ReMe(SPACE, folder, llm=model, embedding=None) as memory:
            await memory.flush()
        return len(model.requests)

    lines.send(asyncio.run(work()))


def test_two_processes_share_the_jobs_and_each_is_done_once(tmp_path: Path) -> None:
    users = [f"user-{number % 3}" for number in range(24)]

    async def promise() -> None:
        memory = ReMe(SPACE, tmp_path, llm=Out(), embedding=None)
        for number, user in enumerate(users):
            with pytest.raises(PartialFailureError):
                await memory.summary([("user", f"Alice owns thing {number}")], user_id=user)
        await memory.close()

    asyncio.run(promise())
    pipes = [NEW_PROCESSES.Pipe(duplex=False) for _ in range(2)]
    children = [NEW_PROCESSES.Process(target=flush_in_child, args=(tmp_path, sender)) for _, sender in pipes]
    for child in children:
        child.start()
    asked = [receiver.recv() for receiver, _ in pipes]
    for child in children:
        child.join()
    # In a scope of several facts the second call compares; the first of each has nothing to compare with.
    assert sum(asked) == 24 + 24 - 3

    async def look() -> list[tuple[int, int, int]]:
        async with ReMe(SPACE, tmp_path, llm=None, embedding=None) as memory:
            counts = [await memory.stats(user_id=user) for user in sorted(set(users))]
        return [(count.memories, count.events, count.jobs) for count in counts]

    assert asyncio.run(look()) == [(8, 8, 0)] * 3


def summarise_in_child(
    folder: Path, kill_at: Place | None, *, agentic: bool, indexed: bool, said: list[Any] = SAID
) -> list[str]:
    """Return the points passed; none if the process was killed."""
    receiver, sender = NEW_PROCESSES.Pipe(duplex=False)
    child = NEW_PROCESSES.Process(target=summary_child.run, args=(folder, said, kill_at, agentic, indexed, sender))
    child.start()
    sender.close()
    try:
        passed: list[str] = receiver.recv()
    except EOFError:
        passed = []
    child.join()
    assert child.exitcode == (0 if kill_at is None else -9)
    return passed


async def finish(folder: Path, *, agentic: bool, indexed: bool) -> dict[str, Any]:
    """Open the memory again, as the next start does, and return what it holds then."""
    store = store_of(folder, LocalStore, indexed=indexed)
    async with ReMe(
        SPACE,
        folder,
        llm=RuleModel(),
        embedding=HashedEmbedder(16),
        vector_store=store,
        use_agentic_mode=agentic,
    ) as memory:
        pass
    held = await holdings(store)
    assert await store.list_jobs(SCOPE) == []
    await store.close()
    del memory
    return held


async def holdings(store: Store) -> dict[str, Any]:
    """Return all that is not random in what a memory holds."""
    every = MemoryFilter(include_superseded=True)
    page = await store.list_memories(SCOPE, ListMemories(filter=every, limit=1000))
    by_id = {memory.memory_id: memory for memory in page.memories}

    def told(memory: Memory) -> tuple[Any, ...]:
        successor = by_id[memory.superseded_by].content if memory.superseded_by else None
        said = sorted(name for source in memory.sources for name in source.message_ids)
        about = (str(memory.memory_type), memory.memory_target, memory.content)
        return (*about, memory.valid_from, memory.valid_to, successor, said, memory.author)

    counts = await store.count(SCOPE)
    for memory in page.memories:  # an index has followed whatever the kill has left it behind with
        searched = MemorySearch(text=memory.content, limit=1, filter=every)
        assert [hit.memory.content for hit in await store.search(SCOPE, searched)] == [memory.content]
    return {"memories": sorted(map(told, page.memories), key=str), "messages": counts.messages, "blocks": counts.blocks}


# Each step once in the default suite, of both strategies and both stores; all that come, of all four, in the long one.
@pytest.mark.parametrize(
    ("agentic", "indexed", "every"),
    [
        pytest.param(False, False, False, id="simple, one file, each step once"),
        pytest.param(True, True, False, id="agentic, with an index, each step once"),
        pytest.param(False, False, True, id="simple, one file", marks=pytest.mark.torture),
        pytest.param(False, True, True, id="simple, with an index", marks=pytest.mark.torture),
        pytest.param(True, False, True, id="agentic, one file", marks=pytest.mark.torture),
        pytest.param(True, True, True, id="agentic, with an index", marks=pytest.mark.torture),
    ],
)
def test_a_summary_killed_between_any_two_steps_is_finished_at_the_next_start(
    tmp_path: Path, agentic: bool, indexed: bool, every: bool
) -> None:
    before = tmp_path / "before"
    before.mkdir()
    summarise_in_child(before, None, agentic=agentic, indexed=indexed, said=EARLIER)

    def fresh(name: str) -> Path:
        return Path(shutil.copytree(before, tmp_path / name))

    untouched = asyncio.run(finish(fresh("untouched"), agentic=agentic, indexed=indexed))
    whole = fresh("whole")
    points = summarise_in_child(whole, None, agentic=agentic, indexed=indexed)
    undisturbed = asyncio.run(finish(whole, agentic=agentic, indexed=indexed))
    assert len(undisturbed["memories"]) > len(untouched["memories"])
    assert points.index("before append") == 0
    if not agentic:
        steps = {point.split(" ", 1)[1] for point in points}
        assert steps == (FAULT_POINTS - {"search"} | {"read changes"} if indexed else FAULT_POINTS)

    for place in places_to_kill(points, every=every):
        folder = fresh("killed")
        assert summarise_in_child(folder, place, agentic=agentic, indexed=indexed) == []
        held = asyncio.run(finish(folder, agentic=agentic, indexed=indexed))
        assert held == (untouched if place == ("before append", 1) else undisturbed), f"killed {place}"
        shutil.rmtree(folder)
