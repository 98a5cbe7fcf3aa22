"""The six commands of the public memory tool (`memory_20250818`), with the texts that its models know.

Source of the texts: anthropic 2.12, `BetaLocalFilesystemMemoryTool`. What that leaves to Python's exceptions, and
bounds that it has not, are told in words of our own.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from reme_core.errors import ToolFeedback
from reme_core.schema.checks import Text
from reme_core.tools.base import ToolItem
from reme_core.tools.files.base import fitting
from reme_core.tools.files.paths import FileRefusedError, Reason
from reme_core.tools.files.root import FileRoot
from reme_core.tools.files.walk import walk
from reme_core.tools.text_edits import insert_lines, replace_once

MAX_MEMORY_BYTES = 100_000
"""Of one file. Source: the limit of Anthropic's memory stores."""

_ROOT = "/memories"
_MAX_LINES = 999_999
_DEPTH = 2
_LISTED = 1000
_AROUND = 2
_UNITS = "BKMG"

Command: TypeAlias = Literal["view", "create", "str_replace", "insert", "delete", "rename"]

_NEEDED: Mapping[Command, tuple[str, ...]] = {
    "view": ("path",),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}


class MemoryItem(ToolItem):
    """A command. What it doesn't need is passed over: many models fill in every field."""

    command: Command = Field(description=" ".join(f"{name}: {', '.join(_NEEDED[name])}." for name in _NEEDED))
    path: Text | None = Field(default=None, description="A file or a folder, such as /memories/notes.md.")
    view_range: list[int] | None = Field(default=None, description="First and last line to view; -1 is the end.")
    file_text: Text | None = Field(default=None, description="The text of the new file.")
    old_str: Text | None = Field(default=None, description="The text to replace; it must stand once in the file.")
    new_str: Text | None = Field(default=None, description="What stands in its place.")
    insert_line: Annotated[int, Field(strict=True)] | None = Field(
        default=None, description="The line after which to insert; 0 is the beginning."
    )
    insert_text: Text | None = Field(default=None, description="What to insert.")
    old_path: Text | None = Field(default=None, description="What to rename.")
    new_path: Text | None = Field(default=None, description="Its new path.")


def run_command(files: FileRoot, item: MemoryItem, *, limit_chars: int) -> str:
    """Do a command on the folder that stands for `/memories`; a view shows about so many characters.

    Raises:
        ToolFeedback: It can't be done; nothing was changed.
    """
    missing = [name for name in _NEEDED[item.command] if getattr(item, name) is None]
    if missing:
        msg = f"the command {item.command} needs {', '.join(_NEEDED[item.command])}: {', '.join(missing)} is missing"
        raise ToolFeedback(msg)
    path = item.path or ""
    match item.command:
        case "view":
            return _view(files, path, item.view_range or [], limit_chars)
        case "create":
            return _create(files, path, item.file_text or "")
        case "str_replace":
            return _str_replace(files, path, item.old_str or "", item.new_str or "")[:limit_chars]
        case "insert":
            return _insert(files, path, item.insert_line or 0, item.insert_text or "")
        case "delete":
            return _delete(files, path)
        case "rename":
            return _rename(files, item.old_path or "", item.new_path or "")


def _inner(path: str) -> str:
    """Return a path below `/memories` as one below the root."""
    if path != _ROOT and not path.startswith(f"{_ROOT}/"):
        msg = f"Path must start with {_ROOT}, got: {path}"
        raise ToolFeedback(msg)
    return path.removeprefix(_ROOT).strip("/") or "."


@contextmanager
def _known_words(*paths: str, **words: str) -> Iterator[None]:
    """Tell what is refused in the words of the commands: those given by the reason's name, else our own."""
    try:
        yield
    except FileRefusedError as exc:
        path = next((path for path in paths if _inner(path) == exc.path), paths[-1])
        if exc.reason in {Reason.OUTSIDE, Reason.LINK}:
            msg = f"Path {path} would escape {_ROOT} directory"
        else:
            msg = words.get(exc.reason.name.lower(), f"The path {path} {exc.problem}")
        raise ToolFeedback(msg) from exc


def _not_there(path: str) -> str:
    return f"The path {path} does not exist. Please provide a valid path."


def _view(files: FileRoot, path: str, view_range: list[int], limit_chars: int) -> str:
    inner = _inner(path)
    with _known_words(path, missing=_not_there(path), not_a_folder=_not_there(path)):
        found = files.find(inner)
        if found is None:
            raise ToolFeedback(_not_there(path))
        if stat.S_ISDIR(found.st_mode):
            return _listing(files, path, found.st_size)
        if not stat.S_ISREG(found.st_mode):
            msg = f"Unsupported file type for {path}"
            raise ToolFeedback(msg)
        lines = files.read_text(inner).split("\n")
    if len(lines) > _MAX_LINES:
        msg = f"File {path} exceeds maximum line limit of {_MAX_LINES:,} lines."
        raise ToolFeedback(msg)
    first, shown = 1, lines
    if len(view_range) == 2:
        first = max(1, view_range[0])
        shown = lines[first - 1 : len(lines) if view_range[1] == -1 else view_range[1]]
    return f"Here's the content of {path} with line numbers:\n{_bounded(shown, first, limit_chars)}"


def _listing(files: FileRoot, path: str, size: int) -> str:
    found = walk(files, _inner(path), depth=_DEPTH)
    lines = [f"{size_text(size)}\t{path}"]
    lines += [
        f"{size_text(entry.size)}\t{_ROOT}/{entry.path}{'/' if entry.is_folder else ''}"
        for entry in found.entries[:_LISTED]
    ]
    if len(found.entries) > _LISTED or not found.is_whole:
        lines.append("(there is more: view the folders one by one)")
    heading = f"Here're the files and directories up to {_DEPTH} levels deep in {path}, excluding hidden items:"
    return "\n".join([heading, *lines])


def _bounded(lines: list[str], first: int, limit_chars: int) -> str:
    numbered = _numbered(lines, first)
    count = fitting(numbered, limit_chars)
    shown = "\n".join(numbered[:count])
    if count < len(numbered):
        rest = f"[{first + count}, {first + len(lines) - 1}]"
        return f"{shown[:limit_chars]}\n(not all is shown: view the rest with view_range {rest})"
    return shown if len(shown) <= limit_chars else f"{shown[:limit_chars]}… (the rest of this line is not shown)"


def _numbered(lines: list[str], first: int) -> list[str]:
    width = len(str(_MAX_LINES))
    return [f"{number:>{width}}\t{line}" for number, line in enumerate(lines, start=first)]


def size_text(size: int) -> str:
    """Write bytes as the commands do: `0B`, `340B`, `1.5K`, `2M`."""
    power = min(max(size.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    value = size / 1024**power
    return f"{value:.0f}{_UNITS[power]}" if value.is_integer() else f"{value:.1f}{_UNITS[power]}"


def _create(files: FileRoot, path: str, text: str) -> str:
    inner, exists = _inner(path), f"File {path} already exists"
    with _known_words(path, exists=exists, not_a_file=exists):
        files.write_text(inner, lambda _: text, only_new=True)
    return f"File created successfully at: {path}"


@contextmanager
def _editing(path: str) -> Iterator[None]:
    words = _not_there(path)
    with _known_words(path, missing=words, not_a_folder=words, not_a_file=f"The path {path} is not a file."):
        yield


def _str_replace(files: FileRoot, path: str, old_str: str, new_str: str) -> str:
    place = 0

    def change(old: str | None) -> str:
        nonlocal place
        if old is None:
            raise ToolFeedback(_not_there(path))
        new = replace_once(old, old_str, new_str, path)
        place = old.count("\n", 0, old.index(old_str))
        return new

    with _editing(path):
        lines = files.write_text(_inner(path), change).split("\n")
    first = max(0, place - _AROUND)
    shown = "\n".join(_numbered(lines[first : place + _AROUND + 1], first + 1))
    heading = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
    return f"{heading}\n{shown}"


def _insert(files: FileRoot, path: str, insert_line: int, text: str) -> str:
    def change(old: str | None) -> str:
        if old is None:
            raise ToolFeedback(_not_there(path))
        new = insert_lines(old, insert_line, text)
        return new if new.endswith("\n") else f"{new}\n"

    with _editing(path):
        files.write_text(_inner(path), change)
    return f"The file {path} has been edited."


def _delete(files: FileRoot, path: str) -> str:
    inner, missing = _inner(path), f"The path {path} does not exist"
    if inner == ".":
        msg = f"Cannot delete the {_ROOT} directory itself"
        raise ToolFeedback(msg)
    with _known_words(path, missing=missing, not_a_folder=missing):
        files.delete(inner)
    return f"Successfully deleted {path}"


def _rename(files: FileRoot, old_path: str, new_path: str) -> str:
    old, new, missing = _inner(old_path), _inner(new_path), f"The path {old_path} does not exist"
    if old == ".":
        msg = f"Cannot rename the {_ROOT} directory itself"
        raise ToolFeedback(msg)
    exists = f"The destination {new_path} already exists"
    with _known_words(old_path, new_path, missing=missing, exists=exists):
        files.rename(old, new)
    return f"Successfully renamed {old_path} to {new_path}"
