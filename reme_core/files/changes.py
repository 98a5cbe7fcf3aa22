"""Changes of one page as one batch of writes: what it says now beside what was indexed and what the store holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from reme_core.files.file_index import Entry, IndexedFile
from reme_core.files.folder import MAX_FILE_BYTES, ReadFile, UnreadableFileError
from reme_core.files.markdown import (
    ID_BYTES,
    MarkdownPage,
    Prose,
    digest,
    new_line_id,
    passages,
    read_content,
    shown_content,
    statement_line,
)
from reme_core.files.targets import page_target
from reme_core.ports import DeleteMemory, PutMemory, Target
from reme_core.schema import Memory, MemoryType, Scope, new_id
from reme_core.text import normalise_content

AUTHOR = "file"
"""The author and actor of what comes from files."""


@dataclass(frozen=True, slots=True)
class PageNow:
    """A page as it was read."""

    path: str
    read: ReadFile
    page: MarkdownPage
    target: Target | None
    passages: Sequence[Prose]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a page is compared with.

    Attributes:
        scope: Whose folder it is.
        memories: The memories that the page, or the index of it, names; replaced ones among them.
        marks: Of what each memory said when it was indexed last, in any file.
        elsewhere: Memories that stand in another file by now.
        at: The time of the change.
        wants_vectors: Whether what is new waits for a vector.
    """

    scope: Scope
    memories: Mapping[str, Memory]
    marks: Mapping[str, str]
    elsewhere: AbstractSet[str]
    at: datetime
    wants_vectors: bool


class Conflict(NamedTuple):
    """Lines that a person has changed while their memory was changed, too; and what that says."""

    first: int
    last: int
    memory: Memory


@dataclass(slots=True)
class FilePlan:
    """What is to be written for one page.

    Attributes:
        puts: New states of memories, in order.
        deletes: Memories that no line says any more.
        entries: What the page holds; an id may be another one after the write, see `ids`.
        unmarked: Lines of statements that stand without an id, or with one that is not theirs.
        conflicts: See `Conflict`.
    """

    puts: list[PutMemory] = field(default_factory=list)
    deletes: list[DeleteMemory] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    unmarked: set[int] = field(default_factory=set)
    conflicts: list[Conflict] = field(default_factory=list)

    @property
    def is_change(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.puts or self.deletes)


def read_now(path: str, read: ReadFile, count: Callable[[str], int]) -> PageNow:
    """Read a page into its parts."""
    page = MarkdownPage.parse(read.data)
    target = page_target(path, page)
    return PageNow(path, read, page, target, passages(page, count, keep_statements=target is not None))


def named_ids(now: PageNow) -> set[str]:
    """Return the ids that the lines of a page name."""
    if now.target is None:
        return set()
    return {statement.memory_id for statement in now.page.statements if statement.memory_id is not None}


def check_size(now: PageNow) -> None:
    """Refuse a page that would be too large to be read again with the ids of its lines (UnreadableFileError)."""
    new = 0 if now.target is None else sum(statement.memory_id is None for statement in now.page.statements)
    if len(now.read.data) + new * ID_BYTES > MAX_FILE_BYTES:
        msg = f"has more than {MAX_FILE_BYTES:,} bytes with the ids that its lines get: split it into several files"
        raise UnreadableFileError(msg)


def says(memory: Memory) -> str:
    """Return what stands in a file for a memory."""
    return memory.content if memory.memory_type is MemoryType.PASSAGE else shown_content(memory.content)


def lines_of(memory: Memory) -> list[str]:
    """Return the lines of a memory in a file, without their ends."""
    if memory.memory_type is MemoryType.PASSAGE:
        return memory.content.split("\n")
    return [statement_line(memory.memory_id, memory.content)]


def plan_page(now: PageNow, before: IndexedFile | None, known: Known) -> FilePlan:
    """Plan the run of a page that is new or was changed; `before` is what was indexed of it, or of its old path."""
    plan = FilePlan()
    old = () if before is None else before.entries
    _plan_statements(plan, now, known)
    _plan_passages(plan, now, [entry for entry in old if entry.is_passage], known)
    plan.entries.sort(key=lambda entry: (entry.first, entry.last))
    _plan_deletes(plan, now.path, old, known)
    return plan


def plan_removal(path: str, before: IndexedFile, known: Known) -> FilePlan:
    """Plan the run of a page that is gone."""
    plan = FilePlan()
    _plan_deletes(plan, path, before.entries, known)
    return plan


def _plan_deletes(plan: FilePlan, path: str, old: Sequence[Entry], known: Known) -> None:
    """Delete what no line says any more, but for what was told to the store meanwhile: that is written again."""
    kept = {entry.memory_id for entry in plan.entries} | known.elsewhere
    for entry in {entry.memory_id: entry for entry in reversed(old)}.values():
        memory = known.memories.get(entry.memory_id)
        if (
            memory is not None
            and memory.is_current
            and entry.memory_id not in kept
            and digest(says(memory)) == entry.mark
        ):
            plan.deletes.append(
                DeleteMemory(
                    memory_id=entry.memory_id,
                    expected_revision=memory.revision,
                    reason=removal_reason(path, entry.first),
                )
            )


def removal_reason(path: str, line: int) -> str:
    """Say where a memory stood that was deleted; `read_removal` finds the place again."""
    return f"line {line + 1} of {path} was removed"


def read_removal(reason: str, path: str) -> int | None:
    """Return the line, from 0, at which a deleted memory stood in a file; None: it did not go by a file's change."""
    number = reason.removeprefix("line ").removesuffix(f" of {path} was removed")
    return int(number) - 1 if number.isdecimal() else None


def _plan_statements(plan: FilePlan, now: PageNow, known: Known) -> None:
    if now.target is None:
        return
    first_of: dict[str, str] = {}
    seen: set[str] = set()
    for statement in now.page.statements:
        content = read_content(statement.shown)
        key = normalise_content(content) or content
        memory_id = statement.memory_id
        if memory_id in seen or memory_id in known.elsewhere or _is_history(memory_id, statement.shown, known):
            memory_id = None
        if key in first_of:  # said twice, kept once
            memory_id = first_of[key]
        else:
            if memory_id is None:
                memory_id = new_line_id()
                plan.unmarked.add(statement.line)
                plan.puts.append(added_memory(memory_id, now.target, content, known))
            else:
                _plan_known(plan, now.target, memory_id, statement.line, statement.shown, known)
            first_of[key] = memory_id
        seen.add(memory_id)
        plan.entries.append(Entry(memory_id, statement.line, statement.line, digest(statement.shown), False))  # noqa: FBT003  # a field of a tuple


def _is_history(memory_id: str | None, shown: str, known: Known) -> bool:
    """Tell whether a line was taken from an older version: its memory was replaced, and the line is not as it was."""
    memory = None if memory_id is None else known.memories.get(memory_id)
    return memory is not None and not memory.is_current and known.marks.get(memory.memory_id) != digest(shown)


def _plan_known(plan: FilePlan, target: Target, memory_id: str, line: int, shown: str, known: Known) -> None:
    memory, mark = known.memories.get(memory_id), known.marks.get(memory_id)
    if memory is None:
        if mark != digest(shown):  # else the store has deleted it, and the line goes as well
            plan.puts.append(added_memory(memory_id, target, read_content(shown), known))
        return
    if not memory.is_current:
        return
    about = Target(memory.memory_type, memory.memory_target)
    says_the_same = says(memory) == shown
    if not says_the_same and mark == digest(shown):
        return  # the store says something new, which is written into the line
    if says_the_same and about == target:
        return
    if not says_the_same and mark is not None and digest(says(memory)) != mark:
        plan.conflicts.append(Conflict(line, line, memory))
    content = memory.content if says_the_same else read_content(shown)
    plan.puts.append(changed_memory(memory, target, content, memory.when_to_use, known))


def _plan_passages(plan: FilePlan, now: PageNow, old: Sequence[Entry], known: Known) -> None:
    """Keep the ids of what stayed and of what was changed in its place; the others are added and deleted."""
    target = Target(MemoryType.PASSAGE, now.path)
    ids = _kept_ids(old, [digest(item.text) for item in now.passages])
    first_of: dict[str, str] = {}
    taken: set[str] = set()
    for exact in (True, False):  # what says the same first, so that nothing else takes its text
        for place, item in enumerate(now.passages):
            memory_id, is_same = ids[place]
            key = normalise_content(item.text) or item.text
            if is_same == exact and memory_id is not None and key not in first_of and memory_id not in taken:
                first_of[key] = memory_id
                taken.add(memory_id)
    for place, item in enumerate(now.passages):
        key = normalise_content(item.text) or item.text
        planned = key in first_of and first_of[key] != ids[place][0]
        memory_id = first_of.get(key)
        if memory_id is None:
            memory_id = first_of[key] = new_id()
            plan.puts.append(added_memory(memory_id, target, item.text, known, item.above))
        elif not planned:
            _plan_passage(plan, target, memory_id, item, known)
        plan.entries.append(Entry(memory_id, item.first, item.last, digest(item.text), True))  # noqa: FBT003  # as above


def _plan_passage(plan: FilePlan, target: Target, memory_id: str, item: Prose, known: Known) -> None:
    memory, mark = known.memories.get(memory_id), known.marks.get(memory_id)
    if memory is None:
        if mark != digest(item.text):
            plan.puts.append(added_memory(memory_id, target, item.text, known, item.above))
        return
    if memory.content != item.text and mark == digest(item.text):
        return  # the store says something new
    if (memory.content, memory.when_to_use, memory.memory_target) == (item.text, item.above, target.memory_target):
        return
    if memory.content != item.text and mark is not None and digest(memory.content) != mark:
        plan.conflicts.append(Conflict(item.first, item.last, memory))
    plan.puts.append(changed_memory(memory, target, item.text, item.above, known))


def _kept_ids(old: Sequence[Entry], new: Sequence[str]) -> list[tuple[str | None, bool]]:
    """Return for each new passage the id that it keeps, if any, and whether it still says the same.

    One that no old one said takes the id of the old one in its place, behind that of the passage before it, if no
    passage says that any more.
    """
    places = {entry.mark: place for place, entry in reversed(list(enumerate(old)))}
    said = set(new)
    left = {place for place, entry in enumerate(old) if entry.mark not in said}
    ids: list[tuple[str | None, bool]] = []
    place = -1
    for mark in new:
        same = mark in places
        place = places[mark] if same else place + 1
        ids.append((old[place].memory_id, same) if same or place in left else (None, False))
        if not same and place not in left:
            place -= 1
        left.discard(place)
    return ids


def added_memory(memory_id: str, target: Target, content: str, known: Known, when_to_use: str = "") -> PutMemory:
    """Return the write of a memory that is new at the time of `known`."""
    memory = Memory(
        memory_id=memory_id,
        memory_space=known.scope.memory_space,
        user_id=known.scope.user_id,
        memory_type=target.memory_type,
        memory_target=target.memory_target,
        content=content,
        when_to_use=when_to_use,
        observed_at=known.at,
        valid_from=known.at,
        created_at=known.at,
        updated_at=known.at,
        author=AUTHOR,
    )
    return PutMemory(memory=memory, wants_vector=known.wants_vectors, expected_revision=0)


def changed_memory(memory: Memory, target: Target, content: str, when_to_use: str, known: Known) -> PutMemory:
    """Return the write of a memory that says something else from now on."""
    changes = {
        "memory_type": target.memory_type,
        "memory_target": target.memory_target,
        "content": content,
        "when_to_use": when_to_use,
        "updated_at": max(known.at, memory.updated_at),
    }
    return PutMemory(
        memory=memory.model_copy(update=changes),
        wants_vector=known.wants_vectors,
        expected_revision=memory.revision,
    )
