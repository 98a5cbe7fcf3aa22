"""Views for the prompts of agents: memories, targets, times and the messages that concern a target, in fences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reme_core.ports import AgentTask, AppendMessages, MemoryFilter, MemorySearch, Target, ToolContext
from reme_core.retrieval.embedding import try_embedding
from reme_core.schema import Memory, MemoryType, Message, Source, Usage, new_id
from reme_core.steps.message_lines import find_messages_by_id
from reme_core.steps.slicing import block_from
from reme_core.steps.targets import all_memories, assigned_target
from reme_core.text import conversation_lines, fence, json_line, prompt_time, shortened
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


def fenced_messages(messages: Sequence[Message]) -> str:
    """Return messages as JSON lines inside a fence."""
    return fence("conversation", conversation_lines(messages))


def fenced_concerning(target: Target, messages: Sequence[Message]) -> str:
    """Return the messages that concern a target as JSON lines inside a fence, with their numbers among all."""
    lines = [conversation_lines([messages[place]], first=place + 1) for place in concerning(target, messages)]
    return fence("conversation", "\n".join(lines))


def fenced_text(name: str, text: str) -> str:
    """Return a text, such as a tool gave it, inside a fence."""
    return fence(name, shortened(text, _PLAIN_CHARS))


def fenced_memories(memories: Sequence[Memory]) -> str:
    """Return memories of one target with their ids as JSON lines inside a fence, in the order given."""
    return fence("memories", "\n".join(memory_line(memory, with_target=False) for memory in memories))


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
    times = sorted(prompt_time(message.created_at) for message in messages) or [prompt_time(context.clock.now())]
    return times[0] if times[0] == times[-1] else f"{times[0]} – {times[-1]}"


async def similar_memories(task: AgentTask, context: ToolContext) -> list[Memory]:
    """Return the current memories of the context's target that come closest to a task, best first.

    All of them, newest first, where they are few: then nothing is searched and nothing embedded.
    """
    target = assigned_target(context, "the memories that come closest")
    counts = await context.store.count_targets(context.scope)
    if counts.get(target, 0) <= SHOWN_MEMORIES:
        return await all_memories(context.store, context.scope, _of(target))
    best: dict[str, tuple[float, Memory]] = {}
    for search in await _searches(task, context, target):
        for found in await context.store.search(context.scope, search):
            known = best.get(found.memory.memory_id)
            if known is None or known[0] < found.score:
                best[found.memory.memory_id] = (found.score, found.memory)
    ranked = sorted(best.values(), key=lambda item: -item[0])
    return [memory for _, memory in ranked[:SHOWN_MEMORIES]]


def _of(target: Target) -> MemoryFilter:
    return MemoryFilter(types=(target.memory_type,), targets=(target.memory_target,))


async def _searches(task: AgentTask, context: ToolContext, target: Target) -> list[MemorySearch]:
    wanted = _of(target)
    concerned = [task.messages[place] for place in concerning(target, task.messages)]
    said = [task.query, *(message.full_text for message in concerned[-_QUERIES:])]
    texts = list(dict.fromkeys(text[:_QUERY_CHARS] for text in said if text.strip()))
    by_words = [MemorySearch(text=text, limit=_HITS_PER_QUERY, filter=wanted) for text in texts]
    if context.embedder is None or not texts:
        return by_words
    vectors = await try_embedding(context.embedder, texts)
    if isinstance(vectors, str):
        context.trace.degraded[vectors] = None
        return by_words
    context.trace.usage += Usage(embedding_calls=1)
    return [
        MemorySearch(text=text, vector=vector, limit=_HITS_PER_QUERY, filter=wanted)
        for text, vector in zip(texts, vectors, strict=True)
    ]
