"""Personal memory: what was said, and what a chat model makes of it about persons."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import JsonValue

from reme_agentscope._shared.memory_kind import (
    CallScope,
    MemoryKind,
    Remembered,
    Words,
    matching,
    memories_first,
    notes_of,
    unknown_of,
    words_of,
)
from reme_agentscope._shared.recorded_text import ATTEMPT, as_texts
from reme_core import Message
from reme_core.errors import ConflictError
from reme_core.schema.plain import clean_text

if TYPE_CHECKING:
    from reme_core import Hit, ReMe

_TYPE = "personal"
_FOUND_TYPES = (_TYPE, "record")
# What models told, and the reasons that they gave, which are kept out of what is found.
TOLD, _REASON = "told:", "reason:"
_WHY = "Why this is worth remembering, which is no fact itself: "
# Reasons are left out of what is found, so that so many times as much is looked through.
_LOOK_THROUGH = 4
_WORDS = Words(
    not_found="No memories found for the given keywords.",
    record_failed="Error recording messages to memory",
    retrieve_failed="Error retrieving memory",
    tool_record_failed="Error recording memory",
    tool_retrieve_failed="Error retrieving memory",
)


class PersonalKind(MemoryKind):
    """Keeps talk word for word, and searches memories and talk."""

    words = _WORDS
    waits_for_results = False  # the core keeps a call out of blocks until its result comes

    async def keep(self, place: CallScope, messages: Sequence[Message], options: Mapping[str, object]) -> Sequence[str]:
        """Keep messages; the memories are made in the background."""
        try:
            return await _keep(place, messages)
        except ConflictError:  # some were kept in another session: by another object, or before the state was lost
            return await _keep(place, await unknown_of(place, messages))

    async def search(self, place: CallScope, query: str, limit: int) -> list[Hit]:
        """Search memories and messages, with one embedding of the question."""
        found = await place.memory.retrieve(
            query, user_id=place.user_id, limit=limit * _LOOK_THROUGH, memory_type=_FOUND_TYPES
        )
        hits = without_reasons(place.memory, query, found.results, by_time=found.by_time)
        # Nothing has a word in common with "what happened last week", nor anything else to be near it.
        return (hits if found.by_time else matching(place.memory, query, hits))[:limit]

    def text(self, hits: Sequence[Hit]) -> str:
        """Quote as data, memories before the talk."""
        return notes_of(memories_first(hits))

    async def remember(
        self, place: CallScope, thinking: str, content: object, options: Mapping[str, object]
    ) -> Remembered:
        """Make memories of each text: with a chat model what it finds in them, without one the texts as they are."""
        texts = [clean_text(text) for text in as_texts(content)]
        if not texts:
            return _recorded([], [])
        if place.memory.llm is None:
            drafts = [{"content": text, "memory_type": _TYPE, "author": "agent"} for text in texts]
            memories = await place.memory.add_memories(drafts, user_id=place.user_id)
            return _recorded([memory.memory_id for memory in memories], [])
        messages = told(texts, "user", thinking)
        result = await place.memory.summary(messages, user_id=place.user_id, memory_type=_TYPE)
        return _recorded([memory.memory_id for memory in result.memories], list(result.message_ids))


async def _keep(place: CallScope, messages: Sequence[Message]) -> Sequence[str]:
    if not messages:
        return ()
    result = await place.memory.summary(
        messages, user_id=place.user_id, session_id=place.session_id, memory_type=_TYPE, background=True
    )
    return result.job_ids


def without_reasons(memory: ReMe, query: str, hits: Sequence[Hit], *, by_time: bool = False) -> list[Hit]:
    """Leave out reasons that models gave, and by words what was found only since it stands beside one.

    With an embedding model `matching` does the latter; what lies in a time asked for needs no word. A reason given
    twice is found once: hits don't tell beside what.
    """
    rest = [hit for hit in hits if not _begins_with(hit, _REASON)]
    if memory.embedder is not None or by_time:
        return rest
    asked = words_of(query)
    return [hit for hit in rest if not _begins_with(hit, TOLD) or asked & words_of(hit.memory)]


def _begins_with(hit: Hit, mark: str) -> bool:
    return hit.layer == "message" and any(name.removeprefix(ATTEMPT).startswith(mark) for name in hit.message_ids)


def told(texts: Sequence[str], role: Literal["user", "assistant"], thinking: str) -> list[Message]:
    """Return messages for what a model told; the reason behind them guides who makes memories, and is not found."""
    messages = [Message(message_id=f"{TOLD}{uuid.uuid4().hex}", role=role, content=text) for text in texts]
    reason = clean_text(thinking).strip()
    if reason:
        messages.append(Message(message_id=f"{_REASON}{uuid.uuid4().hex}", role="assistant", content=f"{_WHY}{reason}"))
    return messages


def _recorded(memory_ids: list[str], message_ids: list[str]) -> Remembered:
    text = "Memory recording completed."
    if memory_ids:
        text = f"Successfully recorded {len(memory_ids)} memory/memories to personal memory."
    result: dict[str, JsonValue] = {"memory_ids": [*memory_ids], "message_ids": [*message_ids]}
    return Remembered(text=text, result=result)
