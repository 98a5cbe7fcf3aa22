"""Files of JSON Lines: written whole or not at all, and read so that every bad line is known by its number."""

from __future__ import annotations

import asyncio
import codecs
import io
import json
import os
import re
import sqlite3
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import BinaryIO, TypeAlias

from pydantic import JsonValue

from reme_core.errors import StoreAccessError
from reme_core.private_drafts import private_draft, put_in_place
from reme_core.schema import LineProblem
from reme_core.schema.checks import kind_of

# A list is read as a whole: its items have no ends of their own to stop at.
_MAX_LIST_BYTES = 1 << 28
_WRITTEN_AT_ONCE = 1 << 16
_SKIPPED_AT_ONCE = 1 << 16
# How the file of a store begins. Source: https://www.sqlite.org/fileformat2.html#the_database_header
# Files that SQLite keeps beside it. Source: https://www.sqlite.org/tempfiles.html
_BESIDE_A_DATABASE = ("-wal", "-shm", "-journal")
_BLANKS = re.compile(r"[ \t\r\n]*")


@asynccontextmanager
async def unnoted(_draft: Path) -> AsyncIterator[None]:
    """Note nothing of a draft."""
    yield


NoteDraft: TypeAlias = Callable[[Path], AbstractAsyncContextManager[None]]
"""Entered before a draft is made, and left when it is no more: so that what a killed process leaves can be found."""


async def write_lines(path: Path, lines: AsyncIterator[str], *, noting: NoteDraft = unnoted) -> None:
    """Write lines to a file, which is replaced once all of them are on disk.

    What stands at the path already gives its permissions, a new file is its owner's alone; through a symbolic link,
    what it leads to is replaced. What a killed process leaves is its owner's alone, too, and removed by the next one
    that writes to this folder.

    Raises:
        StoreAccessError: The file can't be written, is no regular file, or is a database or belongs to one.
    """
    try:
        target, mode = await asyncio.to_thread(file_to_write, path)
        with private_draft(target) as draft:
            async with noting(draft):
                await _write_draft(draft, lines)
                if mode is not None:
                    draft.chmod(mode)
                await asyncio.to_thread(put_in_place, draft, target)
    except OSError as exc:
        msg = f"{str(path)!r} can't be written ({exc.strerror}): give a path in a folder that exists and is writable"
        raise StoreAccessError(msg) from exc


async def _write_draft(draft: Path, lines: AsyncIterator[str]) -> None:
    with draft.open("w", encoding="utf-8", newline="\n") as file:
        waiting, size = list[str](), 0
        async for line in lines:
            waiting += (line, "\n")
            size += len(line)
            if size >= _WRITTEN_AT_ONCE:
                await asyncio.to_thread(file.writelines, waiting)
                waiting, size = [], 0
        await asyncio.to_thread(file.writelines, waiting)
        await asyncio.to_thread(_settle, file.flush, file.fileno())


def file_to_write(path: Path) -> tuple[Path, int | None]:
    """Return the file that a path leads to, and its permissions if it is there already.

    Raises:
        StoreAccessError: It is no regular file, or is a database or belongs to one.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        found = None
    target = Path(os.path.realpath(path))
    if found is not None and not stat.S_ISREG(found.st_mode):
        msg = f"{str(path)!r} can't be written (it is {_what(found.st_mode)}): give the path of a file"
        raise StoreAccessError(msg)
    if _is_database(path, target):
        msg = f"{str(path)!r} can't be written (it is an SQLite database, or a part of one): give another path"
        raise StoreAccessError(msg)
    return target, None if found is None else stat.S_IMODE(found.st_mode)


def _is_database(path: Path, target: Path) -> bool:
    main = next((target.name.removesuffix(end) for end in _BESIDE_A_DATABASE if target.name.endswith(end)), None)
    places = (path, *([target.with_name(main)] if main else ()))
    return any(place.is_file() and _is_sqlite(place) for place in places)


def _is_sqlite(path: Path) -> bool:
    """Ask SQLite itself: whoever else opens and closes a database of this process drops the locks that it has on it.

    Source: https://sqlite.org/howtocorrupt.html, section 2.2.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            # 0: nothing, or next to nothing, is there
            (version,) = connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.Error:
        return False
    return int(version) > 0


def _what(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a pipe" if stat.S_ISFIFO(mode) else "no regular file"


def _check_regular(path: Path) -> None:
    """Refuse to read what is no regular file: a pipe may never come to an end, and can't be read twice.

    Raises:
        StoreAccessError: It is none, or there is nothing.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as exc:
        msg = f"{str(path)!r} can't be read ({exc.strerror if isinstance(exc, OSError) else exc}): check the path"
        raise StoreAccessError(msg) from exc
    if not stat.S_ISREG(mode):
        msg = f"{str(path)!r} can't be read (it is {_what(mode)}): give the path of a file"
        raise StoreAccessError(msg)
    if _is_database(path, Path(os.path.realpath(path))):
        msg = f"{str(path)!r} can't be read (it is an SQLite database, or a part of one): give a file of JSON Lines"
        raise StoreAccessError(msg)


def _settle(flush: Callable[[], None], descriptor: int) -> None:
    flush()
    os.fsync(descriptor)


def read_objects(
    path: Path, *, limit_bytes: int | None = None
) -> Iterator[tuple[int, dict[str, JsonValue] | LineProblem]]:
    """Read the objects of JSON Lines, or of one JSON list, each with the number of its line or item, from 1.

    What is no object, or longer than `limit_bytes`, is told as a problem; the rest is read nevertheless.

    Raises:
        StoreAccessError: The file can't be read, or is no regular file.
    """
    _check_regular(path)
    try:
        with path.open("rb") as file:
            head = file.peek(1).removeprefix(codecs.BOM_UTF8).lstrip()
            yield from _read_whole(file, limit_bytes) if head.startswith(b"[") else _read_lines(file, limit_bytes)
    except OSError as exc:
        msg = f"{str(path)!r} can't be read ({exc.strerror}): check the path"
        raise StoreAccessError(msg) from exc


def _read_lines(file: BinaryIO, limit_bytes: int | None) -> Iterator[tuple[int, dict[str, JsonValue] | LineProblem]]:
    number, most = 0, -1 if limit_bytes is None else limit_bytes + 1
    # Only line feeds end a line: texts may hold U+2028 and its like.
    while line := file.readline(most):
        number += 1
        if len(line) == most and not line.endswith(b"\n"):
            while (rest := file.readline(_SKIPPED_AT_ONCE)) and not rest.endswith(b"\n"):
                pass
            yield number, LineProblem(line=number, reason=f"has more than {limit_bytes} bytes")
            continue
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if line.strip():
            yield number, _read_line(number, line.rstrip(b"\r\n"))


def _read_line(number: int, line: bytes) -> dict[str, JsonValue] | LineProblem:
    try:
        return _object(number, _JSON.decode(line.decode("utf-8")))
    except UnicodeDecodeError as exc:
        return LineProblem(line=number, reason=f"not UTF-8 (byte {exc.start + 1})")
    except (ValueError, RecursionError) as exc:
        return LineProblem(line=number, reason=_not_json(exc))


def _read_whole(file: BinaryIO, limit_bytes: int | None) -> Iterator[tuple[int, dict[str, JsonValue] | LineProblem]]:
    data = file.read(_MAX_LIST_BYTES + 1)
    if len(data) > _MAX_LIST_BYTES:
        reason = f"begins a list of more than {_MAX_LIST_BYTES} bytes: write one memory a line"
        yield 1, LineProblem(line=1, reason=reason)
    elif _is_one_line_of_many(data):
        yield from _read_lines(io.BytesIO(data), limit_bytes)
    else:
        yield from _read_list(data, limit_bytes)


def _is_one_line_of_many(data: bytes) -> bool:
    """Tell whether a list ends with the first line and others follow: then it is a line that is no object."""
    first, _, rest = data.partition(b"\n")
    return bool(rest.strip()) and isinstance(_read_line(1, b'{"list": ' + first + b"}"), dict)


def _read_list(data: bytes, limit_bytes: int | None) -> Iterator[tuple[int, dict[str, JsonValue] | LineProblem]]:
    # What is not UTF-8 becomes a lone surrogate, which no field takes: so the item that has it is named.
    text = data.decode("utf-8-sig", "surrogateescape")
    at, number = _skip(text, text.index("[") + 1), 1
    if text[at : at + 1] == "]":
        if _skip(text, at + 1) < len(text):
            yield 1, LineProblem(line=1, reason="not JSON: the list ends before the file; what follows can't be read")
        return
    while True:
        try:
            value, end = _JSON.raw_decode(text, at)
        except (ValueError, RecursionError) as exc:
            yield number, LineProblem(line=number, reason=f"{_not_json(exc)}; what follows it can't be read")
            return
        if limit_bytes is not None and end - at > limit_bytes:
            yield number, LineProblem(line=number, reason=f"has more than {limit_bytes} bytes")
        else:
            yield number, _object(number, value)
        at = _skip(text, end)
        mark = text[at : at + 1]
        at, number = _skip(text, at + 1), number + 1
        if mark == "]" and at == len(text):
            return
        if mark != ",":
            reason = "not JSON: the list ends before the file" if mark == "]" else "not JSON: wanted a comma before it"
            yield number, LineProblem(line=number, reason=f"{reason}; what follows can't be read")
            return


def _skip(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return at if match is None else match.end()


def _object(number: int, value: JsonValue) -> dict[str, JsonValue] | LineProblem:
    if isinstance(value, dict):
        return value
    return LineProblem(line=number, reason=f"wanted an object, found {kind_of(value)}")


def _no_number(name: str) -> float:
    msg = f"{name} is no number of JSON"
    raise ValueError(msg)


_JSON = json.JSONDecoder(parse_constant=_no_number)


def _not_json(exc: ValueError | RecursionError) -> str:
    if isinstance(exc, RecursionError):
        return "nested too deep"
    if isinstance(exc, json.JSONDecodeError):
        return f"not JSON: {exc.msg.removesuffix(' at')} at character {exc.pos + 1}"
    return f"not JSON: {exc}"
