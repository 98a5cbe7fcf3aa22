"""Tools that edit memory blocks, under the names that users of Letta know; a model names labels alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import Field

from reme_core.errors import ConflictError, InvalidInputError, MemoryBlockNotFoundError, ToolFeedback
from reme_core.ports import ToolContext
from reme_core.schema import MemoryBlock
from reme_core.schema.checks import Text
from reme_core.schema.memories import MAX_MEMORY_CHARS
from reme_core.steps.memory_blocks import BlockChange, BlockWrite, MemoryBlocks, block_text
from reme_core.tools.base import BaseMemoryToolOp, ToolItem
from reme_core.tools.text_edits import insert_lines, replace_once

_END = -1

BlockText = Annotated[Text, Field(max_length=MAX_MEMORY_CHARS)]
"""A text of a block as a model writes it."""


class BlockItem(ToolItem):
    """A memory block that is to be changed."""

    label: Text = Field(description="The label of the memory block, as it was shown.")


class InsertItem(BlockItem):
    """Lines for a memory block."""

    new_str: BlockText = Field(description="The lines to insert.")
    insert_line: Annotated[int, Field(ge=_END)] = Field(
        default=_END, description="The line of the text after which to insert; 0 is the beginning, -1 the end."
    )


class ReplaceItem(BlockItem):
    """A piece of a memory block, and what stands in its place."""

    old_str: BlockText = Field(description="The piece to replace, verbatim; it must stand once in the text.")
    new_str: BlockText = Field(description="What stands in its place; empty removes it.")


class RethinkItem(BlockItem):
    """A memory block's whole new text."""

    new_memory: BlockText = Field(description="The whole new text: what stays of the present one, and what is new.")


class MemoryInsertOp(BaseMemoryToolOp[InsertItem]):
    """Inserts lines into a memory block."""

    name = "memory_insert"
    description = "Add lines to one of your memory blocks, as soon as you learn something that belongs there."
    item = InsertItem

    async def execute(self, items: Sequence[InsertItem], context: ToolContext) -> str:
        """Insert the lines into the block as it is by then; see `BaseMemoryToolOp.execute`."""
        [item] = items

        def edit(block: MemoryBlock) -> BlockChange:
            if item.insert_line != _END:
                return BlockChange(text=insert_lines(block.text, item.insert_line, item.new_str))
            text = block.text.removesuffix("\n")
            return BlockChange(text=f"{text}\n{item.new_str}" if text else item.new_str)

        return await _change(context, self.name, item.label, edit)


class MemoryReplaceOp(BaseMemoryToolOp[ReplaceItem]):
    """Replaces a piece of a memory block."""

    name = "memory_replace"
    description = (
        "Replace a piece of one of your memory blocks, where something has changed, is wrong or is not needed."
    )
    item = ReplaceItem

    async def execute(self, items: Sequence[ReplaceItem], context: ToolContext) -> str:
        """Replace the piece in the block as it is by then; see `BaseMemoryToolOp.execute`."""
        [item] = items

        def edit(block: MemoryBlock) -> BlockChange:
            where = f"memory block {block.label!r}"
            return BlockChange(text=replace_once(block.text, item.old_str, item.new_str, where))

        return await _change(context, self.name, item.label, edit)


class MemoryRethinkOp(BaseMemoryToolOp[RethinkItem]):
    """Replaces the whole text of a memory block, unless somebody has changed it since the model was shown it.

    What it was shown is in the trace of the context: by the prompt, where `tool_context` was told of its blocks, or by
    an answer of these tools. Where nobody tells, the text is that at the beginning of the call.
    """

    name = "memory_rethink"
    description = "Rewrite the whole text of one of your memory blocks: to sum up, to put in order, to make room."
    item = RethinkItem

    async def execute(self, items: Sequence[RethinkItem], context: ToolContext) -> str:
        """Write the text if the block is what it was; see `BaseMemoryToolOp.execute`."""
        [item] = items
        seen = context.trace.shown_blocks.get(item.label)

        def edit(block: MemoryBlock) -> BlockChange:
            nonlocal seen
            seen = block.revision if seen is None else seen
            if block.revision != seen and block.text != item.new_memory:
                context.trace.shown_blocks[block.label] = block.revision
                what = "nothing was changed: the block has changed meanwhile. Make your change on this:"
                msg = f"{what}\n{block_text(block)}"
                raise ToolFeedback(msg)
            return BlockChange(text=item.new_memory)

        return await _change(context, self.name, item.label, edit)


async def _change(context: ToolContext, tool: str, label: str, edit: Callable[[MemoryBlock], BlockChange]) -> str:
    """Change a block, and show it as it is then (ToolFeedback: nothing was changed)."""
    blocks = MemoryBlocks(store=context.store, counter=context.token_counter)
    write = BlockWrite(
        at=context.clock.now(), reason=tool, actor=context.author, run_id=context.run_id, is_of_model=True
    )
    try:
        block = await blocks.change(context.scope, label, edit, write)
    except MemoryBlockNotFoundError as exc:
        labels = ", ".join(repr(block.label) for block in await blocks.list(context.scope)) or "none"
        msg = f"there is no memory block {label!r}; nothing was changed. The labels are: {labels}"
        raise ToolFeedback(msg) from exc
    except (ConflictError, InvalidInputError) as exc:
        msg = f"nothing was changed: {exc}"
        raise ToolFeedback(msg) from exc
    context.trace.shown_blocks[label] = block.revision
    return f"changed. It is now:\n{block_text(block)}"
