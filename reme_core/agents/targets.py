"""The agents that write the memories of one target: a person, a kind of task, a tool, the assistant itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

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

_WRITING = frozenset({"add_memory", "update_memory", "delete_memory"})


async def target_variables(task: AgentTask, context: ToolContext) -> dict[str, str]:
    """Return the variables of `target_task`: what an agent of one target is shown."""
    target = assigned_target(context, "what an agent of one target is shown")
    named = [quoted("memory_target", target.memory_target)]
    if context.elsewhere:
        named.append(json_line({"elsewhere": list(context.elsewhere)}))
    return {
        "target": "\n".join(named),
        "query": wish(task.query),
        "memories": fenced_memories(await similar_memories(task, context), context.zone),
        "conversation": fenced_concerning(target, task.messages, context.zone),
        "said": said_between(task.messages, context),
    }


class PersonalSummaryAgentV1Op(BaseMemoryAgentOp):
    """Writes what messages say about one person."""

    name = "personal_summary_agent"
    description = "Keeps the memories about one person."
    memory_type = MemoryType.PERSONAL
    final_tools = _WRITING
    prompt = "personal_summary"
    task_prompt = "target_task"
    arguments = TargetArguments
    own_limits = TARGET_LIMITS

    def build_tools(self) -> Sequence[Tool]:
        """Build add, update, delete and search."""
        multiple, thinking = self.options.enable_multiple, self.options.enable_thinking_params
        return [
            *_writing(when_to_use=False, multiple=multiple, thinking=thinking),
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
    final_tools = _WRITING
    prompt = "procedural_summary"
    task_prompt = "target_task"
    arguments = TargetArguments
    own_limits = TARGET_LIMITS

    def build_tools(self) -> Sequence[Tool]:
        """Build add (with when to use it), update, delete and search."""
        multiple, thinking = self.options.enable_multiple, self.options.enable_thinking_params
        return [
            *_writing(when_to_use=True, multiple=multiple, thinking=thinking),
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
    final_tools = _WRITING
    prompt = "tool_summary"
    task_prompt = "target_task"
    arguments = TargetArguments
    own_limits = TARGET_LIMITS

    def build_tools(self) -> Sequence[Tool]:
        """Build add (with when to use it), update and search; a guideline is corrected, never deleted."""
        multiple, thinking = self.options.enable_multiple, self.options.enable_thinking_params
        return [
            *_writing(when_to_use=True, multiple=multiple, thinking=thinking),
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


def _writing(*, when_to_use: bool, multiple: bool, thinking: bool) -> list[Tool]:
    """Return adding and updating. Metadata is not offered: what a memory says belongs into its text."""
    return [
        AddMemoryOp(
            add_when_to_use=when_to_use,
            add_metadata=False,
            enable_multiple=multiple,
            enable_thinking_params=thinking,
        ),
        UpdateMemoryOp(keep_past=True, add_metadata=False, enable_multiple=multiple, enable_thinking_params=thinking),
    ]


def target_agents(options: AgentOptions, *, tool: bool, identity: bool) -> list[MemoryAgent]:
    """Return one agent of each type that work can be handed to; models, tools, prompts and limits are their own."""
    kinds: list[type[BaseMemoryAgentOp]] = [PersonalSummaryAgentV1Op, ProceduralSummaryAgentV1Op]
    kinds += [ToolSummaryAgentV1Op] if tool else []
    kinds += [IdentitySummaryAgentV1Op] if identity else []
    own = replace(options, model=None, tools=None, system_prompt=None, limits=None)
    return [kind(own) for kind in kinds]
