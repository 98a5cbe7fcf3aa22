"""Validation errors of pydantic, told in one line each."""

from __future__ import annotations

import reprlib

from pydantic import ValidationError

_MOST = 5
_PLACE = 200
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60
_SHORT.maxlevel = 3


def shown(value: object) -> str:
    """Return a short form of any value for an error's text: of one that is deep, huge or can't be shown, too."""
    try:
        return _SHORT.repr(value)[:60]
    except (ValueError, RecursionError):  # an integer of thousands of digits, say
        return type(value).__name__


def describe(error: ValidationError, what: str, *, with_values: bool = True) -> str:
    """Say which fields of `what` are wrong and why; at most five of them.

    `with_values` adds what was found, cut short; leave it out where it may be a secret.
    """
    problems = error.errors(include_url=False, include_context=False)
    places = [item["loc"] for item in problems]
    lines = []
    for item in problems[:_MOST]:
        if item["type"] == "too_short" and any(place[: len(item["loc"])] == item["loc"] != place for place in places):
            continue  # the list is short because one of its items, told of in its own line, is wrong
        # Parts with a bracket are pydantic's names of the members of a union.
        parts = (part for part in item["loc"] if isinstance(part, int) or "[" not in part)
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)[:_PLACE]
        reason = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            reason = "is not a known field: remove it, or put it into metadata"
        told = with_values and item["type"] not in {"value_error", "missing"}
        found = f" (found {shown(item['input'])})" if told else ""
        lines.append(f"{what}{place}: {reason}{found}")
    more = error.error_count() - _MOST
    return "; ".join(lines) + (f"; and {more} more" if more > 0 else "")
