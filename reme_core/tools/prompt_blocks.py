"""Memory blocks at the edge of an agent framework: what each prompt shows of them, and edits that a model asks for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from reme_core import adapting
from reme_core.errors import ConfigurationError, ReMeError, ToolFeedback
from reme_core.ports import Tool, ToolContext
from reme_core.schema import MemoryBlock, shown
from reme_core.schema.plain import clean_text
from reme_core.steps.memory_blocks import blocks_text
from reme_core.tools.base import BaseMemoryToolOp, check_arguments
from reme_core.tools.memory_blocks import MemoryInsertOp, MemoryReplaceOp, MemoryRethinkOp

# As long as a run waits for what is recalled; to read some blocks of a local file takes less than a millisecond.
_READ_S = 2.0


def block_tools() -> tuple[BaseMemoryToolOp[Any], ...]:
    """Return the tools that edit memory blocks; `adapting.BLOCK_TOOLS` are their names."""
    return MemoryInsertOp(), MemoryReplaceOp(), MemoryRethinkOp()


class HoldsBlocks(Protocol):
    """A memory, as far as it is asked for blocks."""

    async def memory_blocks(self, *, user_id: str | None = None) -> list[MemoryBlock]:
        """Return those of a user."""

    def tool_context(self, *, user_id: str | None = None) -> ToolContext:
        """Return the context in which tools work for a user."""


@dataclass(frozen=True, slots=True)
class ShownBlocks:
    """What a prompt shows.

    Attributes:
        text: For the prompt; empty where there is nothing.
        revisions: By label: what somebody has changed since is not rewritten unseen.
    """

    text: str = ""
    revisions: Mapping[str, int] = field(default_factory=dict)


class PromptBlocks:
    """Reads a user's memory blocks for each prompt, and edits them. What can't be read costs the blocks, not the reply.

    Attributes:
        labels: Which are shown; None: all that the user has; empty: none.
    """

    def __init__(self, given: object, *, log: logging.Logger | None = None) -> None:
        """Read the option `memory_blocks` of an adapter: True, False, or labels (ConfigurationError)."""
        self.labels = _read_labels(given)
        self._log = log or logging.getLogger("reme")
        self._has_failed = False

    def __bool__(self) -> bool:
        """Whether any are shown."""
        return self.labels is None or bool(self.labels)

    def tools(self) -> tuple[BaseMemoryToolOp[Any], ...]:
        """Return the tools that edit them; none where none are shown."""
        return block_tools() if self else ()

    async def read(self, memory: HoldsBlocks, user_id: str) -> ShownBlocks:
        """Return the blocks as they are now; nothing where there are none, or they can't be read in time.

        The first time that fails is waited for and logged; until it works again, each prompt waits for
        `adapting.PATIENCE_S` at most.
        """
        if not self:
            return ShownBlocks()
        try:
            async with asyncio.timeout(adapting.PATIENCE_S if self._has_failed else _READ_S):
                blocks = await memory.memory_blocks(user_id=user_id)
        except Exception as exc:  # noqa: BLE001  # an agent answers without its blocks, whatever a store has
            if not self._has_failed:
                # Only our own messages are known to hold no words of the talk.
                told = f": {exc.message}" if isinstance(exc, ReMeError) else ""
                self._log.error("prompts are without their memory blocks: %s%s", type(exc).__name__, told)
            self._has_failed = True
            return ShownBlocks()
        self._has_failed = False
        wanted = [block for block in blocks if self._is_shown(block.label)]
        return ShownBlocks(blocks_text(wanted), {block.label: block.revision for block in wanted})

    async def edit(
        self,
        tool: Tool,
        arguments: Mapping[str, object],
        context: ToolContext,
        *,
        seen: Mapping[str, int] | None = None,
    ) -> str:
        """Edit a block, and return what the model is told; of its new text nothing where its next prompt shows it.

        Args:
            tool: One of `block_tools`.
            arguments: As the model wrote them.
            context: In which the tool works.
            seen: The revisions that the model's prompt has shown; None: no prompt shows blocks.

        Raises:
            ToolFeedback: Nothing was changed; the text says why, and what to correct.
            ReMeError: The memory failed.
        """
        given = {name: clean_text(value) if isinstance(value, str) else value for name, value in arguments.items()}
        checked = check_arguments(tool.name, tool.arguments, given)
        label = str(given.get("label"))
        if not self._is_shown(label):
            labels = ", ".join(map(repr, self.labels or ()))
            msg = f"there is no memory block {label!r} here; nothing was changed. The labels are: {labels}"
            raise ToolFeedback(msg)
        if seen is not None:
            context.trace.shown_blocks[label] = seen.get(label, 0)  # of no revision: it was not shown
        answer = await tool.run(checked, context)
        return answer if seen is None else f"changed: memory block {label!r} stands in your prompt as it is now"

    def _is_shown(self, label: str) -> bool:
        return self.labels is None or label in self.labels


def _read_labels(given: object) -> tuple[str, ...] | None:
    if isinstance(given, bool):
        return None if given else ()
    if isinstance(given, list | tuple) and all(isinstance(label, str) and label for label in given):
        return tuple(given)
    msg = f"memory_blocks: wanted True, False or labels such as ('persona', 'human'), found {shown(given)}"
    raise ConfigurationError(msg)
