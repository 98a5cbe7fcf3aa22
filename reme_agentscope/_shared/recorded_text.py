"""Selection of what to record of a talk, and reading of odd arguments. Pure functions over values."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping

INJECTED_NAME = "long_term_memory"
"""The name of the message by which AgentScope 1.x hands a found memory to the model."""

INJECTED_TAGS = (
    "<long_term_memory>",
    "<retrieved_knowledge>",
    "<system-hint>",
    "<system-info>",
    "<system-reminder>",
)
"""What texts begin with that AgentScope writes, not a person."""

INTERRUPTED_METADATA: Mapping[str, bool] = {"_is_interrupted": True}
"""The mark of what AgentScope 1.x has an agent say when its reply was interrupted."""

SUMMARY_METADATA: Mapping[str, str] = {"reme": "summary"}
"""The mark of a compression summary of ours, in a message's metadata."""

MAX_LIMIT = 100
"""At most this many memories are asked for at once, whatever a model writes."""

MAX_IDS = 10_000
"""Ids that a ledger keeps; some weeks of one chat."""


def is_injection(*, name: str | None, text: str | None, metadata: object = None) -> bool:
    """Tell whether AgentScope or reme wrote a message: found memories, hints, interruptions, compression's summaries.

    A text that only quotes a tag further on is somebody's own.
    """
    if name == INJECTED_NAME or (text or "").lstrip().startswith(INJECTED_TAGS):
        return True
    given = metadata if isinstance(metadata, Mapping) else {}
    return any(given.items() >= mark.items() for mark in (INTERRUPTED_METADATA, SUMMARY_METADATA))


def query_text(texts: Iterable[str | None]) -> str:
    """Return the texts of all messages as one query, blank and missing ones left out; `""` where nothing is asked."""
    return "\n".join(text.strip() for text in texts if text and text.strip())


def as_texts(value: object) -> list[str]:
    """Return what a model means by a list of texts: one text is a list of one; blank ones are left out.

    Anything else in the list is written as text; None and what is no list give none.
    """
    items = [value] if isinstance(value, str | int | float) else value
    if isinstance(items, Mapping) or not isinstance(items, Iterable):
        return []
    texts = (item if isinstance(item, str) else "" if item is None else str(item) for item in items)
    return [text.strip() for text in texts if text.strip()]


def as_limit(value: object, default: int = 5) -> int:
    """Return what is meant by a limit: `"3"` is 3; from 1 to `MAX_LIMIT`; `default` for what is no number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return default
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return default
    return default if math.isnan(number) else int(min(max(number, 1), MAX_LIMIT))


class IdLedger:
    """Ids that were handed over, the newest `size` of them."""

    def __init__(self, ids: Iterable[str] = (), *, size: int = MAX_IDS) -> None:
        """Begin with `ids`, oldest first."""
        self._size = size
        self._ids: OrderedDict[str, None] = OrderedDict()
        self.claim(ids)

    def __contains__(self, message_id: str) -> bool:
        """Tell whether the id was handed over."""
        return message_id in self._ids

    def claim(self, ids: Iterable[str]) -> list[str]:
        """Count ids as handed over; return those that were not before, each once, in order.

        Known ones count as new again for what is forgotten first: the whole talk is handed over each time.
        """
        new = []
        for message_id in ids:
            if message_id not in self._ids:
                new.append(message_id)
            self._ids[message_id] = None
            self._ids.move_to_end(message_id)
        while len(self._ids) > self._size:
            self._ids.popitem(last=False)
        return new

    def snapshot(self) -> list[str]:
        """Return the ids, oldest first, as a list of its own: JSON for a state."""
        return list(self._ids)

    def restore(self, ids: object) -> None:
        """Replace the ids by those of a state; what is no list of texts leaves none."""
        self._ids.clear()
        self.claim([item for item in ids if isinstance(item, str)] if isinstance(ids, list) else [])
