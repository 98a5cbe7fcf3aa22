"""Messages kept once in each thread, and lists of them as trees of shared chunks.

A list is cut into groups of `FAN` ids from its start. A full group is a chunk, kept once as messages are, and stands
in the next level for its ids, which is cut the same way; the manifest holds what is left over on each level. So a list
that grew at its end shares all full chunks with what it was, and its manifest has fewer than `FAN` ids a level.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

import ormsgpack

from reme_core.errors import CorruptDataError
from reme_core.schema import Scope
from reme_langchain.saver._value_codec import MessageList, Typed, ValueCodec, digest_of

FAN = 32
_BATCH = 64  # values bound at once; one text of SQL for each call then serves all
_MOST_KNOWN = 50_000  # digests remembered, about 200 bytes each
_MOST_BYTES = 1 << 24  # that the lists remembered take


Slot: TypeAlias = tuple[str, str]
"""A namespace and channel."""
RowKey: TypeAlias = tuple[str] | tuple[str, Scope] | tuple[int, str, str, str | int | float]
"""What a row is found by: the name of a thread; or thread, namespace, channel and version of a value."""


@dataclass(frozen=True, slots=True)
class LastMessages:
    """The messages that a slot held last, and their ids."""

    row: MessageList
    ids: list[int]

    @property
    def size(self) -> int:
        """About how many bytes it takes: the messages, and what is noted of each."""
        return len(self.row.body) + 80 * len(self.ids)


class KnownDigests:
    """The key of a file's digests, and which of them it is known to hold. Used by the writing thread alone.

    What is known must be so: a manifest with an id that is not there is a lost conversation. Every transaction that
    removes threads, values or blobs, of whatever process, raises a counter in the file, which every work of a shared
    transaction looks at; and what a transaction added counts only until it is rolled back.
    """

    def __init__(self, key: bytes) -> None:
        """Keep the key; nothing is known."""
        self.key = key
        self._removals = -1
        self._ids: dict[tuple[int, bytes], int] = {}
        self._added: dict[tuple[int, bytes], int] = {}
        self._last: dict[tuple[int, Slot], LastMessages] = {}
        self._last_noted: dict[tuple[int, Slot], LastMessages] = {}
        self._last_bytes = 0
        self._rows: dict[RowKey, int] = {}
        self._rows_noted: dict[RowKey, int] = {}

    def begin(self, connection: sqlite3.Connection, *, last_was_kept: bool) -> None:
        """Forget what is not certain any more; called first in every work, since one before it may have removed some.

        Args:
            connection: Of the transaction.
            last_was_kept: Whether the work before is in this transaction, or was committed.
        """
        (removals,) = connection.execute("SELECT value FROM langgraph_meta WHERE name = 'removals'").fetchone()
        if removals != self._removals or not last_was_kept:
            self._removals = removals
            self.forget()
            return
        added, self._added = self._added, {}
        noted, self._last_noted = self._last_noted, {}
        rows, self._rows_noted = self._rows_noted, {}
        self._ids.update(added)
        if len(self._ids) > _MOST_KNOWN:
            self._ids = {}
        self._rows.update(rows)
        if len(self._rows) > _MOST_KNOWN:
            self._rows = {}
        for slot, last in noted.items():
            former = self._last.get(slot)
            self._last_bytes += last.size - (0 if former is None else former.size)
            self._last[slot] = last
        if self._last_bytes > _MOST_BYTES:
            self._forget_lists()

    def forget(self) -> None:
        """Forget all, also what this transaction has noted."""
        self._ids, self._added, self._rows, self._rows_noted, self._last_noted = {}, {}, {}, {}, {}
        self._forget_lists()

    def _forget_lists(self) -> None:
        self._last, self._last_bytes = {}, 0

    def id_of(self, thread: int, digest: bytes) -> int | None:
        """Return the id of a blob that the thread is known to hold."""
        return self._ids.get((thread, digest)) or self._added.get((thread, digest))

    def row(self, key: RowKey) -> int | None:
        """Return the number of a row that is known."""
        return self._rows.get(key) or self._rows_noted.get(key)

    def note_row(self, key: RowKey, number: int) -> None:
        """Note what this work has written or found."""
        self._rows_noted[key] = number

    def last(self, thread: int, slot: Slot) -> LastMessages | None:
        """Return what a slot held last."""
        return self._last.get((thread, slot))

    def note_last(self, thread: int, slot: Slot, last: LastMessages) -> None:
        """Note what this work has put into a slot."""
        self._last_noted[thread, slot] = last

    def add(self, thread: int, digest: bytes, id_: int) -> None:
        """Note what this work has written."""
        self._added[thread, digest] = id_


@dataclass(frozen=True, slots=True)
class Blobs:
    """The blobs of one thread, in a transaction that writes."""

    connection: sqlite3.Connection
    thread: int
    known: KnownDigests

    def keep(self, what: str, row: MessageList, codec: ValueCodec, slot: Slot | None) -> bytes:
        """Write the messages that the thread does not hold yet, and return the manifest of all.

        Args:
            what: Named in errors.
            row: The messages.
            codec: What seals them.
            slot: Where they go, mostly the list that went there last, grown at its end; None: nowhere of the kind.

        Raises:
            TypeError: A new message would not be rebuilt.
        """
        last = None if slot is None else self.known.last(self.thread, slot)
        ids = [] if last is None else last.ids[: row.shared(last.row)]
        ids += [self._keep_part(what, part, codec) for part in row.parts(len(ids))]
        if slot is not None:
            self.known.note_last(self.thread, slot, LastMessages(row, ids))
        return fold(ids, self.keep_chunk)

    def _keep_part(self, what: str, part: Typed, codec: ValueCodec) -> int:
        digest = digest_of(part, self.known.key)
        known = self.known.id_of(self.thread, digest)
        if known is not None:
            return known
        codec.check(what, part)
        return self.add(digest, *codec.seal(part))

    def keep_chunk(self, ids: Sequence[int]) -> int:
        """Write a chunk, unless the thread holds it; return its id."""
        data = ormsgpack.packb(list(ids))
        digest = blake2b(data, digest_size=16, key=self.known.key, person=b"chunk").digest()
        known = self.known.id_of(self.thread, digest)
        return self.add(digest, None, data) if known is None else known

    def add(self, digest: bytes, type_: str | None, data: bytes) -> int:
        """Write a blob, unless the thread holds it; return its id."""
        # Few statements: Python gives up its lock for each, and another busy thread keeps it for up to 5 ms.
        made = self.connection.execute(
            "INSERT OR IGNORE INTO langgraph_blobs (thread, digest, type, data) VALUES (?, ?, ?, ?)",
            (self.thread, digest, type_, data),
        )
        id_ = made.lastrowid
        if not made.rowcount or id_ is None:
            (id_,) = self.connection.execute(_FIND, (self.thread, digest)).fetchone()
        self.known.add(self.thread, digest, id_)
        return int(id_)


def fold(ids: list[int], keep_chunk: Callable[[Sequence[int]], int]) -> bytes:
    """Return the manifest of a list of ids."""
    tails = []
    while True:
        full = len(ids) // FAN * FAN
        tails.append(ids[full:])
        if not full:
            return ormsgpack.packb(tails)
        ids = [keep_chunk(ids[start : start + FAN]) for start in range(0, full, FAN)]


def unfold(manifest: bytes, chunk: Callable[[int], list[int]]) -> list[int]:
    """Return the ids that a manifest stands for."""
    tails: list[list[int]] = ormsgpack.unpackb(manifest)
    ids: list[int] = []
    for tail in reversed(tails):
        ids = [inner for outer in ids for inner in chunk(outer)] + tail
    return ids


class BlobReader:
    """Reads blobs in one snapshot of the file; each once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Keep the connection."""
        self._connection = connection
        self._chunks: dict[int, list[int]] = {}
        self._parts: dict[int, Typed] = {}

    def ids(self, manifest: bytes) -> list[int]:
        """Return the ids of the messages that a manifest stands for."""
        return unfold(manifest, self.chunk)

    def parts(self, manifest: bytes) -> list[Typed]:
        """Return the messages of a manifest, serialised.

        Raises:
            CorruptDataError: One of them is missing.
        """
        ids = self.ids(manifest)
        wanted = [id_ for id_ in ids if id_ not in self._parts]
        for group in _groups(wanted, 0):
            for id_, type_, data in self._connection.execute(_PARTS, group):
                self._parts[id_] = (type_, data)
        try:
            return [self._parts[id_] for id_ in ids]
        except KeyError as exc:
            raise _missing(exc.args[0]) from None

    def chunk(self, id_: int) -> list[int]:
        """Return the ids in a chunk."""
        if id_ not in self._chunks:
            row = self._connection.execute("SELECT data FROM langgraph_blobs WHERE id = ?", (id_,)).fetchone()
            if row is None:
                raise _missing(id_)
            self._chunks[id_] = ormsgpack.unpackb(row[0])
        return self._chunks[id_]

    def mark(self, manifest: bytes, held: set[int]) -> None:
        """Add to `held` what a manifest stands for, chunks and messages; those that are in it already cost nothing."""
        for level, tail in enumerate(ormsgpack.unpackb(manifest)):
            self._mark(tail, level, held)

    def _mark(self, ids: Sequence[int], level: int, held: set[int]) -> None:
        fresh = [id_ for id_ in ids if id_ not in held]
        held.update(fresh)
        if level:
            for id_ in fresh:
                self._mark(self.chunk(id_), level - 1, held)


_FIND = "SELECT id FROM langgraph_blobs WHERE thread = ? AND digest = ?"
_MARKS = ", ".join("?" * _BATCH)
_PARTS = f"SELECT id, type, data FROM langgraph_blobs WHERE id IN ({_MARKS})"  # noqa: S608  # marks only


def _groups(items: Sequence[object], filler: object) -> Iterator[tuple[object, ...]]:
    for start in range(0, len(items), _BATCH):
        group = tuple(items[start : start + _BATCH])
        yield group + (filler,) * (_BATCH - len(group))


def _missing(id_: int) -> CorruptDataError:
    return CorruptDataError(f"a checkpoint refers to message {id_}, which is missing: restore a copy of the file")
