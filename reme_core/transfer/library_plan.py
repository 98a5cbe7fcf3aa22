"""Plan of taking over a library into a scope, worked out on values before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from pydantic import JsonValue, ValidationError

from reme_core.rules import Claim, claim_of
from reme_core.schema import LineProblem, Memory, describe, new_id
from reme_core.schema.tool_calls import is_guideline
from reme_core.text import normalise_content
from reme_core.transfer.json_lines import LibraryLine
from reme_core.transfer.legacy_library import with_origin


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
