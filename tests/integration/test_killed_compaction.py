"""A process is killed between any two steps of a compaction: the next one ends as if nothing had happened."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from reme_core import Message, ReMe
from reme_core.schema import Scope
from reme_core.stores import LocalStore
from tests.support import compaction_child
from tests.support.compaction_child import SESSION, SPACE, USER, SummarisingModel, prepare
from tests.support.new_processes import NEW_PROCESSES
from tests.support.summary_child import Place, places_to_kill

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]

SCOPE = Scope(memory_space=SPACE, user_id=USER)
STEPS = {"append", "read messages", "offload", "list offloads", "hold", "asking"}


def conversation() -> list[Message]:
    said: list[dict[str, Any]] = [{"role": "user", "content": "Read the files, one after the other.", "id": "q"}]
    for number in range(14):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": f'{{"n":{number}}}'}}
        said.append({"role": "assistant", "content": None, "tool_calls": [call], "id": f"a{number}"})
        text = f"line of file {number}\n" * (400 if number == 2 else 130)
        said.append({"role": "tool", "tool_call_id": f"c{number}", "content": text, "id": f"r{number}"})
    said.append({"role": "user", "content": "And now? " + "Think about it. " * 60, "id": "thought"})
    said.append({"role": "user", "content": "And now?", "id": "last"})
    return [Message.model_validate({**item, "created_at": "2024-05-01T10:00:00Z"}) for item in said]


def compact_in_child(folder: Path, messages: list[Message], kill_at: Place | None) -> list[str]:
    """Return the points passed; none if the process was killed."""
    receiver, sender = NEW_PROCESSES.Pipe(duplex=False)
    child = NEW_PROCESSES.Process(target=compaction_child.run, args=(folder, messages, kill_at, sender))
    child.start()
    sender.close()
    try:
        passed: list[str] = receiver.recv()
    except EOFError:
        passed = []
    child.join()
    assert child.exitcode == (0 if kill_at is None else -9)
    return passed


async def finish(folder: Path, messages: list[Message]) -> dict[str, Any]:
    """Compact the same context again, as the next start does, and return all that isn't random afterwards."""
    store = LocalStore(folder / "memory.db")
    async with ReMe(SPACE, folder, llm=SummarisingModel(), embedding=None, vector_store=store) as memory:
        prepared = await prepare(memory, messages)
        await memory.flush()
        infos, _ = await memory.list_offloads(user_id=USER, session_id=SESSION)
        pieces = [await memory.reload_context(user_id=USER, reference=info.reference) for info in infos]
        page = await memory.find_messages(user_id=USER, session_id=SESSION)
        held = {
            "messages": [stored.message.message_id for stored in page.messages],
            "offloads": sorted((info.kind, info.message_id or "", info.bytes, info.message_ids) for info in infos),
            "readable": all(piece.results[0].memory for piece in pieces),
            "jobs": await memory.list_jobs(user_id=USER),
            "removed": prepared.removed_message_ids,
            "kept": [message.message_id for message in prepared.messages],
            "method": prepared.method,
        }
    await store.close()
    return held


@pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=pytest.mark.torture)], ids=["each step once", "all steps"]
)
def test_a_kill_between_any_two_steps_changes_nothing_in_the_end(tmp_path: Path, every: bool) -> None:
    messages = conversation()
    passed = compact_in_child(tmp_path / "whole", messages, None)
    assert {name.removeprefix("before ").removeprefix("after ") for name in passed} == STEPS
    wanted = asyncio.run(finish(tmp_path / "undisturbed", messages))
    assert wanted["removed"]
    assert wanted["messages"] == list(wanted["removed"])
    for kill_at in places_to_kill(passed, every=every):
        folder = tmp_path / "killed"
        assert compact_in_child(folder, messages, kill_at) == []
        found = asyncio.run(finish(folder, messages))
        assert found == wanted, f"killed {kill_at}"
        shutil.rmtree(folder)
