"""A writing process is killed at any moment: what it had acknowledged is there, and nothing is half there."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from reme_core.ports import FindMessages, ListMemories, ListOffloads, MemoryFilter
from reme_core.schema import Memory, Scope
from reme_core.stores import LocalStore
from tests.support import writing_child
from tests.support.file_checks import bytes_on_disk, problems_of_file

LASTING = Scope(memory_space="space", user_id="lasting")
FILES = 5
KILLS_A_FILE = 10


@dataclass
class Acknowledged:
    """What killed children had said before they died."""

    contents: dict[str, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    messages: list[str] = field(default_factory=list)
    erased: list[str] = field(default_factory=list)
    offloads: dict[str, str] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    groups: list[list[str]] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def take(self, lines: list[bytes]) -> None:
        """Read the lines of one child; an intent that nothing follows may or may not have come true."""
        entries = [json.loads(line) for line in lines]
        for entry in entries:
            self.kinds[entry["kind"]] += 1
            match entry["kind"]:
                case "memories":
                    self.contents.update(entry["held"])
                case "messages":
                    self.messages += entry["ids"]
                case "deleted":
                    self.deleted.update(entry["ids"])
                case "closed":
                    self.closed.update(entry["ids"])
                case "erased":
                    self.erased += entry["texts"]
                case "offloads":
                    self.offloads.update(entry["held"])
                case "intent" if entry["what"] in {"batch", "messages", "offloads"}:
                    self.groups.append(entry["ids"])
        if entries[-1]["kind"] == "intent" and entries[-1]["what"] in {"delete", "update", "close"}:
            self.unsure.update(entries[-1]["ids"])


def run_and_kill(folder: Path, seed: int, chance: random.Random) -> list[bytes]:
    """Let a child write until it has said a random number of lines, kill it, and return all that it said."""
    context = multiprocessing.get_context("fork")  # which spares importing everything fifty times
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=writing_child.run, args=(folder, seed, sender))
    child.start()
    sender.close()
    lines = [receiver.recv_bytes() for _ in range(chance.randint(1, 60))]
    for _ in range(chance.randint(0, 100_000)):  # so that it dies between two lines as well
        pass
    child.kill()
    lines += remaining(receiver)
    child.join()
    child.close()
    return lines


async def held(path: Path) -> tuple[dict[str, Memory], set[str], dict[str, str]]:
    """Return the memories, the ids of the messages, and the texts of the offloads in the file."""
    store = LocalStore(path)
    page = await store.list_memories(LASTING, ListMemories(filter=MemoryFilter(include_superseded=True), limit=100_000))
    found = await store.find_messages(LASTING, FindMessages(limit=100_000))
    listed = await store.list_offloads(LASTING, ListOffloads(limit=100_000))
    texts = {info.reference: (await store.get_offload(LASTING, info.reference)).text for info in listed.offloads}
    await store.close()
    memories = {memory.memory_id: memory for memory in page.memories}
    return memories, {stored.message.message_id for stored in found.messages}, texts


def remaining(receiver: Connection) -> Iterator[bytes]:
    while True:
        try:
            yield receiver.recv_bytes()
        except (EOFError, OSError):  # the end, or a line that was cut
            receiver.close()
            return


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("file_number", range(FILES))
def test_a_killed_writer_loses_nothing_acknowledged_and_leaves_nothing_half_done(
    tmp_path: Path, file_number: int
) -> None:
    chance = random.Random(1000 + file_number)
    path = tmp_path / "memory.db"
    said = Acknowledged()
    for kill in range(KILLS_A_FILE):
        said.take(run_and_kill(tmp_path, file_number * 100 + kill, chance))
        assert problems_of_file(path) == []
    memories, messages, offloads = asyncio.run(held(path))

    assert not said.deleted.intersection(memories)
    sure = {key: content for key, content in said.contents.items() if key not in said.deleted | said.unsure}
    assert {key: memories[key].content for key in sure if key in memories} == sure
    assert all(memories[key].valid_to for key in said.closed.intersection(sure))
    assert messages.issuperset(said.messages)
    assert {key: offloads.get(key) for key in said.offloads} == said.offloads
    for group in said.groups:
        if not (said.deleted | said.unsure).intersection(group):
            assert len({item in messages or item in memories or item in offloads for item in group}) == 1
    raw = bytes_on_disk(path)
    assert not [text for text in said.erased if text.encode() in raw]
    assert problems_of_file(path) == []
    assert min(said.kinds[kind] for kind in ("memories", "messages", "deleted", "closed", "erased", "offloads")) > 3
