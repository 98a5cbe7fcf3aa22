"""The tool that writes summary memories: what a conversation was about, found where nothing more special is."""

from __future__ import annotations

from pydantic import Field

from reme_core.ports import Target, ToolContext
from reme_core.schema import MemoryType
from reme_core.schema.checks import Metadata
from reme_core.steps.targets import SELF
from reme_core.tools.write import METADATA_HELP, AddMemoryOp, NewItem, NewText, Statement


class SummaryItem(NewItem):
    """A summary."""

    summary_memory: Statement = Field(
        description="What was said and done, by whom and when, in a few sentences that name what one may ask for later."
    )
    metadata: Metadata = Field(default_factory=dict, description=METADATA_HELP)

    def text(self) -> NewText:
        """Return what is to be remembered."""
        return NewText(content=self.summary_memory, metadata=self.metadata)


class AddSummaryMemoryOp(AddMemoryOp):
    """Adds a memory of type `summary`, about the context's target, or about `self` where that names none.

    A summary is of a conversation and not about one of the call's targets, so it may be written whatever these are.
    """

    name = "add_summary_memory"
    description = "Keep a short summary of the conversation, by which its details are found later."
    item = SummaryItem
    items_name = None
    is_of_all = True

    def target(self, context: ToolContext) -> Target:
        """Return what the summary is about."""
        return Target(MemoryType.SUMMARY, context.memory_target or SELF)
