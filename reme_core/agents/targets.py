"""The agents that write the memories of one target: a person, a kind of task, a tool, the assistant itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from reme_core.agents.base import AgentOptions, BaseMemoryAgentOp, TargetArguments
from reme_core.agents.loop import Limits, StopRule
from reme_core.agents.shown import fenced_concerning, fenced_memories, quoted, said_between, similar_memories, wish
from reme_core.ports import AgentTask, MemoryAgent, Tool, ToolContext
from reme_core.schema import MemoryType
from reme_core.steps.targets import SELF, assigned_target
from reme_core.text import json_line
from reme_core.tools import (
    AddMemoryOp,
    DeleteMemoryOp,
    ReadIdentityMemoryOp,
    UpdateIdentityMemoryOp,
    UpdateMemoryOp,
    VectorRetrieveMemoryOp,
)

TARGET_LIMITS = Limits(max_steps=5)
"""A model that is sure of itself takes one step, since it is shown the memories that come closest: its changes. The
other four are for a search, a correction, or changes made one by one. What is not finished by then has failed, and is
told so: an agent that was made to stop would lose memories without a word."""


async def target_variables(task: AgentTask, context: ToolContext) -> dict[str, str]:
    """Return the variables of `target_task`: what an agent of one target is shown."""
    target = assigned_target(context, "what an agent of one target is shown")
    named = [quoted("memory_target", target.memory_target)]
    if context.elsewhere:
        named.append(json_line({"elsewhere": list(context.elsewhere)}))
    return {
        "target": "\n".join(named),
        "query": wish(task.query),
        "memories": fenced_memories(await similar_memories(task, context)),
        "conversation": fenced_concerning(target, task.messages),
        "said": said_between(task.messages, context),
    }


class _TargetAgentOp(BaseMemoryAgentOp):
    """What the agents of one person, one kind of task and one tool have in common.

    Attributes:
        add_when_to_use: Its memories say when to use them.
        may_delete: It may delete memories; else they are corrected alone.
    """

    final_tools = frozenset({"add_memory", "update_memory", "delete_memory"})
    task_prompt = "target_task"
    arguments = TargetArguments
    own_limits = TARGET_LIMITS
    add_when_to_use: ClassVar[bool] = False
    may_delete: ClassVar[bool] = True

    def build_tools(self) -> Sequence[Tool]:
        """Build add, update, delete and search. Metadata is not offered: what a memory says belongs into its text."""
        multiple, thinking = self.options.enable_multiple, self.options.enable_thinking_params
        adding = AddMemoryOp(
            add_when_to_use=self.add_when_to_use,
            add_metadata=False,
            enable_multiple=multiple,
            enable_thinking_params=thinking,
        )
        updating = UpdateMemoryOp(
            keep_past=True, add_metadata=False, enable_multiple=multiple, enable_thinking_params=thinking
        )
        deleting = DeleteMemoryOp(enable_multiple=multiple, enable_thinking_params=thinking)
        searching = VectorRetrieveMemoryOp(enable_multiple=multiple, enable_thinking_params=thinking)
        return [adding, updating, *([deleting] if self.may_delete else []), searching]

    async def prepare(self, task: AgentTask, context: ToolContext) -> Mapping[str, str]:
        """Recall the memories of the target that come closest."""
        return await target_variables(task, context)


class PersonalSummaryAgentV1Op(_TargetAgentOp):
    """Writes what messages say about one person."""

    name = "personal_summary_agent"
    description = "Keeps the memories about one person."
    memory_type = MemoryType.PERSONAL
    prompt = "personal_summary"


class ProceduralSummaryAgentV1Op(_TargetAgentOp):
    """Writes what messages teach about one kind of task."""

    name = "procedural_summary_agent"
    description = "Keeps the lessons about one kind of task."
    memory_type = MemoryType.PROCEDURAL
    prompt = "procedural_summary"
    add_when_to_use = True


class ToolSummaryAgentV1Op(_TargetAgentOp):
    """Writes what calls and results teach about one tool; a guideline is corrected, never deleted."""

    name = "tool_summary_agent"
    description = "Keeps the guidelines for one tool."
    memory_type = MemoryType.TOOL
    prompt = "tool_summary"
    add_when_to_use = True
    may_delete = False


class IdentitySummaryAgentV1Op(BaseMemoryAgentOp):
    """Writes what messages make of the assistant itself; its target is always `self`."""

    name = "identity_summary_agent"
    description = "Keeps what the assistant itself is."
    memory_type = MemoryType.IDENTITY
    final_tools = frozenset({"update_identity_memory"})
    prompt = "identity_summary"
    task_prompt = "target_task"
    own_limits = TARGET_LIMITS

    def build_tools(self) -> Sequence[Tool]:
        """Build reading and updating the identity."""
        thinking = self.options.enable_thinking_params
        return [
            ReadIdentityMemoryOp(enable_thinking_params=thinking),
            UpdateIdentityMemoryOp(enable_thinking_params=thinking),
        ]

    def target_of(self, task: AgentTask) -> str | None:
        """Return `self`, which a task may leave out."""
        return SELF if task.memory_target is None else task.memory_target

    def ending(self, context: ToolContext) -> StopRule:
        """Return when a run ends: its tool writes the whole text, so that no call has to follow."""
        return replace(super().ending(context), one_call_ends=True)

    async def prepare(self, task: AgentTask, context: ToolContext) -> Mapping[str, str]:
        """Recall the identity as it stands."""
        return await target_variables(task, context)


def target_agents(options: AgentOptions, *, tool: bool, identity: bool) -> list[MemoryAgent]:
    """Return one agent of each type that work can be handed to; models, tools, prompts and limits are their own."""
    kinds: list[type[BaseMemoryAgentOp]] = [PersonalSummaryAgentV1Op, ProceduralSummaryAgentV1Op]
    kinds += [ToolSummaryAgentV1Op] if tool else []
    kinds += [IdentitySummaryAgentV1Op] if identity else []
    own = replace(options, model=None, tools=None, system_prompt=None, limits=None)
    return [kind(own) for kind in kinds]
