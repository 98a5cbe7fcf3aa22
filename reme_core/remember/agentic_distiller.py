"""Distiller with agents: one routes, and one for each target writes; all write to one draft."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

from pydantic import JsonValue

from reme_core.errors import RunError
from reme_core.ports import (
    AgentTask,
    ChatModel,
    Clock,
    Embedder,
    MemoryAgent,
    RunTrace,
    Store,
    Target,
    ToolContext,
)
from reme_core.remember.fact_extraction import wanted_types
from reme_core.rules import Change
from reme_core.schema import Memory, MemoryType, Scope, Source, trust_field
from reme_core.schema.checks import check_id
from reme_core.steps.ask_json import MeteredChatModel
from reme_core.steps.distillation import Distilled, DistilTask
from reme_core.steps.targets import MAX_TARGET_CHARS, read_meta, target_of
from reme_core.text import Language, json_line, load_prompt, prompt_language, prompt_time
from reme_core.tools import AddMetaMemoryOp, DraftStore, HandsOffOp, revise

REASON = "agentic summary"

MakeRouter = Callable[[Sequence[MemoryAgent]], MemoryAgent]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgenticDistiller:
    """A `Distiller` of agents.

    Attributes:
        store: What there is.
        embedder: Gives vectors to what is written; None leaves it to its words.
        model: For the agents that have none of their own.
        clock: Tells the time.
        agents: The sub-agents, one for each memory type.
        make_router: Makes the agent that hands blocks on to some of them.
        language: Of the reviser's prompt; None follows the conversation.
        use_reviser: Have the outcome checked, and do it again once if something is wrong.
    """

    store: Store
    embedder: Embedder | None
    model: ChatModel
    clock: Clock
    agents: tuple[MemoryAgent, ...]
    make_router: MakeRouter
    language: Language | None = None
    use_reviser: bool = False

    @property
    def name(self) -> str:
        """Who writes, where no agent does."""
        return "agentic"

    async def distil(self, scope: Scope, task: DistilTask) -> Distilled:
        """Have the agents work out what a task changes; see `Distiller.distil`."""
        draft, trace = await self._attempt(scope, task, "")
        if self.use_reviser and not trace.failures and not draft.is_empty:
            changes = _statements(draft.changes)
            before = [change.before for change in changes if change.before is not None]
            after = [change.after for change in changes if change.after is not None]
            language = self._language(task)
            model = MeteredChatModel(self.model, task.meter)
            remark = task.guidance.shown(language)
            problems = await revise(model, task.messages, before, after, language, remark=remark, zone=task.zone)
            if problems:
                draft, trace = await self._attempt(scope, task, _said_of(changes, problems, language, task.zone))
        batch = draft.batch(reason=REASON, run_id=task.run_id, actor=self.name, at=self.clock.now())
        if not task.guidance.wants_summaries:
            puts = [put for put in batch.puts if put.memory.memory_type is not MemoryType.SUMMARY]
            batch = replace(batch, puts=puts)
        degraded = tuple(trace.degraded)
        return Distilled(batch=batch, failures=tuple(trace.failures), degraded=degraded)

    def _language(self, task: DistilTask) -> Language:
        return self.language or prompt_language(message.full_text for message in task.messages)

    async def _attempt(self, scope: Scope, task: DistilTask, query: str) -> tuple[DraftStore, RunTrace]:
        draft, trace = DraftStore(self.store), RunTrace()
        try:
            await self._run(scope, task, query, draft, trace)
        finally:
            task.meter.usage += trace.usage
        return draft, trace

    async def _run(self, scope: Scope, task: DistilTask, query: str, draft: DraftStore, trace: RunTrace) -> None:
        """Have the agents write to a draft; what all of them have cost is in the trace."""
        context = ToolContext(
            scope=scope,
            store=draft,
            embedder=self.embedder,
            model=self.model,
            clock=self.clock,
            run_id=task.run_id,
            author=self.name,
            sources=_sources(task),
            messages=task.messages,
            instruction=query,
            guidance=task.guidance.shown(self._language(task)),
            zone=task.zone,
            trace=trace,
        )
        known = [entry.target for entry in await read_meta(self.store, scope)]
        targets = task.targets or _only_target(task, known)
        if targets is not None:
            await self._hand_on(context, targets)
            return
        kinds = wanted_types(task)
        is_open = task.memory_type is None and task.guidance.types is None
        agents = [agent for agent in self.agents if is_open or agent.memory_type in kinds]
        if not agents:
            msg = f"no agent makes {' or '.join(kinds)} memories: give one in agents="
            raise RunError(msg)
        router = self.make_router(agents)
        ref = task.blocks[0].block_id if len(task.blocks) == 1 else None
        result = await router.run(
            AgentTask(
                workspace_id=scope.memory_space,
                query=query,
                messages=task.messages,
                ref_memory_id=ref or task.blocks[0].block_id,
            ),
            context,
        )
        trace.usage += result.usage

    async def _hand_on(self, context: ToolContext, targets: Sequence[Target]) -> None:
        """Go to the sub-agents without asking a router: there is nothing to choose."""
        for kind, name in targets:
            if kind in {MemoryType.PERSONAL, MemoryType.PROCEDURAL}:
                entry: dict[str, object] = {"memory_type": str(kind), "memory_target": name}
                await AddMetaMemoryOp(enable_multiple=False)(entry, context)
        tasks = [{"memory_type": str(kind), "memory_target": name} for kind, name in targets]
        await HandsOffOp(agents=self.agents)({"memory_tasks": tasks}, context)


def _statements(changes: Sequence[Change]) -> list[Change]:
    """Return the changes of memories that say something; entries of the routing table say nothing."""
    return [change for change in changes if MemoryType.META not in {item.memory_type for item in _states(change)}]


def _states(change: Change) -> list[Memory]:
    return [memory for memory in (change.before, change.after) if memory is not None]


def _said_of(changes: Sequence[Change], problems: Sequence[str], language: Language, zone: tzinfo) -> str:
    """Return what a second attempt is told: what the first has made, and what is wrong with it."""
    words = load_prompt("reme_core.remember", "second_attempt", language)
    lines = "\n".join(json_line({"problem": " ".join(problem.split())}) for problem in problems)
    return words.fill({"attempt": "\n".join(_made(change, zone) for change in changes), "problems": lines})


def _made(change: Change, zone: tzinfo) -> str:
    """Write a change on one line. A memory that was added has no id: there is none that it could be changed by."""
    before, memory = change.before, _states(change)[-1]
    if before is None:
        did: dict[str, JsonValue] = {"did": "added"}
    elif change.after is None:
        did = {"did": "deleted", "memory_id": change.memory_id}
    else:
        did = {"did": "changed" if memory.superseded_by is None else "closed", "memory_id": change.memory_id}
    times: dict[str, JsonValue] = {"valid_from": prompt_time(memory.valid_from, zone)}
    if memory.valid_to is not None:
        times["valid_to"] = prompt_time(memory.valid_to, zone)
    return json_line(
        {**did, "about": "/".join(target_of(memory)), **times, **trust_field(memory.trust), "text": memory.content}
    )


def _sources(task: DistilTask) -> tuple[Source, ...]:
    return tuple(
        Source(block_id=block.block_id, message_ids=block.message_ids[block.repeats :]) for block in task.blocks
    )


def _only_target(task: DistilTask, known: Sequence[Target]) -> tuple[Target, ...] | None:
    """Return the target, if there can be only one: then no router has to be asked.

    None as well where its name, which users choose, is none that tools take: a router finds another.
    """
    kind = task.memory_type
    if kind is None:
        return None
    names = {target.memory_target for target in known if target.memory_type is kind}
    if kind is MemoryType.PERSONAL:
        folded = {name.casefold() for name in names}
        speakers = {message.name or "self" for message in task.messages if message.role == "user"}
        names |= {name for name in speakers if name.casefold() not in folded}
    if kind is MemoryType.TOOL:
        calls = (block for message in task.messages for block in message.content if block.type == "tool_call")
        names = {block.name for block in calls}
    return (Target(kind, names.pop()),) if len(names) == 1 and all(map(_is_target_name, names)) else None


def _is_target_name(name: str) -> bool:
    try:
        check_id(name.strip())
    except ValueError:
        return False
    return len(name) <= MAX_TARGET_CHARS
