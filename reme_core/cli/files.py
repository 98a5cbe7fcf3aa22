"""Messages, trajectories and lines from files and from standard input."""

from __future__ import annotations

import codecs
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import JsonValue

from reme_core.errors import InvalidInputError

STANDARD_INPUT = "-"
STANDARD_OUTPUT = "-"
MAX_PIPED_BYTES = 1 << 30
"""What a command that reads a file several times takes from standard input, as it is kept on disk meanwhile."""

_AT_ONCE = 1 << 20
# How lines begin in a file of `ReMe.export` or `ReMe.dump` that reading passes over.
_PASSED_OVER = (b'{"kind": "header"', b'{"kind": "event"')


def read_messages(source: str) -> Sequence[object]:
    """Read messages: a JSON list, an object with a list under `messages`, or JSON Lines with one message a line.

    Raises:
        InvalidInputError: The file can't be read, or is none of these; naming the line.
    """
    text = read_text(source).strip()
    if not text:
        msg = f"{name_of(source)} is empty: give a JSON list of messages, or one message a line"
        raise InvalidInputError(msg)
    whole = _try_json(text)
    if isinstance(whole, list):
        return whole
    if isinstance(whole, dict):
        listed = whole.get("messages")
        return listed if isinstance(listed, list) else [whole]
    return [item.value for item in _read_lines(text, source, "a message", "added")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileItem:
    """A value from a file, and the place where it stands: a line, or an item of a list."""

    place: str
    value: JsonValue


def read_trajectories(source: str) -> Sequence[FileItem]:
    """Read attempts at tasks: JSON Lines with one attempt a line, or a JSON list of them.

    Raises:
        InvalidInputError: The file can't be read, or is none of these; naming the line.
    """
    text = read_text(source)
    if not text.strip():
        msg = f"{name_of(source)} is empty: give one attempt a line, in JSON"
        raise InvalidInputError(msg)
    whole = _try_json(text)
    if isinstance(whole, list):
        return [
            FileItem(place=f"{name_of(source)}, item {number}", value=value)
            for number, value in enumerate(whole, start=1)
        ]
    if isinstance(whole, dict):
        return [FileItem(place=name_of(source), value=whole)]
    return _read_lines(text, source, "an attempt", "kept")


def read_text(source: str) -> str:
    """Read a regular file, or standard input for `-`, as UTF-8 (InvalidInputError)."""
    if source != STANDARD_INPUT:
        _check_regular(Path(source).expanduser())
    try:
        data = sys.stdin.buffer.read() if source == STANDARD_INPUT else Path(source).expanduser().read_bytes()
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        msg = f"{name_of(source)} can't be read ({reason}): check the path"
        raise InvalidInputError(msg) from exc
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        msg = f"{name_of(source)} is not UTF-8 text (byte {exc.start}): convert it, as by iconv -t utf-8"
        raise InvalidInputError(msg) from exc


@contextmanager
def file_to_read(source: str) -> Iterator[Path]:
    """Hand out the path of a file; for `-`, of one that holds what came from standard input.

    Raises:
        InvalidInputError: It can't be read, is no regular file (a pipe can be read once), or too much came.
    """
    if source != STANDARD_INPUT:
        path = Path(source).expanduser()
        _check_regular(path)
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="reme-") as folder:
        path, size = Path(folder) / "standard input", 0
        with path.open("wb") as file:
            while data := sys.stdin.buffer.read(_AT_ONCE):
                size += len(data)
                if size > MAX_PIPED_BYTES:
                    msg = f"standard input has more than {MAX_PIPED_BYTES} bytes: write it to a file and give its path"
                    raise InvalidInputError(msg)
                file.write(data)
        yield path


@contextmanager
def file_to_write(target: str, *, as_json: bool) -> Iterator[str]:
    """Hand out the path of a file to write; for `-`, of one that goes to standard output when it is whole.

    Raises:
        InvalidInputError: What is told as JSON wants standard output for itself.
    """
    if target != STANDARD_OUTPUT:
        yield target
        return
    if as_json:
        msg = "- and --json both write to standard output: leave out one of them"
        raise InvalidInputError(msg)
    with tempfile.TemporaryDirectory(prefix="reme-") as folder:
        path = Path(folder) / "standard output"
        yield str(path)
        sys.stdout.flush()
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _check_regular(path: Path) -> None:
    try:
        is_regular, is_there = path.is_file(), path.exists()
    except (OSError, ValueError) as exc:
        raise _unreadable(path, exc) from exc
    if is_there and not is_regular:
        what = "a folder" if path.is_dir() else "a pipe or a device"
        msg = f"{str(path)!r} can't be read (it is {what}): give the path of a file, or - for standard input"
        raise InvalidInputError(msg)


def count_lines(path: Path) -> int | None:
    """Count the lines of a file that there is something to do for; None for one JSON list (InvalidInputError)."""
    try:
        with path.open("rb") as file:
            if file.peek(1).removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):
                return None
            return sum(1 for line in _beginnings(file) if line.strip() and not line.startswith(_PASSED_OVER))
    except (OSError, ValueError) as exc:
        raise _unreadable(path, exc) from exc


def _beginnings(file: BinaryIO) -> Iterator[bytes]:
    """Return the lines of a file, cut where they are longer than any that is read."""
    while line := file.readline(_AT_ONCE):
        yield line
        while line and not line.endswith(b"\n"):
            line = file.readline(_AT_ONCE)


def _unreadable(path: Path, exc: OSError | ValueError) -> InvalidInputError:
    reason = exc.strerror if isinstance(exc, OSError) else exc
    return InvalidInputError(f"{str(path)!r} can't be read ({reason}): check the path")


def read_object(text: str | None, name: str) -> dict[str, JsonValue] | None:
    """Read an option that holds a JSON object (InvalidInputError)."""
    if text is None:
        return None
    value = _try_json(text)
    if not isinstance(value, dict):
        msg = f'{name}: wanted a JSON object such as \'{{"project": "atlas"}}\', found {text!r:.60}'
        raise InvalidInputError(msg)
    return value


def _read_lines(text: str, source: str, what: str, done: str) -> list[FileItem]:
    items: list[FileItem] = []
    # Only line feeds end a line: texts may hold U+2028 and its like.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        place, value = f"{name_of(source)}, line {number}", _try_json(line)
        if not isinstance(value, (dict, list)):
            msg = f"{place}: not {what} in JSON; nothing was {done}"
            raise InvalidInputError(msg)
        items.append(FileItem(place=place, value=value))
    return items


def _try_json(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def name_of(source: str) -> str:
    """Return what to call a file, or standard input, in a sentence."""
    return "standard input" if source == STANDARD_INPUT else repr(source)
