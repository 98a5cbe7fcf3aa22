"""The tool that searches the text of files; patterns that may never end run in a process that is ended in time."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from reme_core.errors import ConfigurationError, ToolFeedback
from reme_core.ports import ToolContext
from reme_core.schema.checks import Text
from reme_core.text import fence
from reme_core.tools.base import ToolItem, check_at_least_one
from reme_core.tools.files.base import FileMemoryOp, fitting
from reme_core.tools.files.line_search import FoundLines, LineSearch, search_lines
from reme_core.tools.files.open_folder import MAX_READ_BYTES
from reme_core.tools.files.paths import FileRefusedError, Reason, split_path
from reme_core.tools.files.reading import PATTERN_CHARS
from reme_core.tools.files.root import FileRoot
from reme_core.tools.files.walk import MAX_WALKED, matches, walk

MAX_SEARCHED_BYTES = 16 * 1024 * 1024
"""Of one search: 10,000 files of 1,600 bytes."""

_PROGRAM = Path(__file__).with_name("line_search.py")
_OPERATORS = re.compile(r"[\\.^$*+?{}\[\]|()]")


class GrepItem(ToolItem):
    """What is looked for."""

    pattern: Annotated[Text, Field(min_length=1, max_length=PATTERN_CHARS)] = Field(
        description="A regular expression (Python's), looked for in each line."
    )
    path: Text = Field(default=".", description="The folder or file to search, relative to the root; '.' is all of it.")
    glob: Annotated[
        Annotated[Text, Field(max_length=PATTERN_CHARS)] | None, BeforeValidator(lambda value: value or None)
    ] = Field(default=None, description="Only files whose path fits this, such as *.md or memory/*.md.")
    ignore_case: bool = Field(default=False, description="Whether a and A are the same.")
    plain: bool = Field(default=False, description="Look for the pattern as it is written: it is no expression.")


@dataclass(frozen=True, slots=True)
class _Texts:
    """What is searched: texts by path, and what of the folder was left out."""

    files: list[tuple[str, str]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(kw_only=True, eq=False)
class GrepOp(FileMemoryOp[GrepItem]):
    """Finds lines of files.

    Attributes:
        limit: At most so many lines; ConfigurationError below 1.
        timeout_s: Seconds that a regular expression may take; ConfigurationError unless above 0.
    """

    name = "grep"
    description = "Search the text files of the folder. The answer has lines of the form path:number:line."
    item = GrepItem
    is_concurrent = True

    limit: int = 100
    timeout_s: float = 5.0

    def __post_init__(self) -> None:
        """Check the options (ConfigurationError)."""
        check_at_least_one("limit", self.limit)
        if not self.timeout_s > 0:
            msg = f"timeout_s: wanted more than 0, found {self.timeout_s!r}"
            raise ConfigurationError(msg)
        super().__post_init__()

    def work(self, files: FileRoot, item: GrepItem, context: ToolContext) -> str:
        """Search; see `FileMemoryOp.work`."""
        texts = _texts(files, item)
        is_plain = item.plain or not _OPERATORS.search(item.pattern)
        job = LineSearch(
            pattern=re.escape(item.pattern) if is_plain else item.pattern,
            ignore_case=item.ignore_case,
            files=texts.files,
            limit=self.limit + 1,
            seconds=int(self.timeout_s) + 2,  # of use where whoever waits was killed
        )
        found = search_lines(job) if is_plain else search_apart(job, self.timeout_s)
        if found["error"] is not None:
            msg = f"the pattern is no regular expression ({found['error']}): correct it, or search with plain=true"
            raise ToolFeedback(msg)
        return self._told(item, texts, found)

    def _told(self, item: GrepItem, texts: _Texts, found: FoundLines) -> str:
        lines = [f"{path}:{number}:{line}" for path, number, line in found["matches"][: self.limit]]
        count = fitting(lines, self.limit_chars)
        notes = list(texts.notes)
        if count < len(found["matches"]):
            notes.insert(0, f"these are the first {count} lines and there are more: narrow the pattern, path or glob")
        if texts.skipped:
            few = ", ".join(texts.skipped[:5])
            notes.append(
                f"{len(texts.skipped)} files were not searched: {few}{', …' if len(texts.skipped) > 5 else ''}"
            )
        if not lines:
            return "\n".join([f"no line of {len(texts.files):,} files fits {item.pattern!r}", *notes])
        return "\n".join([fence("lines", "\n".join(lines[:count])), *notes])


def _texts(files: FileRoot, item: GrepItem) -> _Texts:
    """Read what is to be searched, as much as one search takes."""
    names, texts = split_path(item.path), _Texts()
    found = files.find(item.path)
    if found is not None and stat.S_ISREG(found.st_mode):
        texts.files.append(("/".join(names), files.read_text(item.path)))
        return texts
    walked, size = walk(files, item.path), 0
    for entry in walked.entries:
        if entry.is_folder or not _is_chosen(entry.names[len(names) :], item.glob):
            continue
        size += min(entry.size, MAX_READ_BYTES)
        if size > MAX_SEARCHED_BYTES:
            texts.notes.append(f"only the first {len(texts.files):,} files were searched: narrow path or glob")
            break
        _add_text(texts, files, entry.path)
    if not walked.is_whole:
        texts.notes.append(f"only the first {MAX_WALKED:,} names of the folder were looked at: narrow path")
    return texts


def _is_chosen(names: tuple[str, ...], glob: str | None) -> bool:
    if glob is None:
        return True
    pattern = split_path(glob)
    return matches(names, pattern if len(pattern) > 1 else ("**", *pattern))


def _add_text(texts: _Texts, files: FileRoot, path: str) -> None:
    try:
        texts.files.append((path, files.read_text(path)))
    except FileRefusedError as exc:
        if exc.reason is not Reason.MISSING:  # gone meanwhile
            texts.skipped.append(f"{path} ({exc.reason})")


def search_apart(job: LineSearch, timeout_s: float) -> FoundLines:
    """Search in a process of its own, which is ended when its time is over (ToolFeedback)."""
    command = [sys.executable, "-I", "-S", str(_PROGRAM)]
    given = json.dumps(job).encode("ascii")
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=timeout_s, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as exc:
        msg = (
            "the pattern takes too long: leave out repetitions of repetitions such as (a+)+, or search with plain=true"
        )
        raise ToolFeedback(msg) from exc
    except OSError as exc:
        msg = "regular expressions can't be used here: search with plain=true"
        raise ToolFeedback(msg) from exc
    if done.returncode != 0:
        msg = "the pattern takes too much memory: write a simpler one, or search with plain=true"
        raise ToolFeedback(msg)
    answer: FoundLines = json.loads(done.stdout)
    return answer
