"""The contents of a working memory: in the process, and on disk if it has a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar
from weakref import WeakKeyDictionary

from reme_agentscope.v1.working_memory._encoded_before import EncodedMessage
from reme_agentscope.v1.working_memory._memory_file import FileContents, FileState, MessageFile, SavedState, digest_of
from reme_agentscope.v1.working_memory._memory_state import Entry, decode, encode

T = TypeVar("T")

# No version that a file has.
_STALE = -1


class LoopLocks:
    """A lock for each event loop, made with its first use: a lock belongs to a loop."""

    def __init__(self) -> None:
        """Begin with none."""
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    def here(self) -> asyncio.Lock:
        """Return the lock of the running loop."""
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())


class SessionContents:
    """Messages with marks, and the summary, kept equal to the file by each call.

    A call reads first what others have written, and writes after that what it has changed.
    """

    def __init__(self, file: MessageFile | None) -> None:
        """Keep the file; it is read with the first call."""
        self.entries: list[Entry] = []
        self.summary = ""
        self._file = file
        self._known: FileState | None = None
        self._encoded: dict[str, EncodedMessage] = {}
        self._locks = LoopLocks()

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Hold the contents, as they are in the file now, against other tasks."""
        async with self._locks.here():
            if self._file is not None and (self._known is None or await self._file.version() != self._known.version):
                await self._save(self._file)
            yield

    async def flush(self) -> None:
        """Write whatever clients have changed, what `==` doesn't tell from before included."""
        await self.change(lambda: self._encoded.clear())

    async def change(self, work: Callable[[], T]) -> T:
        """Change the contents; it is on disk when this returns. If it can't be written, nothing has changed."""
        async with self.turn():
            before, summary = list(self.entries), self.summary
            try:
                result = work()
                if self._file is not None:
                    await self._save(self._file)
            except BaseException:
                self._restore(before, summary)
                raise
        return result

    def load_now(self) -> None:
        """Read the file, blocking, if that has not been done yet."""
        if self._file is not None and self._known is None:
            self._save_now(self._file)

    def change_now(self, work: Callable[[], object], *, keep_removed: bool = False) -> None:
        """Do what `change` does for callers that can't wait, blocking; removed rows may stay, out of the memory."""
        self.load_now()
        before, summary = list(self.entries), self.summary
        try:
            work()
            if self._file is not None:
                self._save_now(self._file, keep_removed=keep_removed)
        except BaseException:
            self._restore(before, summary)
            raise

    async def _save(self, file: MessageFile) -> None:
        contents, entries = self._contents()
        self._take(await file.save(self._known or FileState(), contents), entries)

    def _save_now(self, file: MessageFile, *, keep_removed: bool = False) -> None:
        contents, entries = self._contents()
        self._take(file.save_now(self._known or FileState(), contents, keep_removed=keep_removed), entries)

    def _contents(self) -> tuple[FileContents, dict[str, Entry]]:
        """Return what is to be written, and the entries by id, each id once.

        Clients may change messages as they like, and all of them are looked at; only those that have changed are
        encoded.
        """
        entries: dict[str, Entry] = {}
        encoded: dict[str, EncodedMessage] = {}
        fresh: dict[str, bytes] = {}
        for entry in self.entries:
            name = str(entry[0].id)
            if name in entries:
                continue
            entries[name] = entry
            before = self._encoded.get(name)
            if before is None or not before.is_still(entry):
                fresh[name] = encode(entry)
                before = EncodedMessage.of(entry, digest_of(fresh[name]))
            encoded[name] = before
        self._encoded = encoded  # what is no longer here is forgotten

        def body(name: str) -> bytes:
            return fresh[name] if name in fresh else encode(entries[name])

        digests = [(name, one.digest) for name, one in encoded.items()]
        return FileContents(entries=digests, body=body, summary=self.summary), entries

    def _take(self, saved: SavedState, written: dict[str, Entry]) -> None:
        """Take over what others have written; a message that they left alone stays the same object."""
        self._known = saved.known
        if saved.bodies is None:
            return
        self.summary = saved.known.summary
        entries = []
        for row, body in zip(saved.known.rows, saved.bodies, strict=True):
            mine, encoded = written.get(row.message_id), self._encoded.get(row.message_id)
            if mine is None or encoded is None or encoded.digest != row.digest:
                mine = decode(body)
                self._encoded[row.message_id] = EncodedMessage.of(mine, row.digest)
            entries.append(mine)
        self.entries[:] = entries

    def _restore(self, entries: list[Entry], summary: str) -> None:
        self.entries[:] = entries
        self.summary = summary
        # A write that was cancelled may still come to pass: the file is read again.
        if self._known is not None:
            self._known = replace(self._known, version=_STALE)
