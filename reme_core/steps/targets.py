"""Targets that a run may touch, and the provenance of what it writes: messages, stated times, and what it was shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from reme_core.errors import ConfigurationError, ToolFeedback
from reme_core.ports import ListMemories, MemoryFilter, MetaMemory, Store, Target, ToolContext
from reme_core.rules import Claim
from reme_core.schema import (
    NO_STATEMENTS,
    Hit,
    Memory,
    MemoryType,
    Scope,
    Source,
    TrustClass,
    last_part,
    least_trusted,
    shown_end,
)
from reme_core.schema.checks import check_id
from reme_core.schema.times import may_end, parse_said_time
from reme_core.steps.message_lines import all_pages
from reme_core.text import normalise_content, query_terms

SELF = "self"
"""The user whose scope it is, where no name is known; of identity memories, the assistant."""

IDENTITY = Target(MemoryType.IDENTITY, SELF)

ROUTED = (MemoryType.IDENTITY, MemoryType.PERSONAL, MemoryType.PROCEDURAL, MemoryType.TOOL)
"""Types of memory that have targets of their own; summaries are of all that was said."""

MAX_TARGET_CHARS = 256
_PAGE = 500


def _stripped(value: object) -> object:
    return value.strip() if isinstance(value, str) else value


TargetName = Annotated[str, Field(max_length=MAX_TARGET_CHARS), AfterValidator(check_id), BeforeValidator(_stripped)]
"""The name of a target as a model writes it: one line, blanks at its ends forgiven."""


def meta_target(target: Target) -> str:
    """Return the `memory_target` of the entry that stands for a target in the routing table."""
    return f"{target.memory_type}/{target.memory_target}"


def read_meta_target(memory: Memory) -> Target | None:
    """Return the target that an entry of the routing table stands for; None for one that we did not write."""
    kind, _, name = memory.memory_target.partition("/")
    return Target(MemoryType(kind), name) if kind in ROUTED and name else None


def label(target: Target) -> str:
    """Write a target as models see it: `personal(Alice)`."""
    return f"{target.memory_type}({target.memory_target})"


def find_target(known: Iterable[Target], wanted: Target) -> Target | None:
    """Return the known target that is meant: case and blanks at the ends don't count, an equal one goes first."""
    same = [target for target in known if target.memory_type is wanted.memory_type and same_name(target, wanted)]
    return wanted if wanted in same else next(iter(same), None)


def same_name(one: Target, other: Target) -> bool:
    """Tell whether two names are the same, whatever their case and the blanks at their ends."""
    return one.memory_target.strip().casefold() == other.memory_target.strip().casefold()


def may_touch(context: ToolContext, target: Target) -> bool:
    """Tell whether a call is about a target: it is of the call's type and target and among its targets, where set."""
    return (
        target.memory_type not in NO_STATEMENTS
        and context.memory_type in {None, target.memory_type}
        and context.memory_target in {None, target.memory_target}
        and (context.targets is None or target in context.targets)
    )


def target_of(memory: Memory) -> Target:
    """Return what a memory is about."""
    return Target(memory.memory_type, memory.memory_target)


def assigned_target(context: ToolContext, what: str) -> Target:
    """Return the target that a call writes to.

    Raises:
        ConfigurationError: The context names none, or one that the call must not touch.
    """
    if context.memory_type is None or context.memory_target is None:
        msg = f"{what}: the context has to name memory_type and memory_target; a model can't choose them here"
        raise ConfigurationError(msg)
    target = Target(context.memory_type, context.memory_target)
    if not may_touch(context, target):
        msg = f"{what}: {label(target)} is not among the targets of this call"
        raise ConfigurationError(msg)
    return target


def reachable(context: ToolContext, types: Iterable[MemoryType]) -> list[MemoryFilter]:
    """Return filters that together mean the current memories of these types that a call may read; no other ones."""
    kinds = [kind for kind in types if kind not in NO_STATEMENTS and context.memory_type in {None, kind}]
    if context.targets is None:
        targets = None if context.memory_target is None else (context.memory_target,)
        return [MemoryFilter(types=tuple(kinds), targets=targets)] if kinds else []
    names: dict[tuple[str, ...], list[MemoryType]] = {}
    for kind in kinds:
        own = sorted(
            target.memory_target
            for target in context.targets
            if target.memory_type is kind and context.memory_target in {None, target.memory_target}
        )
        if own:
            names.setdefault(tuple(own), []).append(kind)
    return [MemoryFilter(types=tuple(group), targets=own) for own, group in names.items()]


def claim_on(target: Target, content: str) -> Claim:
    """Return what a memory of a target claims for itself alone, if it says this."""
    return Claim(target.memory_type, target.memory_target, normalise_content(content))


def memories_about(target: Target) -> MemoryFilter:
    """Return the filter that means the current memories of a target."""
    return MemoryFilter(types=(target.memory_type,), targets=(target.memory_target,))


async def all_memories(store: Store, scope: Scope, wanted: MemoryFilter) -> list[Memory]:
    """Return every memory that a filter means, newest first."""
    pages = all_pages(
        lambda cursor: store.list_memories(scope, ListMemories(filter=wanted, limit=_PAGE, cursor=cursor))
    )
    return [memory async for page in pages for memory in page.memories]


def observed_at(context: ToolContext) -> datetime:
    """Return when it was said what a run writes: the time of its last message, or now."""
    return context.messages[-1].created_at if context.messages else context.clock.now()


def said_in(context: ToolContext, content: str) -> tuple[tuple[Source, ...], datetime]:
    """Return which of the run's messages a statement comes from, and when it was said.

    Messages that share half as many of its words as the closest one does, or more; all of them, where none shares any.
    """
    words = frozenset(query_terms(content))
    shares = {item.message_id: len(words & frozenset(query_terms(item.full_text))) for item in context.messages}
    best = max(shares.values(), default=0)
    if not best:
        return context.sources, observed_at(context)
    near = {name for name, share in shares.items() if 2 * share >= best}
    narrowed = [(source, tuple(name for name in source.message_ids if name in near)) for source in context.sources]
    sources = tuple(source.model_copy(update={"message_ids": names}) for source, names in narrowed if names)
    said = max(item.created_at for item in context.messages if shares[item.message_id] == best)
    return sources or context.sources, said


def trust_of(context: ToolContext, sources: Sequence[Source]) -> TrustClass:
    """Return the class of what a run writes: of the least trusted message named, the agent's own where none is."""
    named = {name for source in sources for name in source.message_ids}
    classes = [item.trust for item in context.messages if item.message_id in named]
    return least_trusted(classes) if classes else TrustClass.ASSISTANT


def joined_sources(held: Sequence[Source], more: Sequence[Source]) -> tuple[Source, ...]:
    """Return sources with further ones behind them, each once."""
    return (*held, *(source for source in more if source not in held))


FROM_HELP = "Since when it holds, or when it happened: 2023, 2023-01 or 2023-01-05. Left out: when it was said."
TO_HELP = "When it ended or will end, written alike. Left out where no end was said."


def _stated(value: object) -> str | None:
    return None if parse_said_time(value) is None else str(value)


StatedTime = Annotated[str | None, BeforeValidator(_stated), Field(default=None)]
"""A field for a time as `read_said_time` reads it, kept as it was written; None where none was stated."""


def with_stated_times(memory: Memory, valid_from: str | None, valid_to: str | None, zone: tzinfo) -> Memory:
    """Return a memory with the times that a model has stated, each with its precision; what it left out stays.

    A time of the day without an offset is that of `zone`.
    A memory of which only an end is stated that lies before its beginning began in its last day, month or year.

    Raises:
        ToolFeedback: The end lies before the beginning.
    """
    begins, ends = parse_said_time(valid_from, zone), parse_said_time(valid_to, zone)
    changes: dict[str, object] = {}
    if begins is not None:
        changes |= {"valid_from": begins.start, "valid_from_precision": begins.precision}
    if ends is not None:
        changes |= {"valid_to": ends.end, "valid_to_precision": ends.precision}
    dated = memory.model_copy(update=changes)
    end, precision = dated.valid_to, dated.valid_to_precision
    if end is None or may_end(dated.valid_from, end, precision):
        return dated
    if begins is None:
        return dated.model_copy(update={"valid_from": last_part(end, precision), "valid_from_precision": precision})
    msg = f"valid_from {valid_from!r} lies after the end, {shown_end(dated)!r}; nothing was written: correct them"
    raise ToolFeedback(msg)


READ_SCORE = 0.5
"""The score of what was read because its id or time was asked for: it was not ranked."""


def note_hits(context: ToolContext, hits: Iterable[Hit]) -> None:
    """Add hits to the trace, each thing once."""
    known = {_identity(hit) for hit in context.trace.hits}
    for hit in hits:
        if _identity(hit) not in known:
            known.add(_identity(hit))
            context.trace.hits.append(hit)


def _identity(hit: Hit) -> tuple[object, ...]:
    match hit.layer:
        case "memory":
            return hit.layer, hit.user_id, hit.memory_id
        case "summary":
            return hit.layer, hit.user_id, hit.block_id
        case "message":
            return hit.layer, hit.user_id, hit.reference, hit.message_ids


async def read_meta(store: Store, scope: Scope) -> list[MetaMemory]:
    """Return the routing table of a scope: targets with current memories, and those that were added by hand.

    By type in the order of `ROUTED`, then by name. Two spellings of a name are two entries where memories have both;
    an added one that differs from these only in case is the same.
    """
    counts = {target: n for target, n in (await store.count_targets(scope)).items() if target.memory_type in ROUTED}
    entries = {target: MetaMemory(target=target, memories=count) for target, count in counts.items()}
    for memory in reversed(await all_memories(store, scope, MemoryFilter(types=(MemoryType.META,)))):
        named = read_meta_target(memory)
        if named is not None:
            target = find_target(entries, named) or named
            entries[target] = MetaMemory(target=target, description=memory.content, memories=counts.get(target, 0))
    return sorted(entries.values(), key=lambda item: (ROUTED.index(item.target.memory_type), item.target.memory_target))
