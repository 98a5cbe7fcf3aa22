"""Messages kept once in each thread, and lists of them as trees of shared chunks.

A list is cut into groups of `FAN` ids from its start. A full group is a chunk, kept once as messages are, and stands
in the next level for its ids, which is cut the same way; the manifest holds what is left over on each level. So a list
that grew at its end shares all full chunks with what it was, and its manifest has fewer than `FAN` ids a level.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, TypeAlias, TypeVar

import ormsgpack

from reme_core import SqlConnection
from reme_core.errors import CorruptDataError
from reme_core.schema import Scope
from reme_langchain.saver._deflate import inflated
from reme_langchain.saver._known_blobs import KnownBlobs, removals_of
from reme_langchain.saver._payloads import APART, PAYLOAD, Payloads, keep_payload, read_whole
from reme_langchain.saver._value_codec import MessageList, Typed, ValueCodec, ValueForm, digest_of

FAN = 32
_BATCH = 64  # values bound at once; one text of SQL for each call then serves all
_MOST_KNOWN = 50_000  # of a kind remembered, about 200 bytes each
_REPEATED = 64  # bytes of a value in the row of each checkpoint that holds it: about those of a manifest
_MOST_BYTES = 1 << 24  # that the lists remembered take


Slot: TypeAlias = tuple[str, str]
"""A namespace and channel."""
Entry: TypeAlias = tuple[int, str, bytes]
"""A value as it lies in the row of its checkpoint: form, type and data, which of one made of parts is the manifest."""
ValueKey: TypeAlias = tuple[int, str, str, str | int | float]
"""Thread, namespace, channel and version."""
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class LastMessages:
    """The messages that a slot held last, and their ids."""

    row: MessageList
    ids: list[int]

    @property
    def size(self) -> int:
        """About how many bytes it takes: the messages, and what is noted of each."""
        return len(self.row.body) + 80 * len(self.ids)


class Noted(Generic[K, V]):
    """Things found or written, which are certain only once the work that noted them was kept."""

    def __init__(self, most: int, weigh: Callable[[V], int] = lambda _: 1) -> None:
        """Begin with nothing.

        Args:
            most: What all together may weigh; beyond it everything is forgotten.
            weigh: What one of them weighs.
        """
        self._most = most
        self._weigh = weigh
        self._weight = 0
        self._certain: dict[K, V] = {}
        self._fresh: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Return what is noted, None if nothing is."""
        found = self._certain.get(key)
        return self._fresh.get(key) if found is None else found

    def note(self, key: K, value: V) -> None:
        """Note what this work has found or written."""
        self._fresh[key] = value

    def settle(self) -> None:
        """Take what was noted for certain."""
        if not self._fresh:
            return
        for key, value in self._fresh.items():
            former = self._certain.get(key)
            self._weight += self._weigh(value) - (0 if former is None else self._weigh(former))
            self._certain[key] = value
        self._fresh = {}
        if self._weight > self._most:
            self.forget()

    def forget(self) -> None:
        """Forget all."""
        self._certain, self._fresh, self._weight = {}, {}, 0


class KnownDigests:
    """The key of a file's digests, and what it is known to hold. Used by the writing thread alone.

    What is known must be so: a manifest with an id that is not there is a lost conversation. Every transaction that
    removes threads or blobs, of whatever process, raises a counter, which every work looks at; and what a transaction
    added counts only until it is rolled back.

    Attributes:
        ids: Of the blobs of a thread, by their digests.
        threads: The numbers of threads, by name, and by name and the user whose they are.
        entries: Values as the checkpoints that keep them hold them.
        last: What slots held last.
        newest: The ids of the newest checkpoints put, by thread and namespace.
    """

    def __init__(self, key: bytes, *, most_bytes: int | None = None) -> None:
        """Keep the key; nothing is known. `most_bytes`: what the lists remembered may take, by default 16 MB."""
        self.key = key
        self.ids = Noted[tuple[int, bytes], int](_MOST_KNOWN)
        self.threads = Noted[tuple[str, Scope | None], int](_MOST_KNOWN)
        self.entries = Noted[ValueKey, Entry](_MOST_KNOWN)
        self.last = Noted[tuple[int, Slot], LastMessages](most_bytes or _MOST_BYTES, lambda last: last.size)
        self.newest = Noted[tuple[int, str], str](_MOST_KNOWN)
        self._all = (self.ids, self.threads, self.entries, self.last, self.newest)
        self._stamp: object = None

    def begin(self, stamp: object, *, last_was_kept: bool) -> bool:
        """Forget what is not certain any more; called first in every work, since one before it may have removed some.

        Args:
            stamp: Another one once anything was removed.
            last_was_kept: Whether the work before is in this transaction, or was committed.

        Returns:
            Whether what was certain still is.
        """
        if stamp != self._stamp or not last_was_kept:
            self._stamp = stamp
            self.forget()
            return False
        for noted in self._all:
            noted.settle()
        return True

    def forget(self) -> None:
        """Forget all, also what this transaction has noted."""
        for noted in self._all:
            noted.forget()


@dataclass(frozen=True, slots=True)
class Blobs:
    """The blobs of one thread, in a transaction that writes."""

    connection: SqlConnection
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
        last = None if slot is None else self.known.last.get((self.thread, slot))
        ids = [] if last is None else last.ids[: row.shared(last.row)]
        parts = row.parts(len(ids))
        if len(parts) > _BATCH and not self.connection.dialect.is_file:
            self._keep_many(what, parts, codec)
        ids += [self._keep_part(what, part, codec) for part in parts]
        if slot is not None:
            self.known.last.note((self.thread, slot), LastMessages(row, ids))
        return fold(ids, self.keep_chunk)

    def keep_sealed(self, sealed: Typed, payloads: Payloads) -> bytes:
        """Write a value of one part, and what was taken out of it, unless the thread holds it; return its manifest."""
        self.keep_payloads(payloads)
        digest = digest_of(sealed, self.known.key)
        known = self.known.ids.get((self.thread, digest))
        return ormsgpack.packb([[self.add(digest, *sealed) if known is None else known]])

    def _keep_many(self, what: str, parts: Sequence[Typed], codec: ValueCodec) -> None:
        """Write messages to a server, which has no answer to wait for between them, and learn their ids."""
        fresh = {digest_of(part, self.known.key): part for part in parts}
        new = [(digest, part) for digest, part in fresh.items() if self.known.ids.get((self.thread, digest)) is None]
        for _, part in new:
            codec.check(what, part)
        rows = [(self.thread, digest, *self._sealed(part, codec)) for digest, part in new]
        self.connection.executemany(_ADD_MANY, rows)
        for digest, id_ in self.connection.execute(_HELD, (self.thread,)) if rows else ():
            self.known.ids.note((self.thread, digest), id_)

    def _keep_part(self, what: str, part: Typed, codec: ValueCodec) -> int:
        digest = digest_of(part, self.known.key)
        known = self.known.ids.get((self.thread, digest))
        if known is not None:
            return known
        codec.check(what, part)
        return self.add(digest, *self._sealed(part, codec))

    def _sealed(self, part: Typed, codec: ValueCodec) -> Typed:
        sealed, payloads = codec.seal_apart(part)
        self.keep_payloads(payloads)
        return sealed

    def keep_payloads(self, payloads: Payloads) -> None:
        """Write payloads to which values of the thread refer."""
        for digest, payload in payloads:
            if self.known.ids.get((self.thread, digest)) is None:
                held = keep_payload(self.connection, self.thread, digest, payload)
                self.add(digest, PAYLOAD, held)

    def keep_chunk(self, ids: Sequence[int]) -> int:
        """Write a chunk, unless the thread holds it; return its id."""
        data = ormsgpack.packb(list(ids))
        digest = blake2b(data, digest_size=16, key=self.known.key, person=b"chunk").digest()
        known = self.known.ids.get((self.thread, digest))
        return self.add(digest, None, data) if known is None else known

    def add(self, digest: bytes, type_: str | None, data: bytes) -> int:
        """Write a blob, unless the thread holds it; return its id."""
        # Few statements: Python gives up its lock for each, and another busy thread keeps it for up to 5 ms.
        row = self.connection.execute(_ADD, (self.thread, digest, type_, data)).fetchone()
        (id_,) = row or self.connection.execute(_FIND, (self.thread, digest)).fetchone()
        self.known.ids.note((self.thread, digest), id_)
        return int(id_)


_ADD_MANY = "INSERT INTO langgraph_blobs (thread, digest, type, data) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_ADD = f"{_ADD_MANY} RETURNING id"
_HELD = "SELECT digest, id FROM langgraph_blobs WHERE thread = ?"


def load_entries(packed: bytes) -> dict[str, Entry | None]:
    """Read the values of a checkpoint's row; None: the channel is empty."""
    return {channel: entry and tuple(entry) for channel, entry in ormsgpack.unpackb(packed).items()}


def stays(entry: Entry) -> bool:
    """Return whether further checkpoints hold a value as this one does."""
    return entry[0] != ValueForm.WHOLE or len(entry[2]) <= _REPEATED


def kept_apart(blobs: Blobs, entry: Entry) -> Entry:
    """Write a value of one piece beside the messages."""
    return int(ValueForm.PART), "", blobs.keep_sealed(entry[1:], ())


# `json.dumps` with options makes an encoder at each call.
compact_json = json.JSONEncoder(separators=(",", ":")).encode


def metadata_of(manifest: bytes) -> str:
    """Return the text that stands for metadata of this manifest: no object, as they are themselves."""
    return compact_json(ormsgpack.unpackb(manifest))


def manifest_of(metadata: str) -> bytes:
    """Return the manifest that stands for metadata; see `metadata_of`."""
    return ormsgpack.packb(json.loads(metadata))


def fold(ids: list[int], keep_chunk: Callable[[Sequence[int]], int]) -> bytes:
    """Return the manifest of a list of ids."""
    tails = []
    while True:
        full = len(ids) // FAN * FAN
        tails.append(ids[full:])
        if not full:
            return ormsgpack.packb(tails)
        ids = [keep_chunk(ids[start : start + FAN]) for start in range(0, full, FAN)]


def unfold(manifest: bytes, chunks: Callable[[list[int]], list[list[int]]]) -> list[int]:
    """Return the ids that a manifest stands for."""
    tails: list[list[int]] = ormsgpack.unpackb(manifest)
    ids: list[int] = []
    for tail in reversed(tails):
        ids = [inner for chunk in chunks(ids) for inner in chunk] + tail
    return ids


class BlobReader:
    """Reads blobs in one snapshot of the file; each once."""

    def __init__(self, connection: SqlConnection, known: KnownBlobs | None = None) -> None:
        """Keep the connection, and what is known."""
        self._connection = connection
        self._known = known
        self._removals: int | None = None
        self._chunks: dict[int, list[int]] = {}
        self._rows: dict[int, Typed] = {}

    def ids(self, manifest: bytes) -> list[int]:
        """Return the ids of the messages that a manifest stands for."""
        return unfold(manifest, self.chunks)

    def parts(self, manifest: bytes) -> list[Typed]:
        """Return the messages of a manifest, serialised.

        Raises:
            CorruptDataError: One of them is missing.
        """
        return self._read(self.ids(manifest))

    def metadata(self, stored: str) -> str:
        """Return metadata, which are JSON of an object, or of the manifest under which they are kept apart."""
        return stored if stored[:1] != "[" else self.parts(manifest_of(stored))[0][1].decode()

    def chunks(self, ids: list[int]) -> list[list[int]]:
        """Return the ids in chunks."""
        wanted = [id_ for id_ in ids if id_ not in self._chunks]
        if wanted:
            for id_, (_, data) in zip(wanted, self._read(wanted), strict=True):
                self._chunks[id_] = ormsgpack.unpackb(data)
        return [self._chunks[id_] for id_ in ids]

    def _read(self, ids: list[int]) -> list[Typed]:
        wanted = [id_ for id_ in ids if id_ not in self._rows]
        if self._known is not None and wanted:
            if self._removals is None:
                self._removals = removals_of(self._connection) if self._connection.dialect.is_file else 0
            self._rows |= self._known.find(wanted, self._removals)
            wanted = [id_ for id_ in wanted if id_ not in self._rows]
        fresh: dict[int, Typed] = {}
        for query, group in self._queries(wanted):
            for id_, type_, data, thread in self._connection.execute(query, group).fetchall():
                fresh[id_] = inflated(type_, data) if type_ != APART else read_whole(self._connection, thread, data)
        self._rows |= fresh
        if self._known is not None and self._removals is not None and fresh:
            self._known.add(fresh, self._removals)
        try:
            return [self._rows[id_] for id_ in ids]
        except KeyError as exc:
            msg = f"a checkpoint refers to message {exc.args[0]}, which is missing: restore a backup"
            raise CorruptDataError(msg) from None

    def _queries(self, wanted: list[int]) -> Iterable[tuple[str, tuple[object, ...]]]:
        if self._connection.dialect.is_file:
            return [(_PARTS, group) for group in _groups(wanted, 0)]
        return [(_ALL_PARTS, (json.dumps(wanted),))] if wanted else []

    def mark(self, manifest: bytes, held: set[int]) -> None:
        """Add to `held` what a manifest stands for, chunks and messages; those that are in it already cost nothing."""
        for level, tail in enumerate(ormsgpack.unpackb(manifest)):
            self._mark(tail, level, held)

    def _mark(self, ids: list[int], level: int, held: set[int]) -> None:
        fresh = [id_ for id_ in ids if id_ not in held]
        held.update(fresh)
        if level:
            for chunk in self.chunks(fresh):
                self._mark(chunk, level - 1, held)


_FIND = "SELECT id FROM langgraph_blobs WHERE thread = ? AND digest = ?"
_MARKS = ", ".join("?" * _BATCH)
_PARTS = f"SELECT id, type, data, thread FROM langgraph_blobs WHERE id IN ({_MARKS})"  # noqa: S608  # marks only


_ALL_PARTS = "SELECT id, type, data, thread FROM langgraph_blobs WHERE id IN (SELECT value FROM json_each(?))"


def _groups(items: Sequence[object], filler: object) -> Iterator[tuple[object, ...]]:
    for start in range(0, len(items), _BATCH):
        group = tuple(items[start : start + _BATCH])
        yield group + (filler,) * (_BATCH - len(group))
