"""Several processes, threads, loops and tasks work on one file at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.errors import MemoryNotFoundError
from reme_core.testing import HashedEmbedder
from tests.support import processes
from tests.support.file_checks import problems_of_file
from tests.support.new_processes import NEW_PROCESSES


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(4, mp_context=NEW_PROCESSES) as pool:
        yield pool


def plain(folder: Path) -> ReMe:
    return ReMe(processes.SPACE, folder, llm=None, embedding=None)


async def test_two_processes_of_600_writes_each_leave_1200(tmp_path: Path, pool: ProcessPoolExecutor) -> None:
    written = list(pool.map(processes.write_many, [tmp_path] * 2, ["first", "second"], [600] * 2))
    ids = {item for part in written for item in part}
    async with plain(tmp_path) as memory:
        memories = (await memory.list_memories(user_id="alice", limit=10_000)).memories
        messages = (await memory.find_messages(user_id="alice", limit=10_000)).messages
        found = await memory.retrieve("second fact 299", user_id="alice", limit=1)
    assert ids == {item.memory_id for item in memories} | {item.message.message_id for item in messages}
    assert len(ids) == 1200
    assert found.results[0].memory == "second fact 299"
    assert problems_of_file(tmp_path / "memory.db") == []


async def test_what_another_process_wrote_is_seen_by_an_open_reader_at_its_next_call(
    tmp_path: Path, pool: ProcessPoolExecutor
) -> None:
    loop = asyncio.get_running_loop()
    async with plain(tmp_path) as memory:
        await memory.summary([("user", "Nothing but otters here.")], user_id="alice", session_id="shared")
        await memory.add_memory("Otters hold hands.", user_id="alice")
        for step in range(3):
            await memory.retrieve("pelicans or a walrus", user_id="alice")  # the partitions are in memory now
            name = f"writer {step}"
            memory_id, message_id = await loop.run_in_executor(pool, processes.write_one, tmp_path, name)
            assert (await memory.get_memory(memory_id, user_id="alice")).content == f"{name} keeps pelicans"
            assert (await memory.list_memories(user_id="alice", limit=1)).memories[0].memory_id == memory_id
            found = await memory.retrieve(f"{name} pelicans", user_id="alice", layers=["memory"])
            assert memory_id in [hit.memory_id for hit in found.results]
            said = await memory.retrieve(f"{name} walrus", user_id="alice", layers=["message"])
            assert (message_id,) in [hit.message_ids for hit in said.results]
            page = await memory.find_messages(keyword="walrus", user_id="alice", newest_first=True)
            assert page.messages[0].message.message_id == message_id
            blocks, _ = await memory.list_blocks(user_id="alice", session_id="shared")
            assert (await memory.get_messages([message_id], user_id="alice"))[0].session_id == "shared"
            assert message_id in [item for block in blocks for item in block.message_ids]


async def test_what_another_process_deleted_is_gone_for_an_open_reader(
    tmp_path: Path, pool: ProcessPoolExecutor
) -> None:
    loop = asyncio.get_running_loop()
    async with plain(tmp_path) as memory:
        stored = await memory.add_memory("Alice keeps a secret.", user_id="alice")
        await memory.summary([("user", "the secret is out")], user_id="alice")
        assert (await memory.retrieve("secret", user_id="alice")).results
        await loop.run_in_executor(pool, processes.erase, tmp_path / "memory.db", "alice")
        assert not (await memory.retrieve("secret", user_id="alice")).results
        with pytest.raises(MemoryNotFoundError):
            await memory.get_memory(stored.memory_id, user_id="alice")


async def test_four_processes_open_a_fresh_file_at_the_same_time(tmp_path: Path, pool: ProcessPoolExecutor) -> None:
    for attempt in range(12):
        path = tmp_path / str(attempt) / "memory.db"
        list(pool.map(processes.open_first, [path] * 4, ["a", "b", "c", "d"]))
        async with plain(path.parent) as memory:
            assert len((await memory.list_memories(user_id="alice")).memories) == 4
        assert problems_of_file(path) == []


async def test_fifty_concurrent_adds_of_distinct_facts_make_fifty(tmp_path: Path) -> None:
    async with ReMe(processes.SPACE, tmp_path, llm=None, embedding=HashedEmbedder(16)) as memory:
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(memory.add_memory(f"fact number {number}", user_id="alice"))
        assert len((await memory.list_memories(user_id="alice")).memories) == 50


async def test_fifty_concurrent_adds_of_one_fact_make_one(tmp_path: Path) -> None:
    async with ReMe(processes.SPACE, tmp_path, llm=None, embedding=HashedEmbedder(16)) as memory:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(memory.add_memory("The sky is blue.", user_id="alice")) for _ in range(50)]
        assert len({task.result().memory_id for task in tasks}) == 1
        assert len((await memory.list_memories(user_id="alice")).memories) == 1


def in_sixteen_threads(work: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(work, range(16)))


def test_sixteen_threads_with_loops_of_their_own_share_one_memory(tmp_path: Path) -> None:
    memory = ReMe(processes.SPACE, tmp_path, llm=None, embedding=HashedEmbedder(16))

    async def write(number: int) -> None:
        for step in range(4):
            await memory.add_memory(f"thread {number} step {step}", user_id="alice")
            await memory.add_memory("All threads say this.", user_id="alice")
            await memory.summary([("user", f"said by {number} at {step}")], user_id="alice", session_id="one")
            await memory.retrieve(f"thread {number}", user_id="alice")

    async def read() -> tuple[int, int]:
        memories = await memory.list_memories(user_id="alice", limit=1000)
        messages = await memory.find_messages(user_id="alice", limit=1000)
        await memory.close()
        return len(memories.memories), len(messages.messages)

    in_sixteen_threads(lambda number: asyncio.run(write(number)))
    assert asyncio.run(read()) == (65, 64)
    assert problems_of_file(tmp_path / "memory.db") == []


def test_sixteen_threads_share_one_blocking_memory(tmp_path: Path) -> None:
    with ReMe.sync(processes.SPACE, tmp_path, llm=None, embedding=HashedEmbedder(16)) as memory:

        def write(number: int) -> None:
            for step in range(4):
                memory.add_memory(f"thread {number} step {step}", user_id="alice")
                memory.add_memory("All threads say this.", user_id="alice")

        in_sixteen_threads(write)
        assert len(memory.list_memories(user_id="alice", limit=1000).memories) == 65


async def test_eight_concurrent_summaries_of_one_session_put_no_message_into_two_blocks(tmp_path: Path) -> None:
    async with ReMe(processes.SPACE, tmp_path, llm=None, embedding=HashedEmbedder(16)) as memory:
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                messages = [("user", f"call {number} message {place}") for place in range(7)]
                group.create_task(memory.summary(messages, user_id="alice", session_id="one"))
        blocks, _ = await memory.list_blocks(user_id="alice")
        sliced = [message_id for block in blocks for message_id in block.message_ids]
        messages_ = (await memory.find_messages(user_id="alice", limit=1000)).messages
        assert sorted(sliced) == sorted(stored.message.message_id for stored in messages_)
        assert len(sliced) == 56
    assert problems_of_file(tmp_path / "memory.db") == []
