"""Times of a fact in the arguments of tools, and how they become those of a memory."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from reme_core.errors import ToolFeedback
from reme_core.schema import Memory, last_part, shown_end
from reme_core.schema.times import may_end
from reme_core.text.said_times import parse_said_time

FROM_HELP = "Since when it holds, or when it happened: 2023, 2023-01 or 2023-01-05. Left out: when it was said."
TO_HELP = "When it ended or will end, written alike. Left out where no end was said."


def _stated(value: object) -> str | None:
    return None if parse_said_time(value) is None else str(value)


StatedTime = Annotated[str | None, BeforeValidator(_stated), Field(default=None)]
"""A field for a time as `read_said_time` reads it, kept as it was written; None where none was stated."""


def with_stated_times(memory: Memory, valid_from: str | None, valid_to: str | None) -> Memory:
    """Return a memory with the times that a model has stated, each with its precision; what it left out stays.

    A memory of which only an end is stated that lies before its beginning began in its last day, month or year.

    Raises:
        ToolFeedback: The end lies before the beginning.
    """
    begins, ends = parse_said_time(valid_from), parse_said_time(valid_to)
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
