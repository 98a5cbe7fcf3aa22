"""Changes of the store as lines of files: memories that were added, told anew, deleted or brought back elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reme_core.errors import ConflictError, MemoryNotFoundError, StorageFullError, StoreAccessError
from reme_core.files.changes import AUTHOR, lines_of, read_removal, says
from reme_core.files.file_index import Entry, FileIndex
from reme_core.files.folder import MAX_FILE_BYTES, FileProblem, UnreadableFileError, inside, is_page_path, read_page
from reme_core.files.markdown import MarkdownPage, digest, is_line
from reme_core.files.targets import KEPT_TYPES, TargetPaths, new_page
from reme_core.files.writer import write_page
from reme_core.ports import EventQuery, ListMemories, MemoryFilter, Store, Target
from reme_core.schema import Event, EventKind, Memory, MemoryType, Scope

_PAGE = 1000


@dataclass(slots=True)
class PageEdit:
    """What is to be changed in one file.

    Attributes:
        page: What a file that is not there yet begins as.
        replaced: Entries and the lines in their place; none for those that go.
        inserted: Lines that come back, by the line at which they stood.
        added: New lines of statements.
    """

    page: MarkdownPage
    replaced: list[tuple[Entry, list[str]]] = field(default_factory=list)
    inserted: list[tuple[int, list[str]]] = field(default_factory=list)
    added: list[str] = field(default_factory=list)


@dataclass(slots=True)
class StoreChanges:
    """Changes since the last sync that did not come from files.

    Attributes:
        root: The folder.
        store: Where the memories are.
        index: What the files hold.
        sequence: Up to which event they go.
        missed: A file was changed in the moment of writing: it is read first.
        left: Something could not be written, and waits for the next sync.
        problems: Files that could not be written.
    """

    root: Path
    store: Store
    index: FileIndex
    sequence: int = 0
    missed: bool = False
    left: bool = False
    problems: list[FileProblem] = field(default_factory=list)
    _pending: dict[str, None] = field(default_factory=dict)

    async def find(self, erased: Iterable[str] = ()) -> None:
        """Find what changed; for a folder that is new, everything that the user's memory holds.

        No event tells of `erased` memories.
        """
        self._pending |= dict.fromkeys(erased)
        scope, start = self.index.scope, self.index.state.sequence
        self.sequence = start or 0
        while True:
            page = await self.store.events(scope, EventQuery(after=self.sequence, limit=_PAGE))
            if start is not None:
                self._pending |= {event.memory_id: None for event in page if not _is_of_a_file(event)}
            if page:
                self.sequence = page[-1].sequence
            if len(page) < _PAGE:
                break
        if start is None:
            for memory in reversed(await list_all(self.store, scope, MemoryFilter(types=tuple(KEPT_TYPES)))):
                self._pending[memory.memory_id] = None

    async def write(self, *, skip: Collection[str]) -> list[str]:
        """Write what is still to be written into files; return which were written: they are read anew."""
        self.missed, self.left, self.problems = False, False, []
        if not self._pending:
            return []
        edits = await self._edits()
        self.left = not edits.keys().isdisjoint(skip)
        return await asyncio.to_thread(self._write_all, {path: edits[path] for path in edits if path not in skip})

    async def _edits(self) -> dict[str, PageEdit]:
        found = await find_memories(self.store, self.index.scope, list(self._pending))
        edits: dict[str, PageEdit] = {}
        paths = TargetPaths.of(self.index.files)
        for memory_id in self._pending:
            memory = found.get(memory_id)
            present = memory if memory is not None and memory.is_current and _is_kept(memory, self.root) else None
            path = self.index.places.get(memory_id)
            if path is not None:
                stays = present is not None and self._is_about(path, present)
                for entry in self.index.files[path].entries:  # the same line may stand there twice
                    if entry.memory_id != memory_id:
                        continue
                    if present is None or not stays:
                        _edit(edits, path).replaced.append((entry, []))
                    elif digest(says(present)) != entry.mark:
                        _edit(edits, path).replaced.append((entry, lines_of(present)))
                if stays:
                    continue
            if present is not None:
                await self._add(edits, present, paths)
        return edits

    def _is_about(self, path: str, memory: Memory) -> bool:
        if memory.memory_type is MemoryType.PASSAGE:
            return memory.memory_target == path
        return self.index.files[path].target == Target(memory.memory_type, memory.memory_target)

    async def _add(self, edits: dict[str, PageEdit], memory: Memory, paths: TargetPaths) -> None:
        target = Target(memory.memory_type, memory.memory_target)
        if memory.memory_type is MemoryType.PASSAGE:
            path, page = memory.memory_target, MarkdownPage(())
        else:
            path = paths.find(target)
            page = new_page(path, target)
        place = None if memory.created_at == memory.updated_at else await self._place_before(memory, path)
        edit = _edit(edits, path, page)
        if place is not None:
            edit.inserted.append((place, lines_of(memory)))
        else:
            edit.added += lines_of(memory)

    async def _place_before(self, memory: Memory, path: str) -> int | None:
        """Return the line at which a memory stood in a file before it was deleted there."""
        events = await self.store.events(self.index.scope, EventQuery(memory_id=memory.memory_id, limit=_PAGE))
        reasons = [event.reason for event in events if event.operation is EventKind.DELETE and event.actor == AUTHOR]
        return read_removal(reasons[-1], path) if reasons else None

    def _write_all(self, edits: dict[str, PageEdit]) -> list[str]:
        written = []
        for path, edit in edits.items():
            try:
                if self._write(path, edit):
                    written.append(path)
            except ConflictError:
                self.missed = True
            except (UnreadableFileError, StorageFullError, StoreAccessError) as exc:
                self.problems.append(FileProblem(path, exc.message))
        return written

    def _write(self, path: str, edit: PageEdit) -> bool:
        inside(self.root, path)  # or it is refused
        indexed = self.index.files.get(path)
        if indexed is None:
            data = apply_edit(edit.page, edit).print()
            _check_size(data)
            write_page(self.root / path, data, expected=None)
            return True
        read = read_page(self.root, path)
        if read.sha256 != indexed.sha256:
            self.missed = True
            return False
        page = MarkdownPage.parse(read.data)
        data = apply_edit(page, edit).print()
        if data == read.data:
            return False
        _check_size(data)
        write_page(self.root / path, data, expected=read.sha256)
        return True


def _check_size(data: bytes) -> None:
    if len(data) > MAX_FILE_BYTES:
        msg = f"would have more than {MAX_FILE_BYTES:,} bytes, and was not written: move lines to another page"
        raise UnreadableFileError(msg)


def apply_edit(page: MarkdownPage, edit: PageEdit) -> MarkdownPage:
    """Return a page with an edit done: what changed in its place, what comes back, and last what is new."""
    for entry, lines in sorted(edit.replaced, key=lambda item: item[0].first, reverse=True):
        page = page.spliced(entry.first, entry.last + 1, lines)
    together: dict[int, list[str]] = {}
    for place, lines in sorted(edit.inserted, key=lambda item: item[0]):
        there = together.setdefault(place, [])
        if there:  # pieces of one long line
            there[-1] += lines[0]
            there += lines[1:]
        else:
            there += lines
    for place, lines in together.items():
        gap = max(0, place - len(page.lines))
        begin = page.place_for(place)
        page = page.spliced(begin, begin, [*[""] * gap, *lines])
    if not edit.added:
        return page
    statements = page.statements
    end = statements[-1].line + 1 if statements else page.place_for(len(page.lines))
    has_text = not statements and end > 0 and bool(page.lines[end - 1].strip())
    return page.spliced(end, end, [*[""] * has_text, *edit.added])


async def find_memories(store: Store, scope: Scope, memory_ids: Sequence[str]) -> dict[str, Memory]:
    """Return the memories that there are, current or replaced, by their ids."""
    wanted = list(memory_ids)
    while wanted:
        try:
            return {memory.memory_id: memory for memory in await store.get(scope, wanted)}
        except MemoryNotFoundError as exc:
            missing = set(exc.missing)
            wanted = [memory_id for memory_id in wanted if memory_id not in missing]
    return {}


async def list_all(store: Store, scope: Scope, wanted: MemoryFilter) -> list[Memory]:
    """Return all memories that a filter admits, newest first."""
    memories: list[Memory] = []
    cursor: str | None = None
    while True:
        page = await store.list_memories(scope, ListMemories(filter=wanted, limit=_PAGE, cursor=cursor))
        memories += page.memories
        cursor = page.next_cursor
        if cursor is None:
            return memories


def is_statement(memory: Memory) -> bool:
    """Tell whether a memory is a line of a file."""
    return memory.memory_type in KEPT_TYPES and is_line(memory.memory_id, memory.content)


def _is_of_a_file(event: Event) -> bool:
    """Tell whether an event is a passage of a file, which no other file has; a statement may stand in two folders."""
    memory = event.after or event.before
    return event.actor == AUTHOR and memory is not None and memory.memory_type is MemoryType.PASSAGE


def _is_kept(memory: Memory, root: Path) -> bool:
    if memory.memory_type is not MemoryType.PASSAGE:
        return is_statement(memory)
    try:
        inside(root, memory.memory_target)
    except StoreAccessError:
        return False
    return is_page_path(memory.memory_target)


def _edit(edits: dict[str, PageEdit], path: str, page: MarkdownPage | None = None) -> PageEdit:
    return edits.setdefault(path, PageEdit(page or MarkdownPage(())))
