"""The memory beside a chat: what was said goes to disk, what helps comes out. Neither ever fails the chat."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from reme_core.errors import MessageNotFoundError, ReMeError
from reme_core.facade.reme import ReMe
from reme_core.ports import AppendMessages
from reme_core.schema import Hit, Message, Usage, found_line, found_text
from reme_core.serve.access import Principal, Right
from reme_core.serve.chat.talk import Talk
from reme_core.steps.costs import CostBook
from reme_core.steps.memory_blocks import blocks_text
from reme_core.text import with_broken_media_told

_LOG = logging.getLogger("reme.serve")

T = TypeVar("T")

DEFAULT_BUDGET = 800
MAX_BUDGET = 100_000
_PATIENCE_S = 2.0
_MOST_NOTES = 24
# A token of any counter has fewer characters: more of a text needs no count to be more than a budget.
_CHARS = 16


class DegradedError(Exception):
    """Memory could not do its part; the chat goes on, and its caller is told why.

    Attributes:
        reason: In a few words without what was said.
    """

    def __init__(self, reason: str) -> None:
        """Keep the reason."""
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ChatMemory:
    """The memory of one caller's chat.

    Attributes:
        memory: The memory of the caller's space.
        principal: Who calls.
        talk: What the request brings.
        labels: Which memory blocks are shown; None: all that the caller has.
    """

    memory: ReMe
    principal: Principal
    talk: Talk
    labels: tuple[str, ...] | None = None

    async def record_question(self) -> None:
        """Put what is new in the talk on disk.

        It is cut into blocks together with the answer. A caller without the right to write is not recorded.

        Raises:
            DegradedError: It is not on disk.
        """
        if Right.WRITE in self.principal.rights:
            await _bounded(self._append_new())

    async def recall(self, budget: int) -> str:
        """Return what helps with the question, fenced as data, within so many tokens; "" where nothing does.

        What the talk holds already is left out.

        Raises:
            DegradedError: The memory could not be asked.
        """
        if Right.READ not in self.principal.rights or not self.talk.question or budget == 0:
            return ""
        found = await _bounded(
            self.memory.retrieve(
                self.talk.question,
                user_id=self.principal.scope.user_id,
                limit=_MOST_NOTES,
                token_budget=budget + self._tokens_of_talk(budget),
            )
        )
        told = frozenset(message.message_id for message in self.talk.messages)
        hits = [hit for hit in found.results if hit.reference is None and not hit.stands_in(told)]
        return self._within(hits, budget)

    async def blocks(self) -> str:
        """Return the caller's memory blocks as a prompt shows them; "" where there are none.

        Raises:
            DegradedError: The memory could not be asked.
        """
        if Right.READ not in self.principal.rights or self.labels == ():
            return ""
        held = await _bounded(self.memory.memory_blocks(user_id=self.principal.scope.user_id))
        return blocks_text([block for block in held if self.labels is None or block.label in self.labels])

    def _tokens_of_talk(self, most: int) -> int:
        """Count what may be found and stands in the talk already, up to `most`."""
        tokens = 0
        for message in reversed(self.talk.messages):
            tokens += self.memory.token_counter.count(message.full_text[: most * _CHARS])
            if tokens >= most:
                return most
        return tokens

    async def record_answer(self, message: Message) -> None:
        """Put the answer on disk; the turn is then cut into blocks, and memories of it are made in the background.

        Raises:
            DegradedError: It is not on disk.
        """
        if Right.WRITE in self.principal.rights:
            await _bounded(self._append_answer(message))

    async def record_cost(self, spent: Usage) -> None:
        """Write down what the model says that the answer took."""
        await CostBook(self.memory.store, self.memory.clock).add(self.principal.scope, "chat door", spent)

    async def _append_new(self) -> None:
        scope, store = self.principal.scope, self.memory.store
        new = self.talk.messages
        try:
            await store.get_messages(scope, [message.message_id for message in new])
        except MessageNotFoundError as exc:
            missing = set(exc.missing)
            new = tuple(message for message in new if message.message_id in missing)
        else:
            return
        request = AppendMessages(
            session_id=self.talk.session_id,
            messages=await asyncio.to_thread(lambda: [with_broken_media_told(message) for message in new]),
            want_vectors=self.memory.embedder is not None,
            on_conflict="rename",
        )
        await store.append(scope, request)

    async def _append_answer(self, message: Message) -> None:
        await self.memory.summary(
            [with_broken_media_told(message)],
            user_id=self.principal.scope.user_id,
            session_id=self.talk.session_id,
            background=True,
            on_conflict="rename",
        )

    def _within(self, hits: Sequence[Hit], budget: int) -> str:
        """Return as many notes as fit, what stands around them counted."""
        counter = self.memory.token_counter
        left = budget - counter.count(found_text(hits[:1])) + sum(counter.count(found_line(hit)) for hit in hits[:1])
        taken: list[Hit] = []
        for hit in hits:
            cost = counter.count(found_line(hit)) + 1
            if cost <= left:
                taken.append(hit)
                left -= cost
        return found_text(taken)


async def _bounded(work: Awaitable[T]) -> T:
    """Wait for the memory, but not for long (DegradedError)."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await work
    except ReMeError as exc:
        _LOG.error("memory failed beside a chat: %s", exc)  # the chat goes on; the words say where
        raise DegradedError(type(exc).__name__) from exc
    except TimeoutError as exc:
        _LOG.error("memory took longer than %s s beside a chat", _PATIENCE_S)  # as above
        raise DegradedError(type(exc).__name__) from exc
