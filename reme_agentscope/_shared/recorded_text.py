"""Selection of what to record of a talk and to show of what was found; reading of odd arguments. Pure functions."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reme_core.ports import TokenCounter
    from reme_core.schema import Hit, Message


INJECTED_NAME = "long_term_memory"
"""The name of the message by which AgentScope 1.x hands a found memory to the model."""

BLOCKS_NAME = "memory_blocks"
"""The name of the message that shows an agent of AgentScope 1.x its memory blocks."""

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

ATTEMPT = "attempt:"
"""What ids of messages of attempts begin with: the same talk may be in personal memory, too, and is searched there."""

MAX_LIMIT = 100
"""At most this many memories are asked for at once, whatever a model writes."""

MAX_IDS = 10_000
"""Ids that a ledger keeps; some weeks of one chat."""


def is_injection(*, name: str | None, text: str | None, metadata: object = None) -> bool:
    """Tell whether AgentScope or reme wrote a message: found memories, hints, interruptions, compression's summaries.

    A text that only quotes a tag further on is somebody's own.
    """
    if name in {INJECTED_NAME, BLOCKS_NAME} or (text or "").lstrip().startswith(INJECTED_TAGS):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidInContext:
    """What a context says itself, by message and by content."""

    message_ids: frozenset[str] = frozenset()
    digests: frozenset[str] = frozenset()

    def holds(self, hit: Hit) -> bool:
        """Tell whether all that a result says was said in this context."""
        said_by = {name.removeprefix(ATTEMPT) for name in hit.message_ids}
        return (bool(said_by) and self.message_ids.issuperset(said_by)) or digest_of(hit.memory) in self.digests


def said_in(messages: Iterable[Message]) -> SaidInContext:
    """Return what messages of a context say."""
    said = list(messages)
    return SaidInContext(
        message_ids=frozenset(message.message_id for message in said),
        digests=frozenset(digest_of(message.text) for message in said),
    )


def digest_of(text: str) -> str:
    """Return what a content is known by; letter case and blanks don't make another one."""
    words = " ".join(text.casefold().split())
    return hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def fitting(
    hits: Sequence[Hit], *, text: Callable[[Sequence[Hit]], str], counter: TokenCounter, budget: int | None
) -> list[Hit]:
    """Return as many of the best results as their text has room for in a budget of tokens; None: all."""
    kept = list(hits)
    while kept and budget is not None and counter.count(text(kept)) > budget:
        kept.pop()
    return kept


def choose(
    hits: Sequence[Hit],
    *,
    shown: Collection[str],
    said: SaidInContext,
    limit: int,
    text_of: Callable[[Hit], str] = lambda hit: hit.memory,
) -> list[Hit]:
    """Return the best results that the context neither shows nor says, each content once.

    `shown` are digests of what `text_of` gives for a result.
    """
    chosen: dict[str, Hit] = {}
    for hit in hits:
        digest = digest_of(text_of(hit))
        if digest not in shown and digest not in chosen and not said.holds(hit):
            chosen[digest] = hit
    return list(chosen.values())[:limit]
