"""A process that records calls, uses and attempts is killed: what it acknowledged is there, nothing is half there."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from reme_core import ReMe
from tests.support.new_processes import NEW_PROCESSES

SPACE, USER, FACT = "space", "cook", "fact"

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]


def record_for_ever(folder: Path, told: Connection) -> None:
    """Record one thing after the other, and tell of each once it is acknowledged."""

    async def work() -> None:
        memory = ReMe(SPACE, folder, llm=None, embedding=None)
        number = 0
        while True:
            number += 1
            await memory.add_tool_call_results([{"tool_name": "oven", "call_id": f"c{number}"}], user_id=USER)
            told.send("call")
            await memory.record_use(FACT, user_id=USER, helpful=1)
            told.send("use")
            attempt = {"trajectory_id": f"a{number}", "score": 1, "messages": [("user", f"Cook dish {number}.")]}
            await memory.summary_task([attempt], user_id=USER, task_name="cooking")
            told.send("attempt")

    asyncio.run(work())


async def add_fact(folder: Path) -> None:
    async with ReMe(SPACE, folder, llm=None, embedding=None) as memory:
        await memory.add_memories([{"memory_id": FACT, "content": "Stir."}], user_id=USER)


async def held(folder: Path) -> tuple[dict[str, int], tuple[int, int, int], float]:
    """Return what was recorded; blocks, messages and jobs, of which each attempt has one; and how often it helped."""
    async with ReMe(SPACE, folder, llm=None, embedding=None) as memory:
        counts = await memory.stats(user_id=USER)
        [tool] = (await memory.retrieve_tool_memory("oven", user_id=USER)).results
        assert tool.statistics.calls == counts.tool_calls
        fact = await memory.get_memory(FACT, user_id=USER)
        there = {"call": counts.tool_calls, "use": fact.freq, "attempt": counts.blocks}
        return there, (counts.blocks, counts.messages, counts.jobs), fact.utility


@pytest.mark.parametrize("after", [1, 2, 3, 10, 41])
def test_a_killed_recorder_loses_nothing_acknowledged_and_leaves_nothing_half_done(after: int, tmp_path: Path) -> None:
    asyncio.run(add_fact(tmp_path))
    receiver, sender = NEW_PROCESSES.Pipe(duplex=False)
    child = NEW_PROCESSES.Process(target=record_for_ever, args=(tmp_path, sender))
    child.start()
    sender.close()
    told = Counter[str](receiver.recv() for _ in range(after))
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    while True:
        try:
            told[receiver.recv()] += 1
        except (EOFError, OSError):
            break
    child.join()
    there, (blocks, messages, jobs), helped = asyncio.run(held(tmp_path))
    for kind, count in there.items():
        assert told[kind] <= count <= told[kind] + 1, kind
    assert blocks == messages == jobs
    assert helped == there["use"]
