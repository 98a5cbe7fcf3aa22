"""`MemoryHistory`: a memory as the history of a saver's threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from langchain_core.messages import BaseMessage

from reme_core import ReMe
from reme_core.schema.plain import usable_id
from reme_langchain.messages import from_langchain
from reme_langchain.middleware._capture import untimed


class MemoryHistory:
    """Appends what is new in a thread to a memory, as the session of that name: `ReMeSaver(..., history=...)`.

    A checkpoint waits for the append, for at most 80 ms; what takes longer goes on behind it.
    """

    def __init__(self, memory: ReMe, *, owner: str | Callable[[str], str]) -> None:
        """Keep the memory, which stays open, and whose it is: a user id, or a function of the thread's id."""
        self._memory = memory
        self._owner = owner

    async def __call__(self, thread_id: str, checkpoint_id: str, messages: Sequence[BaseMessage]) -> None:
        """Append the messages; those that are known are left alone.

        Raises:
            ReMeError: They are not on disk; the saver hands them over again.
        """
        said = {message.message_id: untimed(message) for message in from_langchain(messages)}
        await self._memory.summary(
            list(said.values()),
            user_id=self._owner if isinstance(self._owner, str) else self._owner(thread_id),
            session_id=usable_id(thread_id),
            background=True,
            on_conflict="rename",
        )
