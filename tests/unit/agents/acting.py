"""Scripts of models and contexts for tests of agents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from reme_core.ports import (
    AppendMessages,
    ChatRequest,
    ListMemories,
    MemoryFilter,
    PutMemory,
    Store,
    Target,
    ToolContext,
    WriteBatch,
)
from reme_core.schema import (
    STATEMENTS,
    Block,
    Memory,
    MemoryType,
    Message,
    Role,
    Scope,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    parse_time,
)
from reme_core.stores import LocalStore
from reme_core.testing import FixedClock
from reme_core.text import Language, load_prompt

ALICE = Scope(memory_space="space", user_id="alice")


def context_over(store: Store, **given: object) -> ToolContext:
    fields: dict[str, object] = {"scope": ALICE, "clock": FixedClock("2023-05-08 13:56:00"), "run_id": "run", **given}
    return ToolContext(store=store, **fields)  # type: ignore[arg-type]


def user(text: str) -> Message:
    return Message(role="user", content=(TextBlock(text=text),))


def said(text: str) -> Message:
    return Message(role="assistant", content=(TextBlock(text=text),))


def call(name: str, arguments: Mapping[str, object] | str | None = None, call_id: str = "c1") -> ToolCallBlock:
    given = arguments if isinstance(arguments, str) else dict(arguments or {})
    return ToolCallBlock.model_validate({"call_id": call_id, "name": name, "arguments": given})


def calling(*calls: ToolCallBlock, text: str = "") -> Message:
    spoken = (TextBlock(text=text),) if text else ()
    return Message(role="assistant", content=(*spoken, *calls))


def results(messages: tuple[Message, ...] | list[Message]) -> list[ToolResultBlock]:
    return [block for message in messages for block in message.content if isinstance(block, ToolResultBlock)]


def assert_well_formed(request: ChatRequest) -> None:
    """Check what endpoints demand: each call is answered at once, once and in order, and nothing else is."""
    waiting: list[str] = []
    for message in request.messages:
        for call_id in message.result_ids:
            assert waiting, "a result without a call"
            assert call_id == waiting.pop(0)
        if not message.result_ids:
            assert not waiting, f"calls without results: {waiting}"
        waiting += message.call_ids
    assert not waiting


def told(request: ChatRequest) -> str:
    """Return everything that a request says."""
    return "\n".join(message.full_text for message in request.messages)


class EchoArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str


@dataclass
class EchoTool:
    """Answers with its text; what it did, in order, is kept for the test."""

    name: str = "echo"
    description: str = "Say something again."
    is_concurrent: bool = False
    arguments: type[BaseModel] = EchoArguments
    log: list[str] = field(default_factory=list)

    async def run(self, arguments: BaseModel, context: ToolContext) -> str:
        assert isinstance(arguments, EchoArguments)
        self.log.append(f"begin {arguments.text}")
        await asyncio.sleep(0)
        self.log.append(f"end {arguments.text}")
        return arguments.text


@dataclass
class FailingTool:
    """Raises what it is given."""

    error: Exception
    name: str = "fail"
    description: str = "Fail."
    is_concurrent: bool = True
    arguments: type[BaseModel] = EchoArguments

    async def run(self, arguments: BaseModel, context: ToolContext) -> str:
        raise self.error


@dataclass
class WaitingTool:
    """Says that it has begun, and waits for ever; or, as a barrier, until as many are under way as it is given."""

    name: str = "wait"
    description: str = "Wait."
    is_concurrent: bool = True
    arguments: type[BaseModel] = EchoArguments
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    barrier: asyncio.Barrier | None = None
    ended: list[str] = field(default_factory=list)

    async def run(self, arguments: BaseModel, context: ToolContext) -> str:
        assert isinstance(arguments, EchoArguments)
        self.begun.set()
        try:
            await (self.barrier.wait() if self.barrier else asyncio.Event().wait())
        except asyncio.CancelledError:
            self.ended.append(f"cancelled {arguments.text}")
            raise
        return arguments.text


def message(text: str, *, name: str | None = None, at: str = "2023-05-08 13:50:00", role: Role = "user") -> Message:
    return Message(role=role, name=name, content=(TextBlock(text=text),), created_at=parse_time(at))


async def stored_block(store: LocalStore, messages: Sequence[Message], session_id: str = "s1") -> Block:
    """Store messages and the block that they make."""
    block = Block(
        session_id=session_id,
        message_ids=tuple(item.message_id for item in messages),
        started_at=messages[0].created_at,
        ended_at=messages[-1].created_at,
    )
    await store.append(ALICE, AppendMessages(session_id=session_id, messages=messages, slicer=lambda _: [block]))
    return block


async def remember(store: LocalStore, content: str, target: Target, **fields: object) -> Memory:
    """Store a memory."""
    data = {
        "memory_space": ALICE.memory_space,
        "user_id": ALICE.user_id,
        "memory_type": target.memory_type,
        "memory_target": target.memory_target,
        "content": content,
        "observed_at": "2023-04-01 10:00:00",
        **fields,
    }
    memory = Memory.model_validate(data)
    [kept] = await store.put(ALICE, WriteBatch(puts=(PutMemory(memory=memory),), at=memory.created_at))
    return kept


async def current(memories: Store, *types: MemoryType) -> list[tuple[str, str, str]]:
    """Return type, target and text of the current memories, sorted."""
    page = await memories.list_memories(ALICE, ListMemories(filter=MemoryFilter(types=types or STATEMENTS), limit=500))
    return sorted((item.memory_type.value, item.memory_target, item.content) for item in page.memories)


def label_of(name: str, language: Language) -> str:
    """Name, language and version of a prompt, as results of agents name it."""
    return load_prompt("reme_core.agents", name, language).label
