"""Short ways to write procedural memories, questions and contexts for tests of retrieval."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from reme_core.ports import ChatModel, ChatRequest, Embedder
from reme_core.schema import Hit, Memory, MemoryType, Message, ToolCallBlock, ToolResultBlock
from reme_core.steps.flow import FlowContext
from reme_core.stores import LocalStore
from reme_core.tasks.task_values import TaskAnswer, TaskQuestion
from reme_core.testing import FixedClock
from tests.unit.remember.distilling import NOW, SAID, SCOPE, known
from tests.unit.remember.distilling import shown as shown_lines

TASK = "coding"


def learnt(content: str, *, when: str = "", at: datetime = SAID, **fields: Any) -> Memory:
    """A procedural memory about coding."""
    basis: dict[str, Any] = {"memory_type": MemoryType.PROCEDURAL, "memory_target": TASK, "when_to_use": when}
    return known(content, at=at, **{**basis, **fields})


def local_store(folder: Path) -> LocalStore:
    return LocalStore(folder / "memory.db", synchronous="NORMAL")


def context_of(
    store: Any,
    *,
    target: str | None = TASK,
    embedder: Embedder | None = None,
    model: ChatModel | None = None,
    **options: Any,
) -> FlowContext:
    """The context of a run that reads."""
    basis: dict[str, Any] = {"scope": SCOPE, "clock": FixedClock(NOW)}
    return FlowContext(memory_target=target, store=store, embedder=embedder, model=model, **{**basis, **options})


def asked(query: str = "parse a date", **options: Any) -> TaskQuestion:
    return TaskQuestion(query=query, **options)


def hit_of(memory: Memory, score: float = 0.5) -> Hit:
    return Hit(
        memory=memory.content,
        layer="memory",
        score=score,
        memory_id=memory.memory_id,
        memory_type=memory.memory_type,
        memory_target=memory.memory_target,
        when_to_use=memory.when_to_use,
        user_id=memory.user_id,
    )


def answer_of(*memories: Memory, question: TaskQuestion | None = None) -> TaskAnswer:
    return TaskAnswer(question=question or asked(), hits=tuple(map(hit_of, memories)))


def texts(answer: TaskAnswer) -> list[str]:
    return [hit.memory for hit in answer.hits]


def lines_of(request: ChatRequest, name: str) -> list[dict[str, Any]]:
    return shown_lines(request, name)


def order(*numbers: Any) -> str:
    return json.dumps({"order": list(numbers)})


def calling(name: str, arguments: Any) -> Message:
    call = ToolCallBlock(call_id="c1", name=name, arguments=arguments)
    return Message(role="assistant", content=(call,), created_at=SAID + timedelta(hours=1))


def result(output: str) -> Message:
    block = ToolResultBlock(call_id="c1", output=output)
    return Message(role="tool", content=(block,), created_at=SAID + timedelta(hours=1))


def spoken(role: str, text: str) -> Message:
    return Message.model_validate({"role": role, "content": text})
