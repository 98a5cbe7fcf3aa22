"""The tool that hands targets to the agents that keep their memories."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from pydantic import Field

from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    MemoryNotFoundError,
    ReMeError,
    RunError,
    ToolFeedback,
)
from reme_core.ports import AgentResult, AgentTask, MemoryAgent, Target, ToolContext
from reme_core.schema import MemoryType
from reme_core.text import shortened
from reme_core.tools.base import BaseMemoryToolOp, ToolItem
from reme_core.tools.draft import Draft
from reme_core.tools.meta import read_meta
from reme_core.tools.targets import IDENTITY, TargetName, find_target, label, may_touch

_LOG = logging.getLogger("reme")

_ANSWER_CHARS = 500
# How often an agent does its work because somebody has changed a memory that it changes.
_TIMES = 2


class HandsOffItem(ToolItem):
    """A target."""

    memory_type: Literal["identity", "personal", "procedural", "tool"] = Field(
        description="The type of memory that has to be looked after."
    )
    memory_target: TargetName = Field(
        description="Whom or what it is about, as read_meta_memory names it; for identity: self."
    )


class HandsOffOp(BaseMemoryToolOp[HandsOffItem]):
    """Has sub-agents look after targets, all at the same time, each on a draft of its own.

    What an agent has finished goes into the call's memories as one write. Where somebody has meanwhile changed a memory
    that the write is about, the agent looks again, once. One that fails, by whatever error, leaves nothing there; the
    others are not concerned, and the trace of the run keeps both.
    """

    name = "hands_off"
    description = "Hand the conversation to the agents that keep the memories about these targets."
    item = HandsOffItem
    items_name = "memory_tasks"
    is_concurrent = True

    def __init__(
        self,
        *,
        agents: Sequence[MemoryAgent],
        enable_multiple: bool = True,
        enable_thinking_params: bool = False,
        memory_metadata_dir: str | Path | None = None,
    ) -> None:
        """Keep the options.

        Args:
            agents: The sub-agents, one for each type of memory.
            enable_multiple: See `BaseMemoryToolOp`.
            enable_thinking_params: See `BaseMemoryToolOp`.
            memory_metadata_dir: See `BaseMemoryToolOp`.

        Raises:
            ConfigurationError: No agents, one without a type, or two of the same type.
        """
        super().__init__(
            enable_multiple=enable_multiple,
            enable_thinking_params=enable_thinking_params,
            memory_metadata_dir=memory_metadata_dir,
        )
        self.agents = _by_type(agents)

    async def execute(self, items: Sequence[HandsOffItem], context: ToolContext) -> str:
        """Run the agents; see `BaseMemoryToolOp.execute`."""
        targets = await self._targets(items, context)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self._run(target, context)) for target in targets]
        return "\n".join(task.result() for task in running)

    async def _targets(self, items: Sequence[HandsOffItem], context: ToolContext) -> list[Target]:
        """Return the targets meant, each once (ToolFeedback, if one can't be handed on)."""
        known = [IDENTITY, *(entry.target for entry in await read_meta(context.memories, context.scope))]
        known += sorted(target for target in context.targets or () if target not in known)
        targets: list[Target] = []
        for item in items:
            wanted = Target(MemoryType(item.memory_type), item.memory_target)
            found = find_target(known, wanted)
            if found is None and wanted.memory_type is MemoryType.TOOL:
                found = wanted  # a tool is known by its calls
            self._check(wanted, found, context)
            targets.append(found or wanted)
            known.append(found or wanted)
        return list(dict.fromkeys(targets))

    def _check(self, wanted: Target, found: Target | None, context: ToolContext) -> None:
        if wanted.memory_type not in self.agents:
            types = ", ".join(sorted(self.agents))
            msg = f"nobody keeps {wanted.memory_type} memories here; nothing was handed on: there are {types}"
            raise ToolFeedback(msg)
        if found is None and wanted.memory_type is MemoryType.IDENTITY:
            msg = "identity memories have one target, self; nothing was handed on: write that"
            raise ToolFeedback(msg)
        if not may_touch(context, found or wanted):
            msg = f"{label(wanted)} is none of the targets of this call; nothing was handed on: leave it out"
            raise ToolFeedback(msg)
        if found is None:
            msg = f"there is no target {label(wanted)}; nothing was handed on: call add_meta_memory first"
            raise ToolFeedback(msg)

    async def _run(self, target: Target, context: ToolContext) -> str:
        """Have the agent of a target do its work; a failure is an answer, so that the other agents go on."""
        try:
            result = await self._work(target, context)
        except ReMeError as exc:
            failure = exc
        except Exception as exc:  # noqa: BLE001  # the outer edge of an agent of somebody else's, which may raise anything
            _LOG.exception("the agent of %s failed by an error that is none of reme's", label(target))
            failure = RunError(f"{type(exc).__name__}: {exc}")
            failure.__cause__ = exc
        else:
            context.trace.done.append(target)
            return f"- {label(target)}: done. {shortened(' '.join(result.answer.split()), _ANSWER_CHARS)}"
        context.trace.failures.append((target, failure))
        return f"- {label(target)}: failed, nothing was changed: {shortened(str(failure), _ANSWER_CHARS)}"

    async def _work(self, target: Target, context: ToolContext) -> AgentResult:
        """Run the agent and write what it has come to; once more, where it was overtaken."""
        for left in reversed(range(_TIMES)):
            draft = Draft(context.memories)
            result = await self._attempt(target, replace(context, memories=draft))
            author = self.agents[target.memory_type].name
            batch = draft.batch(reason=self.name, run_id=context.run_id, actor=author, at=context.clock.now())
            try:
                if not draft.is_empty:
                    await context.memories.put(context.scope, batch)
            except (ConflictError, MemoryNotFoundError):  # changed or deleted by somebody else while it worked
                if not left:
                    raise
            else:
                return result
        raise AssertionError  # the last round returns or raises

    async def _attempt(self, target: Target, context: ToolContext) -> AgentResult:
        agent = self.agents[target.memory_type]
        child = replace(
            context,
            author=agent.name,
            memory_type=target.memory_type,
            memory_target=target.memory_target,
        )
        task = AgentTask(
            workspace_id=context.scope.memory_space,
            memory_target=target.memory_target,
            query=context.instruction,
            messages=context.messages,
            ref_memory_id=next((source.block_id for source in context.sources if source.block_id), None),
        )
        result = await agent.run(task, child)
        context.trace.usage += result.usage
        return result


def _by_type(agents: Sequence[MemoryAgent]) -> Mapping[MemoryType, MemoryAgent]:
    found: dict[MemoryType, MemoryAgent] = {}
    for agent in agents:
        if agent.memory_type is None or agent.memory_type in found:
            msg = f"agents: {agent.name!r} has no type of its own, or that of another one: give one for each type"
            raise ConfigurationError(msg)
        found[agent.memory_type] = agent
    if not found:
        msg = "agents: hands_off needs at least one agent to hand on to"
        raise ConfigurationError(msg)
    return MappingProxyType(found)
