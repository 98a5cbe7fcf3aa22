"""A file that version 9 wrote, kept as a fixture, opens and gives the same answers."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reme_core import JobState, ReMe
from reme_langchain import ReMeSaver, ReMeStore

FIXTURE = Path(__file__).resolve().parents[2] / "data" / "memory_v9.db.gz"
ALICE = "alice"


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    (tmp_path / "memory.db").write_bytes(gzip.decompress(FIXTURE.read_bytes()))
    async with ReMe("fixture", tmp_path, llm=None, embedding=None) as opened:
        yield opened


async def test_its_memories_hold_and_held_what_they_did(memory: ReMe) -> None:
    listed = (await memory.list_memories(user_id=ALICE, include_superseded=True)).memories
    assert {item.content for item in listed} == {
        "Allergic to shellfish",
        "Alice lives in Lisbon",
        "Alice lives in Berlin",
    }
    for time, home in ((None, "Lisbon"), ("2024-06-01", "Berlin")):
        found = await memory.retrieve("Where does Alice live?", user_id=ALICE, layers=["memory"], as_of=time)
        assert [hit.memory for hit in found.results] == [f"Alice lives in {home}"]
    replaced = next(item for item in listed if "Berlin" in item.content)
    first = (await memory.history(replaced.memory_id, user_id=ALICE))[0]
    assert first.operation == "add"


async def test_its_messages_jobs_and_offloads_are_found(memory: ReMe) -> None:
    said = [stored.message.text for stored in (await memory.find_messages(user_id=ALICE)).messages]
    assert said == ["I live in Berlin.", "I moved to Lisbon in May.", "Read the log.", "", "I sold the car."]
    assert [job.state for job in await memory.list_jobs(user_id=ALICE)] == [JobState.PENDING]
    loaded = await memory.reload_context(user_id=ALICE, query="door code")
    assert loaded.results[0].memory.endswith("the door code is 37919-K")
    tools = await memory.retrieve_tool_memory(["search"], user_id=ALICE)
    assert [tool.tool_name for tool in tools.results] == ["search"]


async def test_its_items_and_checkpoints_are_read(memory: ReMe) -> None:
    item = await ReMeStore(memory).aget(("users", ALICE, "prefs"), "tea")
    assert item is not None
    assert item.value == {"text": "green tea"}
    thread = await ReMeSaver(memory).aget_tuple({"configurable": {"thread_id": "t1"}})
    assert thread is not None
    assert [message.content for message in thread.checkpoint["channel_values"]["messages"]] == [
        "my cat is Ada",
        "noted",
    ]
