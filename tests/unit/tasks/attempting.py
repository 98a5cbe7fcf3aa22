"""Short ways to write attempts, contexts and answers for tests of learning from attempts."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from reme_core.ports import ChatModel, ChatRequest, Embedder, PutMemory, Store, WriteBatch
from reme_core.schema import (
    Memory,
    MemoryType,
    Message,
    Scope,
    Source,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Trajectory,
)
from reme_core.steps.flow import FlowContext
from reme_core.tasks import Attempt, Experience, Origin, attempt_of
from reme_core.testing import FixedClock
from reme_core.testing.store_values import ALICE, NOW, at
from reme_core.text import Language
from tests.support.temporary_store import TemporaryStore

TARGET = "coding"


def say(text: str, role: str = "user") -> Message:
    return Message(role=role, content=(TextBlock(text=text),), created_at=NOW)


def call(call_id: str, name: str = "run_tests") -> Message:
    return Message(role="assistant", content=(ToolCallBlock(call_id=call_id, name=name),), created_at=NOW)


def result(call_id: str, output: str = "2 passed") -> Message:
    return Message(role="tool", content=(ToolResultBlock(call_id=call_id, output=output),), created_at=NOW)


def attempt(*messages: Message | str, score: float = 1.0, name: str = "t1", task_id: str = "fizz") -> Attempt:
    """An attempt with the block `name` and messages `name-1`, `name-2` …, a minute apart."""
    said = [
        (say(item, "user" if place == 0 else "assistant") if isinstance(item, str) else item).model_copy(
            update={"message_id": f"{name}-{place + 1}", "created_at": at(place)}
        )
        for place, item in enumerate(messages or ("Write fizz buzz", "def fizz(): ..."))
    ]
    trajectory = Trajectory(trajectory_id=name, task_id=task_id, messages=tuple(said), score=score)
    return attempt_of(trajectory, name)


def learnt(content: str, *, when: str = "you write a loop", score: float | None = None, **fields: Any) -> Experience:
    """An experience from an attempt, before or after its validation."""
    one = fields.pop("attempt", attempt())
    evidence = one.trajectory.messages[-1:]
    return Experience(
        when_to_use=when,
        content=content,
        origin=Origin.SUCCESS,
        attempts=(one,),
        evidence=evidence,
        sources=(Source(block_id=one.block_id, message_ids=(evidence[0].message_id,)),),
        score=score,
        **fields,
    )


def known(content: str, *, when: str = "", scope: Scope = ALICE, target: str = TARGET, **fields: Any) -> Memory:
    basis: dict[str, Any] = {"memory_type": MemoryType.PROCEDURAL, "created_at": NOW, **fields}
    return Memory(
        memory_space=scope.memory_space,
        user_id=scope.user_id,
        memory_target=target,
        content=content,
        when_to_use=when,
        **basis,
    )


async def store_of(*memories: Memory, embedder: Embedder | None = None) -> Store:
    store = TemporaryStore()
    for memory in memories:
        vector = None if embedder is None else (await embedder.embed([memory.index_text]))[0]
        await store.put(memory.scope, WriteBatch(puts=[PutMemory(memory=memory, vector=vector)], at=NOW))
    return store


class NoTranscript:
    """What no stage of ours touches: an attempt has its messages."""

    def __getattr__(self, name: str) -> object:
        msg = f"a stage asked the transcript for {name}"
        raise AssertionError(msg)


def context(
    model: ChatModel | None = None,
    *,
    store: Store | None = None,
    embedder: Embedder | None = None,
    target: str | None = TARGET,
    language: Language | None = None,
) -> FlowContext:
    return FlowContext(
        scope=ALICE,
        memory_target=target,
        store=store or TemporaryStore(),
        embedder=embedder,
        model=model,
        clock=FixedClock(NOW),
        run_id="run",
        language=language,
    )


def written(content: str, *numbers: int, **fields: Any) -> dict[str, Any]:
    """An experience as a model writes it."""
    basis = {
        "when_to_use": f"when {content}",
        "tags": ["loops"],
        "confidence": 0.8,
        "step_type": "action",
        "tools_used": [],
    }
    return {**basis, "content": content, "messages": list(numbers or (1,)), **fields}


def experiences(*items: Any) -> str:
    return json.dumps({"experiences": items}, ensure_ascii=False)


def verdict(number: int, score: float, reason: str = "") -> dict[str, Any]:
    return {"n": number, "score": score, "reason": reason}


def verdicts(*items: Any) -> str:
    return json.dumps({"verdicts": items}, ensure_ascii=False)


def shown(request: ChatRequest, name: str) -> list[dict[str, Any]]:
    """The JSON lines that a prompt shows in the fence of this name."""
    lines = request.messages[1].text.splitlines()
    return [json.loads(line) for line in lines[lines.index(f"<{name}>") + 1 : lines.index(f"</{name}>")] if line]


def asked_for(request: ChatRequest) -> str:
    """What a call is about: success, failure, comparison, verdicts or ends."""
    assert request.response_schema is not None
    if request.response_schema.name != "experiences":
        return request.response_schema.name
    if "<better>" in request.messages[1].text:
        return "comparison"
    return "success" if shown(request, "task")[0]["score"] >= 1 else "failure"


Answer = Callable[[ChatRequest], "str | Awaitable[str]"]


def answers(**by_kind: str | BaseException | Answer) -> Callable[[ChatRequest], Any]:
    """A step that answers each kind of call (`asked_for`); verdicts are full marks unless given."""

    def full_marks(request: ChatRequest) -> str:
        return verdicts(*(verdict(line["n"], 1.0) for line in shown(request, "experiences")))

    def answer(request: ChatRequest) -> Any:
        kind = asked_for(request)
        said = by_kind.get(kind, full_marks if kind == "verdicts" else experiences())
        return said(request) if callable(said) else said

    return answer
