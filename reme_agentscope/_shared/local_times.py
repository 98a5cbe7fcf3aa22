"""Times as AgentScope writes them: text, local and without a zone."""

from __future__ import annotations

from datetime import datetime

from pydantic import JsonValue

from reme_core.schema import parse_time


def read_local(text: JsonValue) -> datetime | None:
    """Return a point in time in UTC, None for what is none; what has no zone is read as local time."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        parse_time(moment)  # the years that the core takes
        return parse_time(moment.astimezone())
    except (ValueError, OverflowError, OSError):
        return None


def local_time(moment: datetime) -> datetime:
    """Return a point in time as local time without a zone."""
    return moment.astimezone().replace(tzinfo=None)
