"""Reading from a scope's stores of what it holds already of a library."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from pydantic import JsonValue, ValidationError

from reme_core.errors import NotFoundError
from reme_core.ports import EventQuery, MemoryFilter, Store, Target
from reme_core.rules import Claim, claim_of
from reme_core.schema import LineProblem, Memory, MemoryType, Scope, Source, describe
from reme_core.steps.similar_memories import find_equal_memories
from reme_core.steps.targets import all_memories, memories_about, target_of
from reme_core.toolstats.tool_guideline import KIND
from reme_core.transfer.library_plan import (
    ReplacedMemory,
    ScopeContents,
    changed,
    is_current_guideline,
    is_taken,
    may_be_replaced,
    replaced_as,
    says,
)
from reme_core.transfer.transfer_file import LibraryLine

T = TypeVar("T")

_PAGE = 500


async def find_all(get: Callable[[Sequence[str]], Awaitable[list[T]]], ids: Iterable[str]) -> list[T]:
    """Return those of the things with these ids that there are."""
    found: list[T] = []
    for page in pages_of(list(ids)):
        try:
            found += await get(page)
        except NotFoundError as exc:
            missing = set(exc.missing)
            rest = [item for item in page if item not in missing]
            found += await get(rest) if rest else []
    return found


def pages_of(items: Sequence[T], size: int = _PAGE) -> Iterator[Sequence[T]]:
    """Cut a list into pieces."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


async def with_held_sources(
    store: Store, scope: Scope, entries: Sequence[LibraryLine]
) -> tuple[list[LibraryLine], list[LineProblem]]:
    """Move sources that the scope doesn't hold to the origin of their memories."""
    sources = [source for entry in entries if entry.memory is not None for source in entry.memory.sources]
    wanted_blocks = {source.block_id for source in sources if source.block_id is not None}
    wanted_messages = {message_id for source in sources for message_id in source.message_ids}
    blocks = {item.block_id for item in await find_all(partial(store.get_blocks, scope), wanted_blocks)}
    messages = {item.message.message_id for item in await find_all(partial(store.get_messages, scope), wanted_messages)}

    def is_here(source: Source) -> bool:
        return (source.block_id is None or source.block_id in blocks) and messages.issuperset(source.message_ids)

    return await asyncio.to_thread(_sourced, entries, is_here)


def _sourced(
    entries: Sequence[LibraryLine], is_here: Callable[[Source], bool]
) -> tuple[list[LibraryLine], list[LineProblem]]:
    kept: list[LibraryLine] = []
    problems: list[LineProblem] = []
    for entry in entries:
        memory = entry.memory
        if memory is None or all(map(is_here, memory.sources)):
            kept.append(entry)
            continue
        here = tuple(source for source in memory.sources if is_here(source))
        gone: list[JsonValue] = [source.model_dump(mode="json") for source in memory.sources if not is_here(source)]
        try:
            kept.append(replace(entry, memory=changed(memory, {"sources": here}, {"sources": gone})))
        except ValidationError as exc:
            problems.append(LineProblem(line=entry.line, reason=describe(exc, "memory")))
    return kept, problems


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lookup:
    """What is to be looked for: memories whose ids are taken, what lines say, and targets of replaced ones."""

    taken: Sequence[Memory]
    claims: Collection[Claim]
    replaced: Collection[Target]


async def read_held(store: Store, scope: Scope, entries: Sequence[LibraryLine]) -> ScopeContents:
    """Read what a scope holds of what the lines of a library speak of."""
    new = [entry.memory for entry in entries if entry.memory is not None]
    ids = {memory.memory_id for memory in new} | {item.superseded_by for item in new if item.superseded_by is not None}
    by_id = {memory.memory_id: memory for memory in await find_all(partial(store.get, scope), ids)}
    wanted = await asyncio.to_thread(_wanted, entries, by_id)
    equal = await find_equal_memories(store, scope, wanted.claims)
    tools = {memory.memory_target for memory in new if is_current_guideline(memory)}
    return ScopeContents(
        by_id=by_id,
        claims={claim: memory.memory_id for claim, memory in equal.items()},
        former=await _held_former(store, scope, wanted.taken, by_id),
        replaced=await _held_replaced(store, scope, wanted.replaced),
        guided=await _guided(store, scope, sorted(tools)),
    )


def _wanted(entries: Sequence[LibraryLine], by_id: Mapping[str, Memory]) -> _Lookup:
    new = [entry.memory for entry in entries if entry.memory is not None]
    taken = [memory for memory in new if is_taken(by_id.get(memory.memory_id), memory)]
    said = (*(item for item in new if item.memory_id not in by_id), *taken)
    claims = {claim for memory in said if (claim := claim_of(memory)) is not None}
    replaced = {target_of(entry.memory) for entry in entries if entry.memory is not None and may_be_replaced(entry)}
    return _Lookup(taken=taken, claims=claims, replaced=replaced)


async def _held_former(
    store: Store, scope: Scope, taken: Sequence[Memory], by_id: Mapping[str, Memory]
) -> dict[tuple[str, Claim], str]:
    """Find what memories whose ids are taken have become: copies with another id, or what has them, changed since."""
    former: dict[tuple[str, Claim], str] = {}
    copies: dict[str, list[Memory]] = {}
    for target in {target_of(memory) for memory in taken}:
        for copy in await all_memories(store, scope, _with_replaced(target)):
            origin = copy.metadata.get("origin")
            name = origin.get("memory_id") if isinstance(origin, dict) else None
            if isinstance(name, str):
                copies.setdefault(name, []).append(copy)
                former[name, says(copy)] = copy.memory_id
    for memory in taken:
        for candidate in (by_id[memory.memory_id], *copies.get(memory.memory_id, ())):
            if (memory.memory_id, says(memory)) not in former and await _has_said(store, candidate, says(memory)):
                former[memory.memory_id, says(memory)] = candidate.memory_id
    return former


async def _has_said(store: Store, memory: Memory, claim: Claim) -> bool:
    """Tell from a memory's history whether it has said something."""
    after = 0
    while True:
        query = EventQuery(memory_id=memory.memory_id, after=after, limit=_PAGE)
        events = await store.events(memory.scope, query)
        if any(past is not None and says(past) == claim for event in events for past in (event.before, event.after)):
            return True
        if len(events) < _PAGE:
            return False
        after = events[-1].sequence


async def _held_replaced(store: Store, scope: Scope, targets: Iterable[Target]) -> dict[ReplacedMemory, str]:
    found: dict[ReplacedMemory, str] = {}
    for target in targets:
        for memory in await all_memories(store, scope, _with_replaced(target)):
            for past in (replaced_as(memory), replaced_as(memory, is_dated=False)):
                if past is not None:
                    found[past] = memory.memory_id
    return found


async def _guided(store: Store, scope: Scope, tools: Sequence[str]) -> frozenset[str]:
    names: set[str] = set()
    for page in pages_of(tools):
        wanted = MemoryFilter(types=(MemoryType.TOOL,), targets=tuple(page), metadata={"kind": KIND})
        names |= {memory.memory_target for memory in await all_memories(store, scope, wanted)}
    return frozenset(names)


def _with_replaced(target: Target) -> MemoryFilter:
    return replace(memories_about(target), include_superseded=True)
