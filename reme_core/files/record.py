"""Record of a memory as files beside it: what was said, the journal of it, and long tool results.

Each is on disk in the store first. How far the files follow is kept with the folder's index: what could not be written,
or was cut off by a crash, is written with the next sync, and nothing twice.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from reme_core.errors import ConflictError, NotFoundError, StorageFullError, StoreAccessError
from reme_core.files.dialogs import dialog_path
from reme_core.files.file_index import FileIndex, Following, Passed
from reme_core.files.folder import FileProblem, UnreadableFileError, inside, mapped_errors, write_file
from reme_core.files.journal import JOURNAL_WRITER, add_entry, add_messages, journal_path
from reme_core.ports import Clock, FindMessages, ListBlocks, ListOffloads, Store
from reme_core.schema import EXTRACTIVE, Block, JobState, Message, OffloadInfo, OffloadKind, StoredMessage

RETENTION_DAYS = 3.0
"""How long long tool results stay as files; the store keeps them. Source: design.md, section 6."""

_PAGE = 100
_TEXTS = (OffloadKind.TOOL_RESULT, OffloadKind.TEXT)
_OURS = re.compile(r"[0-9a-f]{16}\.txt")
_FAILURES = (ConflictError, UnreadableFileError, StorageFullError, StoreAccessError)


@dataclass(slots=True)
class FolderRecord:
    """Brings the record of one folder up to date; by whoever holds the folder's lock.

    Attributes:
        root: The folder.
        store: Where it is on disk already.
        index: The folder's index, which keeps how far the files are.
        clock: Tells the time.
        retention_days: How long the files of tool results stay.
        problems: Files that could not be written.
    """

    root: Path
    store: Store
    index: FileIndex
    clock: Clock
    retention_days: float = RETENTION_DAYS
    problems: list[FileProblem] = field(default_factory=list)

    async def write(self) -> list[FileProblem]:
        """Write what is new; a file that can't be written costs that file alone. Return those."""
        before = self.index.state.following or Following()
        after = Following(
            messages=await self._dialog(before.messages),
            blocks=await self._journal(before.blocks),
            offload=await self._tool_results(before.offload),
        )
        await self.index.save({}, following=after)
        return self.problems

    async def behind(self) -> list[FileProblem]:
        """Return what the store holds and no file does; nothing is written."""
        if self.index.state.following is None:
            return []
        passed = self.index.state.following.messages
        count = sum([len(page) async for page, _ in self._said(passed)])
        told = f"{count} messages are in the memory and in no file yet: sync the folder"
        return [FileProblem("dialog", told)] if count else []

    async def _said(self, passed: Passed) -> AsyncIterator[tuple[Sequence[StoredMessage], Passed]]:
        """Yield what was said since, and up to where that is."""
        while True:
            page = await self.store.find_messages(self.index.scope, FindMessages(cursor=passed.cursor, limit=_PAGE))
            new = page.messages[passed.count :]
            passed = passed.after(len(page.messages), page.next_cursor)
            if new:
                yield new, passed
            if page.next_cursor is None:
                return

    async def _dialog(self, passed: Passed) -> Passed:
        is_whole = True
        async for stored, after in self._said(passed):
            sessions = {item.message.message_id: item.session_id for item in stored}
            for path, said in _by_day(item.message for item in stored).items():
                write = partial(add_messages, self.root, said, sessions=sessions, once=True)
                is_whole &= await self._try(path, write)
            passed = after if is_whole else passed
        return passed

    async def _journal(self, passed: Passed) -> Passed:
        """Write an entry for each block, once nobody works on what it says; the first one that waits ends it."""
        open_states = (JobState.PENDING, JobState.RUNNING)
        waiting = {
            block_id
            for job in await self.store.list_jobs(self.index.scope, open_states)
            for block_id in _ids(job.payload.get("block_ids"))
        }
        while True:
            page = await self.store.list_blocks(self.index.scope, ListBlocks(cursor=passed.cursor, limit=_PAGE))
            for block in page.blocks[passed.count :]:
                if block.summary_author == EXTRACTIVE and block.block_id in waiting:
                    return passed
                if block.summary_author != JOURNAL_WRITER and not await self._entry(block):
                    return passed
                passed = Passed(cursor=passed.cursor, count=passed.count + 1)
            if page.next_cursor is None:
                return passed
            passed = Passed(cursor=page.next_cursor)

    async def _entry(self, block: Block) -> bool:
        told = block.summary.strip()
        if not told:
            return True
        if block.summary_author == EXTRACTIVE:
            told = "\n".join(f"> {line}".rstrip() for line in told.splitlines())
        return await self._try(
            journal_path(block.started_at),
            lambda: add_entry(self.root, told, title="", session_id=block.session_id, at=block.started_at, once=True),
        )

    async def _tool_results(self, last: str | None) -> str | None:
        """Write the texts that were offloaded since the last one; remove the files of old ones."""
        oldest = self.clock.now() - timedelta(days=self.retention_days)
        newest, is_whole = last, True
        async for info in self._offloaded(last, oldest):
            newest = info.reference if newest == last else newest
            with suppress(NotFoundError):  # cleaned up meanwhile
                text = (await self.store.get_offload(self.index.scope, info.reference)).text
                path = f"tool_result/{info.reference}.txt"
                is_whole &= await self._try(path, partial(_put_text, self.root, path, text, info.created_at))
        await self._try("tool_result", lambda: clean_texts(self.root, oldest))
        return newest if is_whole else last

    async def _offloaded(self, last: str | None, oldest: datetime) -> AsyncIterator[OffloadInfo]:
        cursor = None
        while True:
            query = ListOffloads(kinds=_TEXTS, limit=_PAGE, newest_first=True, cursor=cursor)
            page = await self.store.list_offloads(self.index.scope, query)
            for info in page.offloads:
                if info.reference == last or info.created_at < oldest:
                    return
                yield info
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _try(self, path: str, write: Callable[[], object]) -> bool:
        try:
            await asyncio.to_thread(write)
        except _FAILURES as exc:
            self.problems.append(FileProblem(path, exc.message))
            return False
        return True


def _by_day(messages: Iterable[Message]) -> dict[str, list[Message]]:
    days: dict[str, list[Message]] = {}
    for message in messages:
        days.setdefault(dialog_path(message), []).append(message)
    return days


def _ids(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _put_text(root: Path, path: str, text: str, at: datetime) -> None:
    """Write a text; its file is as old as the text."""
    whole = inside(root, path)
    with mapped_errors(whole):
        whole.parent.mkdir(mode=0o700, exist_ok=True)
        write_file(whole, text.encode())
        os.utime(whole, (at.timestamp(), at.timestamp()))


def clean_texts(root: Path, oldest: datetime) -> None:
    """Remove the files of tool results that are older; what somebody else has put there stays (StoreAccessError)."""
    folder = inside(root, "tool_result")
    with mapped_errors(folder):
        for file in folder.iterdir() if folder.is_dir() else ():
            if _OURS.fullmatch(file.name) and file.lstat().st_mtime < oldest.timestamp():
                file.unlink()
