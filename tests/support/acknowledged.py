"""Promises that a writing process has made before it died, and what a file has to hold after them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from reme_core.ports import FindMessages, ListMemories, ListOffloads, MemoryFilter, Store
from reme_core.schema import Memory, Scope
from reme_core.stores import LocalStore
from tests.support.file_checks import bytes_on_disk

LASTING = Scope(memory_space="space", user_id="lasting")


@dataclass(frozen=True)
class Held:
    """What is in a file."""

    memories: dict[str, Memory]
    messages: set[str]
    offloads: dict[str, str]

    def __contains__(self, key: str) -> bool:
        return key in self.memories or key in self.messages or key in self.offloads


@dataclass
class Acknowledged:
    """What children had said before they died."""

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

    def broken(self, found: Held, path: Path | None) -> list[str]:
        """Return what was acknowledged and is not so, and what is half there; `path`: of the file, if it is one."""
        sure = {key: text for key, text in self.contents.items() if key not in self.deleted | self.unsure}
        told = [f"deleted and there: {key}" for key in self.deleted if key in found.memories]
        told += [f"not there: {key}" for key in sure if key not in found.memories]
        told += [
            f"not {sure[key]!r}: {key}"
            for key, now in found.memories.items()
            if sure.get(key, now.content) != now.content
        ]
        told += [f"not closed: {key}" for key in self.closed if key in sure and not found.memories[key].valid_to]
        told += [f"no message: {key}" for key in self.messages if key not in found.messages]
        told += [f"no offload: {key}" for key, text in self.offloads.items() if found.offloads.get(key) != text]
        whole = [group for group in self.groups if not (self.deleted | self.unsure).intersection(group)]
        told += [f"half there: {group}" for group in whole if len({key in found for key in group}) > 1]
        raw = b"" if path is None else bytes_on_disk(path)
        return told + [f"erased and in the file: {text}" for text in self.erased if text.encode() in raw]


async def held(path: Path) -> Held:
    """Open a file and return what it holds: memories, ids of messages, texts of offloads."""
    return await held_in(LocalStore(path))


async def held_in(store: Store) -> Held:
    """Return what a store holds, and close it."""
    page = await store.list_memories(LASTING, ListMemories(filter=MemoryFilter(include_superseded=True), limit=100_000))
    found = await store.find_messages(LASTING, FindMessages(limit=100_000))
    listed = await store.list_offloads(LASTING, ListOffloads(limit=100_000))
    texts = {info.reference: (await store.get_offload(LASTING, info.reference)).text for info in listed.offloads}
    await store.close()
    memories = {memory.memory_id: memory for memory in page.memories}
    return Held(memories, {stored.message.message_id for stored in found.messages}, texts)
