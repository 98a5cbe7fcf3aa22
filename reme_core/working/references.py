"""References in messages as a model sees them, and the ids that the store has for them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from reme_core.ports import PutOffloads, Store
from reme_core.schema import Message, OffloadRecord, Scope

_HINT = re.compile(r"\breload ([0-9a-f]{16})\b")
# A hint as views and summaries write it. In a quotation the words around a reference stay, but for our own form.
_QUOTED_HINT = re.compile(
    r"\s*[(（\[]?\bdetails: reload (?P<ours>[0-9a-f]{16})\b[)）\]]?|\breload (?P<bare>[0-9a-f]{16})\b"
)
# The same with whatever name for a reference, and a reference that stands alone.
_NAMED_HINT = re.compile(
    r"\s*[(（\[]?\b(?:details: reload (?P<name>[^\s)）\]]+)|reload (?P<bare>[0-9a-f]{16})\b)[)）\]]?", re.IGNORECASE
)
_REFERENCE = re.compile(r"(?<![\w/-])[0-9a-f]{16}(?![\w/-])", re.IGNORECASE)
_MARKS = "`'\"<>.,;"
# What a long line is cut between: words, each with the blanks before it; a hint is one of them.
_WHOLE = r"[(（]?(?:details: )?reload [0-9a-f]{16}[)）]?"
_UNIT = re.compile(rf"\s*(?:{_WHOLE}|(?:(?!{_WHOLE})\S)+)")
# More than a hint has.
_HINT_CHARS = 64
_SENTENCE_ENDS = (".", "!", "?", ";", "。", "！", "？", "；")


def cited_references(texts: Iterable[str]) -> frozenset[str]:
    """Return what stands in texts in the form of a reference. Whether there is such an offload, only a store knows."""
    return frozenset(found for text in texts for found in _HINT.findall(text))


def cited_in(message: Message) -> frozenset[str]:
    """Return what stands in a message in the form of a reference; see `cited_references`."""
    return cited_references([message.full_text])


def cited_at_a_glance(message: Message) -> frozenset[str]:
    """Return the same as `cited_in`; most messages cite nothing, which is told without putting their text together."""
    for block in message.content:
        match block.type:
            case "text":
                cites = "reload " in block.text
            case "tool_result":
                cites = "reload " in block.output
            case "tool_call":
                cites = "whole" in block.arguments
            case _:
                continue
        if cites:
            return cited_in(message)
    return frozenset()


def drop_references(text: str, allowed: frozenset[str]) -> str:
    """Return a text without hints ("details: reload …") at references that aren't allowed.

    Nothing else goes: of "reload 0123456789abcdef" without "details:" before it only the reference does, for "…".
    """

    def kept(match: re.Match[str]) -> str:
        if (match["ours"] or match["bare"]) in allowed:
            return match[0]
        return "reload …" if match["bare"] else ""

    return _QUOTED_HINT.sub(kept, text)


def drop_unknown_references(line: str, allowed: frozenset[str], given: Sequence[str]) -> str:
    """Return a line of a model without hints and references that aren't allowed.

    What has the form of a reference and stands in a text that was given may mean something else: it stays.
    """

    def hinted(match: re.Match[str]) -> str:
        return match[0] if (match["name"] or match["bare"]).strip(_MARKS) in allowed else ""

    def known(match: re.Match[str]) -> str:
        return match[0] if match[0] in allowed or any(match[0] in text for text in given) else "…"

    return _REFERENCE.sub(known, _NAMED_HINT.sub(hinted, line)).strip()


def split_line(line: str, most_chars: int) -> list[str]:
    """Cut a long line into several, between sentences where it can be; never within a hint, and nothing is left out."""
    pieces, rest = list[str](), line
    while len(rest) > most_chars:
        end = _place_to_cut(rest[: most_chars + _HINT_CHARS], most_chars)
        pieces.append(rest[:end].strip())
        rest = rest[end:].strip()
    return [piece for piece in (*pieces, rest) if piece]


def _place_to_cut(text: str, most_chars: int) -> int:
    """Return where a text is cut, at `most_chars` or before."""
    end = sentence_end = 0
    for unit in _UNIT.finditer(text):
        if unit.end() > most_chars:
            break
        end = unit.end()
        sentence_end = end if unit[0].endswith(_SENTENCE_ENDS) else sentence_end
    return (sentence_end if sentence_end > most_chars // 2 else end) or most_chars


async def store_offloads(store: Store, scope: Scope, items: Sequence[OffloadRecord]) -> dict[str, str]:
    """Keep offloads for a context that is about to refer to them.

    Returns:
        For the reference of each item the one that the store has for it: another one if it was there already.
    """
    if not items:
        return {}
    stored = await store.put_offloads(scope, PutOffloads(offloads=items, hold=True))
    return dict(zip((item.reference for item in items), stored, strict=True))


def renamed(messages: Sequence[Message], names: Mapping[str, str]) -> tuple[Message, ...]:
    """Write the store's references into views in place of those that they were made with."""
    changes = {new: stored for new, stored in names.items() if new != stored}
    if not changes:
        return tuple(messages)
    return tuple(_renamed(message, changes) for message in messages)


def _renamed(message: Message, changes: Mapping[str, str]) -> Message:
    body = message.model_dump_json(include={"content"})
    if not any(new in body for new in changes):
        return message
    for new, stored in changes.items():
        body = body.replace(new, stored)
    content = Message.model_validate({**message.model_dump(), **json.loads(body)}).content
    return message.model_copy(update={"content": content})
