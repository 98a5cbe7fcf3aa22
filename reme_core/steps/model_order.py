"""An order that a model gives to numbered lines: the form that is asked for, and what is read from it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from reme_core.ports import ResponseSchema

ORDER_SCHEMA = ResponseSchema(
    name="order",
    schema={
        "type": "object",
        "properties": {"order": {"type": "array", "items": {"type": "integer"}}},
        "required": ["order"],
        "additionalProperties": False,
    },
)
"""The form of the answer: `{"order": [3, 1, 2]}`."""

_BARE_LIST = re.compile(r"\[[\d\s,]+\]")
# Longer numbers name nothing that we count.
_MOST_DIGITS = 9


def read_order(value: JsonValue, count: int) -> tuple[int, ...]:
    """Read which of so many lines, numbered from 1, are named: their places from 0, in the order named, each once.

    Numbers that there are not, or that were named before, are passed over. "3", 3.0 and a line that is given back with
    its "n" are 3, a list in a list is part of it. An empty list names nothing, which is an answer.

    Raises:
        ValueError: There is no list, or nothing in it can be used; tells the model what is wrong.
    """
    named = value.get("order") if isinstance(value, dict) else value
    if not isinstance(named, list):
        msg = "order: wanted a list of numbers"
        raise ValueError(msg)  # noqa: TRY004  # what a model wrote, not what a caller handed in
    places = tuple(dict.fromkeys(number - 1 for number in _numbers(named) if 1 <= number <= count))
    if named and not places:
        msg = f"order: holds no number from 1 to {count}"
        raise ValueError(msg)
    return places


def bare_order(text: str) -> JsonValue:
    """Return the longest list of whole numbers that stands in a text; None: none does.

    A text that begins as an object is not searched: it is one that broke off, or what an endpoint says of itself.
    """
    if text.lstrip().startswith("{"):
        return None
    longest = max(_BARE_LIST.findall(text), key=len, default="")
    try:
        found: JsonValue = json.loads(longest)
    except ValueError:
        return None
    return found


def with_rest(places: Sequence[int], count: int) -> tuple[int, ...]:
    """Return places, then all others of so many as they stand."""
    named = frozenset(places)
    return (*places, *(place for place in range(count) if place not in named))


def _numbers(named: list[JsonValue]) -> Iterator[int]:
    waiting: list[Iterator[JsonValue]] = [iter(named)]  # a stack: a model may nest deeper than Python calls
    while waiting:
        for item in waiting[-1]:
            if isinstance(item, list):
                waiting.append(iter(item))
                break
            number = _number(item)
            if number is not None:
                yield number
        else:
            waiting.pop()


def _number(item: JsonValue) -> int | None:
    if isinstance(item, dict):
        item = item.get("n")
    if isinstance(item, str):
        digits = item.strip()
        return int(digits) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else None
    if isinstance(item, float):
        return int(item) if item.is_integer() else None
    return item if isinstance(item, int) and not isinstance(item, bool) else None
