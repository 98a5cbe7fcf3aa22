"""A process that consolidates, and is killed at a named point between two steps of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ClassVar

from reme_core import ReMe
from reme_core.ports import ChatRequest, ChatResult
from reme_core.testing import HashedEmbedder, ScriptedChatModel
from tests.support.rule_model import shown
from tests.support.summary_child import SPACE, USER, Place, SteppedStore, Steps

TOLD = ("Ann plays the cello", "Ann is a cellist in a quartet", "Ann has a cat, Tom", "Ann has a cat Tom", "Ann rows")
JOINED = "Ann plays the cello; she is a cellist in a quartet"


class SteppedEvolveStore(SteppedStore):
    """A local store whose calls that a consolidation makes are points."""

    stepped: ClassVar[Mapping[str, str]] = {
        "list_memories": "read memories",
        "search": "search",
        "write_items": "book the cost",
        "put": "write",
    }


class SteppedJoiner(ScriptedChatModel):
    """A model that joins the first two, and whose calls are points."""

    steps: Steps

    async def chat(self, request: ChatRequest) -> ChatResult:
        return await self.steps.around("asking", super().chat(request))


def joins(request: ChatRequest) -> str:
    """Answer with the two that are about the cello."""
    numbers = {line["text"]: line["n"] for line in shown(request, "memories")}
    groups = [{"memories": [numbers[text] for text in TOLD[:2]], "content": JOINED}] if TOLD[0] in numbers else []
    return json.dumps({"groups": groups, "contradictions": []})


def run(folder: Path, kill_at: Place | None, lines: Connection) -> None:
    """Consolidate, and say which points were passed if nothing killed the process."""
    asyncio.run(_run(folder, Steps(kill_at), lines))


async def _run(folder: Path, steps: Steps, lines: Connection) -> None:
    SteppedEvolveStore.steps = SteppedJoiner.steps = steps
    store = SteppedEvolveStore(folder / "memory.db")
    model = SteppedJoiner([joins])
    async with ReMe(SPACE, folder, llm=model, embedding=HashedEmbedder(16), vector_store=store) as memory:
        await memory.evolve(user_id=USER, dry_run=False)
        steps.end()
        lines.send(steps.passed)
    await store.close()
