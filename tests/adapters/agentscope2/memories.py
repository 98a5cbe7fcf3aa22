"""Memories for the tests: a real one whose calls can be held up or made to fail, and what is in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agentscope.message import HintBlock, Msg
from agentscope.state import AgentState

from reme_core import ReMe
from reme_core.errors import StoreUnavailableError


class WatchedMemory(ReMe):
    """A memory in a folder, without models unless given. What is set on it happens in each call.

    `search_gate` and `write_gate` are waited for; with `broken` every call fails.
    """

    def __init__(self, folder: Path, **kwargs: Any) -> None:
        super().__init__("default", folder, **{"llm": None, "embedding": None, **kwargs})
        self.search_gate: asyncio.Event | None = None
        self.write_gate: asyncio.Event | None = None
        self.searching = asyncio.Event()
        self.writing = asyncio.Event()
        self.broken = False
        self.searched: list[str] = []
        self.written: list[tuple[str | None, list[str]]] = []

    async def retrieve(self, query: str, **kwargs: Any) -> Any:
        self.searched.append(query)
        self.searching.set()
        if self.search_gate is not None:
            await self.search_gate.wait()
        self._check()
        return await super().retrieve(query, **kwargs)

    async def summary(self, messages: Sequence[Any], **kwargs: Any) -> Any:
        self.writing.set()
        if self.write_gate is not None:
            await self.write_gate.wait()
        self._check()
        self.written.append((kwargs.get("session_id"), [message.full_text for message in messages]))
        return await super().summary(messages, **kwargs)

    async def offload_text(self, text: str, **kwargs: Any) -> Any:
        self._check()
        return await super().offload_text(text, **kwargs)

    @property
    def texts(self) -> list[str]:
        """Everything that was written, in order."""
        return [text for _, texts in self.written for text in texts]

    def _check(self) -> None:
        if self.broken:
            msg = "the disk is gone"
            raise StoreUnavailableError(msg)


def notes_of(state: AgentState) -> list[Msg]:
    """The notes in a context."""
    return [message for message in state.context if message.name == "memory"]


def note_texts(state: AgentState) -> list[str]:
    """What the notes in a context say."""
    return [str(block.hint) for note in notes_of(state) for block in note.content if isinstance(block, HintBlock)]


async def everything(memory: ReMe, user_id: str = "default") -> list[tuple[str, str, str]]:
    """Session, role and text of all messages, in the order of saying."""
    found = await memory.find_messages(user_id=user_id, limit=1000)
    return [(stored.session_id, stored.message.role, stored.message.full_text) for stored in found.messages]


async def turns(count: int = 50) -> None:
    """Let everything that is due happen; no time passes."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(is_so: Callable[[], object]) -> None:
    """Give the loop turns until something is so; the test's own time limit ends it."""
    while not is_so():  # noqa: ASYNC110  # what is waited for is a plain value
        await asyncio.sleep(0)
