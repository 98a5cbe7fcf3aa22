"""Writing of a talk into the memory, off the reply path; a write that fails is tried again."""

from __future__ import annotations

import json
import logging
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from reme_agentscope._shared.background_writes import BackgroundWrites
from reme_agentscope.v2._opening import OpenedMemory, told
from reme_core.errors import ConflictError, InvalidInputError, MessageNotFoundError, PartialFailureError
from reme_core.schema import Message

if TYPE_CHECKING:
    from reme_core import ReMe, StoredMessage

_LOG = logging.getLogger("reme_agentscope")

# What waits for another try lies in memory only: a broken store must not fill it. Some days of one talk.
_MOST_WAITING = 1_000
_ORIGINAL_ID = "reme_original_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one reply added to a session."""

    session_id: str
    messages: tuple[Message, ...]


class Recorder:
    """Writes batches in order within a session, side by side across sessions.

    A batch that fails is logged, kept, and tried again before the next one of its session, and by `flush` and `close`.
    """

    def __init__(self, memory: OpenedMemory, *, user_id: str, distil_first: bool) -> None:
        """Keep the settings.

        Args:
            memory: Where they are written.
            user_id: Whose they are.
            distil_first: A write ends when memories are made, not when the messages are on disk.
        """
        self._memory = memory
        self._user_id = user_id
        self._distil_first = distil_first
        self._writes = BackgroundWrites("ReMeMiddleware")
        self._failed: deque[Batch] = deque()

    def hand_in(self, session_id: str, messages: Sequence[Message]) -> None:
        """Write messages in the background; returns at once."""
        self._try_again(session_id)
        if messages:
            self._submit(Batch(session_id=session_id, messages=tuple(messages)))

    async def wait(self, session_id: str) -> None:
        """Wait for the writes of a session; raises none of their errors."""
        await self._writes.flush(session_id)

    async def flush(self) -> None:
        """Try once more what failed, and wait for everything; what fails is logged."""
        await self._writes.flush()
        self._try_again(None)
        await self._writes.flush()
        self._writes.take_failures()  # each was logged when it happened

    async def close(self) -> None:
        """Do what `flush` does; afterwards no task is left."""
        await self.flush()
        await self._writes.close()
        if self._failed:
            count = sum(len(batch.messages) for batch in self._failed)
            _LOG.error("%d messages could not be written; the next flush() or close() tries again", count)

    def _try_again(self, session_id: str | None) -> None:
        waiting, self._failed = self._failed, deque()
        for batch in waiting:
            if session_id in {None, batch.session_id}:
                self._submit(batch)
            else:
                self._failed.append(batch)

    def _submit(self, batch: Batch) -> None:
        write = partial(self._write, batch)
        self._writes.submit(batch.session_id, write, on_failure=partial(self._keep, batch))

    def _keep(self, batch: Batch, error: Exception) -> None:
        self._writes.take_failures()  # logged when it happened; kept here
        if isinstance(error, InvalidInputError):
            _LOG.error("%d messages of session %r can't be kept at all", len(batch.messages), batch.session_id)
            return
        self._failed.append(batch)
        while len(self._failed) > _MOST_WAITING:
            lost = self._failed.popleft()
            _LOG.error("%d messages of session %r were given up", len(lost.messages), lost.session_id)

    async def _write(self, batch: Batch) -> None:
        await deliver(self._memory.get(), self._user_id, batch, background=not self._distil_first)


async def deliver(memory: ReMe, user_id: str, batch: Batch, *, background: bool) -> None:
    """Put messages into the memory; those it has are left alone.

    Raises:
        ReMeError: They are not on disk.
    """
    now = memory.clock.now()
    # Another machine's clock may be fast, and what is said later than now is refused.
    messages = [
        message if message.created_at <= now else message.model_copy(update={"created_at": now})
        for message in batch.messages
    ]
    for attempt in range(2):
        try:
            await memory.summary(messages, user_id=user_id, session_id=batch.session_id, background=background)
        except PartialFailureError as exc:
            _LOG.error("memories are still to be made of messages that are kept: %s", told(exc))
            return  # they are on disk, and the memory itself tries the rest again
        except ConflictError:
            if attempt:
                raise
            messages = await _without_conflicts(memory, user_id, batch.session_id, messages)
            if not messages:
                return
        else:
            return


async def _without_conflicts(memory: ReMe, user_id: str, session_id: str, messages: Sequence[Message]) -> list[Message]:
    """Rename what is said otherwise, or in another session, under an id that is taken.

    Several agents are given the same message, and each records it in its own session; a summary may also have made
    another message of an id's first part.
    """
    ids = [message.message_id for message in messages]
    known = {stored.message.message_id: stored for stored in await _known_messages(memory, user_id, ids)}
    kept = []
    for message in messages:
        stored = known.get(message.message_id)
        if stored is None or (stored.session_id == session_id and message.repeats(stored.message)):
            kept.append(message)
        else:
            kept.append(_renamed(message, session_id))
    return kept


async def _known_messages(memory: ReMe, user_id: str, ids: Sequence[str]) -> list[StoredMessage]:
    try:
        return await memory.get_messages(ids, user_id=user_id)
    except MessageNotFoundError as exc:
        there = [item for item in ids if item not in set(exc.missing)]
        return await memory.get_messages(there, user_id=user_id) if there else []


def _renamed(message: Message, session_id: str) -> Message:
    """Return a message under an id that follows from what it says and where: handed in again, it is known."""
    name = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps([session_id, message.message_id, message.full_text])).hex
    metadata = {**message.metadata, _ORIGINAL_ID: message.message_id}
    return message.model_copy(update={"message_id": name, "metadata": metadata})
