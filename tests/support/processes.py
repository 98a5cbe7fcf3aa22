"""Functions that tests run in processes of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from reme_core import ReMe
from reme_core.stores import LocalStore

SPACE = "space"


def write_many(folder: Path, name: str, count: int) -> list[str]:
    """Write memories and messages in turn, `count` in all; return the ids."""

    async def work() -> list[str]:
        ids = []
        async with ReMe(SPACE, folder, llm=None, embedding=None, vector_store={"synchronous": "NORMAL"}) as memory:
            for step in range(count // 2):
                stored = await memory.add_memory(f"{name} fact {step}", user_id="alice")
                kept = await memory.summary([("user", f"{name} word {step}")], user_id="alice", session_id=name)
                ids += [stored.memory_id, *kept.message_ids]
        return ids

    return asyncio.run(work())


def write_one(folder: Path, name: str) -> tuple[str, str]:
    """Write a memory and a message; return their ids."""

    async def work() -> tuple[str, str]:
        async with ReMe(SPACE, folder, llm=None, embedding=None) as memory:
            stored = await memory.add_memory(f"{name} keeps pelicans", user_id="alice")
            kept = await memory.summary([("user", f"{name} saw a walrus")], user_id="alice", session_id="shared")
            return stored.memory_id, kept.message_ids[0]

    return asyncio.run(work())


def open_first(path: Path, name: str) -> int:
    """Open a file that may not exist yet, write into it, and return how many memories are seen."""

    async def work() -> int:
        async with ReMe(SPACE, path.parent, llm=None, embedding=None) as memory:
            await memory.add_memory(f"{name} was here", user_id="alice")
            return len((await memory.list_memories(user_id="alice")).memories)

    return asyncio.run(work())


def erase(path: Path, user_id: str) -> None:
    """Delete everything of a user."""

    async def work() -> None:
        async with ReMe(SPACE, path.parent, llm=None, embedding=None) as memory:
            await memory.delete_all_memories(user_id=user_id)

    asyncio.run(work())


def count_waiting(path: Path) -> int:
    """Return how many scopes wait for vectors."""

    async def work() -> int:
        store = LocalStore(path)
        try:
            return len(await store.waiting_scopes(SPACE))
        finally:
            await store.close()

    return asyncio.run(work())


def offload(path: Path, reference: str, text: str) -> str:
    """Clean up whatever may go, which must leave an offload of Alice, keep another one, and return its reference."""
    from reme_core.testing.store_values import ALICE
    from tests.contract.suites.offload_values import clean, put, text_of

    async def work() -> str:
        store = LocalStore(path)
        try:
            await clean(store, max_bytes=0)
            await store.get_offload(ALICE, reference)
            [kept] = await put(store, text_of(text))
            return kept
        finally:
            await store.close()

    return asyncio.run(work())


def flush_with(folder: Path, dimension: int) -> int:
    """Finish what is left to do, with an embedder that works; return the number of calls of the model."""
    from reme_core.testing import HashedEmbedder

    async def work() -> int:
        async with ReMe(SPACE, folder, llm=None, embedding=HashedEmbedder(dimension)) as memory:
            return (await memory.flush()).embedding_calls

    return asyncio.run(work())
