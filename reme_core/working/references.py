"""References in messages as a model sees them, and the ids that the store has for them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from reme_core.ports import PutOffloads, Store
from reme_core.schema import Message, OffloadRecord, Scope

_HINT = re.compile(r"\breload ([0-9a-f]{16})\b")


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
