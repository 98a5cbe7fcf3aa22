"""Provenance of a memory: the messages of a run that it comes from, and when they were said."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from reme_core.ports import ToolContext
from reme_core.schema import Source
from reme_core.text import query_terms


def observed_at(context: ToolContext) -> datetime:
    """Return when it was said what a run writes: the time of its last message, or now."""
    return context.messages[-1].created_at if context.messages else context.clock.now()


def said_in(context: ToolContext, content: str) -> tuple[tuple[Source, ...], datetime]:
    """Return which of the run's messages a statement comes from, and when it was said.

    Messages that share half as many of its words as the closest one does, or more; all of them, where none shares any.
    """
    words = frozenset(query_terms(content))
    shares = {item.message_id: len(words & frozenset(query_terms(item.full_text))) for item in context.messages}
    best = max(shares.values(), default=0)
    if not best:
        return context.sources, observed_at(context)
    near = {name for name, share in shares.items() if 2 * share >= best}
    narrowed = [(source, tuple(name for name in source.message_ids if name in near)) for source in context.sources]
    sources = tuple(source.model_copy(update={"message_ids": names}) for source, names in narrowed if names)
    said = max(item.created_at for item in context.messages if shares[item.message_id] == best)
    return sources or context.sources, said


def joined_sources(held: Sequence[Source], more: Sequence[Source]) -> tuple[Source, ...]:
    """Return sources with further ones behind them, each once."""
    return (*held, *(source for source in more if source not in held))
