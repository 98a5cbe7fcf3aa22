"""The tools for what the assistant itself is: one text, read and replaced as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from reme_core.errors import ConfigurationError, ConflictError, ToolFeedback
from reme_core.ports import PutMemory, ToolContext
from reme_core.schema import Memory
from reme_core.steps.targets import IDENTITY, all_memories, memories_about
from reme_core.text import normalise_content
from reme_core.tools.base import BaseMemoryToolOp, NoArguments, ToolItem
from reme_core.tools.write import NewText, Statement, closed_by, new_memory, puts_of, shown_memory, write_of


async def read_identity(context: ToolContext) -> list[Memory]:
    """Return the current memories of what the assistant is, oldest first; none where the call may not read them."""
    if context.targets is not None and IDENTITY not in context.targets:
        return []
    return list(reversed(await all_memories(context.store, context.scope, memories_about(IDENTITY))))


class ReadIdentityMemoryOp(BaseMemoryToolOp[NoArguments]):
    """Reads what the assistant is."""

    name = "read_identity_memory"
    description = "Read what you yourself are: your name, role, manner and what you were told to be."
    item = NoArguments
    is_concurrent = True

    async def execute(self, items: Sequence[NoArguments], context: ToolContext) -> str:
        """Join the identity memories; see `BaseMemoryToolOp.execute`."""
        return _joined(await read_identity(context)) or "there is no identity memory yet"


class IdentityItem(ToolItem):
    """The whole text of what the assistant is."""

    identity_memory: Statement = Field(
        description="All of what you are from now on: what stays of the present text, and what is new."
    )


class UpdateIdentityMemoryOp(BaseMemoryToolOp[IdentityItem]):
    """Replaces what the assistant is; the old text is closed, not lost."""

    name = "update_identity_memory"
    description = "Replace the text of what you yourself are. Read the present one first, and keep what still holds."
    item = IdentityItem

    async def execute(self, items: Sequence[IdentityItem], context: ToolContext) -> str:
        """Write the new text and close the old one, in one write; see `BaseMemoryToolOp.execute`."""
        if context.targets is not None and IDENTITY not in context.targets:
            msg = f"{self.name}: identity(self) is not among the targets of this call: leave the tool out"
            raise ConfigurationError(msg)
        held, text = await read_identity(context), items[-1].identity_memory
        if held and normalise_content(text) == normalise_content(_joined(held)):
            return "this is what you are already; nothing was changed"
        same = next((memory for memory in held if normalise_content(memory.content) == normalise_content(text)), None)
        kept = same or new_memory(context, IDENTITY, NewText(content=text))
        gone = [memory for memory in held if memory is not same]
        puts = [
            PutMemory(memory=closed_by(memory, kept, context), expected_revision=memory.revision) for memory in gone
        ]
        if same is None:
            puts += await puts_of(context, [kept], expected=[0])
        try:
            await context.store.put(context.scope, write_of(context, self.name, puts=puts))
        except ConflictError as exc:
            msg = f"the identity was changed meanwhile; nothing was written: read it again ({exc})"
            raise ToolFeedback(msg) from exc
        return f"replaced: {shown_memory(kept)}"


def _joined(memories: Sequence[Memory]) -> str:
    return "\n".join(memory.content for memory in memories)
