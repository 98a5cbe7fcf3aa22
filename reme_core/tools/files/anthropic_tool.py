"""The memory tool for Anthropic's SDK: subclasses of its abstract tools, for `client.beta.messages.tool_runner`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaCacheControlEphemeralParam,
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)
from pydantic import BaseModel

from reme_core.errors import ToolFeedback
from reme_core.tools.base import check_arguments
from reme_core.tools.files.memory_commands import MAX_MEMORY_BYTES, MemoryItem, run_command
from reme_core.tools.files.root import FileRoot
from reme_core.tools.history import ANSWER_CHARS


class _Commands:
    """The commands on one folder, as the SDK has them: what can't be done is a `ToolError`."""

    def __init__(self, root: str | Path) -> None:
        self._files = FileRoot(Path(root).expanduser().absolute(), MAX_MEMORY_BYTES)

    def run(self, given: object) -> str:
        if isinstance(given, BaseModel):
            given = given.model_dump(exclude_none=True)
        try:
            arguments = check_arguments("memory", MemoryItem, cast("Mapping[str, object]", given))
            return run_command(self._files, cast("MemoryItem", arguments), limit_chars=ANSWER_CHARS)
        except ToolFeedback as exc:
            raise ToolError(str(exc)) from exc

    def clear(self) -> str:
        try:
            self._files.clear()
        except ToolFeedback as exc:
            raise ToolError(str(exc)) from exc
        return "All memory cleared"


class AnthropicMemoryTool(BetaAbstractMemoryTool):
    """The SDK's memory tool on a folder, which stands for `/memories`; made with mode 0700 where it is missing."""

    def __init__(self, root: str | Path, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:
        """Keep the folder; `cache_control` as the SDK has it."""
        super().__init__(cache_control=cache_control)
        self._commands = _Commands(root)

    def call(self, input: object) -> str:
        """Do what a model wrote (ToolError)."""
        return self._commands.run(input)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file or a folder (ToolError)."""
        return self._commands.run(command)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Write a new file (ToolError)."""
        return self._commands.run(command)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that stands once in a file (ToolError)."""
        return self._commands.run(command)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines (ToolError)."""
        return self._commands.run(command)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Remove a file, or a folder with what is in it (ToolError)."""
        return self._commands.run(command)

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file or a folder (ToolError)."""
        return self._commands.run(command)

    def clear_all_memory(self) -> str:
        """Remove all that the commands see (ToolError); what begins with a dot stays."""
        return self._commands.clear()


class AsyncAnthropicMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for `AsyncAnthropic`; files are touched off the event loop."""

    def __init__(self, root: str | Path, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:
        """Keep the folder; `cache_control` as the SDK has it."""
        super().__init__(cache_control=cache_control)
        self._commands = _Commands(root)

    async def call(self, input: object) -> str:
        """Do what a model wrote (ToolError)."""
        return await asyncio.to_thread(self._commands.run, input)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file or a folder (ToolError)."""
        return await self.call(command)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Write a new file (ToolError)."""
        return await self.call(command)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that stands once in a file (ToolError)."""
        return await self.call(command)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines (ToolError)."""
        return await self.call(command)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Remove a file, or a folder with what is in it (ToolError)."""
        return await self.call(command)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file or a folder (ToolError)."""
        return await self.call(command)

    async def clear_all_memory(self) -> str:
        """Remove all that the commands see (ToolError); what begins with a dot stays."""
        return await asyncio.to_thread(self._commands.clear)
