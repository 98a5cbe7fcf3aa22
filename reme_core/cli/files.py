"""Messages from files and from standard input."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from reme_core.errors import InvalidInputError

STANDARD_INPUT = "-"
# How lines begin in a file of `ReMe.export` that an import passes over.
_PASSED_OVER = (b'{"kind": "header"', b'{"kind": "event"')


def read_messages(source: str) -> Sequence[object]:
    """Read messages: a JSON list, an object with a list under `messages`, or JSON Lines with one message a line.

    Raises:
        InvalidInputError: The file can't be read, or is none of these; naming the line.
    """
    text = read_text(source).strip()
    if not text:
        msg = f"{_name(source)} is empty: give a JSON list of messages, or one message a line"
        raise InvalidInputError(msg)
    whole = _try_json(text)
    if isinstance(whole, list):
        return whole
    if isinstance(whole, dict):
        listed = whole.get("messages")
        return listed if isinstance(listed, list) else [whole]
    return _read_lines(text, source)


def read_text(source: str) -> str:
    """Read a file, or standard input for `-`, as UTF-8 (InvalidInputError)."""
    try:
        data = sys.stdin.buffer.read() if source == STANDARD_INPUT else Path(source).expanduser().read_bytes()
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        msg = f"{_name(source)} can't be read ({reason}): check the path"
        raise InvalidInputError(msg) from exc
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        msg = f"{_name(source)} is not UTF-8 text (byte {exc.start}): convert it, as by iconv -t utf-8"
        raise InvalidInputError(msg) from exc


def count_import_lines(path: Path) -> int:
    """Count the lines of an exported file that an import has something to do for (InvalidInputError)."""
    try:
        with path.open("rb") as file:
            return sum(1 for line in file if line.strip() and not line.startswith(_PASSED_OVER))
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        msg = f"{str(path)!r} can't be read ({reason}): check the path"
        raise InvalidInputError(msg) from exc


def read_object(text: str | None, name: str) -> dict[str, JsonValue] | None:
    """Read an option that holds a JSON object (InvalidInputError)."""
    if text is None:
        return None
    value = _try_json(text)
    if not isinstance(value, dict):
        msg = f'{name}: wanted a JSON object such as \'{{"project": "atlas"}}\', found {text!r:.60}'
        raise InvalidInputError(msg)
    return value


def _read_lines(text: str, source: str) -> list[object]:
    messages: list[object] = []
    # Only line feeds end a line: texts may hold U+2028 and its like.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        message = _try_json(line)
        if not isinstance(message, (dict, list)):
            msg = f"{_name(source)}, line {number}: not a message in JSON; nothing was added"
            raise InvalidInputError(msg)
        messages.append(message)
    return messages


def _try_json(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _name(source: str) -> str:
    return "standard input" if source == STANDARD_INPUT else repr(source)
