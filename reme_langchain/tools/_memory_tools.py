"""Work and answers of the memory tools, apart from the framework that calls them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from reme_core import Hit, Memory, ReMe
from reme_core.errors import ConflictError, InvalidInputError, MemoryNotFoundError, MessageNotFoundError
from reme_core.schema import new_id, with_validity
from reme_langchain._searching import search_memories

_RANDOM_ID = re.compile(r"[0-9a-f]{32}")
_BEGINNING = re.compile(r"[0-9a-f]{6,31}")
# Of a random id: two of 1,000 memories begin alike in one user of 34, and then more of it is asked for; an answer is
# to be little longer than the memories in it.
_SHOWN_CHARS = 6
_MORE_CHARS = 16
_PAGE = 1000
_MOST_LISTED = 5
_SAID = "no memories found, but this was said:"
# Of one message; some have millions of characters.
_SAID_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTools:
    """Works on the memories of some types; each call names the user. Answers are texts for the model.

    Memories of other types are as unknown as those of other users.
    """

    memory: ReMe
    kinds: tuple[str, ...]

    async def search(self, user_id: str, query: str, limit: int, kind: str | None) -> str:
        """Return one line for each memory found: its id, what it says, the day. Or for what was said, without ids."""
        if kind is not None and kind not in self.kinds:
            return f"nothing was searched: kind: there are {', '.join(self.kinds)}"
        if not query.strip():
            return "nothing was searched: query is empty: say what to look for"
        try:
            found = await search_memories(
                self.memory, query, user_id=user_id, limit=limit, kinds=self.kinds if kind is None else (kind,)
            )
        except InvalidInputError as exc:
            return f"nothing was searched: {exc.message}"
        if found and found[0].layer == "message":
            return "\n".join([_SAID, *map(_said_line, found)])
        return "\n".join(map(_line, found)) or "no memories found"

    async def save(self, user_id: str, content: str, when_to_use: str | None) -> str:
        """Add a memory, unless there is one that says the same."""
        if not content.strip():
            return "nothing was saved: content is empty: say in one full sentence what is to be remembered"
        memory_id = new_id()
        draft = {
            "content": content,
            "when_to_use": when_to_use or "",
            "memory_type": self.kinds[0],
            "memory_id": memory_id,
            "author": "agent",
        }
        try:
            [memory] = await self.memory.add_memories([draft], user_id=user_id)
        except InvalidInputError as exc:
            return f"nothing was saved: {exc.message}"
        if memory.memory_id != memory_id:
            return f"already known: {short_id(memory.memory_id)}"
        return f"saved: {short_id(memory_id)}"

    async def update(self, user_id: str, memory_id: str, content: str) -> str:
        """Give a memory another text."""
        if not content.strip():
            return "nothing was changed: content is empty: give the whole new text, or use forget_memory"
        found = await self._resolve(user_id, memory_id)
        if isinstance(found, str):
            return found
        try:
            memory = await self.memory.update_memory(found.memory_id, user_id=user_id, content=content)
        except MemoryNotFoundError:  # forgotten in between
            return _unknown(memory_id)
        except ConflictError:
            return (
                "nothing was changed: another memory says the same already, or this one has just changed: search again"
            )
        except InvalidInputError as exc:
            return f"nothing was changed: {exc.message}"
        return f"updated: {short_id(memory.memory_id)}"

    async def forget(self, user_id: str, memory_id: str) -> str:
        """Remove a memory."""
        found = await self._resolve(user_id, memory_id)
        if isinstance(found, str):
            return found
        try:
            await self.memory.delete_memory(found.memory_id, user_id=user_id)
        except MemoryNotFoundError:  # forgotten in between
            return _unknown(memory_id)
        return f"forgotten: {short_id(found.memory_id)}"

    async def _resolve(self, user_id: str, given: str) -> Memory | str:
        """Return the memory with this id, or the one whose id begins with it; else what to answer."""
        try:
            memory = await self.memory.get_memory(given, user_id=user_id)
        except (MemoryNotFoundError, InvalidInputError):
            pass
        else:
            return memory if memory.is_current and memory.memory_type in self.kinds else _unknown(given)
        if await self._is_message(user_id, given):
            return _of_message(given)
        if not _BEGINNING.fullmatch(given):
            return _unknown(given)
        matches = await self._beginning_with(user_id, given)
        if len(matches) > 1:
            longer = ", ".join(memory.memory_id[:_MORE_CHARS] for memory in matches[:_MOST_LISTED])
            return f"several memories have ids that begin with {given!r}: give more of it: {longer}"
        return matches[0] if matches else _unknown(given)

    async def _is_message(self, user_id: str, given: str) -> bool:
        try:
            return bool(await self.memory.get_messages([given], user_id=user_id))
        except (MessageNotFoundError, InvalidInputError):
            return False

    async def _beginning_with(self, user_id: str, beginning: str) -> Sequence[Memory]:
        matches: list[Memory] = []
        cursor: str | None = None
        while True:
            page = await self.memory.list_memories(
                user_id=user_id, memory_type=list(self.kinds), limit=_PAGE, cursor=cursor
            )
            matches += [memory for memory in page.memories if memory.memory_id.startswith(beginning)]
            cursor = page.next_cursor
            if cursor is None:
                return matches


def short_id(memory_id: str) -> str:
    """Return what is shown of an id: the beginning of a random one, all of one that somebody chose."""
    return memory_id[:_SHOWN_CHARS] if _RANDOM_ID.fullmatch(memory_id) else memory_id


def _line(hit: Hit) -> str:
    said_at = hit.observed_at or hit.created_at
    day = f" {said_at.date().isoformat()}" if said_at is not None else ""
    return f"{short_id(hit.memory_id or '')} {with_validity(' '.join(hit.memory.split()), hit)}{day}"


def _said_line(hit: Hit) -> str:
    """Write what was said: the day, who said it, the words; of a long text its best passage.

    No id, which a model would take for that of a memory.
    """
    day = f"{hit.created_at.date().isoformat()} " if hit.created_at is not None else ""
    text = hit.memory
    if len(text) > _SAID_CHARS and hit.passage is not None and not hit.is_passage:
        text = f"… {text[slice(*hit.passage)]} …"
    text = " ".join(text.split())
    shown = text if len(text) <= _SAID_CHARS else f"{text[:_SAID_CHARS]} …"
    return f"{day}{hit.name or hit.role or 'somebody'} said: {shown}"


def _of_message(message_id: str) -> str:
    return (
        f"{message_id[:80]!r} is the id of a message, and no memory: what was said stays as it was said; "
        "save_memory keeps what holds now"
    )


def _unknown(memory_id: str) -> str:
    return f"no memory with this id: {memory_id[:80]!r}: search_memory shows the ids"
