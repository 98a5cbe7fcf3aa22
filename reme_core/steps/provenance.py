"""Provenance of a memory: the messages it comes from, the times stated for it, and hits that a run was shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo
from typing import Annotated

from pydantic import BeforeValidator, Field

from reme_core.errors import ToolFeedback
from reme_core.ports import ToolContext
from reme_core.schema import Hit, Memory, Source, last_part, shown_end
from reme_core.schema.times import may_end
from reme_core.text import query_terms
from reme_core.text.said_times import parse_said_time


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


FROM_HELP = "Since when it holds, or when it happened: 2023, 2023-01 or 2023-01-05. Left out: when it was said."
TO_HELP = "When it ended or will end, written alike. Left out where no end was said."


def _stated(value: object) -> str | None:
    return None if parse_said_time(value) is None else str(value)


StatedTime = Annotated[str | None, BeforeValidator(_stated), Field(default=None)]
"""A field for a time as `read_said_time` reads it, kept as it was written; None where none was stated."""


def with_stated_times(memory: Memory, valid_from: str | None, valid_to: str | None, zone: tzinfo) -> Memory:
    """Return a memory with the times that a model has stated, each with its precision; what it left out stays.

    A time of the day without an offset is that of `zone`.
    A memory of which only an end is stated that lies before its beginning began in its last day, month or year.

    Raises:
        ToolFeedback: The end lies before the beginning.
    """
    begins, ends = parse_said_time(valid_from, zone), parse_said_time(valid_to, zone)
    changes: dict[str, object] = {}
    if begins is not None:
        changes |= {"valid_from": begins.start, "valid_from_precision": begins.precision}
    if ends is not None:
        changes |= {"valid_to": ends.end, "valid_to_precision": ends.precision}
    dated = memory.model_copy(update=changes)
    end, precision = dated.valid_to, dated.valid_to_precision
    if end is None or may_end(dated.valid_from, end, precision):
        return dated
    if begins is None:
        return dated.model_copy(update={"valid_from": last_part(end, precision), "valid_from_precision": precision})
    msg = f"valid_from {valid_from!r} lies after the end, {shown_end(dated)!r}; nothing was written: correct them"
    raise ToolFeedback(msg)


READ_SCORE = 0.5
"""The score of what was read because its id or time was asked for: it was not ranked."""


def note_hits(context: ToolContext, hits: Iterable[Hit]) -> None:
    """Add hits to the trace, each thing once."""
    known = {_identity(hit) for hit in context.trace.hits}
    for hit in hits:
        if _identity(hit) not in known:
            known.add(_identity(hit))
            context.trace.hits.append(hit)


def _identity(hit: Hit) -> tuple[object, ...]:
    match hit.layer:
        case "memory":
            return hit.layer, hit.user_id, hit.memory_id
        case "summary":
            return hit.layer, hit.user_id, hit.block_id
        case "message":
            return hit.layer, hit.user_id, hit.reference, hit.message_ids
