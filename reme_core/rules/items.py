"""Items as they are on disk, the memory that an item is, and conditions on their values by JSON's types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeGuard, assert_never

from pydantic import JsonValue

from reme_core.errors import InvalidInputError
from reme_core.ports import FilterOperator, ItemCondition, ItemValue, Namespace
from reme_core.schema import Memory, format_time
from reme_core.schema.blobs import BASE64_MARK, LONG_BASE64
from reme_core.schema.checks import MAX_METADATA_BYTES, check_json, check_text, kind_of
from reme_core.schema.memories import MAX_MEMORY_CHARS

_CONTENT_KEYS = ("content", "text", "memory")
_MOST_DEPTH = 200
"""Levels of a value. JSON's reader and writer stop with a crash of the stack somewhere below 1,000."""
_MOST_DIGITS = 4300
"""Python reads no longer whole number from a text (sys.int_info.default_max_str_digits)."""
_TOO_LONG = 10**_MOST_DIGITS
_WRITER = json.JSONEncoder(ensure_ascii=False)
# What needs no look: most of what values hold.
_SOUND = frozenset({str, float, bool, type(None)})
_SOUND_BITS = 64


def namespace_path(namespace: Sequence[str], *, what: str = "namespace") -> str:
    """Return the labels as one text, each followed by a full stop, so that a prefix of labels is a prefix of the text.

    Raises:
        InvalidInputError: Not a sequence of labels as `Namespace` says.
    """
    if isinstance(namespace, str) or not isinstance(namespace, Sequence):
        msg = f"{what}: wanted a tuple of labels, found {namespace!r:.80}"
        raise InvalidInputError(msg)
    for label in namespace:
        if not isinstance(label, str) or not label or "." in label or "\0" in label or not _is_text(label):
            msg = (
                f"{what}: {label!r:.80} is no label: give a text that is not empty and has neither '.', NUL "
                "nor lone surrogates"
            )
            raise InvalidInputError(msg)
    return "".join(f"{label}." for label in namespace)


def split_path(path: str) -> Namespace:
    """Return the labels of a path that `namespace_path` made."""
    return tuple(path[:-1].split("."))


def path_after(path: str) -> str:
    """Return the first text behind all paths that begin with this one, which is not empty."""
    return path[:-1] + "/"  # the character behind the full stop


def check_key(key: str, namespace: Sequence[str]) -> str:
    """Return the key of an item, if it can be one (InvalidInputError)."""
    if isinstance(key, str) and _is_text(key):
        return key
    msg = f"item {key!r:.80} in {tuple(namespace)!r:.80}: a key is a text without lone surrogates"
    raise InvalidInputError(msg)


def _is_text(value: str) -> bool:
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def write_value(value: object, what: object) -> str:
    """Return a value as JSON, from which `read_value` makes the same again; `what` names it in errors.

    Raises:
        InvalidInputError: It is not a JSON object, or can't be read back: naming the place.
    """
    if not isinstance(value, dict):
        msg = f"{what}: a value is a JSON object (dict), not {kind_of(value)}"
        raise InvalidInputError(msg)
    _check_value(value, what, depth=1)
    text = _WRITER.encode(value)
    return text if _is_text(text) else json.dumps(value)


def read_value(text: str) -> ItemValue:
    """Return the value that was written."""
    value: ItemValue = json.loads(text)
    return value


def _is_sound(item: object) -> bool:
    return type(item) in _SOUND or (type(item) is int and item.bit_length() <= _SOUND_BITS)


def _check_value(item: object, path: object, *, depth: int) -> None:
    """Refuse what JSON would refuse, change silently, or not read back (InvalidInputError)."""
    if depth > _MOST_DEPTH:
        msg = f"{path:.200}: is nested deeper than {_MOST_DEPTH} levels, or holds itself"
        raise InvalidInputError(msg)
    if isinstance(item, dict):
        for key, child in item.items():
            if not isinstance(key, str):
                msg = f"{path:.200}: the key {key!r:.80} is {kind_of(key)}, keys are texts: write str(key)"
                raise InvalidInputError(msg)
            if not _is_sound(child):
                _check_value(child, f"{path}[{key!r:.40}]", depth=depth + 1)
    elif isinstance(item, (list, tuple)):
        for index, child in enumerate(item):
            if not _is_sound(child):
                _check_value(child, f"{path}[{index}]", depth=depth + 1)
    elif isinstance(item, int):
        if not -_TOO_LONG < item < _TOO_LONG:
            msg = f"{path:.200}: a whole number has at most {_MOST_DIGITS} digits: write it as a text"
            raise InvalidInputError(msg)
    elif not (item is None or isinstance(item, (str, float))):
        msg = f"{path:.200}: {kind_of(item)} is no JSON value: give texts, numbers, booleans, None, lists and dicts"
        raise InvalidInputError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemTexts:
    """What a memory takes from a value.

    Attributes:
        content: What it says.
        content_key: The key that this stood under, None if it is the whole value.
        when_to_use: As `Memory.when_to_use`.
    """

    content: str
    content_key: str | None
    when_to_use: str


def texts_of(value: ItemValue) -> ItemTexts:
    """Return the texts of the memory that an item with this value is: the ones that a memory can have."""
    key = next((key for key in _CONTENT_KEYS if isinstance(text := value.get(key), str) and text.strip()), None)
    content = value[key] if key is not None else json.dumps(value, sort_keys=True, ensure_ascii=False)
    hint = value.get("when_to_use")
    return ItemTexts(
        content=_storable(str(content)),
        content_key=key,
        when_to_use=_storable(hint) if isinstance(hint, str) else "",
    )


def _storable(text: str) -> str:
    """Return a text as a memory can hold it: cut, and without NUL and lone surrogates."""
    cut = text[:MAX_MEMORY_CHARS]
    if len(cut) < len(text) and not cut.strip():
        cut = text.strip()[:MAX_MEMORY_CHARS]
    if "\0" in cut:
        cut = cut.replace("\0", "�")
    return cut if _is_text(cut) else "".join("�" if "\ud800" <= sign <= "\udfff" else sign for sign in cut)


def metadata_of(value: ItemValue, topic: Namespace, texts: ItemTexts) -> dict[str, JsonValue]:
    """Return the other keys as metadata, as far as they can be, and the topic beside them unless they say one.

    What metadata can't hold (infinite numbers, lone surrogates, too much) is left out; the item's value has it.
    """
    metadata: dict[str, JsonValue] = {}
    size = 2
    parts: dict[str, JsonValue] = {"topic": list(topic)} if topic else {}
    for key, part in (parts | value).items():
        if key == texts.content_key or (key == "when_to_use" and isinstance(part, str)):
            continue
        copied = _metadata_part(key, part)
        if copied is None:
            continue
        size += len(copied)
        if size > MAX_METADATA_BYTES:
            break
        metadata |= json.loads(copied)
    return metadata


def _metadata_part(key: str, part: JsonValue) -> str | None:
    """Return one key of metadata as JSON, None if it can't be one."""
    try:
        check_text(key)
        return json.dumps(check_json({key: part}), ensure_ascii=False)
    except ValueError:
        return None


def overlaid(value: ItemValue, memory: Memory) -> ItemValue:
    """Return the value of an item with the texts that were edited through its memory, under the keys they came from."""
    texts = texts_of(value)
    if memory.content != texts.content:
        value[texts.content_key or "content"] = memory.content
    if memory.when_to_use != texts.when_to_use:
        value["when_to_use"] = memory.when_to_use
    return value


def value_of(memory: Memory) -> ItemValue:
    """Return the value of a memory that was not written as an item; see `Item.value`."""
    value: ItemValue = {"content": memory.content}
    if memory.when_to_use:
        value["when_to_use"] = memory.when_to_use
    if memory.observed_at != memory.created_at:
        value["time"] = format_time(memory.observed_at)
    if memory.metadata:
        value["metadata"] = json.loads(json.dumps(memory.metadata))
    return value


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
    if len(text) >= LONG_BASE64 or BASE64_MARK in text:  # as it stands in a value whose base64 is kept apart
        return None
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
