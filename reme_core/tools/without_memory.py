"""Tools that touch no memory: one tells the time, in the form in which models write times; one lets a model think."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer

from reme_core.errors import ToolFeedback
from reme_core.ports import ToolContext
from reme_core.schema import UtcTime, format_time, parse_time
from reme_core.schema.checks import Text
from reme_core.text import prompt_time
from reme_core.tools.base import BaseMemoryToolOp, NoArguments, ToolItem

_DAY = re.compile(r"\s*\d{4}-?\d{2}-?\d{2}\s*")


def _end_of_day(value: object) -> object:
    """Read a date alone as the end of its day: "until the 8th" includes the 8th."""
    if isinstance(value, str) and _DAY.fullmatch(value):
        return parse_time(value) + timedelta(days=1)
    return value


Start = UtcTime
"""The beginning of a range, as a model writes it."""

End = Annotated[
    datetime,
    BeforeValidator(parse_time),
    BeforeValidator(_end_of_day),
    PlainSerializer(format_time, when_used="json"),
]
"""The end of a range, itself not in it; a date alone means the whole day."""

START_HELP = "From this time on (UTC), such as 2023-05-08 or 2023-05-08T13:56:00Z."
END_HELP = "Up to this time (UTC), not included; a date alone includes its whole day."


def check_range(start: datetime | None, end: datetime | None) -> None:
    """Refuse a range in which nothing can lie (ToolFeedback)."""
    if start is not None and end is not None and start >= end:
        msg = f"start_time {format_time(start)} does not lie before end_time {format_time(end)}"
        raise ToolFeedback(msg)


class DatetimeToolOp(BaseMemoryToolOp[NoArguments]):
    """Tells the time of the run's clock."""

    name = "datetime_tool"
    description = "Tell the present date, weekday and time."
    item = NoArguments
    is_concurrent = True

    async def execute(self, items: Sequence[NoArguments], context: ToolContext) -> str:
        """Tell the time; see `BaseMemoryToolOp.execute`."""
        now = context.clock.now()
        name = " UTC" if context.zone is UTC else ""
        return f"{prompt_time(now, context.zone)}{name} ({format_time(now)})"


class ThinkItem(ToolItem):
    """A thought."""

    reflection: Annotated[Text, Field(min_length=1)] = Field(
        description="What you know so far, what is missing, and what to do next."
    )


@dataclass(kw_only=True, eq=False)
class ThinkToolOp(BaseMemoryToolOp[ThinkItem]):
    """A place to think between two calls, for models that don't do so by themselves.

    Attributes:
        add_output_reflection: Answer with the reflection, so that it stands at the end of the conversation.
    """

    name = "think_tool"
    description = (
        "Think before you go on: weigh what you have found, whether it is enough, and which call comes next. "
        "Nothing is read or changed."
    )
    item = ThinkItem
    is_concurrent = True

    add_output_reflection: bool = False

    async def execute(self, items: Sequence[ThinkItem], context: ToolContext) -> str:
        """Take note; see `BaseMemoryToolOp.execute`."""
        return "\n".join(item.reflection for item in items) if self.add_output_reflection else "noted, go on"
