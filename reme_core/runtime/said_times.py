"""Dates as a model writes them: whole or in part, or a word for none."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator

from reme_core.schema import parse_time

_NONE = frozenset({"", "none", "null", "unknown", "n/a", "na", "-", "?", "未知", "无", "不详"})
_PART = re.compile(r"(\d{4})(?:-(\d{1,2}))?")
# Prompts show times with their weekday, so that models write it as well.
_WEEKDAY = re.compile(r"(?<=\d) (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b")


def read_said_time(value: object) -> datetime | None:
    """Read a date that a model wrote: ISO 8601, also "2023" and "2023-05", which are their first moment.

    None, an empty text and words such as "unknown" are None.

    Raises:
        ValueError: It is something else.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        msg = f"a date is a text such as 2023-05-08, not {type(value).__name__}"
        raise ValueError(msg)  # noqa: TRY004  # pydantic turns ValueError, and not TypeError, into a field's error
    text = _WEEKDAY.sub("", value.strip())
    if text.casefold() in _NONE:
        return None
    part = _PART.fullmatch(text)
    return parse_time(f"{part[1]}-{int(part[2] or 1):02d}-01" if part else text)


SaidTime = Annotated[datetime | None, BeforeValidator(read_said_time)]
"""A pydantic field for a date that may be unknown."""
