"""The contents of a working memory, in the process and on disk; encoded when changed, handed over when they leave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Sequence, Set
from contextlib import asynccontextmanager, contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TypeVar
from weakref import WeakKeyDictionary

from agentscope.memory import LongTermMemoryBase
from agentscope.message import Msg

from reme_agentscope.v1.working_memory._memory_file import FileContents, FileState, MessageFile, SavedState, digest_of
from reme_agentscope.v1.working_memory._memory_state import COMPRESSED, Entry, decode, encode

T = TypeVar("T")

_LOG = logging.getLogger("reme_agentscope")


_LEAVES = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True, slots=True)
class EncodedMessage:
    """A message and its marks as they were when they were encoded.

    Attributes:
        fields: Of the message, their texts shared with it; None where one isn't plain JSON, so that nothing is known.
        marks: Its marks.
        digest: Of the bytes.
    """

    fields: object
    marks: list[str]
    digest: bytes

    @classmethod
    def of(cls, entry: Entry, digest: bytes) -> EncodedMessage:
        """Remember how an entry is now."""
        return cls(fields_of(entry[0]), list(entry[1]), digest)

    def is_still(self, entry: Entry) -> bool:
        """Tell whether an entry equals that one, as Python does: `1` and `True`, or another order of keys, are equal.

        Texts that nobody has replaced are the same objects, so their length doesn't matter.
        """
        try:
            return self.fields is not None and vars(entry[0]) == self.fields and entry[1] == self.marks
        except Exception:  # noqa: BLE001  # values of clients compare as they like: it is encoded, which tells
            return False


def fields_of(msg: Msg) -> object:
    """Return a copy of the fields of a message; None where one isn't plain JSON, so that no comparison tells."""
    try:
        return _copied(vars(msg))
    except (TypeError, RecursionError):
        return None


def _copied(value: object) -> object:
    """Copy lists and objects (TypeError: a value that may change, and that no comparison tells)."""
    kind = type(value)
    if kind in _LEAVES:
        return value
    if isinstance(value, list) and kind is list:
        return [_copied(item) for item in value]
    if isinstance(value, dict) and kind is dict:
        return {key: _copied(item) for key, item in value.items()}
    raise TypeError


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
            with self._all_or_nothing():
                result = work()
                if self._file is not None:
                    await self._save(self._file)
        return result

    async def remove(self, is_wanted: Callable[[Entry], bool]) -> int:
        """Remove messages, and return how many there were."""

        def remove() -> int:
            left = [entry for entry in self.entries if not is_wanted(entry)]
            removed = len(self.entries) - len(left)
            self.entries[:] = left
            return removed

        return await self.change(remove)

    async def hide(self, ids: Set[str], summary_before: str, summary: str) -> None:
        """Mark messages as compressed and show the new summary, unless somebody else has changed either meanwhile."""

        def hide() -> None:
            if self.summary != summary_before or not ids <= {msg.id for msg, _ in self.entries}:
                return  # cleared, loaded or compressed: this summary is of something else
            for place, (msg, marks) in enumerate(self.entries):
                if msg.id in ids and COMPRESSED not in marks:
                    self.entries[place] = (msg, [*marks, COMPRESSED])
            self.summary = summary

        await self.change(hide)

    def load_now(self) -> None:
        """Read the file, blocking, if that has not been done yet."""
        if self._file is not None and self._known is None:
            contents, entries = self._contents()
            self._take(self._file.save(FileState(), contents).result(), entries)

    def change_now(self, work: Callable[[], object], *, keep_removed: bool = False) -> None:
        """Do what `change` does for callers that can't wait, blocking; removed rows may stay, out of the memory."""
        self.load_now()
        with self._all_or_nothing():
            work()
            if self._file is not None:
                contents, entries = self._contents()
                saving = self._file.save(self._known or FileState(), contents, keep_removed=keep_removed)
                self._take(saving.result(), entries)

    async def _save(self, file: MessageFile) -> None:
        contents, entries = self._contents()
        self._take(await asyncio.wrap_future(file.save(self._known or FileState(), contents)), entries)

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

    @contextmanager
    def _all_or_nothing(self) -> Generator[None]:
        """Have everything as it was where what is done within fails."""
        before, summary = list(self.entries), self.summary
        try:
            yield
        except BaseException:
            self.entries[:] = before
            self.summary = summary
            # A write that was cancelled may still come to pass: the file is read again.
            if self._known is not None:
                self._known = replace(self._known, version=_STALE)
            raise


class LongTermHandOver:
    """Holds the long-term memory apart from the working memory, with whose state it would be saved otherwise."""

    def __init__(self, long_term: LongTermMemoryBase | None) -> None:
        """Keep it; None: nothing is handed over."""
        self._long_term = long_term
        self._owed: list[Msg] = []
        self._handed: set[str] = set()

    async def hand_over(self, msgs: Sequence[Msg]) -> None:
        """Hand over copies of messages, each once; what it fails to take comes again with the next ones, or none."""
        if self._long_term is None:
            return
        # What was to leave may have stayed all the same, and is to leave again.
        wanted = [*self._owed, *(deepcopy(msg) for msg in msgs if msg.id not in self._handed)]
        if not wanted:
            return
        self._handed.update(msg.id for msg in wanted)
        self._owed, is_taken = [], False
        try:
            await self._long_term.record(list(wanted))
            is_taken = True
        except Exception as exc:  # noqa: BLE001  # somebody else's code; the messages are in the working memory, whole
            _LOG.error("the long-term memory failed to record: %s", type(exc).__name__)
        finally:
            if not is_taken:  # where this was cancelled, too
                self._owed = [*wanted, *self._owed]
