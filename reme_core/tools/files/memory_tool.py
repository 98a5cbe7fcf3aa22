"""The public memory tool as one of ours, for any model."""

from __future__ import annotations

from dataclasses import dataclass

from reme_core.ports import ToolContext
from reme_core.tools.files.base import FileMemoryOp
from reme_core.tools.files.memory_commands import MAX_MEMORY_BYTES, MemoryItem, run_command
from reme_core.tools.files.root import FileRoot


@dataclass(kw_only=True, eq=False)
class MemoryToolOp(FileMemoryOp[MemoryItem]):
    """Does the six commands of the memory tool that Anthropic's models know, on the folder as `/memories`."""

    name = "memory"
    description = (
        "Keep notes in files below /memories, which outlast the conversation: view a file or folder, create a file, "
        "str_replace or insert text, delete, rename. Look there before you begin, and note what will matter later."
    )
    item = MemoryItem

    max_file_bytes: int = MAX_MEMORY_BYTES

    def work(self, files: FileRoot, item: MemoryItem, context: ToolContext) -> str:
        """Do a command; see `FileMemoryOp.work`."""
        return run_command(files, item, limit_chars=self.limit_chars)
