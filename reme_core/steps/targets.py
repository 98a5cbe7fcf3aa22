"""Targets: their list, their names, and which of them a call may touch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from reme_core.errors import ConfigurationError
from reme_core.ports import ListMemories, MemoryFilter, Store, Target, ToolContext
from reme_core.rules import Claim
from reme_core.schema import Memory, MemoryType, Scope
from reme_core.schema.checks import check_id
from reme_core.text import normalise_content

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
        target.memory_type is not MemoryType.META
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
    kinds = [kind for kind in types if kind is not MemoryType.META and context.memory_type in {None, kind}]
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
    found: list[Memory] = []
    cursor: str | None = None
    while True:
        page = await store.list_memories(scope, ListMemories(filter=wanted, limit=_PAGE, cursor=cursor))
        found += page.memories
        cursor = page.next_cursor
        if cursor is None:
            return found
