"""The tool that hands targets to the agents that keep their memories."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, Field, create_model
from pydantic.config import JsonDict

from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    InvalidInputError,
    MemoryNotFoundError,
    PartialFailureError,
    ReMeError,
    RunError,
    ToolFeedback,
)
from reme_core.ports import AgentResult, AgentTask, MemoryAgent, Target, ToolContext
from reme_core.schema import MemoryType
from reme_core.schema.checks import Text
from reme_core.steps.draft_store import DraftStore
from reme_core.steps.targets import IDENTITY, ROUTED, TargetName, find_target, label, may_touch, read_meta
from reme_core.text import shortened
from reme_core.tools.base import MAX_ITEMS, BaseMemoryToolOp, ToolItem, check_arguments

_LOG = logging.getLogger("reme")

_ANSWER_CHARS = 500
# How often an agent does its work because somebody has changed a memory that it changes.
_TIMES = 2


_Kind = Literal["identity", "personal", "procedural", "tool"]
_KIND_HELP = "The type of memory that has to be looked after."
_TARGET_HELP = "Whom or what it is about; for identity: self."
_ALL_HELP = "Every target that the messages say something lasting about; empty if there is none."
_REASON_HELP = "Only without a target: why nothing in the conversation is worth keeping."


class HandsOffItem(ToolItem):
    """A target."""

    memory_type: _Kind = Field(description=_KIND_HELP)
    memory_target: TargetName = Field(description=_TARGET_HELP)


@dataclass(kw_only=True, eq=False)
class HandsOffOp(BaseMemoryToolOp[HandsOffItem]):
    """Has sub-agents look after targets, all at the same time, each on a draft of its own.

    What an agent has finished goes into the call's memories as one write. Where somebody has meanwhile changed a memory
    that the write is about, the agent looks again, once. One that fails, by whatever error, leaves nothing there; the
    others are not concerned, and the trace of the run keeps both. A target that can't be handed on is named in the
    answer, and the others are worked on.

    Without a target and with a `reason` it says that nothing in the conversation is worth keeping.

    Attributes:
        agents: The sub-agents, one for each type of memory; ConfigurationError for none, for one without a type, and
            for two of the same type.
    """

    name = "hands_off"
    description = "Hand the conversation to the agents that keep the memories about these targets."
    item = HandsOffItem
    items_name = "memory_tasks"
    is_concurrent = True

    agents: Sequence[MemoryAgent]

    def __post_init__(self) -> None:
        """Tell the agents apart by their types (ConfigurationError)."""
        self._agents = _by_type(self.agents)
        super().__post_init__()

    async def run(self, arguments: BaseModel, context: ToolContext) -> str:
        """Hand on, or take note that there is nothing to hand on; see `Tool.run`."""
        given = arguments.model_dump(exclude_unset=True)
        reason = str(given.pop("reason", None) or "").strip()
        if any(given.get(name) for name in ("memory_tasks", "memory_type", "memory_target")):
            return await super().run(check_arguments(self.name, super()._build_arguments(), given), context)
        if not reason:
            msg = "nothing was handed on: name the targets, or give the reason why nothing is worth keeping"
            raise ToolFeedback(msg)
        context.trace.nothing.append(shortened(reason, _ANSWER_CHARS))
        context.trace.unknown.clear()
        return "nothing is handed on"

    async def execute(self, items: Sequence[HandsOffItem], context: ToolContext) -> str:
        """Run the agents; see `BaseMemoryToolOp.execute`.

        Raises:
            ToolFeedback: Some targets can't be handed on. The others are worked on; where there are any, the cause is
                a PartialFailureError.
        """
        targets, refused = await self._targets(items, context)
        if not targets:
            raise ToolFeedback("\n".join(["nothing was handed on:", *refused]))
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self._run(target, targets, context)) for target in targets]
        done = [task.result() for task in running]
        if refused:
            failures = [InvalidInputError(line) for line in refused]
            partly = PartialFailureError(f"{self.name}: {refused[0]}", done=tuple(done), failures=failures)
            raise ToolFeedback("\n".join([*done, *refused])) from partly
        return "\n".join(done)

    async def _targets(self, items: Sequence[HandsOffItem], context: ToolContext) -> tuple[list[Target], list[str]]:
        """Return the targets meant, each once, and why others can't be handed on."""
        known = [IDENTITY, *(entry.target for entry in await read_meta(context.store, context.scope))]
        known += sorted(target for target in context.targets or () if target not in known)
        targets, refused = list[Target](), list[str]()
        for item in items:
            wanted = Target(MemoryType(item.memory_type), item.memory_target)
            found = find_target(known, wanted)
            if found is None and wanted.memory_type is MemoryType.TOOL:
                found = wanted  # a tool is known by its calls
            problem = self._problem(wanted, found, context)
            if problem is None:
                targets.append(found or wanted)
                known.append(found or wanted)
                continue
            refused.append(f"- {label(wanted)}: not handed on: {problem}")
            is_noted = wanted in context.trace.unknown
            if found is None and wanted.memory_type in self._agents and may_touch(context, wanted) and not is_noted:
                context.trace.unknown.append(wanted)
        _settle_unknown(targets, context)
        return list(dict.fromkeys(targets)), refused

    def _problem(self, wanted: Target, found: Target | None, context: ToolContext) -> str | None:
        """Say why a target can't be handed on; None if it can."""
        if wanted.memory_type not in self._agents:
            return f"nobody keeps {wanted.memory_type} memories here, leave it out: there are {', '.join(self._agents)}"
        if found is None and wanted.memory_type is MemoryType.IDENTITY:
            return "identity memories are about the assistant alone, and have one target, self: write that"
        if not may_touch(context, found or wanted):
            return "it is none of the targets of this call, leave it out"
        if found is None:
            return (
                "there is no such target: call add_meta_memory for it and hand it on, hand on the one that is meant, "
                "or call this again with no target and the reason why it is left out"
            )
        return None

    def _build_arguments(self) -> type[BaseModel]:
        types = tuple(str(kind) for kind in ROUTED if kind in self._agents)
        return _with_reason(super()._build_arguments(), types, self.enable_multiple)

    async def _run(self, target: Target, targets: Sequence[Target], context: ToolContext) -> str:
        """Have the agent of a target do its work; a failure is an answer, so that the other agents go on."""
        before = targets[: targets.index(target)]
        elsewhere = tuple(other.memory_target for other in before if other.memory_type is target.memory_type)
        try:
            result = await self._work(target, replace(context, elsewhere=elsewhere))
        except ReMeError as exc:
            failure = exc
        except Exception as exc:  # noqa: BLE001  # the outer edge of an agent of somebody else's, which may raise anything
            _LOG.exception("the agent of %s failed by an error that is none of reme's", label(target))
            failure = RunError(f"{type(exc).__name__}: {exc}")
            failure.__cause__ = exc
        else:
            context.trace.done.append(target)
            return f"- {label(target)}: done. {shortened(' '.join(result.answer.split()), _ANSWER_CHARS)}".rstrip()
        context.trace.failures.append((target, failure))
        return f"- {label(target)}: failed, nothing was changed: {shortened(str(failure), _ANSWER_CHARS)}"

    async def _work(self, target: Target, context: ToolContext) -> AgentResult:
        """Run the agent and write what it has come to; once more, where it was overtaken."""
        for left in reversed(range(_TIMES)):
            draft = DraftStore(context.store)
            result = await self._attempt(target, replace(context, store=draft))
            author = self._agents[target.memory_type].name
            batch = draft.batch(reason=self.name, run_id=context.run_id, actor=author, at=context.clock.now())
            try:
                if not draft.is_empty:
                    await context.store.put(context.scope, batch)
            except (ConflictError, MemoryNotFoundError):  # changed or deleted by somebody else while it worked
                if not left:
                    raise
            else:
                return result
        raise AssertionError  # the last round returns or raises

    async def _attempt(self, target: Target, context: ToolContext) -> AgentResult:
        agent = self._agents[target.memory_type]
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


def _settle_unknown(targets: Sequence[Target], context: ToolContext) -> None:
    """Take targets that are handed on from those that are unknown."""
    unknown = context.trace.unknown
    unknown[:] = [target for target in unknown if find_target(targets, target) is None]


# As in `BaseMemoryToolOp`, making a model takes its time.
@lru_cache(maxsize=64)
def _with_reason(
    handing: type[BaseModel],
    types: tuple[str, ...],
    is_multiple: bool,  # noqa: FBT001  # cached, by place
) -> type[BaseModel]:
    """Return the arguments of `hands_off` with a reason in place of targets; only types that are kept are offered."""
    enum: JsonDict = {"enum": list(types)}
    kind: Any = Field(description=_KIND_HELP, json_schema_extra=enum)
    fields: dict[str, Any] = {"reason": (Text | None, Field(default=None, description=_REASON_HELP))}
    if is_multiple:
        item = create_model("HandsOffItem", __base__=HandsOffItem, memory_type=(_Kind, kind))
        fields["memory_tasks"] = (list[item], Field(max_length=MAX_ITEMS, description=_ALL_HELP))
    else:
        fields["memory_type"] = (_Kind | None, Field(default=None, description=_KIND_HELP, json_schema_extra=enum))
        fields["memory_target"] = (str | None, Field(default=None, description=_TARGET_HELP))
    return create_model(handing.__name__, __base__=handing, **fields)
