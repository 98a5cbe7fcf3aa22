"""A scope with memories, messages and a neighbour, and contexts over it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reme_core.ports import (
    AgentResult,
    AgentTask,
    AppendMessages,
    MemoryAgent,
    MemoryFilter,
    PutMemory,
    Store,
    Target,
    ToolContext,
    WriteBatch,
)
from reme_core.schema import Block, Memory, MemoryType, Message, Scope, Source, TextBlock, Usage
from reme_core.steps.targets import all_memories
from reme_core.stores import LocalStore
from reme_core.testing import FixedClock, HashedEmbedder
from reme_core.testing.store_values import ALICE, NOW, at, memory
from reme_core.tools import (
    AddHistoryMemoryOp,
    AddMemoryOp,
    AddMetaMemoryOp,
    AddSummaryMemoryOp,
    BaseMemoryToolOp,
    DatetimeToolOp,
    DeleteMemoryOp,
    HandsOffOp,
    ReadHistoryMemoryOp,
    ReadIdentityMemoryOp,
    ReadMetaMemoryOp,
    ReloadOp,
    RetrieveBlockOp,
    RetrieveMessageOp,
    ReviseMemoryOp,
    ThinkToolOp,
    TimeAwareRetrieveOp,
    UpdateIdentityMemoryOp,
    UpdateMemoryOp,
    VectorRetrieveMemoryOp,
)

PERSONAL, PROCEDURAL, TOOL = MemoryType.PERSONAL, MemoryType.PROCEDURAL, MemoryType.TOOL
IDENTITY, SUMMARY, META = MemoryType.IDENTITY, MemoryType.SUMMARY, MemoryType.META
EMMA, NOAH = Target(PERSONAL, "Emma"), Target(PERSONAL, "Noah")
SOURCE = Source(block_id="block-1", message_ids=("message-1",))


def said(text: str, *, message_id: str, minute: float = 0, name: str | None = "Emma") -> Message:
    return Message(
        message_id=message_id, role="user", name=name, content=(TextBlock(text=text),), created_at=at(minute)
    )


MESSAGES = (
    said("I drink tea now.", message_id="message-1", minute=-60),
    said("Bye.", message_id="message-2", minute=-59),
)


def held(memory_id: str, content: str, target: Target = EMMA, scope: Scope = ALICE, **fields: Any) -> Memory:
    value = memory(
        content, scope=scope, memory_id=memory_id, memory_type=target.memory_type, target=target.memory_target
    )
    return Memory.model_validate({**value.model_dump(), **fields})


async def put(store: LocalStore, *memories: Memory, embedder: HashedEmbedder | None = None) -> None:
    for item in memories:
        vector = None if embedder is None else (await embedder.embed([item.index_text]))[0]
        await store.put(item.scope, WriteBatch(puts=[PutMemory(memory=item, vector=vector)], at=NOW))


async def fill(store: LocalStore, scope: Scope = ALICE, *, mark: str = "") -> None:
    """Add two messages in one block, and a memory of Emma and of Noah; ids are the same in every scope."""
    messages = [replaced(message, f"{message.text}{mark}") for message in MESSAGES]
    block = Block(
        block_id="block-1",
        session_id="session-1",
        message_ids=("message-1", "message-2"),
        started_at=messages[0].created_at,
        ended_at=messages[1].created_at,
        summary=f"Emma drinks tea.{mark}",
        created_at=NOW,
    )
    await store.append(scope, AppendMessages(session_id="session-1", messages=messages, slicer=lambda _: [block]))
    await put(
        store,
        held("emma-1", f"Emma lives in Berlin.{mark}", EMMA, scope, sources=(SOURCE,)),
        held("noah-1", f"Noah plays the cello.{mark}", NOAH, scope),
    )


def replaced(message: Message, text: str) -> Message:
    return message.model_copy(update={"content": (TextBlock(text=text),)})


def context_over(store: Store, **fields: Any) -> ToolContext:
    """Return a context about Emma, unless told otherwise."""
    given: dict[str, Any] = {
        "scope": ALICE,
        "store": store,
        "clock": FixedClock(NOW),
        "run_id": "run-1",
        "author": "tester",
        "memory_type": PERSONAL,
        "memory_target": "Emma",
        "sources": (SOURCE,),
        "messages": MESSAGES,
    }
    return ToolContext(**{**given, **fields})


async def current(context: ToolContext, *targets: Target) -> list[str]:
    """Return the texts of the current memories of targets, sorted."""
    found = []
    for kind, name in targets:
        wanted = MemoryFilter(types=(kind,), targets=(name,))
        found += [item.content for item in await all_memories(context.store, context.scope, wanted)]
    return sorted(found)


@dataclass
class NotingAgent:
    """Adds one memory about its target, after waiting for others if it has to."""

    kind: MemoryType = PERSONAL
    text: str = "noted"
    error: BaseException | None = None
    barrier: asyncio.Barrier | None = None
    tasks: Sequence[AgentTask] = ()

    @property
    def name(self) -> str:
        return f"noting-{self.kind}"

    @property
    def memory_type(self) -> MemoryType | None:
        return self.kind

    async def run(self, task: AgentTask, context: ToolContext) -> AgentResult:
        self.tasks = [*self.tasks, task]
        await AddMemoryOp()({"memories": [{"memory_content": f"{self.text} {task.memory_target}"}]}, context)
        if self.barrier is not None:
            await self.barrier.wait()
        if self.error is not None and task.memory_target == "Noah":
            raise self.error
        return AgentResult(answer=f"kept\n{task.memory_target}", usage=Usage(model_calls=1))


def every_tool(agents: Sequence[MemoryAgent]) -> list[type[BaseMemoryToolOp[Any]] | Any]:
    """Return what makes each tool, given the options of the base."""
    simple: list[Any] = [
        AddMemoryOp, UpdateMemoryOp, DeleteMemoryOp, VectorRetrieveMemoryOp, AddMetaMemoryOp, ReadMetaMemoryOp,
        AddHistoryMemoryOp, ReadHistoryMemoryOp, AddSummaryMemoryOp, ReadIdentityMemoryOp, UpdateIdentityMemoryOp,
        ThinkToolOp, RetrieveBlockOp, RetrieveMessageOp, TimeAwareRetrieveOp, DatetimeToolOp, ReviseMemoryOp, ReloadOp,
    ]  # fmt: skip

    def wide(**options: Any) -> VectorRetrieveMemoryOp:
        return VectorRetrieveMemoryOp(add_memory_type_target=True, **options)

    def full(**options: Any) -> ReadMetaMemoryOp:
        return ReadMetaMemoryOp(enable_tool_memory=True, enable_identity_memory=True, **options)

    def hands(**options: Any) -> HandsOffOp:
        return HandsOffOp(agents=agents, **options)

    return [*simple, wide, full, hands]
