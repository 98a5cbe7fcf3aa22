"""FileMemory: a folder of Markdown that a person owns, with the memory of that person as its index and history."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from reme_core.errors import ConflictError, InvalidInputError, ReMeError, StorageFullError, StoreAccessError
from reme_core.files.agent_page import find_untrusted, write_block
from reme_core.files.check import check_folder
from reme_core.files.consolidate import Consolidation, Consolidator
from reme_core.files.dialogs import dialog_stamps, read_for_lines
from reme_core.files.file_index import FileIndex
from reme_core.files.folder import AGENT_PAGES, FileProblem, UnreadableFileError, held, mapped_errors, open_folder, scan
from reme_core.files.journal import FilePlace, add_entry, add_messages
from reme_core.files.record import RETENTION_DAYS, FolderRecord
from reme_core.files.search import FileHit, FileText, read_lines, search_files
from reme_core.files.sync import FolderSync, SyncReport
from reme_core.schema import Scope, make_scope
from reme_core.steps import user_input as inputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from reme_core.ports import ChatModel, Clock, Embedder, Store, TokenCounter
    from reme_core.text import Language

_LOG = logging.getLogger("reme")
_MOST_DAYS = 36_500  # a hundred years


class HasMemories(Protocol):
    """A `ReMe`, as a folder sees it."""

    @property
    def memory_space(self) -> str: ...  # noqa: D102  # each as `ReMe` says

    @property
    def store(self) -> Store: ...  # noqa: D102

    @property
    def resting_embedder(self) -> Embedder | None: ...  # noqa: D102

    @property
    def clock(self) -> Clock: ...  # noqa: D102

    @property
    def token_counter(self) -> TokenCounter: ...  # noqa: D102

    @property
    def start_waiting(self) -> Callable[[Scope], None]: ...  # noqa: D102


class FileMemory:
    """A folder of one user of one space: `MEMORY.md`, a journal, a file for each memory target, what was said.

    A line `- text` of `MEMORY.md` and of the files under `targets/` is a memory; other text of Markdown files is found
    in passages. `sync` takes over both sides' changes; with `watch=True` that happens by itself as long as it is open.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        memory: HasMemories,
        user_id: str | None = None,
        shared: bool = False,
        watch: bool = False,
        with_record: bool = False,
        retention_days: float = RETENTION_DAYS,
    ) -> None:
        """Keep the settings; nothing is touched before the first call.

        Args:
            root: The folder, made if it is not there.
            memory: Where its memories are; it is not closed with the folder.
            user_id: Whose folder it is.
            shared: It is that of the space's shared scope.
            watch: Take over changes while it is open (extra `files`), unless another process does that already.
            with_record: Each sync also writes what was said to the memory into `dialog/`, what came of it into the
                journal, and long tool results into `tool_result/`. A folder that began so goes on, whoever syncs it.
            retention_days: How long the files of tool results stay.

        Raises:
            InvalidInputError: Neither or both of user and shared scope are named; days that are no number.
        """
        self._root = Path(root).expanduser()
        self._memory = memory
        self._scope = make_scope(memory.memory_space, user_id, shared=shared)
        self._wants_watch = watch
        self._with_record = with_record
        if isinstance(retention_days, bool) or not 0 <= retention_days <= _MOST_DAYS:
            msg = f"retention_days: wanted a number of days from 0 to {_MOST_DAYS:,}, found {retention_days!r}"
            raise InvalidInputError(msg)
        self._retention_days = retention_days
        self._index: FileIndex | None = None
        self._gate = asyncio.Lock()
        self._stop = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._lock = ExitStack()
        self._holds = False
        self.last_report = SyncReport()
        self._has_synced = False

    @property
    def root(self) -> Path:
        """The folder."""
        return self._root

    @property
    def is_watching(self) -> bool:
        """Whether this object takes over changes by itself; False where another process does."""
        return self._watching is not None

    async def __aenter__(self) -> Self:
        """Sync the folder, and watch it if that was asked for; where another process watches, just search."""
        await self._open()
        try:
            if self._wants_watch:
                await self._begin_watching()
            else:
                await self.sync()
        except ConflictError as exc:
            _LOG.info("%s", exc)
        return self

    async def _begin_watching(self) -> None:
        from reme_core.files import watch_folder  # noqa: PLC0415  # its library is an extra

        self._lock.enter_context(held(self._root))
        self._holds = True
        watching = asyncio.create_task(watch_folder(self._root, self._try_sync, self._stop))
        try:
            await asyncio.sleep(0)  # it listens by now, so that nothing is missed between the sync and the first event
            await self.sync()
        except BaseException:
            self._stop.set()
            await watching
            self._release()
            raise
        self._watching = watching

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching, after what changed by now was taken over."""
        await self.close()

    async def close(self) -> None:
        """Stop watching and give the folder free; closing twice is harmless."""
        watching, self._watching = self._watching, None
        try:
            if watching is not None:
                self._stop.set()
                await watching
                await self.sync()
        finally:
            self._release()

    async def sync(self) -> SyncReport:
        """Take over what changed in the files and in the memory since the last time.

        Raises:
            ConflictError: Another process watches the folder, and does this.
            StoreError: The store or the folder can't be read or written; files that can't be are in the report.
        """
        index = await self._open()
        async with self._gate:
            await asyncio.to_thread(open_folder, self._root, self._scope, make=False)
            with ExitStack() as stack:
                if not self._holds:
                    stack.enter_context(held(self._root))
                told = await self._write_record(index)
                syncing = FolderSync(
                    root=self._root,
                    store=self._memory.store,
                    clock=self._memory.clock,
                    counter=self._memory.token_counter,
                    index=index,
                    wants_vectors=self._memory.resting_embedder is not None,
                )
                report = await syncing.run()
                self.last_report = replace(report, problems=(*told, *report.problems, *await self._write_blocks()))
                self._has_synced = True
        if self.last_report.runs:
            self._memory.start_waiting(self._scope)
        return self.last_report

    async def sync_if_changed(self) -> SyncReport:
        """Sync where a file was changed since the last time, or this was not done yet, or left problems."""
        index = await self._open()
        await index.load()
        if self._has_synced and not self.last_report.problems:
            known = {path: file.stamp for path, file in index.files.items()}
            said = {path: mark[:2] for path, mark in index.state.dialogs.items()}
            scanned = await asyncio.to_thread(scan, self._root, known)
            if scanned.stamps == known and await asyncio.to_thread(dialog_stamps, self._root) == said:
                return SyncReport(files=len(known))
        return await self.sync()

    async def _write_record(self, index: FileIndex) -> list[FileProblem]:
        await index.load()
        if not self._with_record and index.state.following is None:
            return []
        return await self._record(index).write()

    def _record(self, index: FileIndex) -> FolderRecord:
        memory = self._memory
        return FolderRecord(self._root, memory.store, index, memory.clock, self._retention_days)

    async def memory_search(self, query: str, max_results: int = 5, min_score: float = 0.1) -> list[FileHit]:
        """Return the best of statements, passages and what was said, each with its file and lines, best first.

        Raises:
            InvalidInputError: A query without a word, or a number that can't be one.
        """
        index = await self._open()
        return await search_files(
            self._memory.store,
            self._memory.resting_embedder,
            index,
            self._root,
            inputs.read_query(query),
            max_results=inputs.read_count(max_results, "max_results"),
            min_score=min_score,
        )

    async def memory_get(self, path: str, start_line: int = 1, end_line: int | None = None) -> FileText:
        """Return lines of any file in the folder, from 1, both inclusive; at most 65,536 characters of them.

        Raises:
            InvalidInputError: Lines that the file does not have.
            StoreAccessError: The path leads out of the folder, or the file can't be read.
        """
        await self._open()
        start = inputs.read_count(start_line, "start_line")
        end = None if end_line is None else inputs.read_count(end_line, "end_line")
        return await asyncio.to_thread(read_lines, self._root, inputs.read_query(path, "path"), start, end)

    async def append_journal(
        self, text: str, *, title: str = "", session_id: str = "", at: datetime | str | None = None
    ) -> FilePlace:
        """Append an entry to `memory/YYYY-MM-DD.md` (UTC), under a heading with its time, title and session.

        It is on disk when this returns, and found by a search once it is synced, which is tried at once.

        Raises:
            InvalidInputError: An empty text, or a time that is none.
            StoreError: It can't be written.
        """
        entry = inputs.read_query(text, "text")
        name, session = inputs.read_text(title, "title"), inputs.read_text(session_id, "session_id")
        moment = inputs.read_time(at, "at") or self._memory.clock.now()
        await self._open()
        place = await asyncio.to_thread(add_entry, self._root, entry, title=name, session_id=session, at=moment)
        await self._sync_unless_watched()
        return place

    async def add_dialog(self, messages: Iterable[object], *, session_id: str = "") -> list[str]:
        """Append messages to `dialog/YYYY-MM-DD.jsonl`, by the days on which they were said; return the files.

        They are on disk when this returns, and found by a search once they are synced, which is tried at once.

        Raises:
            InvalidInputError: A message that can't be read; nothing was written.
            StoreError: They can't be written.
        """
        parsed = await asyncio.to_thread(read_for_lines, list(messages), self._memory.clock.now)
        session = "" if session_id == "" else inputs.read_id(session_id, "session_id")
        await self._open()
        sessions = dict.fromkeys((message.message_id for message in parsed), session)
        files = await asyncio.to_thread(add_messages, self._root, parsed, sessions=sessions)
        await self._sync_unless_watched()
        return files

    async def write_agent_page(self, name: str = "AGENTS.md") -> int:
        """Write what `MEMORY.md` says into a fenced block of AGENTS.md or CLAUDE.md; return how many lines it has.

        Other text of the page stays as it is. From then on each sync keeps the block up to date.

        Raises:
            InvalidInputError: Another name.
            ConflictError: Somebody else is writing the page.
            StoreError: It can't be written.
        """
        if name not in AGENT_PAGES:
            msg = f"name: wanted {' or '.join(AGENT_PAGES)}, found {name!r}"
            raise InvalidInputError(msg)
        await self._open()
        without = await find_untrusted(self._memory.store, self._scope)
        return await asyncio.to_thread(write_block, self._root, name, make=True, without=without)

    async def consolidate(
        self, model: ChatModel | None = None, *, dry_run: bool = False, language: Language | None = None
    ) -> Consolidation:
        """Move what lasts from the journal to `MEMORY.md`: one run, which `ReMe.undo` takes back. The journal stays.

        Only days are looked at that are new or were changed since the last time. Lines with the tag `#keep` last; what
        else does, a model says, in one call a day.

        Args:
            model: The model; None: only lines with the tag.
            dry_run: Write nothing; the answer shows the difference.
            language: Of the prompt; None follows the journal.

        Raises:
            ConflictError: Another process watches the folder, or a statement was changed meanwhile.
            StoreError: As `sync`.
        """
        index = await self._open()
        if not dry_run:
            await self.sync()
        consolidator = Consolidator(
            root=self._root,
            store=self._memory.store,
            index=index,
            clock=self._memory.clock,
            wants_vectors=self._memory.resting_embedder is not None,
            model=model,
            language=language,
        )
        done = await consolidator.run(dry_run=dry_run)
        if done.run_id is not None:
            self._memory.start_waiting(self._scope)
            await self.sync()
        return done

    async def rebuild(self) -> SyncReport:
        """Index all files anew, as after the database was lost: statements keep their ids.

        Raises:
            ConflictError: Another process watches the folder.
            StoreError: As `sync`.
        """
        index = await self._open()
        await index.load()
        await index.forget()
        return await self.sync()

    async def check(self) -> list[FileProblem]:
        """Compare files, index and memory without changing anything; return what does not agree, and what to do."""
        index = await self._open()
        await index.load()
        return [*await check_folder(self._root, self._memory.store, index), *await self._record(index).behind()]

    async def status(self) -> FileIndex:
        """Return the index of the folder, as it is now."""
        index = await self._open()
        await index.load()
        return index

    async def _open(self) -> FileIndex:
        if self._index is None:
            self._root = await asyncio.to_thread(_made, self._root)
            mark = await asyncio.to_thread(open_folder, self._root, self._scope)
            self._index = FileIndex(
                store=self._memory.store, clock=self._memory.clock, scope=self._scope, folder_id=mark.folder_id
            )
        return self._index

    async def _sync_unless_watched(self) -> None:
        try:
            await self.sync()
        except ConflictError as exc:  # whoever watches finds it
            _LOG.debug("%s", exc)

    async def _try_sync(self) -> None:
        """Sync; what fails is told once by the log, and tried again with the next change."""
        try:
            await self.sync()
        except ReMeError as exc:
            _LOG.warning("files in %s could not be taken over: %s", self._root, exc)

    async def _write_blocks(self) -> list[FileProblem]:
        problems, pages = [], [name for name in AGENT_PAGES if (self._root / name).is_file()]
        without = await find_untrusted(self._memory.store, self._scope) if pages else ()
        for name in pages:
            try:
                await asyncio.to_thread(write_block, self._root, name, make=False, without=without)
            except (ConflictError, UnreadableFileError, StorageFullError, StoreAccessError) as exc:
                problems.append(FileProblem(name, exc.message))
        return problems

    def _release(self) -> None:
        self._lock.close()
        self._holds = False


def _made(root: Path) -> Path:
    """Make a folder, its owner's alone, unless it is there (StoreAccessError)."""
    with mapped_errors(root):
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        return root.resolve(strict=True)
