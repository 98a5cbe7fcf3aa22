"""Things found by id and page by page, and messages as the lines of a talk."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol, TypeVar, get_args

from reme_core.errors import NotFoundError
from reme_core.ports import Store
from reme_core.schema import Message, Role, Scope, StoredMessage, TrustClass
from reme_core.text import prompt_time

T = TypeVar("T")

_PAGE = 500


class Page(Protocol):
    """A page of a list, and where the next one begins; None behind the last."""

    @property
    def next_cursor(self) -> str | None:
        """What the next page is asked for with."""
        ...


P = TypeVar("P", bound=Page)


async def all_pages(read: Callable[[str | None], Awaitable[P]]) -> AsyncIterator[P]:
    """Yield the pages of a list, one after the other, each read with the cursor of the one before."""
    page = await read(None)
    yield page
    while page.next_cursor is not None:
        page = await read(page.next_cursor)
        yield page


def pieces_of(items: Sequence[T], size: int = _PAGE) -> Iterator[Sequence[T]]:
    """Cut a list into pieces."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


async def find_all(get: Callable[[Sequence[str]], Awaitable[Sequence[T]]], ids: Iterable[str]) -> list[T]:
    """Return those of the things with these ids that there are, in the order named, each once.

    Raises:
        NotFoundError: It names none of those asked for, so that to ask again would never end.
    """
    found: list[T] = []
    for piece in pieces_of(list(dict.fromkeys(ids))):
        wanted = piece
        while wanted:
            try:
                found += await get(wanted)
                break
            except NotFoundError as exc:
                missing = frozenset(exc.missing)
                if missing.isdisjoint(wanted):
                    raise
                wanted = [name for name in wanted if name not in missing]
    return found


async def find_messages_by_id(store: Store, scope: Scope, message_ids: Iterable[str]) -> dict[str, StoredMessage]:
    """Return those messages that the scope holds, by id, in the order named; others are left out."""
    found = await find_all(partial(store.get_messages, scope), message_ids)
    return {stored.message.message_id: stored for stored in found}


_ROLES = frozenset(get_args(Role))
# All that a reader may take for the end of a line.
_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_INDENT = "  "
# What a line is made of beside its words: a name has none of it.
_MARKS = re.compile(r"[\s\[\]():]+")


def talk_text(messages: Iterable[Message]) -> str:
    """Write messages as the lines of a talk, in order, such as `[2023-05-08 Mon 13:56] Alice: I moved`.

    Only what is said begins a line: the further lines of a text are indented, so that no text passes for a message. A
    call is written as `assistant calls grep({"word": "a"})`, a result as `tool answers grep: ...`, and a part that is
    kept without being read as `assistant adds thinking: {...}`.
    """
    names: dict[str, str] = {}
    lines: list[str] = []
    for message in messages:
        names.update((block.call_id, block.name) for block in message.content if block.type == "tool_call")
        begin = f"[{prompt_time(message.created_at)}] {_speaker(message)}"
        lines += [_BREAK.sub(rf"\g<0>{_INDENT}", f"{begin}{part}") for part in _parts(message, names)]
    return "\n".join(lines)


def message_text(message: Message) -> str:
    """Write one message as it is: exactly its text, and its other parts as `talk_text` writes them, unindented."""
    texts = [
        f"{block.kind}: {json.dumps(block.data, ensure_ascii=False)}" if block.type == "other" else text
        for block in message.content
        if (text := message.model_copy(update={"content": (block,)}).full_text) or block.type == "other"
    ]
    return "\n".join(texts)


def _speaker(message: Message) -> str:
    """Return who speaks: the role of a tool, whose name stands with its answer, else the name, beside it the role."""
    name = _MARKS.sub(" ", message.speaker).strip()
    trust = message.trust
    told = message.role if trust in {TrustClass.USER, message.role} else f"{message.role}, {trust}"
    if message.role == "tool" or name in {"", message.role}:
        return told
    is_plain = told == "user" and name.casefold().split(" ")[0] not in _ROLES
    return name if is_plain else f"{name} ({told})"


def _parts(message: Message, names: dict[str, str]) -> Iterator[str]:
    for block in message.content:
        text = message.model_copy(update={"content": (block,)}).full_text
        match block.type:
            case "tool_call":
                yield f" calls {text}"
            case "tool_result":
                yield f" answers {block.name or names.get(block.call_id) or message.name or block.call_id}: {text}"
            case "other":
                yield f" adds {block.kind}: {json.dumps(block.data, ensure_ascii=False)}"
            case _:
                yield f": {text}"
