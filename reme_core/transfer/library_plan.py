"""Plan of taking over a library into a scope: what the scope holds of it already, and what becomes of each memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import NamedTuple, TypeAlias

from pydantic import JsonValue, ValidationError

from reme_core.ports import EventQuery, MemoryFilter, Store, Target
from reme_core.rules import Claim, claim_of
from reme_core.schema import LineProblem, Memory, MemoryType, Scope, Source, describe, new_id
from reme_core.schema.tool_calls import is_guideline
from reme_core.steps.message_lines import find_all, pieces_of
from reme_core.steps.similar_memories import find_equal_memories
from reme_core.steps.targets import all_memories, memories_about, target_of
from reme_core.text import normalise_content
from reme_core.toolstats.tool_guideline import KIND
from reme_core.transfer.legacy_library import with_origin
from reme_core.transfer.transfer_file import LibraryLine


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeContents:
    """What the scope holds of what a file speaks of.

    Attributes:
        by_id: Memories by id.
        claims: Current memories by what they say.
        former: Memories that say something else by now, or that an earlier load gave another id: by the id that they
            came with and by what they said then.
        replaced: Memories that were replaced, by what they said and when; only those that a line without id may mean.
        guided: Tools that have a guideline.
    """

    by_id: Mapping[str, Memory]
    claims: Mapping[Claim, str]
    former: Mapping[tuple[str, Claim], str]
    replaced: Mapping[ReplacedMemory, str]
    guided: frozenset[str]


class ReplacedMemory(NamedTuple):
    """What a memory said, and from when to when it held; `start` is None where a line doesn't say it."""

    claim: Claim
    start: datetime | None
    end: datetime | None


def says(memory: Memory) -> Claim:
    """Return what a memory says, or said until it was replaced."""
    return Claim(memory.memory_type, memory.memory_target, normalise_content(memory.content))


def is_taken(held: Memory | None, memory: Memory) -> bool:
    """Tell whether what has the id of a memory says something else."""
    return held is not None and says(held) != says(memory)


def replaced_as(memory: Memory, *, is_dated: bool = True) -> ReplacedMemory | None:
    """Return what a memory said and when; None for one that is current."""
    if memory.is_current:
        return None
    return ReplacedMemory(says(memory), memory.valid_from if is_dated else None, memory.valid_to)


def may_be_replaced(entry: LibraryLine) -> bool:
    """Tell whether the memory of a line has to be looked for among the replaced ones: it has no id, and is one."""
    return entry.memory is not None and entry.memory_id is None and not entry.memory.is_current


def is_current_guideline(memory: Memory) -> bool:
    """Tell whether a memory is what a tool's guideline says now."""
    return memory.is_current and is_guideline(memory)


@dataclass(frozen=True, slots=True)
class NewLine:
    """A memory that is to be written, and its line."""

    line: int
    memory: Memory


@dataclass(slots=True)
class LibraryPlan:
    """What becomes of the memories of a file.

    Attributes:
        fresh: Those to be written, in the order of the file.
        known: Ids of those that are there already.
        duplicates: Lines that say what another memory says.
        problems: Lines whose memory can't stand here.
        ids: From the id that a line gave to that of the memory here which says it.
    """

    fresh: list[NewLine] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    duplicates: list[int] = field(default_factory=list)
    problems: list[LineProblem] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)


def sort_entries(entries: Sequence[LibraryLine], held: ScopeContents) -> LibraryPlan:
    """Tell what is to be written from what is there, or stands in an earlier line; near-equal ones aside."""
    sorting = LibraryPlan()
    claims, guided, replaced = dict(held.claims), set(held.guided), dict[ReplacedMemory, str]()
    for entry in entries:
        memory = entry.memory
        if memory is None:
            continue
        known = _known_id(entry, memory, held)
        claim = claim_of(memory)
        past = replaced_as(memory, is_dated=entry.is_dated) if may_be_replaced(entry) else None
        if known is not None:
            sorting.known.append(known)
            sorting.ids[memory.memory_id] = known
            continue
        if claim is not None and claim in claims:
            sorting.duplicates.append(entry.line)
            sorting.ids[memory.memory_id] = claims[claim]
            continue
        if past is not None and past in replaced:
            sorting.duplicates.append(entry.line)
            sorting.ids[memory.memory_id] = replaced[past]
            continue
        try:
            made = _settled(
                memory,
                is_renamed=memory.memory_id in held.by_id,
                is_second=memory.memory_target in guided and is_current_guideline(memory),
            )
        except ValidationError as exc:
            sorting.problems.append(LineProblem(line=entry.line, reason=describe(exc, "memory")))
            continue
        sorting.fresh.append(NewLine(entry.line, made))
        sorting.ids[memory.memory_id] = made.memory_id
        if claim is not None:
            claims[claim] = made.memory_id
        if past is not None:
            replaced[past] = made.memory_id
        if is_current_guideline(made):
            guided.add(made.memory_target)
    return sorting


def _known_id(entry: LibraryLine, memory: Memory, held: ScopeContents) -> str | None:
    if may_be_replaced(entry):
        past = replaced_as(memory, is_dated=entry.is_dated)
        return None if past is None else held.replaced.get(past)
    same = held.by_id.get(memory.memory_id)
    if same is None:
        return None
    return same.memory_id if not is_taken(same, memory) else held.former.get((memory.memory_id, says(memory)))


def _settled(memory: Memory, *, is_renamed: bool, is_second: bool) -> Memory:
    """Return the memory as it can stand in the scope (ValidationError: its metadata gets too large).

    How many calls a guideline was written from was counted elsewhere: of those recorded here it knows none.
    """
    changes: dict[str, object] = {}
    origin: dict[str, JsonValue] = {}
    metadata = dict(memory.metadata)
    if is_renamed:
        changes["memory_id"], origin["memory_id"] = new_id(), memory.memory_id
    # A second guideline becomes a note beside the one that there is.
    foreign = ("kind", "calls") if is_second else ("calls",) if is_guideline(memory) else ()
    if moved := {name: metadata.pop(name) for name in foreign if name in metadata}:
        origin |= moved
        changes["metadata"] = metadata
    return changed(memory, changes, origin) if changes else memory


def changed(memory: Memory, changes: Mapping[str, object], origin: Mapping[str, JsonValue]) -> Memory:
    """Return a memory with other fields, and more said of its origin (ValidationError: it can't be)."""
    fields = {**memory.model_dump(), **changes}
    return Memory.model_validate({**fields, "metadata": with_origin(fields["metadata"], origin)})


_PAGE = 500


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


FindClaims: TypeAlias = Callable[[Collection[Claim]], Awaitable[Mapping[Claim, str]]]
"""Returns the ids of the current memories that say what claims say."""


async def read_held(
    store: Store, scope: Scope, entries: Sequence[LibraryLine], *, find_claims: FindClaims | None = None
) -> ScopeContents:
    """Read what a scope holds of what the lines of a library speak of; None: equal memories are looked for in it."""
    new = [entry.memory for entry in entries if entry.memory is not None]
    ids = {memory.memory_id for memory in new} | {item.superseded_by for item in new if item.superseded_by is not None}
    by_id = {memory.memory_id: memory for memory in await find_all(partial(store.get, scope), ids)}
    wanted = await asyncio.to_thread(_wanted, entries, by_id)
    claims = await (find_claims or partial(_held_claims, store, scope))(wanted.claims)
    tools = {memory.memory_target for memory in new if is_current_guideline(memory)}
    return ScopeContents(
        by_id=by_id,
        claims=claims,
        former=await _held_former(store, scope, wanted.taken, by_id),
        replaced=await _held_replaced(store, scope, wanted.replaced),
        guided=await _guided(store, scope, sorted(tools)),
    )


async def _held_claims(store: Store, scope: Scope, claims: Collection[Claim]) -> dict[Claim, str]:
    equal = await find_equal_memories(store, scope, claims)
    return {claim: memory.memory_id for claim, memory in equal.items()}


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
    for page in pieces_of(tools):
        wanted = MemoryFilter(types=(MemoryType.TOOL,), targets=tuple(page), metadata={"kind": KIND})
        names |= {memory.memory_target for memory in await all_memories(store, scope, wanted)}
    return frozenset(names)


def _with_replaced(target: Target) -> MemoryFilter:
    return replace(memories_about(target), include_superseded=True)
