"""The agents that write the memories of one target: a person, a kind of task, a tool, the assistant itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reme_core.agents.base import BaseMemoryAgentOp, TargetArguments
from reme_core.agents.loop import Limits
from reme_core.agents.shown import fenced_memories, fenced_messages, quoted, said_between, similar_memories
from reme_core.ports import AgentTask, Tool, ToolContext
from reme_core.schema import MemoryType
from reme_core.tools import (
    AddMemoryOp,
    DeleteMemoryOp,
    ReadIdentityMemoryOp,
    UpdateIdentityMemoryOp,
    UpdateMemoryOp,
    VectorRetrieveMemoryOp,
)
from reme_core.tools.targets import SELF

TARGET_LIMITS = Limits(max_steps=5)
"""A model that is sure of itself takes two steps, since it is shown the memories that come closest: its changes, and
the last word. With a router's two that makes four model calls for one target, and where no router is asked, five at
most. The other three steps are for a search, a correction, or changes made one by one. What is not finished by then has
failed, and is told so: an agent that was made to stop would lose memories without a word."""


async def target_variables(task: AgentTask, context: ToolContext) -> dict[str, str]:
    """Return the variables of `target_task`: what an agent of one target is shown."""
    return {
        "target": quoted("memory_target", context.memory_target or ""),
        "query": quoted("query", task.query),
        "memories": fenced_memories(await similar_memories(task, context)),
        "conversation": fenced_messages(task.messages),
        "said": said_between(task.messages, context),
    }


class PersonalSummaryAgentV1Op(BaseMemoryAgentOp):
    """Writes what messages say about one person."""

    name = "personal_summary_agent"
    description = "Keeps the memories about one person."
    memory_type = MemoryType.PERSONAL
    prompt = "personal_summary"
    task_prompt = "target_task"
    arguments = TargetArguments
    own_limits = TARGET_LIMITS

    def build_tools(self) -> Sequence[Tool]:
        """Build add, update, delete and search."""
        multiple, thinking = self.enable_multiple, self.enable_thinking_params
        return [
            AddMemoryOp(enable_multiple=multiple, enable_thinking_params=thinking),
            UpdateMemoryOp(keep_past=True, enable_multiple=multiple, enable_thinking_params=thinking),
            DeleteMemoryOp(enable_multiple=multiple, enable_thinking_params=thinking),
            VectorRetrieveMemoryOp(enable_multiple=multiple, enable_thinking_params=thinking),
        ]

    async def prepare(self, task: AgentTask, context: ToolContext) -> Mapping[str, str]:
        """Recall the memories about the person that come closest."""
        return await target_variables(task, context)


class ProceduralSummaryAgentV1Op(BaseMemoryAgentOp):
    """Writes what messages teach about one kind of task."""

    name = "procedural_summary_agent"
    description = "Keeps the lessons about one kind of task."
    memory_type = MemoryType.PROCEDURAL
    prompt = "procedural_summary"
    task_prompt = "target_task"
    arguments = TargetArguments
    own_limits = TARGET_LIMITS

    def build_tools(self) -> Sequence[Tool]:
        """Build add (with when to use it), update, delete and search."""
        multiple, thinking = self.enable_multiple, self.enable_thinking_params
        return [
            AddMemoryOp(add_when_to_use=True, enable_multiple=multiple, enable_thinking_params=thinking),
            UpdateMemoryOp(keep_past=True, enable_multiple=multiple, enable_thinking_params=thinking),
            DeleteMemoryOp(enable_multiple=multiple, enable_thinking_params=thinking),
            VectorRetrieveMemoryOp(enable_multiple=multiple, enable_thinking_params=thinking),
        ]

    async def prepare(self, task: AgentTask, context: ToolContext) -> Mapping[str, str]:
        """Recall the lessons of the domain that come closest."""
        return await target_variables(task, context)


class ToolSummaryAgentV1Op(BaseMemoryAgentOp):
    """Writes what calls and results teach about one tool."""

    name = "tool_summary_agent"
    description = "Keeps the guidelines for one tool."
    memory_type = MemoryType.TOOL
    prompt = "tool_summary"
    task_prompt = "target_task"
    arguments = TargetArguments
    own_limits = TARGET_LIMITS

    def build_tools(self) -> Sequence[Tool]:
        """Build add (with when to use it), update and search; a guideline is corrected, never deleted."""
        multiple, thinking = self.enable_multiple, self.enable_thinking_params
        return [
            AddMemoryOp(add_when_to_use=True, enable_multiple=multiple, enable_thinking_params=thinking),
            UpdateMemoryOp(keep_past=True, enable_multiple=multiple, enable_thinking_params=thinking),
            VectorRetrieveMemoryOp(enable_multiple=multiple, enable_thinking_params=thinking),
        ]

    async def prepare(self, task: AgentTask, context: ToolContext) -> Mapping[str, str]:
        """Recall the guidelines for the tool that come closest."""
        return await target_variables(task, context)


class IdentitySummaryAgentV1Op(BaseMemoryAgentOp):
    """Writes what messages make of the assistant itself; its target is always `self`."""

    name = "identity_summary_agent"
    description = "Keeps what the assistant itself is."
    memory_type = MemoryType.IDENTITY
    prompt = "identity_summary"
    task_prompt = "target_task"
    own_limits = TARGET_LIMITS

    def build_tools(self) -> Sequence[Tool]:
        """Build reading and updating the identity."""
        thinking = self.enable_thinking_params
        return [
            ReadIdentityMemoryOp(enable_thinking_params=thinking),
            UpdateIdentityMemoryOp(enable_thinking_params=thinking),
        ]

    def target_of(self, task: AgentTask) -> str | None:
        """Return `self`, which a task may leave out."""
        return SELF if task.memory_target is None else task.memory_target

    async def prepare(self, task: AgentTask, context: ToolContext) -> Mapping[str, str]:
        """Recall the identity as it stands."""
        return await target_variables(task, context)
