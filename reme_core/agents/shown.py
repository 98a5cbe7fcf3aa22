"""Views for the prompts of agents: memories, messages, targets and times, as data inside fences."""

from __future__ import annotations

from collections.abc import Sequence

from reme_core.agents.concerning import concerning
from reme_core.ports import AgentTask, MemoryFilter, MemorySearch, Target, ToolContext
from reme_core.retrieval.embedding import try_embedding
from reme_core.schema import Memory, Message, Usage
from reme_core.steps.targets import all_memories, assigned_target
from reme_core.text import conversation_lines, fence, json_line, prompt_time, shortened
from reme_core.tools.search import memory_line

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
