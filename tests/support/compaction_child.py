"""A process that compacts a context, and is killed at a named point between two steps of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ClassVar

from reme_core import Message, ReMe
from reme_core.ports import ChatRequest, ChatResult
from reme_core.schema import PreparedContext
from reme_core.stores import LocalStore
from tests.support.rule_model import RuleModel
from tests.support.summary_child import SteppedStore, Steps

SPACE, USER, SESSION, WINDOW = "space", "alice", "talk", 4_000

SUMMARY = """## Goal
- Read the files, as the user asked.

## Constraints
- none

## Progress
- Files were read.

## Key Decisions
- none

## Next Steps
- Read the next file.

## Critical Context
- none"""


class SummarisingModel(RuleModel):
    """Follows the rules of `RuleModel`; asked for a summary of a context, it writes one."""

    async def chat(self, request: ChatRequest) -> ChatResult:
        if "## Critical Context" in request.messages[0].text:
            self.requests.append(request)
            return ChatResult(message=Message.model_validate({"role": "assistant", "content": SUMMARY}))
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


def run(folder: Path, messages: Sequence[Message], kill_at: int | None, lines: Connection) -> None:
    """Compact, and say which points were passed if nothing killed the process."""
    asyncio.run(_run(folder, messages, Steps(kill_at), lines))


async def _run(folder: Path, messages: Sequence[Message], steps: Steps, lines: Connection) -> None:
    SteppedContextStore.steps = steps
    store: LocalStore = SteppedContextStore(folder / "memory.db")
    memory = ReMe(SPACE, folder, llm=SteppedModel(steps), embedding=None, vector_store=store)
    await prepare(memory, messages)
    lines.send(steps.passed)
    await memory.close(finish_jobs=False)
    await store.close()
