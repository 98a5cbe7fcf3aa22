"""The own time of a memory in words, as it was told: for readers, models and terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.schema.memories import Memory
from reme_core.schema.times import TimePrecision, last_part, shown_time

if TYPE_CHECKING:
    from reme_core.schema.hits import Hit


def shown_validity(item: Memory | Hit) -> str:
    """Say when what a memory states holds or held: "since January 2023", "until 2019", "12 June 2023", "2015 to 2019".

    Empty where nothing was told of it but when it was said, and for what is no memory.
    """
    begins, ends = shown_beginning(item), shown_end(item)
    if begins and ends:
        return begins if begins == ends else f"{begins} to {ends}"
    return f"since {begins}" if begins else f"until {ends}" if ends else ""


def with_validity(text: str, item: Memory | Hit) -> str:
    """Return a text for a prompt with what `shown_validity` says behind it, in brackets, if that says anything."""
    when = shown_validity(item)
    return f"{text} ({when})" if when else text


def shown_beginning(item: Memory | Hit) -> str:
    """Say since when a memory's statement holds; empty where that is when it was said, which nobody told."""
    is_told = item.valid_from != item.observed_at or item.valid_from_precision is not TimePrecision.EXACT
    return shown_time(item.valid_from, item.valid_from_precision) if item.valid_from is not None and is_told else ""


def shown_end(item: Memory | Hit) -> str:
    """Say until when a memory's statement holds or held: the last day, month or year; empty where no end is known."""
    if item.valid_to is None:
        return ""
    return shown_time(last_part(item.valid_to, item.valid_to_precision), item.valid_to_precision)
