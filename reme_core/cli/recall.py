"""Texts from the memory for a coding agent: what fits its user's prompt, and what to know when a session begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from reme_core.models.defaults import CharacterTokenCounter
from reme_core.ports import FindMessages, ListMemories, MemoryFilter, RetrieveRequest, Store
from reme_core.recall.simple_retriever import SimpleRetriever
from reme_core.retrieval.hits import hit_of_memory, hit_of_message, word_share
from reme_core.schema import Hit, MemoryType, Scope, StoredMessage
from reme_core.schema.hits import found_text
from reme_core.text import estimate_tokens, query_terms

PROMPT_TOKENS = 400
"""What stands before a prompt takes at most so many tokens. Source: services.md, clients."""

START_TOKENS = 800
"""What stands at the beginning of a session takes at most so many. Source: services.md, the budget of the chat door."""

# Of one text: a pasted file is no note.
_MOST_CHARS = 400
_CANDIDATES = 40
# What stands before every prompt has to fit it: one word of five that were asked for is chance, two are not.
_FITTING_SHARE = 0.25
_PROFILE = (MemoryType.IDENTITY, MemoryType.PERSONAL)
_RECENT = 60
_SPOKEN = frozenset({"user", "assistant"})


async def text_for_prompt(store: Store, scope: Scope, prompt: str, *, session_id: str | None) -> str:
    """Return what is known and fits a prompt, quoted as data; "" where nothing does.

    What was said in the running session is in front of the agent already, and what tools were asked and answered is no
    memory.
    """
    retriever = SimpleRetriever(store=store, embedder=None, counter=CharacterTokenCounter())
    request = RetrieveRequest(query=prompt, limit=_CANDIDATES, now=datetime.now(UTC))
    found = (await retriever.retrieve(scope, request)).results
    asked = frozenset(query_terms(request.query))
    ids = [name for hit in found if hit.layer == "message" and hit.reference is None for name in hit.message_ids]
    said = {item.message.message_id for item in await store.get_messages(scope, ids) if _is_news(item, session_id)}
    fitting = [
        hit
        for hit in found
        if (hit.layer == "memory" or said.intersection(hit.message_ids))
        and word_share(asked, f"{hit.when_to_use} {hit.memory}") >= _FITTING_SHARE
    ]
    return found_text(_first(fitting, PROMPT_TOKENS), max_chars=_MOST_CHARS)


async def text_for_session(store: Store, scope: Scope, *, session_id: str | None) -> str:
    """Return who the user is and what was said last, oldest first, quoted as data; "" where nothing is known."""
    about = ListMemories(filter=MemoryFilter(types=_PROFILE), limit=_CANDIDATES)
    memories = (await store.list_memories(scope, about)).memories
    profile = _first(map(hit_of_memory, memories), START_TOKENS // 2)
    page = await store.find_messages(scope, FindMessages(newest_first=True, limit=_RECENT))
    news = (hit_of_message(scope, item) for item in page.messages if _is_news(item, session_id))
    recent = _first(news, START_TOKENS - _tokens(profile))
    return found_text([*profile, *reversed(recent)], max_chars=_MOST_CHARS)


def _is_news(item: StoredMessage, session_id: str | None) -> bool:
    """Tell whether a message says something that is not in front of the agent already."""
    return item.message.role in _SPOKEN and item.session_id != session_id and bool(item.message.text.strip())


def _first(hits: Iterable[Hit], tokens: int) -> list[Hit]:
    """Return the first hits that have room in so many tokens, the lines around them included."""
    kept: list[Hit] = []
    for hit in hits:
        if _tokens([*kept, hit]) > tokens:
            break
        kept.append(hit)
    return kept


def _tokens(hits: Sequence[Hit]) -> int:
    return estimate_tokens(found_text(hits, max_chars=_MOST_CHARS))
