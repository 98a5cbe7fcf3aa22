"""Conditions on the values of items, compared by JSON's types."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TypeGuard, assert_never

from pydantic import JsonValue

from reme_core.ports import FilterOperator, ItemCondition, ItemValue

_SHORT = 10**15
"""Below, a float that equals a whole number is written as its digits and ".0"; but 0 may be -0.0."""


def meets(value: ItemValue, conditions: Iterable[ItemCondition]) -> bool:
    """Tell whether a value meets every condition; see `FilterOperator`. No pair of JSON values raises."""
    return all(_meets_one(value, condition) for condition in conditions)


def needle(condition: ItemCondition) -> str | None:
    """Return a text that the JSON of each value that meets a condition holds, None if there is no such text.

    JSON as `write_value` writes it. To look for a text is quicker than to read the value; what has it may still not
    meet the condition.
    """
    operand = condition.operand
    if condition.operator is not FilterOperator.EQ or not isinstance(operand, (str, int)):
        return None
    if isinstance(operand, int) and not isinstance(operand, bool) and not 0 < abs(operand) < _SHORT:
        return None
    text = f"{json.dumps(condition.field)}: {json.dumps(operand)}"
    return None if "\\u" in text else text  # there are two ways to write what is not ASCII


def _meets_one(value: ItemValue, condition: ItemCondition) -> bool:
    found, operand = value.get(condition.field), condition.operand  # a missing field is as null is
    match condition.operator:
        case FilterOperator.EQ:
            return _matches(found, operand)
        case FilterOperator.NE:
            return not _matches(found, operand)
        case FilterOperator.GT | FilterOperator.GTE | FilterOperator.LT | FilterOperator.LTE:
            return _is_ordered(found, condition.operator, operand)
        case _:
            assert_never(condition.operator)


def _matches(found: JsonValue, operand: JsonValue) -> bool:
    """Compare as `eq` does: an object by the keys that the operand names, anything else whole."""
    if isinstance(operand, dict):
        return isinstance(found, dict) and all(_matches(found.get(key), part) for key, part in operand.items())
    return _same(found, operand)


def _same(one: JsonValue, other: JsonValue) -> bool:
    """Tell whether two JSON values are equal; Python takes true for 1, also inside lists."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(part, other[key]) for key, part in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    if _is_number(one) and _is_number(other):
        return one == other
    return type(one) is type(other) and one == other


def _is_ordered(found: JsonValue, operator: FilterOperator, operand: JsonValue) -> bool:
    if isinstance(found, str) and isinstance(operand, str):
        below, equal = found < operand, found == operand
        above = not below and not equal
    elif _is_number(found) and _is_number(operand):
        # Each by itself: of NaN and a number none holds.
        below, equal, above = found < operand, found == operand, found > operand
    else:
        return False
    match operator:
        case FilterOperator.GT:
            return above
        case FilterOperator.GTE:
            return above or equal
        case FilterOperator.LT:
            return below
        case _:
            return below or equal


def _is_number(value: JsonValue) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
