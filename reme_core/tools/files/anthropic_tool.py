"""The memory tool for Anthropic's SDK: subclasses of its abstract tools, for `client.beta.messages.tool_runner`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import BetaCacheControlEphemeralParam
from pydantic import BaseModel

from reme_core.errors import ToolFeedback
from reme_core.tools.base import check_arguments
from reme_core.tools.files.memory_commands import MAX_MEMORY_BYTES, MemoryItem, run_command
from reme_core.tools.files.root import FileRoot
from reme_core.tools.history import ANSWER_CHARS


class AnthropicMemoryTool(BetaAbstractMemoryTool):
    """The SDK's memory tool on a folder, which stands for `/memories`; made with mode 0700 where it is missing."""

    def __init__(self, root: str | Path, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:
        """Keep the folder; `cache_control` as the SDK has it."""
        super().__init__(cache_control=cache_control)
        self._files = _folder(root)

    def call(self, input: object) -> str:
        """Do a command, the SDK's or as a model wrote it (ToolError)."""
        return _done(self._files, input)

    view = create = str_replace = insert = delete = rename = call

    def clear_all_memory(self) -> str:
        """Remove all that the commands see (ToolError); links and what begins with a dot stay."""
        return _cleared(self._files)


class AsyncAnthropicMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for `AsyncAnthropic`; files are touched off the event loop."""

    def __init__(self, root: str | Path, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:
        """Keep the folder; `cache_control` as the SDK has it."""
        super().__init__(cache_control=cache_control)
        self._files = _folder(root)

    async def call(self, input: object) -> str:
        """Do a command, the SDK's or as a model wrote it (ToolError)."""
        return await asyncio.to_thread(_done, self._files, input)

    view = create = str_replace = insert = delete = rename = call

    async def clear_all_memory(self) -> str:
        """Remove all that the commands see (ToolError); links and what begins with a dot stay."""
        return await asyncio.to_thread(_cleared, self._files)


def _folder(root: str | Path) -> FileRoot:
    return FileRoot(Path(root).expanduser().absolute(), MAX_MEMORY_BYTES)


def _done(files: FileRoot, given: object) -> str:
    if isinstance(given, BaseModel):
        given = given.model_dump(exclude_none=True)
    try:
        item = check_arguments("memory", MemoryItem, cast("Mapping[str, object]", given))
        return run_command(files, cast("MemoryItem", item), limit_chars=ANSWER_CHARS)
    except ToolFeedback as exc:
        raise ToolError(str(exc)) from exc


def _cleared(files: FileRoot) -> str:
    try:
        files.clear()
    except ToolFeedback as exc:
        raise ToolError(str(exc)) from exc
    return "All memory cleared"
