"""Files of JSON Lines: written whole or not at all, and read so that every bad line is known by its number."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import io
import json
import os
import re
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from pydantic import JsonValue, ValidationError

from reme_core.errors import InvalidInputError, StoreAccessError
from reme_core.rules import replaced_elsewhere
from reme_core.schema import LineProblem, Memory, MemoryType, Scope, ToolCallResult, describe, new_id
from reme_core.steps.user_input import read_name
from reme_core.transfer.legacy_library import is_older, translate

MAX_LINE_BYTES = 1 << 24
"""A memory and its metadata have a few megabytes at most; a tool's line brings its recorded calls as well."""

# A list is read as a whole: its items have no ends of their own to stop at.
_MAX_LIST_BYTES = 1 << 28
_WRITTEN_AT_ONCE = 1 << 16
_SKIPPED_AT_ONCE = 1 << 16
# How the file of a store begins. Source: https://www.sqlite.org/fileformat2.html#the_database_header
_DATABASE = b"SQLite format 3\0"
# Files that SQLite keeps beside it. Source: https://www.sqlite.org/tempfiles.html
_BESIDE_A_DATABASE = ("-wal", "-shm", "-journal")
_BLANKS = re.compile(r"[ \t\r\n]*")
_DATES = frozenset({"created_at", "observed_at", "valid_from"})
_SCOPE_FIELDS = ("memory_space", "user_id")
# What `ReMe` reads as the name of a task domain or a tool; nobody could ask for memories about another target.
_NAMED = frozenset({MemoryType.PROCEDURAL, MemoryType.TOOL})
_NOT_LOADED = {
    MemoryType.HISTORY: "it stands for a block, which a library doesn't bring: export and import the scope instead",
    MemoryType.META: "entries of the routing table are made by the scope itself: leave the line out",
}


async def write_lines(path: Path, lines: AsyncIterator[str]) -> None:
    """Write lines to a file, which is replaced once all of them are on disk.

    What stands at the path already gives its permissions; through a symbolic link, what it leads to is replaced.

    Raises:
        StoreAccessError: The file can't be written, is no regular file, or is a database or belongs to one.
    """
    draft: Path | None = None
    try:
        target, mode = await asyncio.to_thread(_target, path)
        draft = target.with_name(f".{new_id()}.part")
        with os.fdopen(_open_draft(draft, mode), "w", encoding="utf-8", newline="\n") as file:
            waiting, size = list[str](), 0
            async for line in lines:
                waiting += (line, "\n")
                size += len(line)
                if size >= _WRITTEN_AT_ONCE:
                    await asyncio.to_thread(file.writelines, waiting)
                    waiting, size = [], 0
            await asyncio.to_thread(file.writelines, waiting)
            await asyncio.to_thread(_settle, file.flush, file.fileno())
        await asyncio.to_thread(draft.replace, target)
    except OSError as exc:
        msg = f"{str(path)!r} can't be written ({exc.strerror}): give a path in a folder that exists and is writable"
        raise StoreAccessError(msg) from exc
    finally:
        if draft is not None:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)


def _target(path: Path) -> tuple[Path, int | None]:
    """Return the file that a path leads to, and its permissions if it is there already (StoreAccessError)."""
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
    for place in (path, *([target.with_name(main)] if main else ())):
        if place.is_file():
            with place.open("rb") as file:
                if file.read(len(_DATABASE)) == _DATABASE:
                    return True
    return False


def _what(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a pipe" if stat.S_ISFIFO(mode) else "no regular file"


def _open_draft(draft: Path, mode: int | None) -> int:
    """Open a draft with the permissions that it is to have; it never has more of them, not even for a moment."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    if mode is None:
        return os.open(draft, flags, 0o666)
    descriptor = os.open(draft, flags, mode & 0o600)
    try:
        draft.chmod(mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def check_regular(path: Path) -> None:
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


def _settle(flush: Callable[[], None], descriptor: int) -> None:
    flush()
    os.fsync(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryLine:
    """What a line of a library brings.

    Attributes:
        line: Its number, from 1; in a file that is one list, the number of the item.
        memory: The memory, of the scope that it is read for; None for a line that has only calls.
        memory_id: The id that the line names, None where it names none.
        is_dated: The line says since when the memory holds; otherwise that is the time of loading.
        calls: Calls of the tool that the line is about.
    """

    line: int
    memory: Memory | None
    memory_id: str | None
    is_dated: bool = True
    calls: tuple[ToolCallResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A file that was read: its entries and its bad lines, both in their order."""

    entries: tuple[LibraryLine, ...]
    problems: tuple[LineProblem, ...]


def read_library(path: Path, scope: Scope, *, memory_target: str | None, at: datetime) -> Library:
    """Read a library for a scope, line by line; blocks on the file.

    Args:
        path: JSON Lines in our own form or the older one, or one JSON list of such objects.
        scope: Whose memories they become.
        memory_target: The target of procedural memories; None: the one that they bring.
        at: The creation time of memories that bring none.

    Raises:
        StoreAccessError: The file can't be read.
    """
    entries: list[LibraryLine] = []
    problems: list[LineProblem] = []
    seen: dict[str, int] = {}
    for number, read in _read_objects(path):
        entry = read if isinstance(read, LineProblem) else _entry(number, read, scope, memory_target, at)
        if isinstance(entry, LineProblem):
            problems.append(entry)
        elif entry.memory_id is not None and entry.memory_id in seen:
            reason = f"memory_id {entry.memory_id!r} stands in line {seen[entry.memory_id]} already"
            problems.append(LineProblem(line=number, reason=reason))
        else:
            entries.append(entry)
            if entry.memory_id is not None:
                seen[entry.memory_id] = number
    return Library(entries=tuple(entries), problems=tuple(problems))


def _entry(
    number: int, item: dict[str, JsonValue], scope: Scope, memory_target: str | None, at: datetime
) -> LibraryLine | LineProblem:
    try:
        fields, calls = translate(item) if is_older(item) else (_own_fields(item), ())
        fields = None if fields is None else _present(fields)
        memory = None if fields is None else _memory(fields, scope, memory_target, at)
    except ValidationError as exc:
        return LineProblem(line=number, reason=describe(exc, "memory"))
    except InvalidInputError as exc:
        return LineProblem(line=number, reason=exc.message)
    named = item.get("memory_id")
    memory_id = named if isinstance(named, str) and named.strip() else None
    is_dated = fields is not None and not _DATES.isdisjoint(fields)
    return LibraryLine(line=number, memory=memory, memory_id=memory_id, is_dated=is_dated, calls=calls)


def _own_fields(item: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if "kind" in item and item.keys() <= {"kind", "value", "format", "version"}:
        msg = "is a line of an export and not of a library: import the file instead"
        raise InvalidInputError(msg)
    named = next((name for name in _SCOPE_FIELDS if name in item), None)
    if named is not None:
        msg = f"names a scope ({named}): remove the field; memories are loaded into the scope of the call"
        raise InvalidInputError(msg)
    return item


def _present(fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in fields.items() if value is not None or name not in Memory.model_fields}


def _memory(fields: dict[str, JsonValue], scope: Scope, memory_target: str | None, at: datetime) -> Memory:
    if memory_target is not None and fields.get("memory_type") == MemoryType.PROCEDURAL:
        fields = {**fields, "memory_target": memory_target}
    kind = fields.get("memory_type")
    if isinstance(kind, str) and kind in _NOT_LOADED:
        msg = f"memory_type: {kind!r} is not loaded: {_NOT_LOADED[MemoryType(kind)]}"
        raise InvalidInputError(msg)
    if isinstance(kind, str) and kind in _NAMED and "memory_target" in fields:
        fields = {**fields, "memory_target": read_name(fields["memory_target"], "memory_target")}
    defaults = {"created_at": at, "author": "import"}
    return replaced_elsewhere(Memory.model_validate({**defaults, **fields, **scope.model_dump()}))


def _read_objects(path: Path) -> Iterator[tuple[int, dict[str, JsonValue] | LineProblem]]:
    check_regular(path)
    try:
        with path.open("rb") as file:
            head = file.peek(1).removeprefix(codecs.BOM_UTF8).lstrip()
            yield from _read_whole(file) if head.startswith(b"[") else _read_lines(file)
    except OSError as exc:
        msg = f"{str(path)!r} can't be read ({exc.strerror}): check the path"
        raise StoreAccessError(msg) from exc


def _read_lines(file: BinaryIO) -> Iterator[tuple[int, dict[str, JsonValue] | LineProblem]]:
    number = 0
    # Only line feeds end a line: texts may hold U+2028 and its like.
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            while (rest := file.readline(_SKIPPED_AT_ONCE)) and not rest.endswith(b"\n"):
                pass
            yield number, LineProblem(line=number, reason=f"has more than {MAX_LINE_BYTES} bytes")
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


def _read_whole(file: BinaryIO) -> Iterator[tuple[int, dict[str, JsonValue] | LineProblem]]:
    data = file.read(_MAX_LIST_BYTES + 1)
    if len(data) > _MAX_LIST_BYTES:
        reason = f"begins a list of more than {_MAX_LIST_BYTES} bytes: write one memory a line"
        yield 1, LineProblem(line=1, reason=reason)
    elif _is_one_line_of_many(data):
        yield from _read_lines(io.BytesIO(data))
    else:
        yield from _read_list(data)


def _is_one_line_of_many(data: bytes) -> bool:
    """Tell whether a list ends with the first line and others follow: then it is a line that is no object."""
    first, _, rest = data.partition(b"\n")
    return bool(rest.strip()) and isinstance(_read_line(1, b'{"list": ' + first + b"}"), dict)


def _read_list(data: bytes) -> Iterator[tuple[int, dict[str, JsonValue] | LineProblem]]:
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
        too_large = LineProblem(line=number, reason=f"has more than {MAX_LINE_BYTES} bytes")
        yield number, too_large if end - at > MAX_LINE_BYTES else _object(number, value)
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
    return LineProblem(line=number, reason=f"wanted an object, found {type(value).__name__}")


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
