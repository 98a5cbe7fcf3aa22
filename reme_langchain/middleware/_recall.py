"""Recall for a run, as text for a model."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from langchain.agents.middleware.types import ContextT, ModelRequest
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from reme_core import ReMe
from reme_core.schema import Hit, found_text
from reme_core.schema.plain import clean_text, usable_id
from reme_langchain._place import HookContext
from reme_langchain._searching import in_words
from reme_langchain.middleware._own_messages import is_told, our_message, said, shown_in
from reme_langchain.middleware._settings import Recall

_LOG = logging.getLogger("reme")

# A question longer than this is its end: that is where people ask.
_QUERY_CHARS = 4_000
# Of one result; messages may have millions of characters.
_HIT_CHARS = 1_000
# Times the limit, since of what is found something may stand in the thread already, or be no words.
_ASKED_FOR = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledText:
    """What was found: the text, fenced as data, and what is in it."""

    text: str
    shown: tuple[str, ...]

    def as_message(self) -> HumanMessage:
        """Return it as a message of ours."""
        return our_message(self.text, "recall", shown=self.shown)


async def recall(
    memory: ReMe, settings: Recall, place: HookContext, messages: Sequence[AnyMessage], *, again: bool = False
) -> RecalledText | None:
    """Find what helps with the last words of the user; None where there is nothing, or it takes too long.

    Left out is what the thread holds already: memories shown before (but for `again`) and messages of the context.
    """
    query = last_words(messages)
    if not query:
        return None
    try:
        async with asyncio.timeout(settings.timeout_s):
            found = await _find(memory, settings, place, query)
    except Exception as exc:  # noqa: BLE001  # an agent answers without its memories, whatever a model or store has
        _LOG.warning("no memories were recalled for this run: %s: %s", type(exc).__name__, exc)
        return None
    shown = frozenset[str]().union(*(() if again else map(shown_in, messages)))
    told = frozenset(usable_id(message.id) for message in messages if message.id)
    hits = [hit for hit in found if key_of(hit) not in shown and not hit.stands_in(told)][: settings.limit]
    if not hits:
        return None
    return RecalledText(text=found_text(hits, max_chars=_HIT_CHARS), shown=tuple(map(key_of, hits)))


async def _find(memory: ReMe, settings: Recall, place: HookContext, query: str) -> list[Hit]:
    """Return what is found and was said in words: no calls of tools, nor what they answered."""
    found = await memory.retrieve(
        query,
        user_id=place.user_id,
        limit=settings.limit * _ASKED_FOR,
        token_budget=settings.token_budget,
        min_score=settings.min_score,
        memory_type=settings.memory_type,
        layers=settings.layers,
    )
    return await in_words(memory, place.user_id, found.results)


def last_words(messages: Sequence[AnyMessage]) -> str:
    """Return what the user said last, after the last answer; several messages are one text."""
    words: list[str] = []
    for message in reversed(said(messages)):
        if not isinstance(message, HumanMessage):
            break
        if is_told(message):
            continue
        words.append(message.text)
    return clean_text("\n".join(reversed(words)))[-_QUERY_CHARS:].strip()


def key_of(hit: Hit) -> str:
    """Return what a result is known by: what it is and what it says, so that a changed memory is shown again."""
    name = hit.memory_id or hit.block_id or ""
    if hit.layer == "message":
        name = hit.message_ids[0] if hit.message_ids else ""
    return hashlib.blake2b(f"{hit.layer}:{name}:{hit.memory}".encode(), digest_size=8).hexdigest()


def with_block(request: ModelRequest[ContextT], block: str | None) -> ModelRequest[ContextT]:
    """Put a text at the end of the system prompt."""
    if not block:
        return request
    system = request.system_message
    if system is None:
        return request.override(system_message=SystemMessage(content=block))
    content: list[str | dict[str, object]] = (
        [{"type": "text", "text": system.content}] if isinstance(system.content, str) else list(system.content)
    )
    content.append({"type": "text", "text": block})
    return request.override(system_message=system.model_copy(update={"content": content}))
