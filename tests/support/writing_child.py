"""A process that writes through the facade and says so: one line of JSON after each call that has returned.

Each line names what now must be in the file. An `intent`, before a call, names what may be there if no line
follows it.
"""

from __future__ import annotations

import asyncio
import json
import random
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from reme_core import ReMe
from reme_core.ports import CleanOffloads, PutOffloads, Store
from reme_core.schema import OffloadKind, OffloadRecord, Scope, utc_now
from reme_core.stores import LocalStore
from reme_core.testing import HashedEmbedder

LASTING = Scope(memory_space="space", user_id="lasting")


class Lines(Protocol):
    """What takes the lines: the end of a pipe, or a file."""

    def send_bytes(self, line: bytes, /) -> None: ...


def run(folder: Path, seed: int, lines: Lines, *, synchronous: str = "FULL", steps: int = 1_000_000) -> None:
    """Write until killed, or for some steps."""
    asyncio.run(write_steps(folder, seed, lines, synchronous, steps))


def run_on_postgres(url: str, seed: int, lines: Lines) -> None:
    """Write to a database until killed."""
    from reme_core.stores import PostgresStore

    store = {"backend": "postgres", "url": url, "max_connections": 4, "retry_s": 60}
    memory = ReMe("space", llm=None, embedding=HashedEmbedder(16), vector_store=store)
    asyncio.run(_write(PostgresStore(url, max_connections=2, retry_s=60), memory, seed, lines, 1_000_000))


async def write_steps(folder: Path, seed: int, lines: Lines, synchronous: str, steps: int) -> None:
    store = LocalStore(folder / "memory.db", synchronous=synchronous)
    memory = ReMe("space", folder, llm=None, embedding=HashedEmbedder(16), vector_store={"synchronous": synchronous})
    await _write(store, memory, seed, lines, steps)


async def _write(store: Store, memory: ReMe, seed: int, lines: Lines, steps: int) -> None:
    def say(kind: str, **details: object) -> None:
        lines.send_bytes(json.dumps({"kind": kind, **details}).encode())

    chance = random.Random(seed)
    held: dict[str, str] = {}  # id -> content, of memories of the lasting user
    await memory.stats(user_id="lasting")
    say("ready")
    for step in range(steps):
        tag = f"{seed}x{step}"
        actions = ("add", "add", "batch", "update", "delete", "supersede", "summary", "summary", "offload", "erase")
        action = chance.choice(actions)
        if action == "erase":
            user = f"short-{seed}"
            await memory.summary([{"role": "user", "content": f"fleeting words {tag}."}], user_id=user)
            await memory.add_memory(f"fleeting fact {tag}.", user_id=user)
            await memory.delete_all_memories(user_id=user)
            say("erased", texts=[f"fleeting words {tag}.", f"fleeting fact {tag}."])
        elif action == "summary":
            ids = [f"m{tag}-{place}" for place in range(chance.randint(1, 6))]
            messages = [{"role": "user", "content": f"message {item} about tea", "id": item} for item in ids]
            say("intent", what="messages", ids=ids)
            await memory.summary(messages, user_id="lasting", session_id=f"s{seed}-{step % 3}")
            say("messages", ids=ids)
        elif action == "offload":
            kept = [output(f"o{tag}-{place}", 10 ** chance.randint(1, 5)) for place in range(3)]
            say("intent", what="offloads", ids=[item.reference for item in kept])
            await store.put_offloads(LASTING, PutOffloads(offloads=kept, hold=True))
            say("offloads", held={item.reference: item.text for item in kept})
            # What is held stays; what nobody holds comes and goes.
            await store.put_offloads(LASTING, PutOffloads(offloads=[output(f"p{tag}", 1_000)]))
            await store.clean_offloads(LASTING, CleanOffloads(max_bytes=0, idle_since=utc_now() - timedelta(days=1)))
        elif action == "batch":
            drafts = [{"content": f"fact {tag} {place}", "memory_id": f"b{tag}-{place}"} for place in range(5)]
            say("intent", what="batch", ids=[draft["memory_id"] for draft in drafts])
            for stored in await memory.add_memories(drafts, user_id="lasting", run_id=f"run{tag}"):
                held[stored.memory_id] = stored.content
            say("memories", held={draft["memory_id"]: draft["content"] for draft in drafts})
        elif action == "add" or not held:
            stored = await memory.add_memory(f"one fact {tag}", user_id="lasting", metadata={"step": step})
            held[stored.memory_id] = stored.content
            say("memories", held={stored.memory_id: stored.content})
        else:
            chosen = chance.choice(sorted(held))
            if action == "delete":
                say("intent", what="delete", ids=[chosen])
                await memory.delete_memory(chosen, user_id="lasting")
                del held[chosen]
                say("deleted", ids=[chosen])
            elif action == "update":
                say("intent", what="update", ids=[chosen])
                stored = await memory.update_memory(chosen, user_id="lasting", content=f"changed {tag}")
                held[chosen] = stored.content
                say("memories", held={chosen: stored.content})
            else:
                say("intent", what="close", ids=[chosen])
                await memory.update_memory(chosen, user_id="lasting", valid_to="2100-01-01")
                say("closed", ids=[chosen])
    await memory.close()
    await store.close()


def output(reference: str, chars: int) -> OffloadRecord:
    """Build what a tool said, in some lines."""
    text = "".join(f"line {n} of {reference}\n" for n in range(chars // 20 + 1))
    return OffloadRecord(
        reference=reference, session_id=reference, kind=OffloadKind.TOOL_RESULT, text=text, created_at=utc_now()
    )
