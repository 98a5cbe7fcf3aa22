"""The base of the tools that work on files of one folder, and how these show text to a model."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic

from reme_core.errors import ConfigurationError
from reme_core.ports import ToolContext
from reme_core.schema import Scope
from reme_core.tools.base import BaseMemoryToolOp, ItemT, check_at_least_one
from reme_core.tools.files.open_folder import MAX_READ_BYTES
from reme_core.tools.files.root import FileRoot
from reme_core.tools.history import ANSWER_CHARS

PATH_HELP = "A path relative to the folder, such as memory/YYYY-MM-DD.md."
_LINE_CHARS = 2000  # shown of one line


@dataclass(kw_only=True, eq=False)
class FileMemoryOp(BaseMemoryToolOp[ItemT], Generic[ItemT]):
    """A tool over the files of one folder; a subclass writes `work`.

    A third class on the way to a tool, unlike elsewhere: seven tools share the folder, its owner and the thread.

    Attributes:
        root: The folder; made where it is missing, with mode 0700. Nothing outside of it is read or changed.
        scope: Whose folder it is: a call for anybody else is refused. None: whoever gets the tool.
        max_file_bytes: What a file may be made to hold; ConfigurationError below 1.
        limit_chars: About so many characters of an answer; likewise.
        below: The name of the only folder in it whose files may be touched; "" for all.
    """

    root: str | Path
    scope: Scope | None = None
    max_file_bytes: int = MAX_READ_BYTES
    limit_chars: int = ANSWER_CHARS
    below: str = ""
    _files: FileRoot = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the options (ConfigurationError)."""
        check_at_least_one("max_file_bytes", self.max_file_bytes)
        check_at_least_one("limit_chars", self.limit_chars)
        self._files = FileRoot(Path(self.root).expanduser().absolute(), self.max_file_bytes, self.below)
        super().__post_init__()

    async def execute(self, items: Sequence[ItemT], context: ToolContext) -> str:
        """Do it in a thread; see `BaseMemoryToolOp.execute`.

        Raises:
            ConfigurationError: The folder is another scope's.
        """
        if self.scope is not None and context.scope != self.scope:
            msg = (
                f"{self.name}: the folder is of {self.scope}, and the call is for {context.scope}: make a tool for each"
            )
            raise ConfigurationError(msg)
        return await asyncio.to_thread(lambda: "\n".join(self.work(self._files, item, context) for item in items))

    @abstractmethod
    def work(self, files: FileRoot, item: ItemT, context: ToolContext) -> str:
        """Do it for an item, and answer in words for the model (ToolFeedback); off the event loop."""


def split_lines(text: str) -> list[str]:
    """Return the lines of a text as editors count them, without their ends."""
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def numbered(lines: Iterable[str], first: int) -> list[str]:
    """Put its number in front of each line, the first one being `first`; of very long ones their begin is shown."""
    return [f"{number:>6}\t{_begin(line)}" for number, line in enumerate(lines, start=first)]


def _begin(line: str) -> str:
    left_out = len(line) - _LINE_CHARS
    return f"{line[:_LINE_CHARS]}… [{left_out:,} more characters]" if left_out > 0 else line


def fitting(lines: Sequence[str], limit_chars: int) -> int:
    """Return how many lines fit into so many characters; at least one, if there is any."""
    size = 0
    for count, line in enumerate(lines):
        size += len(line) + 1
        if count and size > limit_chars:
            return count
    return len(lines)
