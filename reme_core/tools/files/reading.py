"""The tools that read a file, list a folder and find files by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field

from reme_core.errors import ToolFeedback
from reme_core.ports import ToolContext
from reme_core.schema.checks import Text
from reme_core.text import fence, prompt_time
from reme_core.tools.base import ToolItem
from reme_core.tools.files.base import PATH_HELP, FileMemoryOp, fitting, numbered, split_lines
from reme_core.tools.files.paths import MAX_SEGMENTS, shown_path, split_path
from reme_core.tools.files.root import FileRoot
from reme_core.tools.files.walk import MAX_WALKED, Walk, WalkEntry, matches, walk

PATTERN_CHARS = 500
_FOLDER_HELP = "The folder to look in, relative to the root; '.' is all of it."


def _left_out(value: object) -> object:
    """Read 0 and the empty text as left out: models fill in every field that there is."""
    return None if value in (0, "") and not isinstance(value, bool) else value


Line = Annotated[Annotated[int, Field(ge=1)] | None, BeforeValidator(_left_out)]


class ReadFileItem(ToolItem):
    """What is to be read."""

    path: Text = Field(description=PATH_HELP)
    start_line: Line = Field(default=None, description="The first line to read, from 1.")
    end_line: Line = Field(default=None, description="The last line to read.")


class ReadFileOp(FileMemoryOp[ReadFileItem]):
    """Reads a text file by lines, each with its number."""

    name = "read_file"
    description = "Read a text file of the folder, whole or by lines. Each line is shown with its number and a tab."
    item = ReadFileItem
    is_concurrent = True

    def work(self, files: FileRoot, item: ReadFileItem, context: ToolContext) -> str:
        """Read it; see `FileMemoryOp.work`."""
        lines, shown = split_lines(files.read_text(item.path)), shown_path(item.path)
        if not lines:
            return f"{shown} is empty"
        first, last = item.start_line or 1, min(item.end_line or len(lines), len(lines))
        if first > last:
            msg = f"{shown} has {len(lines):,} lines, and {first} to {item.end_line or last} are none of them"
            raise ToolFeedback(msg)
        told = numbered(lines[first - 1 : last], first)
        count = fitting(told, self.limit_chars)
        end = first + count - 1
        more = f"; go on with start_line={end + 1}" if end < last else ""
        heading = f"{shown}, lines {first:,} to {end:,} of {len(lines):,}{more}:"
        return f"{heading}\n{fence('file', chr(10).join(told[:count]))}"


class LsItem(ToolItem):
    """What is to be listed."""

    path: Text = Field(default=".", description=_FOLDER_HELP)
    depth: Annotated[int, Field(ge=1, le=MAX_SEGMENTS)] = Field(
        default=1, description="How many levels: 1 is the folder alone."
    )


class LsOp(FileMemoryOp[LsItem]):
    """Lists a folder: names, sizes, times of the last change."""

    name = "ls"
    description = (
        "List a folder: its files with size in bytes and time of the last change, and its folders, which end in /."
    )
    item = LsItem
    is_concurrent = True

    def work(self, files: FileRoot, item: LsItem, context: ToolContext) -> str:
        """List it; see `FileMemoryOp.work`."""
        found = walk(files, item.path, depth=item.depth)
        if not found.entries:
            return f"{shown_path(item.path)} is empty"
        return listed([_line(entry, context) for entry in found.entries], found, self.limit_chars)


def _line(entry: WalkEntry, context: ToolContext) -> str:
    if entry.is_folder:
        return f"{entry.path}/"
    return f"{entry.path}\t{entry.size:,} bytes\t{prompt_time(entry.modified, context.zone)}"


class GlobItem(ToolItem):
    """Which names are looked for."""

    pattern: Annotated[Text, Field(min_length=1, max_length=PATTERN_CHARS)] = Field(
        description="Of paths: * and ? within a name, ** for any folders; such as **/*.md or memory/2026-11-*.md."
    )
    path: Text = Field(default=".", description=_FOLDER_HELP)


class GlobOp(FileMemoryOp[GlobItem]):
    """Finds files by their paths."""

    name = "glob"
    description = "Find files by a pattern of their paths. The answer has one path on each line."
    item = GlobItem
    is_concurrent = True

    def work(self, files: FileRoot, item: GlobItem, context: ToolContext) -> str:
        """Find them; see `FileMemoryOp.work`."""
        pattern, above = split_path(item.pattern), len(split_path(item.path))
        found = walk(files, item.path)
        paths = [entry.path for entry in found.entries if not entry.is_folder and matches(entry.names[above:], pattern)]
        if not paths and found.is_whole:
            return f"no file fits {item.pattern!r}; **/*.md, say, finds all Markdown in all folders"
        return listed(paths, found, self.limit_chars)


def listed(lines: Sequence[str], found: Walk, limit_chars: int) -> str:
    """Write lines for a model, as many as fit, and say what is missing."""
    count = fitting(lines, limit_chars)
    notes = []
    if count < len(lines):
        notes.append(f"{len(lines) - count:,} more are not shown: ask for less at once")
    if not found.is_whole:
        notes.append(f"only the first {MAX_WALKED:,} names of the folder were looked at: name a folder below it")
    return "\n".join([fence("files", "\n".join(lines[:count])), *notes])
