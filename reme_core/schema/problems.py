"""Validation errors of pydantic, told in one line each."""

from __future__ import annotations

from pydantic import ValidationError

_MOST = 5


def describe(error: ValidationError, what: str) -> str:
    """Say which fields of `what` are wrong and why; at most five of them, values cut short."""
    problems = error.errors(include_url=False, include_context=False)
    places = [item["loc"] for item in problems]
    lines = []
    for item in problems[:_MOST]:
        if item["type"] == "too_short" and any(place[: len(item["loc"])] == item["loc"] != place for place in places):
            continue  # the list is short because one of its items, told of in its own line, is wrong
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"])
        reason = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            reason = "is not a known field: remove it, or put it into metadata"
        found = "" if item["type"] == "value_error" else f" (found {item['input']!r:.60})"
        lines.append(f"{what}{place}: {reason}{found}")
    more = error.error_count() - _MOST
    return "; ".join(lines) + (f"; and {more} more" if more > 0 else "")
