"""Runs of pages: each file's change is written as one run, and its new lines get their ids."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from reme_core.errors import ConflictError, MemoryNotFoundError, StorageFullError, StoreAccessError
from reme_core.files.changes import AUTHOR, FilePlan, PageNow, lines_of
from reme_core.files.file_index import IndexedFile
from reme_core.files.folder import FileProblem, Stamp, UnreadableFileError, mapped_errors, trusted
from reme_core.files.journal import add_entry
from reme_core.files.writer import keep_both, write_page
from reme_core.ports import Clock, PutMemory, Store, WriteBatch
from reme_core.private_drafts import sync_folder
from reme_core.remember.memory_editor import out_of_the_way
from reme_core.schema import Memory, Scope, new_id

UNSEEN: Stamp = (-1, 0)
"""The stamp of a file that is to be read again."""

_TOGETHER = 100  # new files a transaction: each waits for the disk once
_WRITERS = 8  # who wait for the disk at the same time, as it can flush several files at once


@dataclass(frozen=True, slots=True)
class FileRun:
    """A file's change as it was taken over; `ReMe.undo` takes `run_id` back."""

    path: str
    run_id: str
    put: int
    deleted: int


class PlannedPage(NamedTuple):
    """A page, what is to be written for it, and when it was changed."""

    now: PageNow
    plan: FilePlan
    at: datetime


@dataclass(slots=True)
class PageRuns:
    """Writes the runs of one sync.

    Attributes:
        root: The folder.
        store: Where the memories go.
        scope: Whose they are.
        clock: Tells the time.
        stand: In which file each memory stands.
        done: The runs that were written.
        written: Files that were written.
        conflicts: Copies that were kept.
        problems: Files that could not be written.
        settled: Whether nothing was changed by others in the moment of writing.
    """

    root: Path
    store: Store
    scope: Scope
    clock: Clock
    stand: dict[str, str] = field(default_factory=dict)
    done: list[FileRun] = field(default_factory=list)
    written: dict[str, None] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)
    problems: list[FileProblem] = field(default_factory=list)
    settled: bool = True

    async def write_new(self, pages: Sequence[PlannedPage]) -> dict[str, IndexedFile]:
        """Write the runs of files that were not indexed, many in a transaction; return them as they are indexed."""
        indexed: dict[str, IndexedFile] = {}
        for start in range(0, len(pages), _TOGETHER):
            some = pages[start : start + _TOGETHER]
            if len(some) > 1 and (ids := await self._put_together(some)) is not None:
                indexed |= await asyncio.to_thread(self._mark_all, some, ids)
                continue
            for page in some:
                if (file := await self.write_page_run(page)) is not None:
                    indexed[page.now.path] = file
        return indexed

    async def write_page_run(self, page: PlannedPage) -> IndexedFile | None:
        """Write the run of a page and the ids of its lines; None: somebody changed a memory of it just now."""
        ids = await self._put(page.now.path, page.plan, page.at)
        if ids is None:
            return None
        indexed = await asyncio.to_thread(self._mark, page, ids)
        if page.plan.conflicts:
            await asyncio.to_thread(self._keep_both, page)
        return indexed

    async def write_removal(self, path: str, plan: FilePlan, at: datetime) -> bool:
        """Write the run of a page that is gone; tell whether it was."""
        return await self._put(path, plan, at) is not None

    async def _put_together(self, pages: Sequence[PlannedPage]) -> dict[str, str] | None:
        """Put what new files say, each as its own run; None: one of them can't be put so."""
        puts: list[PutMemory] = []
        runs = []
        for page in pages:
            run_id, reason = new_id(), _reason(page.now.path)
            puts += [replace(put, run_id=run_id, reason=reason) for put in page.plan.puts]
            if page.plan.puts:
                runs.append(FileRun(page.now.path, run_id, len(page.plan.puts), 0))
        try:
            stored = await self.store.put(self.scope, WriteBatch(puts=puts, actor=AUTHOR, at=self.clock.now()))
        except ConflictError:
            return None
        self.done += runs
        return _ids_of(puts, stored)

    async def _put(self, path: str, plan: FilePlan, at: datetime) -> dict[str, str] | None:
        """Write a page's run; return the ids that memories got, by those planned. None: one was changed just now."""
        if not plan.is_change:
            return {}
        run_id = new_id()
        first = WriteBatch(
            puts=plan.puts, deletes=plan.deletes, reason=_reason(path), run_id=run_id, actor=AUTHOR, at=at
        )
        for batch in (first, out_of_the_way(first)):
            try:
                stored = await self.store.put(self.scope, batch)
            except ConflictError:
                continue
            except MemoryNotFoundError:
                break
            self.done.append(FileRun(path, run_id, len(plan.puts), len(plan.deletes)))
            return _ids_of(batch.puts, stored)
        self.settled = False
        return None

    def _mark_all(self, pages: Sequence[PlannedPage], ids: Mapping[str, str]) -> dict[str, IndexedFile]:
        first = {(self.root / page.now.path).parent: page for page in reversed(pages)}
        with ThreadPoolExecutor(_WRITERS) as writers:
            files = list(writers.map(lambda page: self._mark(page, ids, tidy=page in first.values()), pages))
        for folder in first:
            with mapped_errors(folder), suppress(FileNotFoundError):
                sync_folder(folder)
        return {page.now.path: file for page, file in zip(pages, files, strict=True)}

    def _mark(self, page: PlannedPage, ids: Mapping[str, str], *, tidy: bool = True) -> IndexedFile:
        """Write the ids of new statements into their lines; return the file as it is indexed."""
        now = page.now
        entries = tuple(
            entry._replace(memory_id=ids.get(entry.memory_id, entry.memory_id)) for entry in page.plan.entries
        )
        indexed = IndexedFile(stamp=trusted(now.read.stamp), sha256=now.read.sha256, target=now.target, rows=entries)
        marks: dict[int, str] = {}
        for planned, entry in zip(page.plan.entries, entries, strict=True):
            is_new = planned.first in page.plan.unmarked or planned.memory_id != entry.memory_id
            if is_new and not entry.is_passage and self.stand.setdefault(entry.memory_id, now.path) == now.path:
                marks[entry.first] = entry.memory_id
        marked = now.page.with_ids(marks)
        if marked == now.page:
            return indexed
        data = marked.print()
        try:
            stamp = write_page(self.root / now.path, data, expected=now.read.sha256, tidy=tidy)
        except ConflictError:  # it was changed again, and is read again
            self.settled = False
            return replace(indexed, stamp=UNSEEN)
        except (StorageFullError, StoreAccessError) as exc:
            self.problems.append(FileProblem(now.path, exc.message))
            return replace(indexed, stamp=UNSEEN)
        self.written[now.path] = None
        return replace(indexed, stamp=trusted(stamp), sha256=hashlib.sha256(data).hexdigest())

    def _keep_both(self, page: PlannedPage) -> None:
        """Keep what the memories said beside the file that says something else; the journal names both."""
        path, copied = page.now.path, page.now.page
        for conflict in reversed(page.plan.conflicts):
            copied = copied.spliced(conflict.first, conflict.last + 1, lines_of(conflict.memory))
        at = self.clock.now()
        try:
            copy = keep_both(self.root / path, copied.print(), at)
            self.conflicts.append(copy.relative_to(self.root).as_posix())
            told = (
                f"`{path}` was edited while what it says was changed in the memory, too. "
                f"The edit holds; the other text is in `{self.conflicts[-1]}`."
            )
            add_entry(self.root, told, title="conflict", session_id="", at=at)
        except (StorageFullError, StoreAccessError, ConflictError, UnreadableFileError) as exc:
            self.problems.append(FileProblem(path, exc.message))


def _reason(path: str) -> str:
    return f"{path} was changed"


def _ids_of(puts: Sequence[PutMemory], stored: Sequence[Memory]) -> dict[str, str]:
    return {put.memory.memory_id: memory.memory_id for put, memory in zip(puts, stored, strict=True)}
