"""Sync of a folder with the store: what people wrote goes into memories, what memories say goes into files."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from reme_core.errors import ConflictError, MemoryNotFoundError, StorageFullError, StoreAccessError
from reme_core.files.changes import (
    AUTHOR,
    FilePlan,
    Known,
    PageNow,
    lines_of,
    named_ids,
    plan_page,
    plan_removal,
    read_now,
)
from reme_core.files.file_index import FileIndex, IndexedFile
from reme_core.files.folder import FileProblem, Scanned, Stamp, UnreadableFileError, read_page, scan
from reme_core.files.journal import add_entry
from reme_core.files.store_changes import StoreChanges, find_memories
from reme_core.files.writer import keep_both, write_page
from reme_core.ports import Clock, DeleteMemory, PutMemory, Store, TokenCounter, WriteBatch
from reme_core.schema import Memory, Scope, new_id

_ROUNDS = 5
"""How often what changes meanwhile is looked at again; what then still changes is left to the next sync."""

_FRESH_NS = 2_000_000_000  # the coarsest times of file systems (FAT): what changed so lately may change unseen
_UNSEEN: Stamp = (-1, 0)


@dataclass(frozen=True, slots=True)
class FileRun:
    """A file's change as it was taken over; `ReMe.undo` takes `run_id` back."""

    path: str
    run_id: str
    put: int
    deleted: int


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
    """

    root: Path
    store: Store
    clock: Clock
    counter: TokenCounter
    index: FileIndex
    wants_vectors: bool
    _runs: list[FileRun] = field(default_factory=list)
    _written: dict[str, None] = field(default_factory=dict)
    _conflicts: list[str] = field(default_factory=list)
    _problems: dict[str, FileProblem] = field(default_factory=dict)

    @property
    def scope(self) -> Scope:
        """Whose folder it is."""
        return self.index.scope

    async def run(self) -> SyncReport:
        """Take over what changed on both sides, until neither changes.

        Raises:
            StoreError: The store can't be read or written.
        """
        self._runs, self._written, self._conflicts = [], {}, []
        await self.index.load()
        changes = StoreChanges(self.root, self.store, self.index)
        await changes.find()
        files = 0
        for _ in range(_ROUNDS):
            self._problems = {}
            scanned = await asyncio.to_thread(self._scan)
            files = len(scanned.stamps)
            settled = await self._take_over(scanned)
            written = await changes.write(skip=self._problems.keys())
            self._written |= dict.fromkeys(written)
            for problem in changes.problems:
                self._tell(problem)
            if settled and not written and not changes.missed:
                if not changes.problems and not changes.left:
                    await self.index.save({}, sequence=changes.sequence)
                break
        return SyncReport(
            files=files,
            runs=tuple(self._runs),
            written=tuple(self._written),
            conflicts=tuple(self._conflicts),
            problems=tuple(self._problems.values()),
        )

    def _scan(self) -> Scanned:
        found = scan(self.root)
        first: dict[str, str] = {}
        for path in sorted(found.stamps, key=lambda path: (path not in self.index.files, path)):
            other = first.setdefault(path.casefold(), path)
            if other != path:
                message = f"differs from {other!r} in case alone, and would be the same file elsewhere: rename one"
                found.problems.append(FileProblem(path, message))
        for problem in found.problems:
            self._tell(problem)
            found.stamps.pop(problem.path, None)
        return found

    def _tell(self, problem: FileProblem) -> None:
        self._problems[problem.path] = problem

    async def _take_over(self, scanned: Scanned) -> bool:
        """Take over the files that changed, each as one run; tell whether all of them stayed as they were read."""
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
            now.path: self.index.files[now.path].model_copy(update={"stamp": self._settled(now.read.stamp)})
            for now in same
            if self.index.files[now.path].stamp != _UNSEEN
        }
        fresh = [now for now in pages if now.path not in saved]
        saved = {path: file for path, file in saved.items() if file != self.index.files[path]}
        known = await self._known(fresh, gone.values()) if fresh or gone else None
        settled = True
        if known is not None:
            settled = await self._take_pages(fresh, gone, known, saved)
        await self.index.save(saved)
        return settled

    async def _take_pages(
        self,
        fresh: Sequence[PageNow],
        gone: dict[str, IndexedFile],
        known: Known,
        saved: dict[str, IndexedFile | None],
    ) -> bool:
        settled = True
        moved = {file.sha256: path for path, file in gone.items()}
        read_again = {now.path for now in fresh}
        stand: dict[str, str] = {
            memory_id: path
            for memory_id, path in self.index.places.items()
            if path not in read_again and path not in gone
        }
        for is_place in (True, False):  # a line that was copied is a new one where it was copied to
            for now in fresh:
                for memory_id in named_ids(now):
                    if not is_place or self.index.places.get(memory_id) == now.path:
                        stand.setdefault(memory_id, now.path)
        for now in fresh:
            before = self.index.files.get(now.path)
            source = None if before is not None else moved.pop(now.read.sha256, None)
            if source is not None:
                before = gone.pop(source)
                saved[source] = None
            elsewhere = {
                memory_id for memory_id in _ids(before) | named_ids(now) if stand.get(memory_id, now.path) != now.path
            }
            at = min(datetime.fromtimestamp(now.read.stamp[1] / 1e9, UTC), self.clock.now())
            page_known = replace(known, elsewhere=elsewhere, at=at)
            plan = plan_page(now, before, page_known)
            ids = await self._put(now.path, plan, page_known)
            if ids is None:
                settled = False
                continue
            saved[now.path] = await asyncio.to_thread(self._mark, now, plan, ids, stand)
            if plan.conflicts:
                await asyncio.to_thread(self._keep_both, now, plan)
        for path, file in gone.items():
            elsewhere = {memory_id for memory_id in _ids(file) if memory_id in stand}
            page_known = replace(known, elsewhere=elsewhere, at=self.clock.now())
            if await self._put(path, plan_removal(path, file, page_known), page_known) is None:
                settled = False
            else:
                saved[path] = None
        return settled

    def _read(self, paths: Sequence[str]) -> list[PageNow]:
        pages = []
        for path in paths:
            try:
                pages.append(read_now(path, read_page(self.root, path), self.counter.count))
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

    async def _put(self, path: str, plan: FilePlan, known: Known) -> dict[str, str] | None:
        """Write a page's run; return the ids that memories got, by those planned. None: one was changed just now."""
        if not plan.is_change:
            return {}
        run_id = new_id()
        try:
            stored = await self._write(plan.puts, plan.deletes, path, run_id, known)
        except ConflictError:
            # Another memory says what one of these says now: with the old states out of the way, it stands for both.
            puts = [replace(put, expected_revision=None) for put in plan.puts]
            deletes = [
                DeleteMemory(memory_id=put.memory.memory_id, expected_revision=put.expected_revision)
                for put in plan.puts
                if put.expected_revision
            ]
            try:
                stored = await self._write(puts, [*plan.deletes, *deletes], path, run_id, known)
            except (ConflictError, MemoryNotFoundError):
                return None
        except MemoryNotFoundError:
            return None
        self._runs.append(FileRun(path, run_id, len(plan.puts), len(plan.deletes)))
        return {put.memory.memory_id: memory.memory_id for put, memory in zip(plan.puts, stored, strict=True)}

    async def _write(
        self, puts: Sequence[PutMemory], deletes: Sequence[DeleteMemory], path: str, run_id: str, known: Known
    ) -> list[Memory]:
        batch = WriteBatch(
            puts=puts, deletes=deletes, reason=f"{path} was changed", run_id=run_id, actor=AUTHOR, at=known.at
        )
        return await self.store.put(self.scope, batch)

    def _mark(self, now: PageNow, plan: FilePlan, ids: Mapping[str, str], stand: dict[str, str]) -> IndexedFile:
        """Write the ids of new statements into their lines; return the file as it is indexed."""
        entries = tuple(entry._replace(memory_id=ids.get(entry.memory_id, entry.memory_id)) for entry in plan.entries)
        unmarked = plan.unmarked | {
            entry.first
            for entry in plan.entries
            if not entry.is_passage and ids.get(entry.memory_id, entry.memory_id) != entry.memory_id
        }
        indexed = IndexedFile(
            stamp=self._settled(now.read.stamp), sha256=now.read.sha256, target=now.target, entries=entries
        )
        marks: dict[int, str] = {}
        for entry in entries:
            if (
                not entry.is_passage
                and entry.first in unmarked
                and stand.setdefault(entry.memory_id, now.path) == now.path
            ):
                marks[entry.first] = entry.memory_id
        if not marks:
            return indexed
        page = now.page.with_ids(marks)
        if page == now.page:
            return indexed
        data = page.print()
        try:
            stamp = write_page(self.root / now.path, data, expected=now.read.sha256)
        except ConflictError:  # it was changed again, and is read again
            return indexed.model_copy(update={"stamp": _UNSEEN})
        except (StorageFullError, StoreAccessError) as exc:
            self._tell(FileProblem(now.path, exc.message))
            return indexed.model_copy(update={"stamp": _UNSEEN})
        self._written[now.path] = None
        return indexed.model_copy(update={"stamp": self._settled(stamp), "sha256": hashlib.sha256(data).hexdigest()})

    def _keep_both(self, now: PageNow, plan: FilePlan) -> None:
        """Keep what the memories said beside the file that says something else; the journal names both."""
        page = now.page
        for conflict in reversed(plan.conflicts):
            page = page.spliced(conflict.first, conflict.last + 1, lines_of(conflict.memory))
        at = self.clock.now()
        try:
            copy = keep_both(self.root / now.path, page.print(), at)
            self._conflicts.append(str(copy.relative_to(self.root).as_posix()))
            told = (
                f"`{now.path}` was edited while what it says was changed in the memory, too. "
                f"The edit holds; the other text is in `{self._conflicts[-1]}`."
            )
            add_entry(self.root, told, title="conflict", session_id="", at=at)
        except (StorageFullError, StoreAccessError, ConflictError) as exc:
            self._tell(FileProblem(now.path, exc.message))

    def _settled(self, stamp: Stamp) -> Stamp:
        """Return a stamp, or one that no file has where it is so fresh that the next change could have the same."""
        return stamp if stamp[1] < time.time_ns() - _FRESH_NS else (stamp[0], 0)


def _ids(file: IndexedFile | None) -> set[str]:
    return set() if file is None else {entry.memory_id for entry in file.entries}


def _stamp(file: IndexedFile | None) -> Stamp | None:
    return None if file is None else file.stamp


def _sha(file: IndexedFile | None) -> str | None:
    return None if file is None else file.sha256


def _is_under(path: str, folders: Iterable[str]) -> bool:
    return any(not folder or path.startswith(f"{folder}/") for folder in folders)
