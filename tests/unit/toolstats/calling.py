"""Short ways to write tool calls, answers and stores for tests of tool memory."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from reme_core.ports import ChatRequest, Embedder, PutMemory, WriteBatch
from reme_core.schema import (
    Memory,
    MemoryType,
    Message,
    Scope,
    TextBlock,
    ToolCallBlock,
    ToolCallResult,
    ToolResultBlock,
)
from reme_core.steps.flow import FlowContext
from reme_core.stores import LocalStore
from reme_core.testing import FixedClock, ScriptedChatModel

SCOPE = Scope(memory_space="space", user_id="alice")
OTHER = Scope(memory_space="space", user_id="bob")
CALLED = datetime(2024, 3, 1, 9, tzinfo=UTC)
NOW = datetime(2024, 3, 2, 12, tzinfo=UTC)


def called(
    number: int, *, tool: str = "search", output: str = "found", error: str = "", **fields: Any
) -> ToolCallResult:
    """A call so many minutes after the first one; failed, if there is an error."""
    basis: dict[str, Any] = {
        "call_id": f"c{number}",
        "create_time": CALLED + timedelta(minutes=number),
        "tool_name": tool,
        "input": {"query": f"question {number}"},
        "output": error or output,
        "success": not error,
    }
    return ToolCallResult(**{**basis, **fields})


def calls_tool(message_id: str, *calls: tuple[str, str], arguments: Any = None) -> Message:
    """A message that calls tools: (call id, name)."""
    blocks = tuple(
        ToolCallBlock(call_id=call_id, name=name, arguments={"of": call_id} if arguments is None else arguments)
        for call_id, name in calls
    )
    return Message(message_id=message_id, role="assistant", content=blocks, created_at=CALLED)


def results(
    message_id: str, *answers: tuple[str, str], at: datetime = CALLED, name: str | None = None, **fields: Any
) -> Message:
    """A message with results of tools: (call id, output)."""
    error = {"is_error": fields.pop("is_error")} if "is_error" in fields else {}
    blocks = tuple(ToolResultBlock(call_id=call_id, output=output, name=name, **error) for call_id, output in answers)
    return Message(message_id=message_id, role="tool", content=blocks, created_at=at, **fields)


def said(text: str) -> Message:
    return Message(role="user", content=(TextBlock(text=text),), created_at=CALLED)


def answer(
    core: str = "Searches the web.",
    *,
    success: Sequence[str] = (),
    issues: Sequence[str] = (),
    practices: Sequence[str] = (),
) -> str:
    """A guideline as a model writes it."""
    written = {
        "core_function": core,
        "success_patterns": list(success),
        "common_issues": list(issues),
        "best_practices": list(practices),
    }
    return json.dumps(written, ensure_ascii=False)


def request_chars(request: ChatRequest) -> int:
    return sum(len(message.text) for message in request.messages)


def shown_lines(request: ChatRequest, name: str = "calls") -> list[dict[str, Any]]:
    """The JSON lines that a prompt shows in the fence of this name."""
    lines = request.messages[1].text.splitlines()
    return [json.loads(line) for line in lines[lines.index(f"<{name}>") + 1 : lines.index(f"</{name}>")] if line]


def note(content: str, *, tool: str = "search", scope: Scope = SCOPE, day: int = 0, **fields: Any) -> Memory:
    """A memory about a tool."""
    basis: dict[str, Any] = {
        "memory_space": scope.memory_space,
        "user_id": scope.user_id,
        "memory_type": MemoryType.TOOL,
        "memory_target": tool,
        "created_at": CALLED + timedelta(days=day),
    }
    return Memory(content=content, **{**basis, **fields})


def guideline(content: str, calls: int, **fields: Any) -> Memory:
    """A memory that holds a guideline."""
    return note(content, when_to_use="search", metadata={"kind": "guideline", "calls": calls}, **fields)


async def put(store: LocalStore, *memories: Memory) -> list[Memory]:
    stored: list[Memory] = []
    for memory in memories:
        stored += await store.put(memory.scope, WriteBatch(puts=[PutMemory(memory=memory)], at=CALLED))
    return stored


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[LocalStore]:
    store = LocalStore(folder / "memory.db", synchronous="NORMAL")
    try:
        yield store
    finally:
        await store.close()


def context_of(store: LocalStore, model: ScriptedChatModel | None = None, **options: Any) -> FlowContext:
    embedder: Embedder | None = options.pop("embedder", None)
    return FlowContext(
        **{
            "scope": SCOPE,
            "store": store,
            "embedder": embedder,
            "model": model,
            "clock": FixedClock(NOW),
            "run_id": "run",
            **options,
        }
    )
