"""A process whose disk fails at the first system call of a write, then at the second, and so on, until none is left.

After each try nothing may be half there, what was acknowledged is there, and the same call done again makes it whole,
once. The same holds in a copy of the files as they were at the failure, which is what a process finds that starts then.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import json
import shutil
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from reme_core import ReMe
from reme_core.errors import MemoryNotFoundError, ReMeError
from reme_core.ports import ListToolCalls, PutOffloads
from reme_core.stores import LocalStore
from reme_core.stores.local.file import database
from reme_core.testing import HashedEmbedder
from tests.support.acknowledged import LASTING, Held, held
from tests.support.file_checks import bytes_on_disk, problems_of_file
from tests.support.writing_child import output

USER = LASTING.user_id
PATIENCE_S = 0.5  # instead of the half minute that an erasure waits for others, of whom there are none here
Call = Callable[[str], Awaitable[object]]


@dataclass
class Told:
    """What is reported: how many points there were, how many calls failed, and what was wrong."""

    points: int = 0
    failed: int = 0
    problems: list[str] = field(default_factory=list)


class Bench:
    """One folder, what was acknowledged in it, and the calls that are tried."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "memory.db"
        self.told = Told()
        self.texts: dict[str, str] = {}  # memories that were acknowledged
        self.keys: set[str] = set()  # messages and offloads that were
        self.added: set[str] = set()  # what was added to be deleted
        self.shim = ctypes.CDLL(None)
        self.copies = count()
        self.open()

    def open(self) -> None:
        self.store = LocalStore(self.path, busy_timeout_s=PATIENCE_S)
        self.memory = ReMe("space", self.folder, llm=None, embedding=HashedEmbedder(16), vector_store=self.store)

    async def close(self) -> None:
        await self.memory.close()
        await self.store.close()

    async def failing(self, skip: int, error: int, sticky: int, work: Awaitable[object]) -> tuple[bool, bool]:
        """Do work whose system calls fail after some; return whether a call failed, and whether the work did."""
        self.shim.torture_arm(skip, error, sticky)
        try:
            await work
        except ReMeError:
            return self.shim.torture_disarm() > 0, True
        finally:
            hit = self.shim.torture_disarm() > 0
        return hit, False

    async def check(self, what: str, mine: set[str]) -> None:
        """Compare the files, as they are now, with what was acknowledged; of `mine` all or nothing is there."""
        copy = self.folder / f"copy-{next(self.copies)}" / "memory.db"
        copy.parent.mkdir()
        for ending in ("", "-wal"):
            if (source := self.path.with_name(self.path.name + ending)).exists():
                shutil.copy(source, copy.with_name(copy.name + ending))
        found = await held(copy)
        wrong = problems_of_file(copy) + self.missing(found)
        if mine and len({key in found for key in mine}) > 1:
            wrong.append("half there")
        self.told.problems += [f"{what}: {problem}" for problem in wrong]
        shutil.rmtree(copy.parent)

    def missing(self, found: Held) -> list[str]:
        texts = {key: memory.content for key, memory in found.memories.items()}
        lost = [key for key, text in self.texts.items() if texts.get(key) != text]
        lost += [key for key in self.keys if key not in found]
        doubled = len(texts.values()) - len(set(texts.values()))
        return [f"lost {key}" for key in lost] + ["doubled"] * doubled


async def add_batch(bench: Bench, tag: str) -> set[str]:
    drafts = [{"content": f"fact {tag} {place}", "memory_id": f"b{tag}-{place}"} for place in range(3)]
    if not await is_there(bench, drafts[0]["memory_id"]):
        await bench.memory.add_memories(drafts, user_id=USER)
    bench.texts |= {draft["memory_id"]: draft["content"] for draft in drafts}
    return {draft["memory_id"] for draft in drafts}


async def add_one(bench: Bench, tag: str) -> set[str]:
    stored = await bench.memory.add_memory(f"one fact {tag}", user_id=USER)
    bench.texts[stored.memory_id] = stored.content
    return {stored.memory_id}


async def summary(bench: Bench, tag: str) -> set[str]:
    keys = {f"m{tag}-{place}" for place in range(4)}
    said = [{"role": "user", "content": f"message {key} about tea", "id": key} for key in sorted(keys)]
    await bench.memory.summary(said, user_id=USER, session_id=f"s{tag}")
    bench.keys |= keys
    return keys


async def offload(bench: Bench, tag: str) -> set[str]:
    kept = [output(f"o{tag}-{place}", 300) for place in range(3)]
    await bench.store.put_offloads(LASTING, PutOffloads(offloads=kept, hold=True))
    bench.keys |= {each.reference for each in kept}
    return {each.reference for each in kept}


async def tool_calls(bench: Bench, tag: str) -> set[str]:
    calls = [
        {"tool_name": "t", "call_id": f"c{tag}-{place}", "output": "fine", "success": True, "input": {"n": place}}
        for place in range(3)
    ]
    await bench.memory.add_tool_call_results(calls, user_id=USER)
    page = await bench.store.list_tool_calls(LASTING, ListToolCalls(limit=10_000))
    ids = [call.call_id for call in page.calls]
    if sum(f"c{tag}-" in each for each in ids) != 3:
        bench.told.problems.append(f"{tag}: tool calls doubled or half there")
    return set()


async def change(bench: Bench, tag: str) -> set[str]:
    key = f"change-{tag}"
    if not await is_there(bench, key):
        await bench.memory.add_memories([{"content": f"old {tag}", "memory_id": key}], user_id=USER)
    await bench.memory.update_memory(key, user_id=USER, content=f"new {tag}")
    bench.texts[key] = f"new {tag}"
    return {key}


async def delete(bench: Bench, tag: str) -> set[str]:
    key = f"delete-{tag}"
    if tag not in bench.added:
        await bench.memory.add_memories([{"content": f"leaving {tag}", "memory_id": key}], user_id=USER)
        bench.added.add(tag)
    if await is_there(bench, key):
        await bench.memory.delete_memory(key, user_id=USER)
    if await is_there(bench, key):
        bench.told.problems.append(f"{tag}: deleted and there")
    return set()


async def erase(bench: Bench, tag: str) -> set[str]:
    user, words = f"short{tag}", f"fleeting-{tag}-words"
    await bench.memory.add_memory(words, user_id=user)
    await bench.memory.summary([("user", words)], user_id=user)
    await bench.memory.delete_all_memories(user_id=user)
    if words.encode() in bytes_on_disk(bench.path):
        bench.told.problems.append(f"{tag}: erased and in the file")
    return set()


async def reopen(bench: Bench, tag: str) -> set[str]:
    """Close, which moves the log into the file, and open again; closing may fail, opening anew must not."""
    try:
        await bench.close()
    finally:
        bench.open()
    return await add_one(bench, tag)


async def is_there(bench: Bench, memory_id: str) -> bool:
    try:
        await bench.memory.get_memory(memory_id, user_id=USER)
    except MemoryNotFoundError:
        return False
    return True


WRITES = (add_batch, add_one, summary, offload, tool_calls, change, delete, erase, reopen)
# A disk that fails once, and one that is full until somebody makes room.
WAYS = (("EIO", errno.EIO, 0), ("ENOSPC", errno.ENOSPC, 1))


async def torture(folder: Path, write_name: str, most: int, stride: int) -> Told:
    """Try one kind of write with each error at each of its system calls, `most` calls at most."""
    write = next(write for write in WRITES if write.__name__ == write_name)
    database._PURGE_PATIENCE_S = PATIENCE_S
    bench = Bench(folder)
    await write(bench, "first")
    for name, error, sticky in WAYS:
        for skip in range(0, most, stride):
            tag = f"{name}x{skip}"
            hit, failed = await bench.failing(skip, error, sticky, write(bench, tag))
            if not hit and failed:
                bench.told.problems.append(f"{tag}: failed by itself")
            if not hit:
                break
            bench.told.points += 1
            bench.told.failed += failed
            await bench.check(f"{write_name} {tag} at the failure", set())
            mine = await write(bench, tag)
            await bench.check(f"{write_name} {tag} done again", mine)
        else:
            if stride == 1:
                bench.told.problems.append(f"{name}: more than {most} system calls")
    await bench.close()
    bench.told.problems += problems_of_file(bench.path) + bench.missing(await held(bench.path))
    return bench.told


if __name__ == "__main__":
    told = asyncio.run(torture(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    print(json.dumps({"points": told.points, "failed": told.failed, "problems": told.problems[:20]}))
