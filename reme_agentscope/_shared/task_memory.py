"""Task memory: attempts at tasks, and what a chat model learns from them."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reme_agentscope._shared.memory_kind import (
    CallScope,
    MemoryKind,
    Remembered,
    Words,
    matching,
    unknown_of,
)
from reme_agentscope._shared.personal_memory import told, without_reasons
from reme_agentscope._shared.recorded_text import ATTEMPT, as_texts
from reme_core import Message
from reme_core.schema.plain import clean_text

if TYPE_CHECKING:
    from reme_core import Hit

_TYPE = "procedural"
_WORDS = Words(
    not_found="No task experiences found for the given keywords.",
    record_failed="Error recording messages to task memory",
    retrieve_failed="Error retrieving memory",
    tool_record_failed="Error recording task memory",
    tool_retrieve_failed="Error retrieving task memory",
)
_DEFAULT_TASK = "general"
_ID_CHARS = 512
# The share of talk of attempts among all talk of a user is unknown: so many times as much is looked through.
_LOOK_THROUGH = 4


class TaskKind(MemoryKind):
    """Keeps what each reply did as an attempt, and searches what was learnt; then the attempts themselves.

    Without a chat model the attempts wait for one, and are found by what was said in them.
    """

    words = _WORDS
    waits_for_results = True  # an attempt is kept once, as a whole

    async def keep(self, place: CallScope, messages: Sequence[Message], options: Mapping[str, object]) -> Sequence[str]:
        """Keep messages as one attempt; it is learnt from in the background."""
        named = [message.model_copy(update={"message_id": _own_id(message.message_id)}) for message in messages]
        fresh = await unknown_of(place, named)
        if not fresh:
            return ()
        trajectory = {
            "trajectory_id": uuid.uuid5(uuid.NAMESPACE_OID, json.dumps([one.message_id for one in fresh])).hex,
            "messages": fresh,
            "score": as_score(options.get("score")),
        }
        result = await place.memory.summary_task(
            [trajectory], user_id=place.user_id, task_name=_task_name(place), background=True
        )
        return result.job_ids

    async def search(self, place: CallScope, query: str, limit: int) -> list[Hit]:
        """Search what was learnt, and where that leaves room, attempts."""
        memory, user_id = place.memory, place.user_id
        learnt = await memory.retrieve_task_memory(query, user_id=user_id, limit=limit)
        hits = matching(memory, query, learnt.results)
        if len(hits) < limit:
            said = await memory.retrieve(query, user_id=user_id, limit=limit * _LOOK_THROUGH, layers=("message",))
            found = without_reasons(memory, query, said.results)
            attempts = [hit for hit in found if hit.message_ids and hit.message_ids[0].startswith(ATTEMPT)]
            hits += matching(memory, query, attempts[: limit - len(hits)])
        return hits

    async def remember(
        self, place: CallScope, thinking: str, content: object, options: Mapping[str, object]
    ) -> Remembered:
        """Learn from the texts: with a chat model as from an attempt, without one they are the lessons."""
        texts = [clean_text(text) for text in as_texts(content)]
        answer = f"Successfully recorded {len(texts)} task memory/memories."
        if not texts:
            return Remembered(text=answer, result={"memory_ids": [], "block_ids": []})
        if place.memory.llm is None:
            drafts = [
                {"content": text, "memory_type": _TYPE, "memory_target": _task_name(place), "author": "agent"}
                for text in texts
            ]
            memories = await place.memory.add_memories(drafts, user_id=place.user_id)
            return Remembered(text=answer, result={"memory_ids": [one.memory_id for one in memories], "block_ids": []})
        said = told(texts, "assistant", thinking)
        named = [message.model_copy(update={"message_id": _own_id(message.message_id)}) for message in said]
        attempt = {"messages": named, "score": as_score(options.get("score"))}
        summary = await place.memory.summary_task([attempt], user_id=place.user_id, task_name=_task_name(place))
        memory_ids = [memory.memory_id for memory in summary.memories]
        return Remembered(text=answer, result={"memory_ids": [*memory_ids], "block_ids": [*summary.block_ids]})


def as_score(value: object) -> float:
    """Return how well an attempt went, in [0, 1]; 1 unless a number says otherwise."""
    if value is None or not isinstance(value, int | float | str):
        return 1.0
    try:
        score = float(value)
    except (ValueError, OverflowError):
        return 1.0
    return 1.0 if math.isnan(score) else min(max(score, 0.0), 1.0)


def _own_id(message_id: str) -> str:
    own = f"{ATTEMPT}{message_id}"
    return own if len(own) <= _ID_CHARS else ATTEMPT + uuid.uuid5(uuid.NAMESPACE_OID, message_id).hex


def _task_name(place: CallScope) -> str:
    return (place.agent_name or "").strip() or _DEFAULT_TASK
