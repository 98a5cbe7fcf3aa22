"""Values as they are stored: copies made of JSON types alone. And the filters that search them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from pydantic import JsonValue

from reme_core.errors import InvalidInputError
from reme_core.ports import FilterOperator, ItemCondition, ItemValue
from reme_core.schema import shown

_Path: TypeAlias = tuple["_Path", object] | None
"""Where in a value we are: the place above, and a key or an index. It becomes a text only if something is wrong."""

_DEEPEST = 200  # levels; far beyond any document, and far below where Python's own JSON gives up
_LONGEST_INT = 14_000  # bits; Python reads back integers of at most 4,300 digits
_OPERATORS = MappingProxyType({f"${operator.value}": operator for operator in FilterOperator})


def copy_object(value: object, what: str) -> ItemValue:
    """Return a JSON object as plain dicts and lists, which share nothing with what was given.

    Raises:
        TypeError: Not a mapping, a key that is no str, or something in it that JSON has no form for, naming its place.
        InvalidInputError: It is nested too deeply (or holds itself), or an integer is too long.
    """
    if not isinstance(value, Mapping):
        msg = f"{what}: wanted a mapping (a dict, say), found {shown(value)}"
        raise TypeError(msg)
    return _copy_mapping(value, (None, what), 0)


def copy_json(value: object, what: str) -> JsonValue:
    """Return a JSON value as plain types; raises as `copy_object`."""
    return _copy(value, (None, what), 0)


def read_filter(given: object) -> tuple[ItemCondition, ...]:
    """Return the conditions of a filter: `{"field": value}` or `{"field": {"$gt": value, ...}}`, all of which hold.

    Raises:
        InvalidInputError: An operator that there is not, or operators and plain keys side by side.
        TypeError: It is no mapping, a key is no str, or an operand is not JSON.
    """
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        msg = f"filter: wanted a dict, found {shown(given)}"
        raise TypeError(msg)
    conditions: list[ItemCondition] = []
    for name, operand in given.items():
        if not isinstance(name, str):
            msg = f"filter: wanted field names that are str, found {shown(name)}"
            raise TypeError(msg)
        if name.startswith("$"):
            _check_no_operator(name)
        conditions += _conditions(name, operand)
    return tuple(conditions)


def _conditions(name: str, operand: object) -> list[ItemCondition]:
    where = f"filter[{shown(name)}]"
    if not isinstance(operand, Mapping) or not any(isinstance(key, str) and key.startswith("$") for key in operand):
        plain = copy_json(operand, where)
        _check_nested(plain, where)
        return [ItemCondition(field=name, operator=FilterOperator.EQ, operand=plain)]
    found = []
    for key, part in operand.items():
        operator = _OPERATORS.get(key)
        if operator is None:
            known = ", ".join(_OPERATORS)
            msg = f"{where}: {shown(key)} is no operator; there are {known}, and no plain keys beside them"
            raise InvalidInputError(msg)
        found.append(ItemCondition(field=name, operator=operator, operand=copy_json(part, where)))
    return found


def _check_no_operator(name: str) -> None:
    if name in _OPERATORS:
        msg = f"filter: {name!r} stands where a field is wanted: write {{field: {{{name!r}: value}}}}"
        raise InvalidInputError(msg)


def _check_nested(operand: JsonValue, where: str) -> None:
    """Refuse operators further down: taken literally, they would find nothing, and nobody would know why."""
    if not isinstance(operand, dict):
        return
    for key, part in operand.items():
        if key in _OPERATORS:
            msg = f"{where}: the operator {key!r} is nested; operators stand directly under a top-level field"
            raise InvalidInputError(msg)
        _check_nested(part, where)


def _copy(value: object, path: _Path, depth: int) -> JsonValue:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return value if type(value) is str else str.__str__(value)
    if isinstance(value, int):
        return _copy_int(value, path)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Mapping):
        return _copy_mapping(value, path, depth + 1)
    if isinstance(value, (list, tuple)):
        return _copy_sequence(value, path, depth + 1)
    msg = (
        f"{_shown_path(path)}: {shown(value)} ({type(value).__name__}) has no form in JSON: give a str, number or dict"
    )
    raise TypeError(msg)


def _copy_mapping(value: Mapping[object, object], path: _Path, depth: int) -> ItemValue:
    _check_depth(path, depth)
    copied: ItemValue = {}
    for key, part in value.items():
        if not isinstance(key, str):
            msg = f"{_shown_path(path)}: wanted keys that are str, found {shown(key)} ({type(key).__name__})"
            raise TypeError(msg)
        copied[key if type(key) is str else str.__str__(key)] = _copy(part, (path, key), depth)
    return copied


def _copy_sequence(value: Sequence[object], path: _Path, depth: int) -> list[JsonValue]:
    _check_depth(path, depth)
    return [_copy(part, (path, place), depth) for place, part in enumerate(value)]


def _copy_int(value: int, path: _Path) -> int:
    number = int(value)
    if number.bit_length() > _LONGEST_INT:
        msg = f"{_shown_path(path)}: an integer of {number.bit_length()} bits, at most {_LONGEST_INT} are kept"
        raise InvalidInputError(msg)
    return number


def _check_depth(path: _Path, depth: int) -> None:
    if depth > _DEEPEST:
        msg = f"{_shown_path(path)[:80]}…: nested deeper than {_DEEPEST} levels, or it holds itself"
        raise InvalidInputError(msg)


def _shown_path(path: _Path) -> str:
    parts: list[str] = []
    while path is not None:
        path, part = path
        parts.append(str(part) if path is None else f"[{shown(part)}]")
    return "".join(reversed(parts))
