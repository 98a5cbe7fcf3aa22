"""Checks of texts and JSON values that come from outside. They raise ValueError, which pydantic gives a place."""

from __future__ import annotations

import json
import math
import os
import re
from typing import Annotated, TypeVar

from pydantic import AfterValidator, JsonValue, Strict

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
    if value.isascii():
        if "\0" in value:
            raise ValueError(_nul(value))
        return value
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        msg = (
            f"a lone surrogate at character {exc.start} (half of a broken emoji): "
            "replace it, as by text.encode('utf-8', 'replace').decode()"
        )
        raise ValueError(msg) from exc
    if "\0" in value:
        raise ValueError(_nul(value))
    return value


def _nul(value: str) -> str:
    return f"a NUL character at character {value.index(chr(0))}: remove it, as by text.replace('\\0', '')"


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


Text = Annotated[str, Strict(), AfterValidator(check_text)]
Id = Annotated[str, Strict(), AfterValidator(check_id)]


def copy_json(value: JsonValue) -> JsonValue:
    """Return a copy that shares no list and no object with the value."""
    if isinstance(value, dict):
        return {key: copy_json(part) for key, part in value.items()}
    if isinstance(value, list):
        return [copy_json(part) for part in value]
    return value


Json = Annotated[JsonValue, AfterValidator(check_json)]
JsonObject = Annotated[dict[str, JsonValue], AfterValidator(check_json)]
Metadata = Annotated[dict[str, JsonValue], AfterValidator(check_metadata)]
