"""File tools: seven operations on the files of one folder that a model may call, and nothing outside of it.

`file_tools` makes the six that seek, read and write; `MemoryToolOp` is the public memory tool, and
`AnthropicMemoryTool` the same for Anthropic's SDK (extra `anthropic`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reme_core.lazy_names import lazy_names
from reme_core.schema import Scope
from reme_core.tools.files.base import FileMemoryOp
from reme_core.tools.files.grep import GrepOp
from reme_core.tools.files.memory_tool import MemoryToolOp
from reme_core.tools.files.reading import GlobOp, LsOp, ReadFileOp
from reme_core.tools.files.writing import EditFileOp, WriteFileOp

if TYPE_CHECKING:
    from reme_core.tools.files.anthropic_tool import AnthropicMemoryTool, AsyncAnthropicMemoryTool

__all__ = [
    "AnthropicMemoryTool",
    "AsyncAnthropicMemoryTool",
    "EditFileOp",
    "FileMemoryOp",
    "GlobOp",
    "GrepOp",
    "LsOp",
    "MemoryToolOp",
    "ReadFileOp",
    "WriteFileOp",
    "file_tools",
]

if not TYPE_CHECKING:  # for a type checker, a name that isn't there is an error
    __getattr__, __dir__ = lazy_names(
        __name__,
        {"anthropic_tool": "AnthropicMemoryTool AsyncAnthropicMemoryTool"},
        extras={"anthropic": "anthropic"},
    )


def file_tools(root: str | Path, *, scope: Scope | None = None, read_only: bool = False) -> list[FileMemoryOp[Any]]:
    """Make the tools of a folder, for `AgentOptions(tools=...)` and the like: the six but `memory`.

    Args:
        root: The folder.
        scope: Whose it is; see `FileMemoryOp`.
        read_only: Without `write_file` and `edit_file`.
    """
    reading: list[FileMemoryOp[Any]] = [kind(root=root, scope=scope) for kind in (GrepOp, GlobOp, LsOp, ReadFileOp)]
    return reading if read_only else [*reading, *(kind(root=root, scope=scope) for kind in (WriteFileOp, EditFileOp))]
