"""What users hand to the facade, checked and turned into the values that ports take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from reme_core.errors import InvalidInputError, UnsupportedFilterError
from reme_core.ports import Scalar
from reme_core.schema import Layer, MemoryType, Message, parse_time
from reme_core.schema.checks import check_id, check_text

# Clocks of two machines differ; what is dated later than this was dated wrongly.
_CLOCK_SKEW = timedelta(days=1)
_LAYERS: tuple[Layer, ...] = ("memory", "summary", "message")
MAX_LIMIT = 10_000


def read_types(value: object) -> tuple[MemoryType, ...] | None:
    """Read `memory_type`: `auto` or None for any, a type, or a list of types (InvalidInputError)."""
    if value is None or value == "auto":
        return None
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, Iterable):
        items = [value]
    return tuple(read_type(item) for item in items)


def read_type(value: object) -> MemoryType:
    """Read one memory type (InvalidInputError)."""
    try:
        return MemoryType(str(value))
    except ValueError as exc:
        msg = f"memory_type: {value!r:.60} is none of auto, {', '.join(MemoryType)}"
        raise InvalidInputError(msg) from exc


def read_targets(value: object) -> tuple[str, ...] | None:
    """Read `memory_target`: None for any, a target, or a list of targets (InvalidInputError)."""
    if value is None:
        return None
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
        return tuple(value)
    msg = f"memory_target: wanted a string or a list of strings, found {type(value).__name__}"
    raise InvalidInputError(msg)


def read_layers(value: object) -> tuple[Layer, ...] | None:
    """Read `layers`: None for the default, or a list of memory, summary, message (InvalidInputError)."""
    if value is None:
        return None
    items = [value] if isinstance(value, str) else value
    if isinstance(items, Iterable):
        wanted = list(items)
        if wanted and all(item in _LAYERS for item in wanted):
            return tuple(layer for layer in _LAYERS if layer in wanted)
    msg = f"layers: wanted some of {', '.join(_LAYERS)}, found {value!r:.60}"
    raise InvalidInputError(msg)


def read_time(value: object, name: str) -> datetime | None:
    """Read an optional point in time (InvalidInputError); see `parse_time` for the forms."""
    if value is None:
        return None
    try:
        return parse_time(value)
    except ValueError as exc:
        msg = f"{name}: {exc}"
        raise InvalidInputError(msg) from exc


def read_metadata_filter(value: object) -> dict[str, Scalar]:
    """Read a filter on metadata: keys and the scalar each must equal; there are no operators.

    Raises:
        InvalidInputError: It is not a mapping with string keys.
        UnsupportedFilterError: A value is a list, a mapping (an operator, say) or something else.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        msg = f"metadata: wanted a mapping of keys to values, found {type(value).__name__}"
        raise InvalidInputError(msg)
    for key, item in value.items():
        if not (item is None or isinstance(item, (str, int, float, bool))):
            msg = f"metadata[{key!r}]: a filter compares with a string, number, boolean or None, found {item!r:.60}"
            raise UnsupportedFilterError(msg)
    return dict(value)


def read_id(value: object, name: str) -> str:
    """Read an identifier (InvalidInputError)."""
    if not isinstance(value, str):
        msg = f"{name}: wanted a string, found {type(value).__name__}"
        raise InvalidInputError(msg)
    try:
        return check_id(value)
    except ValueError as exc:
        msg = f"{name}: {exc}"
        raise InvalidInputError(msg) from exc


def read_query(value: object) -> str:
    """Read a question: any text with something in it (InvalidInputError)."""
    if not isinstance(value, str):
        msg = f"query: wanted a string, found {type(value).__name__}"
        raise InvalidInputError(msg)
    text = value.replace("\0", " ")
    try:
        check_text(text)
    except ValueError as exc:
        msg = f"query: {exc}"
        raise InvalidInputError(msg) from exc
    if not text.strip():
        msg = "query: is empty; give the question in words, or list_memories to see everything"
        raise InvalidInputError(msg)
    return text


def read_count(value: object, name: str) -> int:
    """Read a number of results or tokens, from 1 to 10,000 results (InvalidInputError)."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        msg = f"{name}: wanted a whole number from 1 on, found {value!r:.40}"
        raise InvalidInputError(msg)
    if name == "limit" and value > MAX_LIMIT:
        msg = f"limit: at most {MAX_LIMIT} at once, found {value}: page, or export"
        raise InvalidInputError(msg)
    return value


def check_not_future(messages: Sequence[Message], now: datetime) -> None:
    """Refuse messages that were said later than now, a day's difference of clocks apart (InvalidInputError)."""
    for index, message in enumerate(messages):
        if message.created_at > now + _CLOCK_SKEW:
            msg = (
                f"messages[{index}].created_at: {message.created_at.isoformat()} lies in the future "
                f"(now is {now.isoformat()}): correct it, or leave it out"
            )
            raise InvalidInputError(msg)


def check_time_not_future(moment: datetime, name: str, now: datetime) -> None:
    """Refuse a time later than now, a day's difference of clocks apart (InvalidInputError)."""
    if moment > now + _CLOCK_SKEW:
        msg = f"{name}: {moment.isoformat()} lies in the future (now is {now.isoformat()}): correct it"
        raise InvalidInputError(msg)
