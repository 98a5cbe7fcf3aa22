"""Checks of what comes from outside, raising ValueError, which pydantic gives a place; faults told in a line.

Objects of our types: a subclass may have fields of its own, and neither `model_copy(update=...)` nor a change inside a
dictionary is checked by pydantic. What was written so could not be read again, so such objects are checked like
dictionaries.
"""

from __future__ import annotations

import json
import math
import os
import re
import reprlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from pydantic import AfterValidator, BaseModel, JsonValue, Strict, ValidationError

from reme_core.errors import InvalidInputError
from reme_core.schema.foreign import text_hint

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

T = TypeVar("T")


MAX_ID_CHARS = 512
MAX_METADATA_BYTES = 1 << 20
MAX_METADATA_DEPTH = 32

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_text(value: str) -> str:
    """Refuse what no file, database or endpoint keeps as it is: lone surrogates and NUL.

    Raises:
        ValueError: Naming the place of the first one, and how to replace it.
    """
    if "\0" in value:
        place = value.index("\0")
        msg = f"a NUL character at character {place}: remove it, as by text.replace('\\0', '')"
        raise ValueError(msg)
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        msg = (
            f"a lone surrogate at character {exc.start} (half of a broken emoji): "
            "replace it, as by text.encode('utf-8', 'replace').decode()"
        )
        raise ValueError(msg) from exc
    return value


def check_id(value: str) -> str:
    """Accept an identifier: 1 to 512 characters, printable, no blanks at its ends.

    Raises:
        ValueError: Naming what is wrong.
    """
    if not value:
        msg = "is empty: give an identifier, or leave it out where it is optional"
        raise ValueError(msg)
    if len(value) > MAX_ID_CHARS:
        msg = f"has {len(value)} characters, at most {MAX_ID_CHARS} are allowed"
        raise ValueError(msg)
    check_text(value)
    if value != value.strip() or _CONTROL.search(value):
        msg = f"has control characters, or blanks at its ends: {value[:60]!r}"
        raise ValueError(msg)
    return value


def is_path(value: str) -> bool:
    """Tell whether the operating system can have such a path: no NUL, nothing that its encoding lacks."""
    try:
        return b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def check_scope_part(value: str) -> str:
    """Accept the name of a memory space or user: an identifier that can't be mistaken for a path.

    Raises:
        ValueError: Naming what is wrong.
    """
    check_id(value)
    parts = value.replace("\\", "/").split("/")
    if parts[0] == "" or any(part in {".", "..", "~"} for part in parts):
        msg = f"looks like a path: {value[:60]!r}; use a plain name, without leading '/' and without '.' or '..' parts"
        raise ValueError(msg)
    return value


def check_metadata(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Accept a JSON object of bounded depth and size, without NaN, NUL or lone surrogates.

    Raises:
        ValueError: Naming the key.
    """
    if not value:  # as with most messages, of which many are read
        return value
    check_json(value)
    size = len(json.dumps(value, ensure_ascii=False))
    if size > MAX_METADATA_BYTES:
        msg = f"metadata has {size} characters as JSON, at most {MAX_METADATA_BYTES} are allowed: keep a reference"
        raise ValueError(msg)
    return value


def check_json(value: T) -> T:
    """Accept a JSON value of bounded depth, without NaN, NUL or lone surrogates.

    Raises:
        ValueError: Naming the key.
    """
    _check_json(value, "", depth=0)
    return value


def _check_json(item: object, path: str, *, depth: int) -> None:
    if depth > MAX_METADATA_DEPTH:
        msg = f"{path[:80]!r} is nested deeper than {MAX_METADATA_DEPTH} levels"
        raise ValueError(msg)
    if isinstance(item, str):
        check_text(item)
    elif isinstance(item, float):
        if not math.isfinite(item):
            msg = f"{path[:80]!r} is {item}, which JSON can't hold: use None or a string"
            raise ValueError(msg)
    elif isinstance(item, list):
        for index, child in enumerate(item):
            _check_json(child, f"{path}[{index}]", depth=depth + 1)
    elif isinstance(item, dict):
        for key, child in item.items():
            check_text(key)
            _check_json(child, f"{path}.{key}" if path else key, depth=depth + 1)


def is_whole_64(value: int) -> bool:
    """Tell whether a whole number has room in 64 bits with a sign, as the file and its indexes keep them."""
    return value.bit_length() < 64


def check_numbers(value: JsonValue) -> None:
    """Refuse whole numbers that no filter could look for; of a value whose depth is checked.

    Raises:
        ValueError: One needs more than 64 bits.
    """
    if isinstance(value, dict):
        for part in value.values():
            check_numbers(part)
    elif isinstance(value, list):
        for part in value:
            check_numbers(part)
    elif isinstance(value, int) and not is_whole_64(value):
        msg = f"has a whole number of {value.bit_length()} bits, at most 64 are allowed: use a string"
        raise ValueError(msg)


Text = Annotated[str, Strict(), AfterValidator(check_text)]
Id = Annotated[str, Strict(), AfterValidator(check_id)]


def copy_json(value: JsonValue) -> JsonValue:
    """Return a copy that shares no list and no object with the value."""
    if isinstance(value, dict):
        return {key: copy_json(part) for key, part in value.items()}
    if isinstance(value, list):
        return [copy_json(part) for part in value]
    return value


def merge_json(value: dict[str, JsonValue], patch: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return an object with what a patch sets: objects are merged, null removes a key, all else is replaced whole.

    Source: RFC 7396, JSON Merge Patch.
    """
    merged = dict(value)
    for key, part in patch.items():
        held = merged.pop(key, None)
        if isinstance(part, dict):
            merged[key] = merge_json(held if isinstance(held, dict) else {}, part)
        elif part is not None:
            merged[key] = part
    return merged


Json = Annotated[JsonValue, AfterValidator(check_json)]
JsonObject = Annotated[dict[str, JsonValue], AfterValidator(check_json)]
Metadata = Annotated[dict[str, JsonValue], AfterValidator(check_metadata)]


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


def kind_of(value: object) -> str:
    """Return the name of a value's type for an error's text; None is itself."""
    return "None" if value is None else type(value).__name__


# pydantic's names of faults, in words that name no type of Python's; the rest keeps the words of its validator.
_REASONS: Final = {
    "missing": "is missing",
    **dict.fromkeys(("union_tag_not_found", "model_attributes_type"), "wanted an object with a type"),
    "path_type": "wanted a path",
    "json_invalid": "is no JSON that can be read",
    "literal_error": "wanted {expected}",
    "enum": "wanted {expected}",
    "too_short": "wanted at least {min_length} item(s), found {actual_length}",
    "too_long": "wanted at most {max_length} item(s), found {actual_length}",
    "string_too_short": "wanted at least {min_length} character(s)",
    "string_too_long": "wanted at most {max_length} character(s)",
    "greater_than": "wanted more than {gt}",
    "greater_than_equal": "wanted at least {ge}",
    "less_than": "wanted less than {lt}",
    "less_than_equal": "wanted at most {le}",
    **dict.fromkeys(("string_type", "string_sub_type"), "wanted a text"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "wanted a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "wanted a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "wanted true or false"),
    **dict.fromkeys(("list_type", "tuple_type", "iterable_type", "frozen_set_type"), "wanted a list"),
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "dataclass_type"), "wanted an object with named fields"
    ),
}


def describe(
    error: ValidationError, what: str, *, with_values: bool = True, form: type[BaseModel] | None = None
) -> str:
    """Say which fields of `what` are wrong and why; at most five of them.

    `with_values` adds what was found, cut short; leave it out where it may be a secret. `form`: the model that it was
    to be, so that a name like one of its fields is told.
    """
    problems = error.errors(include_url=False)
    places = [item["loc"] for item in problems]
    lines = []
    for item in problems[:_MOST]:
        if item["type"] == "too_short" and any(place[: len(item["loc"])] == item["loc"] != place for place in places):
            continue  # the list is short because one of its items, told of in its own line, is wrong
        # Parts with a bracket are pydantic's names of the members of a union.
        parts = (part for part in item["loc"] if isinstance(part, int) or "[" not in part)
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)[:_PLACE]
        told = with_values and item["type"] not in {"value_error", "missing", "too_short", "too_long"}
        found = f" (found {shown(item['input'])})" if told else ""
        hint = text_hint(item["input"]) if item["type"] == "string_type" else ""
        lines.append(f"{what}{place}: {reason_of(item, form)}{found}{hint}")
    more = error.error_count() - _MOST
    return "; ".join(lines) + (f"; and {more} more" if more > 0 else "")


def reason_of(item: ErrorDetails, form: type[BaseModel] | None = None) -> str:
    """Return what is wrong with one field, without its place; `form` as for `describe`."""
    if item["type"] == "extra_forbidden":
        name, names = (
            str(item["loc"][-1]),
            list(form.model_fields) if form is not None and len(item["loc"]) == 1 else [],
        )
        home = (
            "remove it, or put it into metadata" if not names or "metadata" in names else f"there are {_listed(names)}"
        )
        return f"is not a known field: {near_name(name, names) or home}"
    if item["type"] in _REASONS:
        return _REASONS[item["type"]].format(**item.get("ctx", {}))
    return item["msg"].removeprefix("Value error, ")


def near_name(name: object, names: Iterable[str]) -> str:
    """Return a question for the name that was probably meant (`did you mean 'model'?`), "" where none is near."""
    near = get_close_matches(str(name)[:MAX_ID_CHARS], list(names), n=1)
    return f"did you mean {near[0]!r}?" if near else ""


def not_among(what: str, name: object, names: Sequence[str], *, with_value: bool = True) -> str:
    """Return an error's text for a name that is none of those there are; `with_value` as in `describe`."""
    found = f", found {shown(name)}" if with_value else ""
    hint = near_name(name, names)
    return f"{what}: wanted {_listed(names)}{found}" + (f": {hint}" if hint else "")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


ModelT = TypeVar("ModelT", bound=BaseModel)


def fields_of(item: BaseModel, where: str, *, without: Collection[str] = ()) -> dict[str, object]:
    """Return the fields of an object as plain values, those of a subclass too.

    Raises:
        InvalidInputError: They can't be written as plain values: a dictionary that holds itself, say.
    """
    wanted = set(type(item).model_fields).difference(without)
    try:
        return item.model_dump(include=wanted, warnings=False)
    except (ValueError, RecursionError) as exc:
        msg = f"{where}: has a value that can't be read: {str(exc)[:200]}"
        raise InvalidInputError(msg) from exc


def checked_again(item: ModelT, model: type[ModelT], where: str) -> ModelT:
    """Return an object as a checked one of exactly this type; fields that were left out stay so (`model_fields_set`).

    Raises:
        InvalidInputError: Naming the place (`results[3].time_cost`) and the reason.
    """
    try:
        checked = model.model_validate(fields_of(item, where))
    except ValidationError as exc:
        raise InvalidInputError(describe(exc, where)) from exc
    checked.model_fields_set.intersection_update(item.model_fields_set)
    return checked


QUERY_CHARS = 4_000
"""Characters of a query that are read: some 650 words, of which about 256 differ, as many as a ranking looks up.

What is longer is a pasted text, whose beginning says what it is. It costs as much as this many characters wherever
queries are cut into words, embedded, or read for dates and names; without a bound 5 MB took seconds.
"""

_WORD_CHARS = 64


def bounded_query(text: str) -> str:
    """Return a query, or its beginning of at most `QUERY_CHARS` characters, which ends at a blank where one is near."""
    if len(text) <= QUERY_CHARS:
        return text
    begun = text.lstrip()[: QUERY_CHARS + 1]
    if len(begun) <= QUERY_CHARS:
        return begun
    for end in range(QUERY_CHARS, QUERY_CHARS - _WORD_CHARS, -1):
        if begun[end].isspace():
            return begun[:end]
    return begun[:QUERY_CHARS]
