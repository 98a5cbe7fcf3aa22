"""Agents: a chat model, tools and a prompt each, run by one bounded loop."""

from reme_core.agents.base import AgentArguments, BaseMemoryAgentOp, TargetArguments
from reme_core.agents.loop import Ending, Limits, LoopResult, OnText, run_loop
from reme_core.agents.reme import ReMeRetrieveAgentV1Op, ReMeSummaryAgentV1Op, ReMyAgentV1Op
from reme_core.agents.targets import (
    IdentitySummaryAgentV1Op,
    PersonalSummaryAgentV1Op,
    ProceduralSummaryAgentV1Op,
    ToolSummaryAgentV1Op,
    target_variables,
)

__all__ = [
    "AgentArguments",
    "BaseMemoryAgentOp",
    "Ending",
    "IdentitySummaryAgentV1Op",
    "Limits",
    "LoopResult",
    "OnText",
    "PersonalSummaryAgentV1Op",
    "ProceduralSummaryAgentV1Op",
    "ReMeRetrieveAgentV1Op",
    "ReMeSummaryAgentV1Op",
    "ReMyAgentV1Op",
    "TargetArguments",
    "ToolSummaryAgentV1Op",
    "run_loop",
    "target_variables",
]
