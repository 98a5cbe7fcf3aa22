"""Search of tools and retrievers: the memory types they may be given, and messages where no memory answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reme_core import Hit, ReMe
from reme_core.errors import ConfigurationError
from reme_core.schema import MemoryType, StoredMessage, shown
from reme_core.steps.message_lines import find_all

ALL_KINDS = tuple(
    map(
        str,
        (
            MemoryType.PERSONAL,
            MemoryType.PROCEDURAL,
            MemoryType.TOOL,
            MemoryType.IDENTITY,
            MemoryType.SUMMARY,
            MemoryType.RECORD,
        ),
    )
)


def check_kinds(given: object) -> tuple[str, ...]:
    """Return the types as a tuple (ConfigurationError)."""
    return check_words(given, ALL_KINDS, "kinds")


def check_words(given: object, known: Sequence[str], what: str) -> tuple[str, ...]:
    """Return a choice of known words, at least one, each once (ConfigurationError)."""
    listed = tuple(given) if isinstance(given, list | tuple | set | frozenset) else ()
    if not listed or any(item not in known for item in listed) or len(set(listed)) != len(listed):
        msg = f"{what}: wanted a list of some of {', '.join(known)}, each once, found {shown(given)}"
        raise ConfigurationError(msg)
    return tuple(map(str, listed))


# What messages can stand in for: they are of no task, no tool and no self.
_SAID = "personal"
# Times the limit, since of what was said something may be no words.
_ASKED_FOR = 3
_MOST_HITS = 10_000  # that `retrieve` gives at once


async def search_memories(
    memory: ReMe, query: str, *, user_id: str, limit: int, kinds: Sequence[str], min_score: float | None = None
) -> list[Hit]:
    """Return memories of some types, best first; where there are none and `personal` is among the types, messages.

    Without a chat model nothing makes memories of what is said, and all that a user has are messages.

    Raises:
        InvalidInputError: A query, a limit or a score that can't be used.
        ReMeError: What `retrieve` raises.
    """
    found = await memory.retrieve(
        query, user_id=user_id, limit=limit, memory_type=list(kinds), layers=("memory",), min_score=min_score
    )
    if found.results or _SAID not in kinds:
        return list(found.results)
    most = min(limit * _ASKED_FOR, _MOST_HITS)
    said = await memory.retrieve(query, user_id=user_id, limit=most, layers=("message",), min_score=min_score)
    return (await in_words(memory, user_id, said.results))[:limit]


async def in_words(memory: ReMe, user_id: str, hits: Sequence[Hit]) -> list[Hit]:
    """Return what was said in words: no calls of tools, nor what they answered; other layers as they are."""
    wanted = [hit for hit in hits if hit.layer != "message" or hit.role in {"user", "assistant"}]
    ids = [hit.message_ids[0] for hit in wanted if hit.role == "assistant"]
    answers = {stored.message.message_id: stored.message for stored in await known_messages(memory, user_id, ids)}
    worded = []
    for hit in wanted:
        answer = answers.get(hit.message_ids[0]) if hit.role == "assistant" else None
        if answer is None or not answer.call_ids or hit.is_passage:
            worded.append(hit)
        elif answer.text.strip():
            worded.append(hit.model_copy(update={"memory": answer.text, "passage": None}))
    return worded


async def known_messages(memory: ReMe, user_id: str, ids: Sequence[str]) -> list[StoredMessage]:
    """Return those messages that the memory has."""
    return await find_all(partial(memory.get_messages, user_id=user_id), ids)
