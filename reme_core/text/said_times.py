"""Times of facts as models write them: whole or in part, or a word for none."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import PlainValidator

from reme_core.schema import PartialTime, parse_partial_time

# Written for a time that is not known, and for an end that has not come.
_NONE = frozenset(
    {
        *("", "none", "null", "unknown", "n/a", "na", "-", "?", "present", "now", "ongoing"),
        *("未知", "无", "不详", "至今", "现在"),
    }
)
_MONTH = re.compile(r"(\d{4})-(\d{1,2})")
# Prompts show times with their weekday, so that models write it as well.
_WEEKDAY = re.compile(r"(?<=\d) (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b")


def read_said_time(value: object) -> PartialTime | None:
    """Read a time that a model wrote, with its precision: as `parse_partial_time`, also "2023-5" and a year as integer.

    None, an empty text and words such as "unknown" or "present" are None.

    Raises:
        ValueError: It is something else.
    """
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        msg = f"a date is a text such as 2023-05-08, not {type(value).__name__}"
        raise ValueError(msg)  # noqa: TRY004  # pydantic turns ValueError, and not TypeError, into a field's error
    text = _WEEKDAY.sub("", value.strip())
    if text.casefold() in _NONE:
        return None
    month = _MONTH.fullmatch(text)
    try:
        return parse_partial_time(f"{month[1]}-{int(month[2]):02d}" if month else text)
    except ValueError as exc:
        msg = f"{text[:40]!r} is no time: write 2023, 2023-01, 2023-01-05 or 2023-01-05T18:30:00Z, or leave it out"
        raise ValueError(msg) from exc


SaidTime = Annotated[PartialTime | None, PlainValidator(read_said_time)]
"""A pydantic field for a time that may be unknown."""
