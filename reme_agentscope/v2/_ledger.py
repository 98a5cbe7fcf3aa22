"""Ledger of the middleware in an agent's state, as JSON: the instance knows nothing of any talk."""

from __future__ import annotations

from collections.abc import Sequence

from agentscope.message import Msg
from agentscope.state import AgentState
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reme_agentscope.v2._notes import notes_in


class NoteLedger(BaseModel):
    """The notes of one agent.

    Attributes:
        shown: For the digest of each memory that stands in the context, the block that shows it.
        known: What the context held when the reply began, or was recorded since; None outside a reply.
    """

    model_config = ConfigDict(extra="ignore")

    shown: dict[str, str] = Field(default_factory=dict)
    known: list[str] | None = None

    def forget_gone(self, context: Sequence[Msg]) -> None:
        """Forget what is no longer shown: it left the context."""
        there = notes_in(context)
        self.shown = {digest: block for digest, block in self.shown.items() if block in there}


def read_ledger(state: AgentState, key: str) -> NoteLedger:
    """Return what was kept; what is not ours, as of a state from elsewhere, counts as nothing."""
    try:
        return NoteLedger.model_validate(state.middle_context.get(key, {}))
    except ValidationError:
        return NoteLedger()


def write_ledger(state: AgentState, key: str, ledger: NoteLedger) -> None:
    """Keep it, as JSON."""
    state.middle_context[key] = ledger.model_dump(mode="json", exclude_none=True)
