"""The tool that does nothing but let a model think aloud."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from reme_core.ports import ToolContext
from reme_core.schema.checks import Text
from reme_core.tools.base import BaseMemoryToolOp, ToolItem


class ThinkItem(ToolItem):
    """A thought."""

    reflection: Annotated[Text, Field(min_length=1)] = Field(
        description="What you know so far, what is missing, and what to do next."
    )


@dataclass(kw_only=True, eq=False)
class ThinkToolOp(BaseMemoryToolOp[ThinkItem]):
    """A place to think between two calls, for models that don't do so by themselves.

    Attributes:
        add_output_reflection: Answer with the reflection, so that it stands at the end of the conversation.
    """

    name = "think_tool"
    description = (
        "Think before you go on: weigh what you have found, whether it is enough, and which call comes next. "
        "Nothing is read or changed."
    )
    item = ThinkItem
    is_concurrent = True

    add_output_reflection: bool = False

    async def execute(self, items: Sequence[ThinkItem], context: ToolContext) -> str:
        """Take note; see `BaseMemoryToolOp.execute`."""
        return "\n".join(item.reflection for item in items) if self.add_output_reflection else "noted, go on"
