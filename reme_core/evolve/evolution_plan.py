"""Plan of a consolidation: what is read, what is joined by words, and what a model is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from reme_core.errors import ContextTooLongError, ModelOutputError
from reme_core.evolve.consolidation_question import Findings, consolidation_question
from reme_core.evolve.merged_memory import merge, said_order, same_words
from reme_core.evolve.near_memories import MOST_REQUESTS, NearPair, likely_same, near_pairs, request_groups
from reme_core.ports import MemoryFilter, Store, Uselessness
from reme_core.rules import is_useless
from reme_core.schema import Evolution, Memory, MemoryGroup, MemoryType, MergedMemories, Scope, TidiedLink
from reme_core.schema.tool_calls import is_guideline
from reme_core.steps.ask_json import ask
from reme_core.steps.flow import FlowContext
from reme_core.steps.targets import ROUTED, all_memories, target_of

USELESS = Uselessness(min_freq=5, max_utility=0.5)
"""What is proposed for forgetting: as `forget_memories` takes it by itself."""

MOST_COMPARED = 5000
"""Each is searched for once, which takes some milliseconds; of more, those that were said last."""

MOST_LINKS = 1000
"""Links that one run tidies; the next one goes on."""

_MOST_ALIKE, _MOST_GROUPS = 20, 4
"""Memories in the same words that become one, and groups of these that one more is tried with; the next run goes on."""


async def read_memories(store: Store, scope: Scope, targets: tuple[str, ...] | None = None) -> dict[str, Memory]:
    """Return by id the statements that are consolidated, replaced ones included; no guideline of a tool."""
    wanted = MemoryFilter(types=ROUTED, targets=targets, include_superseded=True)
    held = await all_memories(store, scope, wanted)
    return {memory.memory_id: memory for memory in held if not is_guideline(memory)}


async def plan_evolution(context: FlowContext, *, targets: tuple[str, ...] | None = None) -> Evolution:
    """Work out a consolidation; nothing is written. What it costs is added to the context's trace, as it happens.

    With a model, what says the same in other words is joined; without one, what differs in its form alone.

    Raises:
        ModelError: The model failed. An answer that can't be used costs the memories of its question alone.
        StoreError: The store can't be read.
    """
    held, now = await read_memories(context.store, context.scope, targets), context.clock.now()
    current = sorted((memory for memory in held.values() if memory.is_current), key=said_order)
    by_words = await asyncio.to_thread(joined_by_words, current, at=now)
    gone = {part.memory_id for item in by_words for part in item.before}
    compared = [memory for memory in current if memory.memory_id not in gone]
    if len(compared) > MOST_COMPARED:
        told = f"{len(compared) - MOST_COMPARED} older memories were not compared: consolidate targets by themselves"
        context.trace.degraded[told] = None
    pairs = await near_pairs(context, compared[-MOST_COMPARED:])
    found, likely = Findings(), tuple[MemoryGroup, ...]()
    if context.model is None:
        alike = await asyncio.to_thread(likely_same, pairs)
        likely = tuple(MemoryGroup(memories=pair, reason="in nearly the same words") for pair in alike)
    else:
        found = await _asked(context, pairs, at=now)
    merges = (*by_words, *found.merges)
    joined = {part.memory_id for item in merges for part in item.before}
    return Evolution(
        merges=merges,
        links=tidied_links(held, merges),
        contradictions=found.contradictions,
        likely=likely,
        forgettable=tuple(
            memory
            for memory in current
            if memory.memory_type is MemoryType.PROCEDURAL
            and is_useless(memory, USELESS)
            and memory.memory_id not in joined
        ),
        rejected=found.rejected,
        usage=context.trace.usage,
        degraded=tuple(context.trace.degraded),
    )


def joined_by_words(memories: Iterable[Memory], *, at: datetime) -> list[MergedMemories]:
    """Join memories, oldest first, that differ in punctuation, case and the forms of dates alone."""
    groups: dict[tuple[object, ...], list[list[Memory]]] = {}
    for memory in memories:
        same = groups.setdefault(same_words(memory), [])
        roomy = (group for group in same[-_MOST_GROUPS:] if len(group) < _MOST_ALIKE)
        group = next((group for group in roomy if _joined([*group, memory], at) is not None), None)
        if group is None:
            same.append([memory])
        else:
            group.append(memory)
    joined = (_joined(group, at) for same in groups.values() for group in same if len(group) > 1)
    return [item for item in joined if item is not None]


def _joined(group: Sequence[Memory], at: datetime) -> MergedMemories | None:
    """Return memories in the words of the first as one; None where they are of two persons or two times.

    Under two targets, what was said on two days may have happened twice.
    """
    targets = {target_of(memory) for memory in group}
    if len(targets) > 1 and len({memory.observed_at.date() for memory in group}) > 1:
        return None
    try:
        return merge(group, group[0].content, "words", at=at)
    except ValueError:
        return None


async def _asked(context: FlowContext, pairs: Sequence[NearPair], *, at: datetime) -> Findings:
    model, found = context.chat_model("consolidation"), Findings()
    requests = await asyncio.to_thread(request_groups, pairs)
    if len(requests) > MOST_REQUESTS:
        left = sum(map(len, requests[MOST_REQUESTS:]))
        context.trace.degraded[f"{left} memories were not compared: consolidate targets by themselves"] = None
    for memories in requests[:MOST_REQUESTS]:
        shown = sorted(memories, key=lambda memory: (target_of(memory), said_order(memory)))
        try:
            found += await ask(model, consolidation_question(shown, context.language, at=at))
        except (ModelOutputError, ContextTooLongError) as exc:
            found += Findings(rejected=(MemoryGroup(memories=tuple(shown), reason=exc.message),))
    return found


def tidied_links(held: Mapping[str, Memory], merges: Iterable[MergedMemories]) -> tuple[TidiedLink, ...]:
    """Return the replaced memories that name one that is replaced itself, each with the end of its chain.

    A chain that ends in nothing, or in itself, stays as it is.
    """
    successors = {name: memory.superseded_by for name, memory in held.items()}
    for item in merges:
        successors |= {part.memory_id: item.after.memory_id for part in item.before[1:]}
    links: list[TidiedLink] = []
    for name, memory in held.items():
        end, seen = memory.superseded_by, {name}
        while end is not None and end not in seen and (after := successors.get(end)) is not None:
            seen.add(end)
            end = after
        if memory.superseded_by != end and end in held and end not in seen and end is not None:
            links.append(TidiedLink(before=memory, superseded_by=end))
    return tuple(links[:MOST_LINKS])
