"""Holders of jobs are stopped, lose their jobs to another process, and are continued: a result is written once."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.testing import HashedEmbedder
from tests.support import summary_child
from tests.support.file_checks import problems_of_file
from tests.support.rule_model import RuleModel
from tests.support.summary_child import SPACE, USER, Place, places_to_kill

SAID: list[Any] = [("user", "Alice lives in Bonn"), ("user", "Bea lives in Rome"), ("user", "Alice moved to Kiel")]
HOLD_S = 0.3

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


async def finished_here(folder: Path) -> dict[str, Any]:
    """Do what is left to do; return what is held then."""
    async with ReMe(SPACE, folder, llm=RuleModel(), embedding=HashedEmbedder(16)) as memory:
        await memory.flush()
        page = await memory.list_memories(user_id=USER, include_superseded=True)
        counts = await memory.stats(user_id=USER)
        told = sorted((item.content, item.valid_to is None) for item in page.memories)
        return {"memories": told, "events": counts.events, "messages": counts.messages, "jobs": counts.jobs}


def summarised_in_child(folder: Path, stop_at: Place | None) -> list[str]:
    """Summarise in a process; if it is stopped, do its work here meanwhile. Return the points that it passed."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=summary_child.run_and_stop, args=(folder, SAID, stop_at, HOLD_S, sender))
    child.start()
    sender.close()
    if stop_at is not None:
        assert child.pid is not None
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        asyncio.run(finished_here(folder))
        os.kill(child.pid, signal.SIGCONT)
    passed: list[str] = receiver.recv()
    child.join()
    assert child.exitcode == 0
    return passed


@pytest.mark.parametrize("stops", [2, pytest.param(12, marks=pytest.mark.torture)])
def test_a_holder_that_was_stopped_and_continued_writes_nothing_a_second_time(tmp_path: Path, stops: int) -> None:
    points = summarised_in_child(tmp_path / "whole", None)
    whole = asyncio.run(finished_here(tmp_path / "whole"))
    assert (whole["messages"], whole["jobs"]) == (3, 0)
    first, last = points.index("after claim"), points.index("before write and end")
    places = places_to_kill(points, every=True)
    for stop in range(stops):
        folder = tmp_path / f"stopped-{stop}"
        stop_at = places[last - stop * (last - first) // (stops - 1)]
        passed = summarised_in_child(folder, stop_at)
        assert asyncio.run(finished_here(folder)) == whole, f"stopped {stop_at}, passed {passed}"
        assert problems_of_file(folder / "memory.db") == []
