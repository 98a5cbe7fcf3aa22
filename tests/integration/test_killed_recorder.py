"""A process that records calls, uses and attempts is killed: what it acknowledged is there, nothing is half there."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable
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


def _killed(work: Callable[[Path, Connection], None], folder: Path, after: int) -> Counter[str]:
    """Have a process do work, kill it once it has told of so much, and return what it has told."""
    receiver, sender = NEW_PROCESSES.Pipe(duplex=False)
    child = NEW_PROCESSES.Process(target=work, args=(folder, sender))
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
    return told


@pytest.mark.parametrize("after", [1, 2, 3, 10, 41])
def test_a_killed_recorder_loses_nothing_acknowledged_and_leaves_nothing_half_done(after: int, tmp_path: Path) -> None:
    asyncio.run(add_fact(tmp_path))
    told = _killed(record_for_ever, tmp_path, after)
    there, (blocks, messages, jobs), helped = asyncio.run(held(tmp_path))
    for kind, count in there.items():
        assert told[kind] <= count <= told[kind] + 1, kind
    assert blocks == messages == jobs
    assert helped == there["use"]


def show_for_ever(folder: Path, told: Connection) -> None:
    """Hand in one image after the other, each twice, and tell of each message once it is acknowledged."""

    async def work() -> None:
        memory = ReMe(SPACE, folder, llm=None, embedding=None)
        number = 0
        while True:
            image = {"type": "image", "data": str(number // 2).encode() * 50_000}
            said = {"message_id": f"m{number}", "role": "user", "content": [image]}
            await memory.summary([said], user_id=USER)
            told.send("message")
            number += 1

    asyncio.run(work())


@pytest.mark.parametrize("after", [1, 6, 21])
def test_a_killed_writer_of_images_leaves_neither_message_nor_bytes_without_the_other(
    after: int, tmp_path: Path
) -> None:
    told = _killed(show_for_ever, tmp_path, after)

    async def look() -> tuple[int, list[str], int]:
        async with ReMe(SPACE, tmp_path, llm=None, embedding=None) as memory:
            page = await memory.find_messages(user_id=USER, limit=500)
            refs = [item.message.blob_references[0] for item in page.messages]
            for ref in refs:
                await memory.read_blob(ref, user_id=USER)
            return len(page.messages), refs, (await memory.stats(user_id=USER)).blobs

    messages, refs, blobs = asyncio.run(look())
    assert told["message"] <= messages <= told["message"] + 1
    assert blobs == len(set(refs)) == (messages + 1) // 2
