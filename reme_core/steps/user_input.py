"""Checks of the arguments of the facade, which turn them into the values that ports take."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from reme_core.errors import ConfigurationError, InvalidInputError, UnsupportedFilterError
from reme_core.schema import Layer, MemoryType, Message, TrustClass, bounded_query, parse_time, read_zone, shown
from reme_core.schema.checks import check_id, check_numbers, check_text, is_whole_64, kind_of
from reme_core.schema.foreign import text_hint
from reme_core.schema.memory_blocks import MAX_DESCRIPTION_CHARS, MAX_LIMIT_TOKENS, check_label

if TYPE_CHECKING:
    from reme_core.ports import OnConflict, Scalar

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")

# Clocks of two machines differ; what is dated later than this was dated wrongly.
_CLOCK_SKEW = timedelta(days=1)
_LAYERS: tuple[Layer, ...] = ("memory", "summary", "message")
_DISTILLED = (MemoryType.PERSONAL, MemoryType.PROCEDURAL, MemoryType.TOOL, MemoryType.IDENTITY)
# As `text.Language`, which is not loaded for this.
_LANGUAGES = ("en", "zh")
MAX_LIMIT = 10_000
MAX_INSTRUCTIONS_CHARS = 4000
"""A page; it is sent with every extraction."""
MAX_NAME_CHARS = 256
# Beyond, it is no keyword but a file in its place; questions are read to their beginning instead.
_MAX_KEYWORD_CHARS = 100_000


def _checked(check: Callable[[A], B], value: A, name: str) -> B:
    """Return what a check of a value returns; its ValueError is an InvalidInputError that names the argument."""
    try:
        return check(value)
    except ValueError as exc:
        msg = f"{name}: {exc}"
        raise InvalidInputError(msg) from exc


def _string(value: object, name: str) -> str:
    if isinstance(value, str):
        return value
    msg = f"{name}: wanted a string, found {kind_of(value)}{text_hint(value)}"
    raise InvalidInputError(msg)


def read_on_conflict(value: object) -> OnConflict:
    """Read what is done with a message whose id is taken: `raise` or `rename` (InvalidInputError)."""
    if isinstance(value, str) and value in {"raise", "rename"}:
        return "rename" if value == "rename" else "raise"
    msg = f"on_conflict: wanted 'raise' or 'rename', found {shown(value)}"
    raise InvalidInputError(msg)


def check_language(value: object) -> None:
    """Refuse another language of the prompts than there is (ConfigurationError); None follows what was said."""
    if value is not None and not (isinstance(value, str) and value in _LANGUAGES):
        msg = f"language: wanted 'en', 'zh' or None, found {shown(value)}"
        raise ConfigurationError(msg)


def read_types(value: object) -> tuple[MemoryType, ...] | None:
    """Read `memory_type`: `auto` or None for any, a type, or a list of types (InvalidInputError: also an empty one)."""
    if value is None or value == "auto":
        return None
    items = [value] if isinstance(value, str) or not isinstance(value, Iterable) else value
    return _some(tuple(read_type(item) for item in items), "memory_type")


def read_trust(value: object) -> tuple[TrustClass, ...] | None:
    """Read `trust`: None for any class, one, or a list of them (InvalidInputError: also an empty one)."""
    if value is None:
        return None
    items = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    known = tuple(TrustClass)
    if any(item not in known for item in items):
        msg = f"trust: wanted some of {', '.join(known)}, found {shown(value)}"
        raise InvalidInputError(msg)
    return _some(tuple(trust for trust in known if trust in items), "trust")


def read_searched_types(value: object) -> tuple[MemoryType, ...] | None:
    """Read `memory_type` of a search, as `read_types`, but for memory blocks, which have methods of their own."""
    types = read_types(value)
    if types is not None and MemoryType.BLOCK in types:
        msg = "memory_type: 'block' can't be asked for here: memory_blocks lists the memory blocks of a user"
        raise InvalidInputError(msg)
    return types


def _some(items: tuple[T, ...], name: str) -> tuple[T, ...]:
    """Refuse an empty list, which would be read as any by whoever asks whether there is a filter."""
    if not items:
        msg = f"{name}: is an empty list, which nothing is of: name one at least, or leave it out for any"
        raise InvalidInputError(msg)
    return items


def read_type(value: object, among: Sequence[MemoryType] = tuple(MemoryType)) -> MemoryType:
    """Read one memory type (InvalidInputError)."""
    with suppress(ValueError):
        kind = MemoryType(value) if isinstance(value, str) else None
        if kind is not None and kind in among:
            return kind
    msg = f"memory_type: {shown(value)} is none of auto, {', '.join(among)}"
    raise InvalidInputError(msg)


def read_summary_type(value: object) -> MemoryType | None:
    """Read the type of memory that a summary is to make: `auto` or one of the distilled ones (InvalidInputError)."""
    return None if value == "auto" else read_type(value, _DISTILLED)


def read_targets(value: object) -> tuple[str, ...] | None:
    """Read `memory_target`: None for any, a target, or a list of targets (InvalidInputError: also an empty one)."""
    if value is None:
        return None
    items = [value] if isinstance(value, str) else value
    if isinstance(items, (list, tuple, set, frozenset)) and all(isinstance(item, str) for item in items):
        return _some(tuple(read_text(item, "memory_target") for item in items), "memory_target")
    msg = f"memory_target: wanted a string or a list of strings, found {kind_of(value)}"
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
    msg = f"layers: wanted some of {', '.join(_LAYERS)}, found {shown(value)}"
    raise InvalidInputError(msg)


def read_time(value: object, name: str) -> datetime | None:
    """Read an optional point in time (InvalidInputError); see `parse_time` for the forms."""
    if value is None:
        return None
    return _checked(parse_time, value, name)


def read_timezone(value: object) -> str:
    """Read a time zone by its IANA name (InvalidInputError)."""
    if not isinstance(value, str):
        msg = f"timezone: wanted an IANA name such as 'Europe/Berlin', found {kind_of(value)}"
        raise InvalidInputError(msg)
    _checked(read_zone, value, "timezone")
    return value


def read_metadata_filter(value: object) -> dict[str, Scalar]:
    """Read a filter on metadata: keys and the scalar each must equal; there are no operators.

    Raises:
        InvalidInputError: It is not a mapping with string keys.
        UnsupportedFilterError: A value is a list, a mapping (an operator, say) or something else.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        msg = f"metadata: wanted a mapping of keys to values, found {kind_of(value)}"
        raise InvalidInputError(msg)
    for key, item in value.items():
        if not (item is None or isinstance(item, (str, int, float, bool))):
            msg = f"metadata[{key!r}]: a filter compares with a string, number, boolean or None, found {shown(item)}"
            raise UnsupportedFilterError(msg)
        read_text(key, "metadata")
        if isinstance(item, str):
            read_text(item, f"metadata[{key!r}]")
        elif isinstance(item, int) and not is_whole_64(item):
            msg = f"metadata[{key!r}]: a number beyond 64 bits can't be looked for: keep it as a string"
            raise UnsupportedFilterError(msg)
        elif isinstance(item, float) and not math.isfinite(item):
            msg = f"metadata[{key!r}]: nothing stored equals {item}: filter by a finite number, a string or None"
            raise InvalidInputError(msg)
    return dict(value)


def read_id(value: object, name: str) -> str:
    """Read an identifier (InvalidInputError)."""
    return _checked(check_id, _string(value, name), name)


def read_ids(value: object, name: str) -> list[str]:
    """Read a list of identifiers (InvalidInputError)."""
    return [read_id(item, f"{name}[{place}]") for place, item in enumerate(read_list(value, name))]


def read_list(value: object, name: str) -> list[object]:
    """Read a list of things, not a single one in its place (InvalidInputError)."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):
        return list(value)
    msg = f"{name}: wanted a list, found {kind_of(value)}"
    raise InvalidInputError(msg)


def read_text(value: object, name: str) -> str:
    """Read a text that may be empty (InvalidInputError)."""
    return _checked(check_text, _string(value, name), name)


def read_bounded_text(value: object, name: str, most: int) -> str:
    """Read a text, stripped, that is a part of every prompt (InvalidInputError: it has more than `most` characters)."""
    text = read_text(value, name).strip()
    if len(text) > most:
        msg = f"{name}: has {len(text)} characters, at most {most} are sent with every conversation: shorten it"
        raise InvalidInputError(msg)
    return text


def read_instructions(value: object, name: str = "instructions") -> str:
    """Read instructions; None and blanks are none (InvalidInputError)."""
    return read_bounded_text("" if value is None else value, name, MAX_INSTRUCTIONS_CHARS)


def read_label(value: object) -> str:
    """Read the label of a memory block (InvalidInputError)."""
    return _checked(check_label, _string(value, "label"), "label")


def read_description(value: object) -> str:
    """Read what a memory block is for (InvalidInputError)."""
    return read_bounded_text(value, "description", MAX_DESCRIPTION_CHARS)


def read_token_limit(value: object) -> int:
    """Read how many tokens the text of a memory block may have (InvalidInputError)."""
    tokens = read_count(value, "limit_tokens")
    if tokens > MAX_LIMIT_TOKENS:
        msg = f"limit_tokens: at most {MAX_LIMIT_TOKENS} are allowed, found {tokens}: a block stands in every prompt"
        raise InvalidInputError(msg)
    return tokens


def read_flag(value: object, name: str) -> bool:
    """Read a switch; "no" or 0 would count as true or false by accident (InvalidInputError)."""
    if isinstance(value, bool):
        return value
    msg = f"{name}: wanted True or False, found {shown(value)}"
    raise InvalidInputError(msg)


def read_revision(value: object) -> int:
    """Read the revision that a caller has seen (InvalidInputError)."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1 and is_whole_64(value):
        return value
    msg = f"expected_revision: wanted the revision of a memory, from 1 on, found {shown(value)}"
    raise InvalidInputError(msg)


def read_query(value: object, name: str = "query") -> str:
    """Read a question or a keyword: any text with something in it (InvalidInputError)."""
    given = _string(value, name)
    if len(given) > _MAX_KEYWORD_CHARS:
        msg = f"{name}: has {len(given)} characters, at most {_MAX_KEYWORD_CHARS} are looked for: give some words of it"
        raise InvalidInputError(msg)
    text = _checked(check_text, given.replace("\0", " "), name)
    if not text.strip():
        msg = f"{name}: is empty; give some words, or list to see everything"
        raise InvalidInputError(msg)
    return text


def read_bounded_query(value: object) -> str:
    """Read what is looked for as `read_query` does; of a pasted text, its beginning."""
    return read_query(bounded_query(value) if isinstance(value, str) else value)


def read_question(value: object, *, is_timed: bool) -> str:
    """Read the question of a search as `read_query` does, of a pasted text its beginning.

    Raises:
        InvalidInputError: It is empty or None, and no time is given; or what `read_query` raises.
    """
    found = "wanted a string, found None" if value is None else "is empty"
    if value is not None and not (isinstance(value, str) and not bounded_query(value).replace("\0", " ").strip()):
        return read_bounded_query(value)
    if is_timed:
        return ""
    msg = (
        f"query: {found}; give some words, or start_time or end_time to see what lies there, or list to see everything"
    )
    raise InvalidInputError(msg)


def read_count(value: object, name: str) -> int:
    """Read a number of results or tokens, from 1 to 10,000 results (InvalidInputError)."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        msg = f"{name}: wanted a whole number from 1 on, found {shown(value)}"
        raise InvalidInputError(msg)
    if name in {"limit", "top_k"} and value > MAX_LIMIT:
        msg = f"{name}: at most {MAX_LIMIT} at once, found {shown(value)}: page, or export"
        raise InvalidInputError(msg)
    _checked(check_numbers, value, name)
    return value


def read_limit(limit: object, top_k: object) -> int | None:
    """Read how many results are wanted, under either of two names; None for no bound (InvalidInputError)."""
    given = {name: value for name, value in (("limit", limit), ("top_k", top_k)) if value is not None}
    counts = {name: read_count(value, name) for name, value in given.items()}
    if len(set(counts.values())) > 1:
        msg = f"limit and top_k mean the same, and are {limit} and {top_k}: give one of them"
        raise InvalidInputError(msg)
    return next(iter(counts.values()), None)


def read_name(value: object, name: str) -> str:
    """Read the name of a task domain or a tool: an identifier; blanks at its ends don't count (InvalidInputError)."""
    text = read_id(value.strip() if isinstance(value, str) else value, name)
    if len(text) > MAX_NAME_CHARS:
        msg = f"{name}: has {len(text)} characters, at most {MAX_NAME_CHARS} are allowed"
        raise InvalidInputError(msg)
    return text


def read_names(value: object, name: str) -> list[str]:
    """Read one name or a list of them, each once (InvalidInputError)."""
    items = [value] if isinstance(value, str) else read_list(value, name)
    return list(dict.fromkeys(read_name(item, f"{name}[{place}]") for place, item in enumerate(items)))


def read_share(value: object, name: str) -> float:
    """Read a number in [0, 1] (InvalidInputError)."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    msg = f"{name}: wanted a number from 0 to 1, found {shown(value)}"
    raise InvalidInputError(msg)


def check_not_future(messages: Sequence[Message], now: datetime, where: str = "messages") -> None:
    """Refuse messages that were said later than now, a day's difference of clocks apart (InvalidInputError)."""
    for index, message in enumerate(messages):
        if message.created_at > now + _CLOCK_SKEW:
            msg = (
                f"{where}[{index}].created_at: {message.created_at.isoformat()} lies in the future "
                f"(now is {now.isoformat()}): correct it, or leave it out"
            )
            raise InvalidInputError(msg)


def check_time_not_future(moment: datetime, name: str, now: datetime) -> None:
    """Refuse a time later than now, a day's difference of clocks apart (InvalidInputError)."""
    if moment > now + _CLOCK_SKEW:
        msg = f"{name}: {moment.isoformat()} lies in the future (now is {now.isoformat()}): correct it"
        raise InvalidInputError(msg)


def missing_model_message(wanted_for: str) -> str:
    """Say what to set where a chat model is needed and there is none."""
    return (
        f"{wanted_for} needs a chat model: set REME_LLM_MODEL and REME_LLM_API_KEY (or OPENAI_API_KEY), with "
        "REME_LLM_BASE_URL for another endpoint than OpenAI's, or give llm="
    )
