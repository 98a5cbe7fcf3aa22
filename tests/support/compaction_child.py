"""A process that compacts a context, and is killed at a named point between two steps of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ClassVar

from pydantic import JsonValue

from reme_core import Message, ReMe
from reme_core.ports import ChatRequest, ChatResult
from reme_core.schema import PreparedContext
from reme_core.stores import LocalStore
from tests.support.rule_model import RuleModel
from tests.support.summary_child import Place, SteppedStore, Steps

SPACE, USER, SESSION, WINDOW = "space", "alice", "talk", 4_000

SUMMARY: dict[str, list[str]] = {
    "goal": ["Read the files, as the user asked."],
    "constraints": [],
    "progress": ["Files were read."],
    "key_decisions": [],
    "next_steps": ["Read the next file."],
    "critical_context": [],
}


def is_compaction(request: ChatRequest) -> bool:
    """Whether a model is asked for the summary of a context."""
    return request.response_schema is not None and request.response_schema.name == "summary"


def summarising(progress: Sequence[str] = ()) -> ChatResult:
    """An answer with this progress, if any is given."""
    parsed: JsonValue = {"gone": [], **SUMMARY, **({"progress": [*progress]} if progress else {})}
    message = Message.model_validate({"role": "assistant", "content": json.dumps(parsed)})
    return ChatResult(message=message, parsed=parsed)


class SummarisingModel(RuleModel):
    """Follows the rules of `RuleModel`; asked for a summary of a context, it writes one."""

    async def chat(self, request: ChatRequest) -> ChatResult:
        if is_compaction(request):
            self.requests.append(request)
            return summarising()
        return await super().chat(request)


class SteppedModel(SummarisingModel):
    """A model whose calls are points."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps

    async def chat(self, request: ChatRequest) -> ChatResult:
        return await self.steps.around("asking", super().chat(request))


class SteppedContextStore(SteppedStore):
    """A local store whose calls about contexts are points."""

    stepped: ClassVar[Mapping[str, str]] = {
        "append": "append",
        "get_messages": "read messages",
        "put_offloads": "offload",
        "list_offloads": "list offloads",
        "hold_offloads": "hold",
    }


async def prepare(memory: ReMe, messages: Sequence[Message]) -> PreparedContext:
    return await memory.pre_reasoning_hook(messages, user_id=USER, session_id=SESSION, max_input_length=WINDOW)


def run(folder: Path, messages: Sequence[Message], kill_at: Place | None, lines: Connection) -> None:
    """Compact, and say which points were passed if nothing killed the process."""
    asyncio.run(_run(folder, messages, Steps(kill_at), lines))


async def _run(folder: Path, messages: Sequence[Message], steps: Steps, lines: Connection) -> None:
    SteppedContextStore.steps = steps
    store: LocalStore = SteppedContextStore(folder / "memory.db")
    memory = ReMe(SPACE, folder, llm=SteppedModel(steps), embedding=None, vector_store=store)
    await prepare(memory, messages)
    steps.end()
    lines.send(steps.passed)
    await memory.close(finish_jobs=False)
    await store.close()
