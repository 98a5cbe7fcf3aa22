"""A process that learns is killed between any two steps: the next start ends as if nothing had happened."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.testing import HashedEmbedder
from tests.support import task_child
from tests.support.lesson_model import TASK_NAME, LessonModel
from tests.support.new_processes import NEW_PROCESSES
from tests.support.summary_child import SPACE, USER, Place, places_to_kill

FAULT_POINTS = {"append", "put vectors", "claim", "read blocks", "asking", "write and end"}

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]


def learn_in_child(folder: Path, kill_at: Place | None) -> list[str]:
    """Return the points passed; none if the process was killed."""
    receiver, sender = NEW_PROCESSES.Pipe(duplex=False)
    child = NEW_PROCESSES.Process(target=task_child.run, args=(folder, kill_at, sender))
    child.start()
    sender.close()
    try:
        passed: list[str] = receiver.recv()
    except EOFError:
        passed = []
    child.join()
    assert child.exitcode == (0 if kill_at is None else -9)
    return passed


async def after_the_next_start(folder: Path, *, hand_in: bool = False) -> dict[str, Any]:
    """Open the memory again; return all that is not random in what it holds then."""
    async with ReMe(SPACE, folder, llm=LessonModel(), embedding=HashedEmbedder(16)) as memory:
        if hand_in:
            await memory.summary_task(task_child.ATTEMPTS, user_id=USER, task_name=TASK_NAME)
        await memory.flush()
        page = await memory.list_memories(user_id=USER)
        counts = await memory.stats(user_id=USER)
        told = sorted(
            (made.when_to_use, made.content, sorted(str(source.block_id) for source in made.sources))
            for made in page.memories
        )
        return {"memories": told, "messages": counts.messages, "blocks": counts.blocks, "jobs": counts.jobs}


def test_learning_killed_between_any_two_steps_is_finished_at_the_next_start(tmp_path: Path) -> None:
    points = learn_in_child(tmp_path / "whole", None)
    assert {point.split(" ", 1)[1] for point in points} == FAULT_POINTS
    whole = asyncio.run(after_the_next_start(tmp_path / "whole"))
    assert (len(whole["memories"]), whole["messages"], whole["blocks"], whole["jobs"]) == (3, 6, 2, 0)
    for number, place in enumerate(places_to_kill(points, every=True), 1):
        folder = tmp_path / f"killed-{number}"
        assert learn_in_child(folder, place) == []
        held = asyncio.run(after_the_next_start(folder, hand_in=number <= points.index("before append") + 1))
        assert held == whole, f"killed {place}"
        if number % 3 == 0:  # whoever doesn't know how far it got hands everything in again
            assert asyncio.run(after_the_next_start(folder, hand_in=True)) == whole
