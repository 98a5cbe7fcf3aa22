"""Agents that write the memories of one target, and the views that prompts of agents show, in fences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import ClassVar

from reme_core.agents.base import AgentOptions, BaseMemoryAgentOp, TargetArguments
from reme_core.agents.loop import Limits, StopRule
from reme_core.ports import AgentTask, AppendMessages, MemoryAgent, MemorySearch, Target, Tool, ToolContext
from reme_core.retrieval.embedding import vectors_or_none
from reme_core.schema import Memory, MemoryType, Message, Source, new_id
from reme_core.steps.message_lines import find_messages_by_id
from reme_core.steps.slicing import block_from
from reme_core.steps.targets import SELF, all_memories, assigned_target, memories_about
from reme_core.text import conversation_lines, fence, json_line, prompt_time, shortened
from reme_core.tools import (
    AddMemoryOp,
    DeleteMemoryOp,
    ReadIdentityMemoryOp,
    UpdateIdentityMemoryOp,
    UpdateMemoryOp,
    VectorRetrieveMemoryOp,
)
from reme_core.tools.search import memory_line


def concerning(target: Target, messages: Sequence[Message]) -> list[int]:
    """Return the places of the messages that concern a target, with their neighbours; all where that is not clear.

    Of a person who speaks that is what they say and what names them; of a tool, its calls, their results and what names
    it. About somebody who is only spoken of much is said without the name, and a kind of task may be anywhere.
    """
    found = set(_about(target, messages))
    if not found:
        return list(range(len(messages)))
    return [place for place in range(len(messages)) if found & {place - 1, place, place + 1}]


def _about(target: Target, messages: Sequence[Message]) -> Iterator[int]:
    if target.memory_type is MemoryType.TOOL:
        uses = _using(target.memory_target, messages)
    elif target.memory_type is MemoryType.PERSONAL:
        uses = [_folded(message.name or "") == _folded(target.memory_target) for message in messages]
    else:
        return
    if not any(uses):
        return
    named = _naming(target.memory_target)
    for place, message in enumerate(messages):
        if uses[place] or named.search(message.full_text):
            yield place


def _using(tool: str, messages: Sequence[Message]) -> list[bool]:
    """Tell of each message whether it calls a tool or answers a call of it; many results don't name their tool."""
    blocks = [
        [block for block in message.content if block.type in {"tool_call", "tool_result"}] for message in messages
    ]
    calls = {block.call_id for found in blocks for block in found if block.name == tool}
    return [any(block.call_id in calls for block in found) for found in blocks]


def _naming(name: str) -> re.Pattern[str]:
    """Match a name or a word of it; scripts without blanks between words have names within words."""
    words = "|".join(re.escape(word) for word in sorted({name, *name.split()}, key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{words})(?!\w)" if name.isascii() else words, re.IGNORECASE)


def _folded(name: str) -> str:
    return name.strip().casefold()


async def keep_messages(messages: Sequence[Message], context: ToolContext) -> tuple[Source, ...]:
    """Store those messages that are not stored yet, as one block of a session of their own; return where all lie.

    As `AddHistoryMemoryOp` does with what a model writes; these keep their ids, their tool calls and everything else.

    Raises:
        ConflictError: The id of a message is taken by one with other content.
    """
    held = await find_messages_by_id(context.store, context.scope, [message.message_id for message in messages])
    new = [message for message in messages if message.message_id not in held]
    if new:
        session_id, now = new_id(), context.clock.now()
        request = AppendMessages(
            session_id=session_id,
            messages=new,
            want_vectors=context.embedder is not None,
            slicer=lambda waiting: [block_from(session_id, waiting, created_at=now)],
        )
        await context.store.append(context.scope, request)
    stored = await context.store.get_messages(context.scope, [message.message_id for message in messages])
    by_block: dict[str | None, list[str]] = {}
    for item in stored:
        by_block.setdefault(item.block_id, []).append(item.message.message_id)
    return tuple(Source(block_id=block_id, message_ids=tuple(ids)) for block_id, ids in by_block.items())


SHOWN_MEMORIES = 20
"""At most this many similar memories, as `VectorRetrieveMemoryOp` finds unless it is told otherwise."""

# One search for each of the last messages, not one for all: what is said in passing would drown among the rest. A job
# has at most 60 messages.
_QUERIES, _QUERY_CHARS, _HITS_PER_QUERY = 64, 1000, 5
_PLAIN_CHARS = 8000


def fenced_messages(messages: Sequence[Message], zone: tzinfo) -> str:
    """Return messages as JSON lines inside a fence, their times in a zone."""
    return fence("conversation", conversation_lines(messages, zone=zone))


def fenced_concerning(target: Target, messages: Sequence[Message], zone: tzinfo) -> str:
    """Return the messages that concern a target as JSON lines inside a fence, with their numbers among all."""
    places = concerning(target, messages)
    lines = [conversation_lines([messages[place]], first=place + 1, zone=zone) for place in places]
    return fence("conversation", "\n".join(lines))


def fenced_text(name: str, text: str) -> str:
    """Return a text, such as a tool gave it, inside a fence."""
    return fence(name, shortened(text, _PLAIN_CHARS))


def fenced_memories(memories: Sequence[Memory], zone: tzinfo) -> str:
    """Return memories of one target with their ids as JSON lines inside a fence, in the order given."""
    return fence("memories", "\n".join(memory_line(memory, zone, with_target=False) for memory in memories))


def quoted(name: str, text: str) -> str:
    """Return a text of a user or a model as one line of JSON."""
    return json_line({name: text})


def wish(text: str) -> str:
    """Return what a run is asked besides: one line of JSON, and what has several lines inside a fence."""
    if "\n" not in text.strip():
        return quoted("query", text)
    return fence("query", text.strip().replace("<", "\\u003c"))


def said_between(messages: Sequence[Message], context: ToolContext) -> str:
    """Return when messages were said: a time, or the first and the last; now, where there are none."""
    moments = sorted(message.created_at for message in messages) or [context.clock.now()]
    first, last = (prompt_time(moment, context.zone) for moment in (moments[0], moments[-1]))
    return first if first == last else f"{first} – {last}"


async def similar_memories(task: AgentTask, context: ToolContext) -> list[Memory]:
    """Return the current memories of the context's target that come closest to a task, best first.

    All of them, newest first, where they are few: then nothing is searched and nothing embedded.
    """
    target = assigned_target(context, "the memories that come closest")
    counts = await context.store.count_targets(context.scope)
    if counts.get(target, 0) <= SHOWN_MEMORIES:
        return await all_memories(context.store, context.scope, memories_about(target))
    best: dict[str, tuple[float, Memory]] = {}
    for search in await _searches(task, context, target):
        for found in await context.store.search(context.scope, search):
            known = best.get(found.memory.memory_id)
            if known is None or known[0] < found.score:
                best[found.memory.memory_id] = (found.score, found.memory)
    ranked = sorted(best.values(), key=lambda item: -item[0])
    return [memory for _, memory in ranked[:SHOWN_MEMORIES]]


async def _searches(task: AgentTask, context: ToolContext, target: Target) -> list[MemorySearch]:
    wanted = memories_about(target)
    concerned = [task.messages[place] for place in concerning(target, task.messages)]
    said = [task.query, *(message.full_text for message in concerned[-_QUERIES:])]
    texts = list(dict.fromkeys(text[:_QUERY_CHARS] for text in said if text.strip()))
    vectors = await vectors_or_none(context.embedder, texts, context.trace)
    return [
        MemorySearch(text=text, vector=vector, limit=_HITS_PER_QUERY, filter=wanted)
        for text, vector in zip(texts, vectors, strict=True)
    ]


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
        "memories": fenced_memories(await similar_memories(task, context), context.zone),
        "conversation": fenced_concerning(target, task.messages, context.zone),
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
