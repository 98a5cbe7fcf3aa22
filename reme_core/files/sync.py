"""Sync of a folder with the store: what people wrote goes into memories, what memories say goes into files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from reme_core.files.changes import (
    Known,
    PageNow,
    check_size,
    named_ids,
    plan_page,
    plan_removal,
    read_now,
)
from reme_core.files.dialogs import Dialogs
from reme_core.files.erased_lines import ErasedLines
from reme_core.files.file_index import FileIndex, IndexedFile
from reme_core.files.folder import FileProblem, Scanned, Stamp, UnreadableFileError, read_page, scan, trusted
from reme_core.files.page_runs import UNSEEN, FileRun, PageRuns, PlannedPage
from reme_core.files.store_changes import StoreChanges, find_memories
from reme_core.ports import Clock, Store, TokenCounter
from reme_core.schema import Scope, describe

_ROUNDS = 5
"""How often what changes meanwhile is looked at again; what then still changes is left to the next sync."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """What a sync did.

    Attributes:
        files: How many pages there are.
        runs: What was taken over from files.
        written: Files that were written, with ids of new lines or with what memories say.
        conflicts: Copies that were kept beside files, where both sides had changed the same line.
        problems: Files that could not be taken over, and what to do.
    """

    files: int = 0
    runs: tuple[FileRun, ...] = ()
    written: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    problems: tuple[FileProblem, ...] = ()


@dataclass(slots=True)
class FolderSync:
    """Syncs one folder; one call at a time, by whoever holds the folder's lock.

    Attributes:
        root: The folder, absolute, links followed.
        store: Where the memories are.
        clock: Tells the time.
        counter: Counts the tokens of passages.
        index: The folder's index.
        wants_vectors: Whether what is new waits for a vector.
        runs: What was written.
    """

    root: Path
    store: Store
    clock: Clock
    counter: TokenCounter
    index: FileIndex
    wants_vectors: bool
    runs: PageRuns = field(init=False)
    _problems: dict[str, FileProblem] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin without a run."""
        self.runs = PageRuns(self.root, self.store, self.scope, self.clock)

    @property
    def scope(self) -> Scope:
        """Whose folder it is."""
        return self.index.scope

    async def run(self) -> SyncReport:
        """Take over what changed on both sides, until neither changes.

        Raises:
            StoreError: The store can't be read or written.
        """
        await self.index.load()
        dialogs = Dialogs(self.root, self.store, self.scope, self.clock, self.wants_vectors)
        marks = await dialogs.take_over(self.index.state.dialogs)
        changes, notes = StoreChanges(self.root, self.store, self.index), ErasedLines(self.store, self.clock)
        erased = await notes.find(self.scope)
        await changes.find(erased)
        files = 0
        for _ in range(_ROUNDS):
            self._problems, self.runs.problems, self.runs.settled = {}, [], True
            scanned = await asyncio.to_thread(self._scan)
            files = len(scanned.stamps)
            await self._take_over(scanned)
            written = await changes.write(skip=self._problems.keys())
            self.runs.written |= dict.fromkeys(written)
            for problem in [*self.runs.problems, *changes.problems, *dialogs.problems]:
                self._tell(problem)
            if self.runs.settled and not written and not changes.missed:
                if not changes.problems and not changes.left:
                    await self.index.save({}, sequence=changes.sequence)
                    await self._forget(notes, erased)
                break
        await self.index.save({}, dialogs=marks)
        return SyncReport(
            files=files,
            runs=tuple(self.runs.done),
            written=tuple(self.runs.written),
            conflicts=tuple(self.runs.conflicts),
            problems=tuple(self._problems.values()),
        )

    async def _forget(self, notes: ErasedLines, erased: Sequence[str]) -> None:
        """Forget notes of lines that are gone from the folder for which they were made, which keeps a record."""
        if erased and self.index.state.following is not None:
            there = await find_memories(self.store, self.scope, erased)  # noted, and not erased yet
            await notes.forget(self.scope, [memory_id for memory_id in erased if memory_id not in there])

    def _scan(self) -> Scanned:
        found = scan(self.root, self.index.files)
        for problem in found.problems:
            self._tell(problem)
        return found

    def _tell(self, problem: FileProblem) -> None:
        self._problems[problem.path] = problem

    async def _take_over(self, scanned: Scanned) -> None:
        """Take over the files that changed, each as one run."""
        changed = [path for path, stamp in scanned.stamps.items() if _stamp(self.index.files.get(path)) != stamp]
        pages = await asyncio.to_thread(self._read, sorted(changed))
        away = {problem.path for problem in self._problems.values()}
        gone = {
            path: file
            for path, file in self.index.files.items()
            if path not in scanned.stamps and path not in away and not _is_under(path, scanned.unread)
        }
        same = [now for now in pages if _sha(self.index.files.get(now.path)) == now.read.sha256]
        saved: dict[str, IndexedFile | None] = {
            now.path: replace(self.index.files[now.path], stamp=trusted(now.read.stamp))
            for now in same
            if self.index.files[now.path].stamp != UNSEEN
        }
        fresh = [now for now in pages if now.path not in saved]
        saved = {path: file for path, file in saved.items() if file != self.index.files[path]}
        known = await self._known(fresh, gone.values()) if fresh or gone else None
        if known is not None:
            await self._take_pages(fresh, gone, known, saved)
        await self.index.save(saved)

    async def _take_pages(
        self,
        fresh: Sequence[PageNow],
        gone: dict[str, IndexedFile],
        known: Known,
        saved: dict[str, IndexedFile | None],
    ) -> None:
        """Plan and write the runs of pages that are new, were changed or are gone."""
        moved = {file.sha256: path for path, file in gone.items()}
        self.runs.stand = self._standing(fresh, gone)
        new: list[PlannedPage] = []
        for now in fresh:
            before = self.index.files.get(now.path)
            source = None if before is not None else moved.pop(now.read.sha256, None)
            if source is not None:
                before = gone.pop(source)
            at = min(datetime.fromtimestamp(now.read.stamp[1] / 1e9, UTC), self.clock.now())
            page_known = self._elsewhere(known, now.path, _ids(before) | named_ids(now), at)
            try:
                planned = PlannedPage(now, plan_page(now, before, page_known), at)
            except ValidationError as exc:  # its path or its frontmatter names what no memory can be about
                self._tell(FileProblem(now.path, f"can't be taken over: {describe(exc, 'memory')}"))
                continue
            if before is None and not planned.plan.deletes:
                new.append(planned)
            elif (indexed := await self.runs.write_page_run(planned)) is not None:
                saved |= {now.path: indexed} if source is None else {source: None, now.path: indexed}
        saved |= await self.runs.write_new(new)
        for path, file in gone.items():
            page_known = self._elsewhere(known, path, _ids(file), self.clock.now())
            if await self.runs.write_removal(path, plan_removal(path, file, page_known), page_known.at):
                saved[path] = None

    def _standing(self, fresh: Sequence[PageNow], gone: Mapping[str, IndexedFile]) -> dict[str, str]:
        """Return in which file each memory stands by now; a copied line is a new one where it was copied to."""
        read_again = {now.path for now in fresh}
        places = self.index.places
        stand = {key: path for key, path in places.items() if path not in read_again and path not in gone}
        for is_place in (True, False):
            for now in fresh:
                for memory_id in named_ids(now):
                    if not is_place or places.get(memory_id) == now.path:
                        stand.setdefault(memory_id, now.path)
        return stand

    def _elsewhere(self, known: Known, path: str, memory_ids: set[str], at: datetime) -> Known:
        stand = self.runs.stand
        return replace(known, elsewhere={key for key in memory_ids if stand.get(key, path) != path}, at=at)

    def _read(self, paths: Sequence[str]) -> list[PageNow]:
        pages = []
        for path in paths:
            try:
                now = read_now(path, read_page(self.root, path), self.counter.count)
                check_size(now)
                pages.append(now)
            except UnreadableFileError as exc:
                self._tell(FileProblem(path, exc.message))
        return pages

    async def _known(self, pages: Sequence[PageNow], gone: Iterable[IndexedFile]) -> Known:
        files = [*gone, *(file for now in pages if (file := self.index.files.get(now.path)) is not None)]
        marks = {entry.memory_id: entry.mark for file in files for entry in file.entries}
        named = {memory_id for now in pages for memory_id in named_ids(now)}
        for memory_id in named - marks.keys():
            entry = self.index.entry(memory_id)
            if entry is not None:
                marks[memory_id] = entry.mark
        return Known(
            scope=self.scope,
            memories=await find_memories(self.store, self.scope, sorted(named | marks.keys())),
            marks=marks,
            elsewhere=frozenset(),
            at=self.clock.now(),
            wants_vectors=self.wants_vectors,
        )


def _ids(file: IndexedFile | None) -> set[str]:
    return set() if file is None else {entry.memory_id for entry in file.entries}


def _stamp(file: IndexedFile | None) -> Stamp | None:
    return None if file is None else file.stamp


def _sha(file: IndexedFile | None) -> str | None:
    return None if file is None else file.sha256


def _is_under(path: str, folders: Iterable[str]) -> bool:
    return any(not folder or path.startswith(f"{folder}/") for folder in folders)
