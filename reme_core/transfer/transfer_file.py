"""The format of transfer files: JSON Lines, a head that says what they hold, then a line for each thing.

A file holds a scope (messages, blocks, offloads, tool calls, memories and events) or a library (memories alone). A
line is an object of `kind` and `value`; memories name neither space nor user. Files of version 1 are read, too: there
an export had a head of its own, and a library was memories without head and kind, as are files of earlier tools.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, JsonValue, ValidationError

from reme_core.errors import InvalidInputError, InvalidLinesError
from reme_core.rules import replaced_elsewhere
from reme_core.schema import (
    Block,
    LineProblem,
    Memory,
    MemoryType,
    OffloadRecord,
    Scope,
    StoredMessage,
    ToolCallResult,
    describe,
)
from reme_core.schema.checks import kind_of
from reme_core.steps.user_input import read_name
from reme_core.transfer.json_lines import NoteDraft, read_objects, unnoted, write_lines
from reme_core.transfer.legacy_library import is_older, translate

MAX_LIBRARY_LINE_BYTES = 1 << 24
"""A memory and its metadata have a few megabytes at most; a tool's line brings its recorded calls as well."""

_FORMAT = "reme"
_VERSION = 2
_FIRST_FORMAT = ("reme-export", 1)
_HEAD = "header"
_EVENT = "event"
_FRAME = frozenset({"kind", "value", "format", "version", "holds"})
_MODELS: Mapping[str, type[BaseModel]] = {
    "message": StoredMessage,
    "tool_call": ToolCallResult,
    "block": Block,
    "offload": OffloadRecord,
    "memory": Memory,
}
_DATES = frozenset({"created_at", "observed_at", "valid_from"})
# What `ReMe` reads as the name of a task domain or a tool; nobody could ask for memories about another target.
_NAMED = frozenset({MemoryType.PROCEDURAL, MemoryType.TOOL})
_NOT_LOADED = {
    MemoryType.HISTORY: "it stands for a block, which a library doesn't bring: export and import the scope instead",
    MemoryType.META: "entries of the routing table are made by the scope itself: leave the line out",
    MemoryType.PASSAGE: "it is a piece of a file: put the file into a folder of files instead, and sync it",
    MemoryType.RECORD: "its class has to check it: put it by put_record, or export and import the scope instead",
    MemoryType.BLOCK: "a memory block is of one user: set it there, or export and import the scope",
}
_NAMED_LINES = 5


class Contents(StrEnum):
    """Contents of a file: all that a scope holds, or memories alone."""

    SCOPE = "scope"
    LIBRARY = "library"


async def write_file(
    path: Path, contents: Contents, items: AsyncIterator[tuple[str, BaseModel]], *, noting: NoteDraft = unnoted
) -> Counter[str]:
    """Write things and their kinds to a file, which is replaced once all of them are on disk.

    Returns:
        How many of each kind were written.

    Raises:
        StoreAccessError: The file can't be written, is no regular file, or is a database.
    """
    counts = Counter[str]()
    await write_lines(path, file_lines(contents, items, counts), noting=noting)
    return counts


async def file_lines(
    contents: Contents, items: AsyncIterator[tuple[str, BaseModel]], counts: Counter[str]
) -> AsyncIterator[str]:
    """Yield the lines of a file of such things, and count them by their kinds."""
    yield json.dumps({"kind": _HEAD, "format": _FORMAT, "version": _VERSION, "holds": contents})
    async for kind, item in items:
        counts[kind] += 1
        unsaid = set(Scope.model_fields) if isinstance(item, Memory) else None
        yield json.dumps({"kind": kind, "value": item.model_dump(mode="json", exclude=unsaid)}, ensure_ascii=False)


def refusal(path: Path, problems: Sequence[LineProblem], outcome: str) -> InvalidLinesError:
    """Make the error about a file's bad lines, of which it names the first in words."""
    named = "; ".join(f"line {problem.line}: {problem.reason}" for problem in problems[:_NAMED_LINES])
    more = len(problems) - _NAMED_LINES
    rest = f"; and {more} more" if more > 0 else ""
    msg = f"{str(path)!r} has {len(problems)} line(s) that can't be used: {named}{rest}: {outcome}"
    return InvalidLinesError(msg, lines=[(problem.line, problem.reason) for problem in problems])


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a file: its number, the kind of what it brings (None where it names none), and the fields of that."""

    number: int
    kind: str | None
    value: dict[str, JsonValue]


def _read_file(path: Path, contents: Contents, *, limit_bytes: int | None) -> Iterator[_Line | LineProblem]:
    """Read the lines of a file of either kind; its head, if it has one, must say what is wanted.

    Raises:
        InvalidLinesError: The head is of another format, of a later version, or of the other kind of files.
        StoreAccessError: The file can't be read.
    """
    for number, item in read_objects(path, limit_bytes=limit_bytes):
        if isinstance(item, LineProblem):
            yield item
        elif "kind" not in item or not item.keys() <= _FRAME:
            yield _Line(number, None, item)
        elif item["kind"] == _HEAD:
            if reason := _head_problem(item, contents):
                raise refusal(path, [LineProblem(line=number, reason=reason)], "nothing was read")
        else:
            yield _framed(number, item)


def _head_problem(head: Mapping[str, JsonValue], wanted: Contents) -> str | None:
    name, version = head.get("format"), head.get("version")
    if (name, version) == _FIRST_FORMAT:
        holds: JsonValue = Contents.SCOPE
    elif (name, version) == (_FORMAT, _VERSION):
        holds = head.get("holds")
    else:
        return f"{name!r:.40} version {version!r:.20} is not known"
    if holds == wanted:
        return None
    other = {
        str(Contents.SCOPE): "an export: import",
        str(Contents.LIBRARY): "a library: load",
        "rows": "rows of stores: `reme copy --from`",  # see stores/copying/rows_file.py
    }
    if isinstance(holds, str) and holds in other:
        return f"begins {other[holds]} the file instead"
    return f"a file that holds {holds!r:.40} is not known"


def _framed(number: int, item: Mapping[str, JsonValue]) -> _Line | LineProblem:
    kind, value = item["kind"], item.get("value")
    if not isinstance(kind, str) or (kind not in _MODELS and kind != _EVENT):
        return LineProblem(line=number, reason=f"kind {kind!r:.40} is not known")
    if not isinstance(value, dict):
        return LineProblem(line=number, reason=f"value: wanted an object, found {kind_of(value)}")
    return _Line(number, kind, value)


@dataclass(frozen=True, slots=True)
class ScopeLine:
    """A line of an exported scope: its number, and what it brings."""

    line: int
    item: BaseModel


def read_scope(path: Path, scope: Scope) -> Iterator[ScopeLine | LineProblem]:
    """Read the lines of an exported scope, whose memories become those of another, as they are asked for.

    Events are passed over. Blocks on the file.

    Raises:
        InvalidLinesError: The head is of another format, of a later version, or of the other kind of files.
        StoreAccessError: The file can't be read.
    """
    for read in _read_file(path, Contents.SCOPE, limit_bytes=None):
        if isinstance(read, LineProblem):
            yield read
        elif read.kind is None:
            yield LineProblem(line=read.number, reason="has no 'kind': give a file that `reme export` wrote")
        elif read.kind != _EVENT:
            try:
                yield ScopeLine(read.number, _scope_item(read.kind, read.value, scope))
            except ValidationError as exc:
                yield LineProblem(line=read.number, reason=describe(exc, read.kind))


def _scope_item(kind: str, value: Mapping[str, JsonValue], scope: Scope) -> BaseModel:
    if kind == "memory":
        return replaced_elsewhere(Memory.model_validate({**value, **scope.model_dump()}))
    return _MODELS[kind].model_validate(value)


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
        path: A library in our own form or the older one, as JSON Lines or as one JSON list of such objects.
        scope: Whose memories they become.
        memory_target: The target of procedural memories; None: the one that they bring.
        at: The creation time of memories that bring none.

    Raises:
        InvalidLinesError: The file says that it is something else.
        StoreAccessError: The file can't be read.
    """
    entries: list[LibraryLine] = []
    problems: list[LineProblem] = []
    seen: dict[str, int] = {}
    for read in _read_file(path, Contents.LIBRARY, limit_bytes=MAX_LIBRARY_LINE_BYTES):
        entry = read if isinstance(read, LineProblem) else _library_line(read, scope, memory_target, at)
        if isinstance(entry, LineProblem):
            problems.append(entry)
        elif entry.memory_id is not None and entry.memory_id in seen:
            reason = f"memory_id {entry.memory_id!r} stands in line {seen[entry.memory_id]} already"
            problems.append(LineProblem(line=entry.line, reason=reason))
        else:
            entries.append(entry)
            if entry.memory_id is not None:
                seen[entry.memory_id] = entry.line
    return Library(entries=tuple(entries), problems=tuple(problems))


def _library_line(read: _Line, scope: Scope, memory_target: str | None, at: datetime) -> LibraryLine | LineProblem:
    number, item = read.number, read.value
    if read.kind not in {None, "memory"}:
        reason = f"kind {read.kind!r} is of an export and not of a library: import the file instead"
        return LineProblem(line=number, reason=reason)
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
    named = next((name for name in Scope.model_fields if name in item), None)
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
