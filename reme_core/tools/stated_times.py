"""The times of a fact as a model writes them: a year, a month, a day, or a moment."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator, Field

from reme_core.errors import ToolFeedback
from reme_core.schema import parse_time

_PART = re.compile(r"(\d{4})(?:-(\d{2}))?")
# Prompts show times with their weekday, so that models write it as well.
_WEEKDAY = re.compile(r"(?<=\d) (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b")
# Written by models for "no end", though it could be left out.
_NONE = frozenset({"", "none", "null", "unknown", "present", "now", "ongoing", "至今", "未知", "无"})


def read_stated(text: str) -> datetime:
    """Read a time that `StatedTime` has let through: its first moment."""
    part = _PART.fullmatch(text)
    return parse_time(f"{part[1]}-{part[2] or '01'}-01" if part else text)


def _stated(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)[:20]  # a year without quotes
    if not isinstance(value, str):
        return value
    text = _WEEKDAY.sub("", value.strip())
    if text.casefold() in _NONE:
        return None
    try:
        read_stated(text)
    except ValueError as exc:
        msg = f"{text[:40]!r} is no time: write 2023, 2023-01, 2023-01-05 or 2023-01-05T18:30:00Z, or leave it out"
        raise ValueError(msg) from exc
    return text


StatedTime = Annotated[str | None, BeforeValidator(_stated), Field(default=None)]
"""A field for a time as it was written, checked; None where it was left out."""

FROM_HELP = "Since when it holds, or when it happened: 2023, 2023-01 or 2023-01-05. Left out: when it was said."
TO_HELP = "When it ended or will end, written alike. Left out where no end was said."


def stated_range(
    valid_from: str | None, valid_to: str | None, *, since: datetime, until: datetime | None = None
) -> tuple[datetime, datetime | None]:
    """Return the beginning and the end of a fact: as stated, else `since` and `until`.

    A fact of which only an end is stated, before `since`, begins there as well; "2023" as the end of what began on a
    day of 2023 is that day.

    Raises:
        ToolFeedback: The end lies before the beginning.
    """
    begins = since if valid_from is None else read_stated(valid_from)
    ends = until if valid_to is None else read_stated(valid_to)
    if ends is None or begins <= ends:
        return begins, ends
    if valid_from is None:
        return ends, ends
    if valid_to is not None and valid_from.startswith(valid_to):
        return begins, begins
    msg = f"valid_from {valid_from!r} lies after the end, {valid_to or ends.date()}; nothing was written: correct them"
    raise ToolFeedback(msg)
