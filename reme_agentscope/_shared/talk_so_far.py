"""Choice of what to show of what was found: no talk of the context again, and each memory once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reme_agentscope._shared.personal_memory import ATTEMPT

if TYPE_CHECKING:
    from reme_core.ports import TokenCounter
    from reme_core.schema import Hit, Message


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
