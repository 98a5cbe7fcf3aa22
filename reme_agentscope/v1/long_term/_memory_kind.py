"""Kinds of long-term memory: the protocol by which three kinds keep, find and answer."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pydantic import JsonValue

from reme_core.errors import MessageNotFoundError, ReMeError

if TYPE_CHECKING:
    from reme_core import Message, ReMe

LOG = logging.getLogger("reme_agentscope")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallScope:
    """Whose memory a call works on. Nothing of it comes from a model or a message.

    Attributes:
        memory: Where.
        user_id: Whose.
        session_id: The session that talk is added to.
        agent_name: The agent's name, as the user gave it.
    """

    memory: ReMe
    user_id: str
    session_id: str
    agent_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What AgentScope's class of this name says; agents and tests match on it."""

    not_found: str
    record_failed: str
    retrieve_failed: str
    tool_record_failed: str
    tool_retrieve_failed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The answer to a model that asked to keep something."""

    text: str
    result: dict[str, JsonValue] | None = None


class MemoryKind(Protocol):
    """One of personal, task and tool memory."""

    @property
    def words(self) -> Words:
        """The texts of answers."""
        ...

    @property
    def waits_for_results(self) -> bool:
        """Whether a message with a tool call is kept only together with the result."""
        ...

    async def keep(self, place: CallScope, messages: Sequence[Message], options: Mapping[str, object]) -> Sequence[str]:
        """Put talk on disk and return the ids of jobs that make more of it; done twice it changes nothing."""
        ...

    async def find(self, place: CallScope, query: str, limit: int) -> str:
        """Return what matches, for a prompt; `""` for nothing."""
        ...

    async def remember(
        self, place: CallScope, thinking: str, content: object, options: Mapping[str, object]
    ) -> Remembered:
        """Keep what a model handed in."""
        ...

    async def recall(self, place: CallScope, keywords: object, limit: int) -> str:
        """Return what is known under keywords, or say that there is nothing."""
        ...


async def unknown_of(place: CallScope, messages: Sequence[Message]) -> list[Message]:
    """Return those messages whose ids this user's memory does not have."""
    known = await _known(place, [message.message_id for message in messages])
    changed = [one for one in messages if one.message_id in known and known[one.message_id] != one.full_text]
    if changed:
        # A client has cut its copy since, mostly: the first one stays.
        LOG.warning("%d messages are kept already, with other texts: they were not kept again", len(changed))
    return [message for message in messages if message.message_id not in known]


async def _known(place: CallScope, ids: Sequence[str]) -> dict[str, str]:
    """Return the texts of those messages that are kept."""
    wanted = list(ids)
    for _ in range(2):
        if not wanted:
            break
        try:
            stored = await place.memory.get_messages(wanted, user_id=place.user_id)
        except MessageNotFoundError as exc:
            missing = frozenset(exc.missing)
            wanted = [name for name in wanted if name not in missing]
        else:
            return {item.message.message_id: item.message.full_text for item in stored}
    return {}


def log_failure(what: str, error: BaseException) -> None:
    """Log an error. Only our own messages are known to hold no words of the talk."""
    told = str(error) if isinstance(error, ReMeError) else "its text is not logged, it may quote the talk"
    LOG.error("%s: %s: %s", what, type(error).__name__, told)


def warn(told: str) -> None:
    """Warn. A filter that makes errors of warnings is to end no reply, no write and no closing."""
    with suppress(UserWarning):
        warnings.warn(told, stacklevel=4)
