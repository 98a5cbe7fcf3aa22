"""Agents: a chat model, tools and a prompt each, run by one bounded loop."""

from reme_core.agents.base import AgentArguments, AgentOptions, BaseMemoryAgentOp, TargetArguments
from reme_core.agents.loop import Limits, OnText, StopRule, run_loop
from reme_core.agents.reme import PersonalRetrieveAgentV2Op, ReMeRetrieveAgentV1Op, ReMeSummaryAgentV1Op, ReMyAgentV1Op
from reme_core.agents.targets import (
    IdentitySummaryAgentV1Op,
    PersonalSummaryAgentV1Op,
    ProceduralSummaryAgentV1Op,
    ToolSummaryAgentV1Op,
    target_agents,
    target_variables,
)

__all__ = [
    "AgentArguments",
    "AgentOptions",
    "BaseMemoryAgentOp",
    "IdentitySummaryAgentV1Op",
    "Limits",
    "OnText",
    "PersonalRetrieveAgentV2Op",
    "PersonalSummaryAgentV1Op",
    "ProceduralSummaryAgentV1Op",
    "ReMeRetrieveAgentV1Op",
    "ReMeSummaryAgentV1Op",
    "ReMyAgentV1Op",
    "StopRule",
    "TargetArguments",
    "ToolSummaryAgentV1Op",
    "run_loop",
    "target_agents",
    "target_variables",
]
