"""A consolidating process is killed between any two steps: what is there is the state before, or all of the result."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.testing import HashedEmbedder, ScriptedChatModel
from tests.support import evolve_child
from tests.support.new_processes import NEW_PROCESSES
from tests.support.summary_child import SPACE, USER, Place, places_to_kill

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]


def evolve_in_child(folder: Path, kill_at: Place | None) -> list[str]:
    """Return the points passed; none if the process was killed."""
    receiver, sender = NEW_PROCESSES.Pipe(duplex=False)
    child = NEW_PROCESSES.Process(target=evolve_child.run, args=(folder, kill_at, sender))
    child.start()
    sender.close()
    try:
        passed: list[str] = receiver.recv()
    except EOFError:
        passed = []
    child.join()
    assert child.exitcode == (0 if kill_at is None else -9)
    return passed


async def told(folder: Path) -> None:
    async with ReMe(SPACE, folder, llm=None, embedding=HashedEmbedder(16)) as memory:
        drafts = [
            {"content": text, "memory_id": f"m{place}", "observed_at": f"2024-05-0{place}"}
            for place, text in enumerate(evolve_child.TOLD, 1)
        ]
        await memory.add_memories(drafts, user_id=USER)


async def held(folder: Path, *, evolve: bool = False) -> list[tuple[Any, ...]]:
    """Return what there is, after another run where that is wanted; it passes the check of the file."""
    model = ScriptedChatModel([evolve_child.joins]) if evolve else None
    async with ReMe(SPACE, folder, llm=model, embedding=HashedEmbedder(16)) as memory:
        if evolve:
            await memory.evolve(user_id=USER, dry_run=False)
        page = await memory.list_memories(user_id=USER, include_superseded=True)
        assert (await memory.check()).problems == ()
    return sorted((item.memory_id, item.content, item.superseded_by, item.revision) for item in page.memories)


@pytest.mark.parametrize(
    "every", [pytest.param(False, id="around the write"), pytest.param(True, id="all", marks=pytest.mark.torture)]
)
def test_a_consolidation_killed_between_any_two_steps_is_not_begun_or_done(tmp_path: Path, every: bool) -> None:
    before = tmp_path / "before"
    before.mkdir()
    asyncio.run(told(before))
    untouched = asyncio.run(held(before))

    def fresh(name: str) -> Path:
        return Path(shutil.copytree(before, tmp_path / name))

    points = evolve_in_child(fresh("whole"), None)
    whole = asyncio.run(held(tmp_path / "whole"))
    assert [content for _, content, end, _ in whole if end is None] == [
        evolve_child.JOINED, "Ann has a cat, Tom", "Ann rows",
    ]  # fmt: skip
    assert {point.split(" ", 1)[1] for point in points} == {
        "read memories", "search", "asking", "book the cost", "write",
    }  # fmt: skip
    places = places_to_kill(points, every=True)
    written = places.index(("after write", 1))
    for number in range(len(places)) if every else (written - 1, written):
        place = places[number]
        folder = fresh("killed")
        assert evolve_in_child(folder, place) == []
        assert asyncio.run(held(folder)) == (whole if number >= written else untouched), place
        assert asyncio.run(held(folder, evolve=True)) == whole
        shutil.rmtree(folder)
