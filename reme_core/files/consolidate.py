"""Consolidation: what of the journal lasts goes into MEMORY.md, as one run that can be undone; the journal stays."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from reme_core.errors import ModelError
from reme_core.files.changes import Known, added_memory, changed_memory
from reme_core.files.file_index import Entry, FileIndex
from reme_core.files.folder import FileProblem, read_page
from reme_core.files.lasting import JournalDay, Lasting, lasting_question, read_days
from reme_core.files.markdown import MarkdownPage, new_line_id, read_content, statement_line
from reme_core.files.store_changes import PageEdit, apply_edit, find_memories
from reme_core.files.targets import MEMORY_PAGE, OWN_TARGET
from reme_core.ports import (
    ChatModel,
    Clock,
    DeleteMemory,
    GetItems,
    ItemAddress,
    PutItem,
    PutMemory,
    Store,
    WriteBatch,
    WriteItems,
)
from reme_core.schema import Memory, TrustClass, Usage, least_trusted, new_id
from reme_core.steps.ask_json import MeteredChatModel, ask
from reme_core.steps.costs import SERVICE_SPACE, CostBook
from reme_core.text import Language, normalise_content

AUTHOR = "consolidation"
"""The author and actor of what comes out of the journal."""

_REASON = "what lasts of the journal"
_DONE = "file-consolidated"
_SHOWN_STATEMENTS = 200  # as many as AGENTS.md shows


@dataclass(slots=True, kw_only=True)
class _Standing:
    """A statement of MEMORY.md as it will stand there: its line, None for a new one; the day that changes it."""

    content: str
    memory_id: str | None
    line: int | None = None
    day: str | None = None
    is_gone: bool = False

    @property
    def at(self) -> datetime:
        assert self.day is not None  # noqa: S101  # asked of what changes alone
        return datetime.fromisoformat(self.day).replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidation:
    """What a consolidation came to.

    Attributes:
        difference: How MEMORY.md changes, as a unified difference; "" if it does not.
        run_id: What `undo` takes; None where nothing was written.
        days: The days of the journal that were looked at.
        added: New statements.
        changed: Statements that say something else.
        removed: Statements that another one took in.
        problems: Days that were left out, and what to do.
        usage: What the model cost.
    """

    difference: str = ""
    run_id: str | None = None
    days: tuple[str, ...] = ()
    added: int = 0
    changed: int = 0
    removed: int = 0
    problems: tuple[FileProblem, ...] = ()
    usage: Usage = field(default_factory=Usage)


@dataclass(slots=True)
class Consolidator:
    """Works out and writes one consolidation of a folder, which is synced before, unless nothing is to be written.

    Attributes:
        root: The folder.
        store: Where the memories are.
        index: The folder's index.
        clock: Tells the time.
        wants_vectors: Whether what is new waits for a vector.
        model: Chooses, with one call a day of the journal; None: only lines that somebody has marked last.
        language: Of the prompt; None follows the journal.
        usage: What the model has cost so far.
    """

    root: Path
    store: Store
    index: FileIndex
    clock: Clock
    wants_vectors: bool
    model: ChatModel | None = None
    language: Language | None = None
    usage: Usage = field(default_factory=Usage)
    _page: MarkdownPage = field(default_factory=lambda: MarkdownPage(()))
    _standing: list[_Standing] = field(default_factory=list)
    _problems: list[FileProblem] = field(default_factory=list)

    async def run(self, *, dry_run: bool) -> Consolidation:
        """Look at each day of the journal that is new or was changed since the last time.

        Raises:
            ConflictError: A statement was changed meanwhile: do it again.
            StoreError: The store can't be read or written.
        """
        await asyncio.to_thread(self._read_memory_page)
        done = []
        for day in await self._open_days():
            try:
                await self._consolidate(day)
            except ModelError as exc:
                self._problems.append(FileProblem(day.path, f"was left out, as the model failed: {exc.message}"))
            else:
                done.append(day)
        await CostBook(self.store, self.clock).add(self.index.scope, AUTHOR, self.usage)
        return Consolidation(
            difference=self._difference(),
            run_id=None if dry_run else await self._write(done),
            days=tuple(day.day for day in done),
            added=len(self._added),
            changed=len(self._changed),
            removed=len(self._removed),
            problems=tuple(self._problems),
            usage=self.usage,
        )

    @property
    def _added(self) -> list[_Standing]:
        return [item for item in self._standing if item.line is None and not item.is_gone]

    @property
    def _changed(self) -> list[_Standing]:
        return [item for item in self._standing if item.line is not None and item.day is not None and not item.is_gone]

    @property
    def _removed(self) -> list[_Standing]:
        return [item for item in self._standing if item.line is not None and item.is_gone]

    def _read_memory_page(self) -> None:
        if (self.root / MEMORY_PAGE).is_file():
            self._page = MarkdownPage.parse(read_page(self.root, MEMORY_PAGE).data)
        self._standing = [
            _Standing(content=read_content(item.shown), memory_id=item.memory_id, line=item.line)
            for item in self._page.statements
        ]

    async def _open_days(self) -> list[JournalDay]:
        """Return the days that are to be looked at."""
        days, self._problems = await asyncio.to_thread(read_days, self.root)
        query = GetItems(addresses=[self._place(day) for day in days], at=self.clock.now())
        items = await self.store.get_items(SERVICE_SPACE, query) if days else []
        before = [{} if item is None else item.value for item in items]
        return [
            day
            for day, value in zip(days, before, strict=True)
            if value.get("sha256") != day.sha256 or (self.model is not None and not value.get("with_model"))
        ]

    async def _consolidate(self, day: JournalDay) -> None:
        chosen: list[Lasting] = []
        shown = [item for item in self._standing if not item.is_gone][-_SHOWN_STATEMENTS:]
        if self.model is not None and any(day.lines):
            question = lasting_question(day, [item.content for item in shown], self.language)
            chosen = await ask(MeteredChatModel(self.model, self), question)
            if day.shown < len(day.lines):
                told = f"is long: the model was shown {day.shown} of its lines; move the others to another day's page"
                self._problems.append(FileProblem(day.path, told))
        cited = {number for item in chosen for number in item.lines}
        for item in chosen:
            self._take(item, [shown[number - 1] for number in item.replaces], day.day)
        for number, text in day.marked.items():
            if number not in cited:
                self._take(Lasting(content=text), [], day.day)

    def _take(self, item: Lasting, replaced: Sequence[_Standing], day: str) -> None:
        """Take what lasts over, unless a statement says the same; one that the same day has changed already stays."""
        key = _key(item.content)
        if any(_key(standing.content) == key and not standing.is_gone for standing in self._standing):
            return
        old = [standing for standing in replaced if standing.memory_id is not None and standing.day != day]
        if not old:
            self._standing.append(_Standing(content=item.content, memory_id=new_line_id(), day=day))
            return
        old[0].content, old[0].day = item.content, day
        for standing in old[1:]:
            standing.is_gone, standing.day = True, day

    def _difference(self) -> str:
        edit = PageEdit(self._page, added=[_line_of(item) for item in self._added])
        for item in (*self._changed, *self._removed):
            assert item.line is not None  # noqa: S101  # what changes stands somewhere
            entry = Entry(item.memory_id or "", item.line, item.line, "", is_passage=False)
            edit.replaced.append((entry, [] if item.is_gone else [_line_of(item)]))
        before, after = (page.print().decode().splitlines() for page in (self._page, apply_edit(self._page, edit)))
        return "\n".join(difflib.unified_diff(before, after, MEMORY_PAGE, MEMORY_PAGE, lineterm=""))

    async def _write(self, days: Sequence[JournalDay]) -> str | None:
        """Write the run, then that these days are done: after a crash between the two they are looked at again."""
        run_id, now = new_id(), self.clock.now()
        puts = await self._puts()
        if puts:
            deletes = [DeleteMemory(memory_id=item.memory_id) for item in self._removed if item.memory_id is not None]
            batch = WriteBatch(puts=puts, deletes=deletes, reason=_REASON, run_id=run_id, actor=AUTHOR, at=now)
            await self.store.put(self.index.scope, batch)
        marks = [
            PutItem(
                address=self._place(day),
                value={"sha256": day.sha256, "with_model": self.model is not None},
                owner=self.index.scope,
            )
            for day in days
        ]
        if marks:
            await self.store.write_items(SERVICE_SPACE, WriteItems(writes=marks, at=now))
        return run_id if puts else None

    async def _puts(self) -> list[PutMemory]:
        ids = [item.memory_id for item in self._changed if item.memory_id is not None]
        found = await find_memories(self.store, self.index.scope, ids)
        puts = [
            added_memory(item.memory_id, OWN_TARGET, item.content, self._known(item.at))
            for item in self._added
            if item.memory_id is not None
        ]
        puts += [
            changed_memory(memory, OWN_TARGET, item.content, memory.when_to_use, self._known(self.clock.now()))
            for item in self._changed
            if (memory := found.get(item.memory_id or "")) is not None
        ]
        return [replace(put, memory=_by_us(put.memory)) for put in puts]

    def _known(self, at: datetime) -> Known:
        return Known(
            scope=self.index.scope,
            memories={},
            marks={},
            elsewhere=frozenset(),
            at=at,
            wants_vectors=self.wants_vectors,
        )

    def _place(self, day: JournalDay) -> ItemAddress:
        return ItemAddress(namespace=(_DONE, self.index.key), key=day.day)


def _by_us(memory: Memory) -> Memory:
    """Return a memory as this run's: the journal that it was taken from is written by people and agents."""
    trust = least_trusted([memory.trust, TrustClass.ASSISTANT])
    return memory.model_copy(update={"author": AUTHOR, "trust": trust})


def _line_of(item: _Standing) -> str:
    return statement_line(item.memory_id or "", item.content)


def _key(content: str) -> str:
    return normalise_content(content) or content
