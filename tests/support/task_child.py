"""A process that learns from attempts, and is killed at a named point between two steps of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

from reme_core import ReMe
from reme_core.ports import ChatRequest, ChatResult
from reme_core.testing import HashedEmbedder
from tests.support.lesson_model import TASK_NAME, LessonModel, attempt
from tests.support.summary_child import SPACE, USER, Place, SteppedStore, Steps

ATTEMPTS: list[dict[str, Any]] = [
    attempt("soup", "It was done and tasty.", 1.0, "first"),
    attempt("soup", "It burnt to coal.", 0.0, "second"),
]


class SteppedTaskStore(SteppedStore):
    """A local store whose writes, and reads of attempts, are points."""

    stepped: ClassVar[Mapping[str, str]] = {
        "append": "append",
        "put_vectors": "put vectors",
        "claim_job": "claim",
        "get_blocks": "read blocks",
        "put_and_settle": "write and end",
    }


class SteppedLessonModel(LessonModel):
    """A model whose calls are points."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps

    async def chat(self, request: ChatRequest) -> ChatResult:
        return await self.steps.around("asking", super().chat(request))


def run(folder: Path, kill_at: Place | None, lines: Connection) -> None:
    """Learn from the attempts, and say which points were passed if nothing killed the process."""
    asyncio.run(_run(folder, Steps(kill_at), lines))


async def _run(folder: Path, steps: Steps, lines: Connection) -> None:
    SteppedTaskStore.steps = steps
    store = SteppedTaskStore(folder / "memory.db")
    async with ReMe(
        SPACE, folder, llm=SteppedLessonModel(steps), embedding=HashedEmbedder(16), vector_store=store
    ) as memory:
        await memory.summary_task(ATTEMPTS, user_id=USER, task_name=TASK_NAME)
        steps.end()
        lines.send(steps.passed)
    await store.close()
