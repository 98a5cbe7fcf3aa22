"""Short ways to write tasks, answers and stores for tests of distilling, and to read what a prompt shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from reme_core.ports import ChatModel, ChatRequest, Embedder, PutMemory, Store, WriteBatch
from reme_core.remember.simple_distiller import SimpleDistiller
from reme_core.schema import Block, Memory, MemoryType, Message, Scope, TextBlock
from reme_core.steps.distillation import DistilTask
from reme_core.testing import FixedClock
from tests.support.temporary_store import TemporaryStore

SCOPE = Scope(memory_space="space", user_id="alice")
OTHER = Scope(memory_space="space", user_id="bob")
SAID = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def say(*texts: str, at: datetime = SAID, name: str | None = "Alice", role: str = "user") -> list[Message]:
    """Messages a minute apart, with ids m1, m2 …."""
    return [
        Message(
            message_id=f"m{number}",
            role=role,
            name=name,
            content=(TextBlock(text=text),),
            created_at=at + timedelta(minutes=number - 1),
        )
        for number, text in enumerate(texts, 1)
    ]


def task_of(messages: Sequence[Message], *, block_size: int = 100, **options: Any) -> DistilTask:
    """A task whose blocks b1, b2 … hold so many messages each."""
    blocks = []
    for number, start in enumerate(range(0, len(messages), block_size), 1):
        part = messages[start : start + block_size]
        blocks.append(
            Block(
                block_id=f"b{number}",
                session_id="s",
                message_ids=tuple(message.message_id for message in part),
                started_at=part[0].created_at,
                ended_at=part[-1].created_at,
            )
        )
    options = {"run_id": "run", "session_id": "s", **options}
    return DistilTask(blocks=tuple(blocks), messages=tuple(messages), **options)


def fact(content: str, *numbers: int, **fields: Any) -> dict[str, Any]:
    """A fact as a model writes it."""
    basis = {"type": "personal", "target": "Alice", "when_to_use": "", "valid_from": "", "valid_to": ""}
    return {**basis, "content": content, "messages": list(numbers or (1,)), **fields}


def facts(*items: dict[str, Any]) -> str:
    return json.dumps({"facts": items}, ensure_ascii=False)


def decision(number: int, action: str, *memory: int, content: str = "") -> dict[str, Any]:
    return {"fact": number, "action": action, "memory": list(memory), "content": content}


def decisions(*items: dict[str, Any]) -> str:
    return json.dumps({"decisions": items}, ensure_ascii=False)


def shown(request: ChatRequest, name: str) -> list[dict[str, Any]]:
    """The JSON lines that a prompt shows in the fence of this name."""
    lines = request.messages[1].text.splitlines()
    return [json.loads(line) for line in lines[lines.index(f"<{name}>") + 1 : lines.index(f"</{name}>")] if line]


def choose(*wanted: tuple[str, str, str]) -> Callable[[ChatRequest], str]:
    """Decide by what the prompt shows: (part of the fact, action, part of the memory); else add."""

    def answer(request: ChatRequest) -> str:
        numbers = {line["n"]: line["text"] for line in shown(request, "memories")}
        given = []
        for line in shown(request, "facts"):
            action, named = "add", list[int]()
            for part, does, about in wanted:
                if part in line["text"]:
                    action, named = does, [n for n in line["candidates"] if about in numbers[n]]
            given.append(decision(line["fact"], action, *named))
        return decisions(*given)

    return answer


def distiller(
    store: Store, model: ChatModel, *, embedder: Embedder | None = None, now: datetime = NOW, **options: Any
) -> SimpleDistiller:
    return SimpleDistiller(store=store, embedder=embedder, model=model, clock=FixedClock(now), **options)


def known(content: str, *, scope: Scope = SCOPE, at: datetime = SAID - timedelta(days=100), **fields: Any) -> Memory:
    """A memory of Alice from before."""
    basis: dict[str, Any] = {
        "memory_space": scope.memory_space,
        "user_id": scope.user_id,
        "memory_type": MemoryType.PERSONAL,
        "memory_target": "Alice",
        "observed_at": at,
        "created_at": at,
    }
    return Memory(content=content, **{**basis, **fields})


async def store_of(*memories: Memory, embedder: Embedder | None = None, into: Store | None = None) -> Store:
    """A store that holds memories, with vectors if there is an embedder."""
    store = into or TemporaryStore()
    for memory in memories:
        vector = None if embedder is None else (await embedder.embed([memory.index_text]))[0]
        await store.put(memory.scope, WriteBatch(puts=[PutMemory(memory=memory, vector=vector)], at=SAID))
    return store


async def all_of(store: Store, scope: Scope = SCOPE, *, current: bool = True) -> list[Memory]:
    """What a scope holds, oldest first."""
    from reme_core.ports import ListMemories, MemoryFilter

    query = ListMemories(filter=MemoryFilter(include_superseded=not current), limit=1000)
    page = await store.list_memories(scope, query)
    return list(reversed(page.memories))


def contents(memories: Sequence[Memory]) -> list[str]:
    return sorted(memory.content for memory in memories)
