"""Rows of checkpoints, values and writes: how they are written, found and read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import ormsgpack
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, CheckpointTuple, PendingWrite

from reme_core import SqlConnection
from reme_core.schema import Scope
from reme_core.schema.blobs import LONG_BASE64
from reme_langchain.saver._known_blobs import KnownBlobs
from reme_langchain.saver._message_blobs import (
    BlobReader,
    Blobs,
    Entry,
    KnownDigests,
    Slot,
    kept_apart,
    load_entries,
    metadata_of,
    stays,
)
from reme_langchain.saver._remove_and_copy import sweep
from reme_langchain.saver._saver_file import damage_told
from reme_langchain.saver._saver_tables import find_thread, make_thread
from reme_langchain.saver._value_codec import EncodedValue, Typed, ValueCodec, ValueForm

Version: TypeAlias = str | int | float
RowPlace: TypeAlias = tuple[int, str, str]
"""Thread, namespace and id of a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointKey:
    """A checkpoint, or with no id the newest one, of a thread and namespace."""

    thread: str
    ns: str
    checkpoint_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PutRow:
    """A checkpoint to be written.

    Attributes:
        place: Thread, namespace and id of its parent.
        owner: The user whose run it is, if it names one.
        checkpoint_id: Its own id.
        run: The run that made it.
        body: All of it but the channels' values, serialised and sealed.
        metadata: JSON.
        versions: Those of all channels.
        new: The channels whose version is new, with their values; None: the channel is empty.
        held: Those of the others for which the checkpoint holds a value.
    """

    place: CheckpointKey
    owner: Scope | None
    checkpoint_id: str
    run: str | None
    body: Typed
    metadata: str
    versions: Mapping[str, Version]
    new: Mapping[str, EncodedValue | None]
    held: Set[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRow:
    """A write of a task, to be kept beside a checkpoint. One with a negative `idx` replaces an earlier one."""

    idx: int
    channel: str
    value: EncodedValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """Which checkpoints to list; None: any."""

    thread: str | None = None
    ns: str | None = None
    checkpoint_id: str | None = None
    before: str | None = None
    metadata: Mapping[str, Any] | None = None
    limit: int | None = None


Raw: TypeAlias = tuple[int, Typed, list[Typed]]
"""A stored value: its form, what was written whole, and the messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTuple:
    """A checkpoint as read, not yet rebuilt."""

    place: CheckpointKey
    parent: str | None
    body: Typed
    metadata: str
    values: Mapping[str, Raw]
    writes: Sequence[tuple[str, str, Raw]]

    @property
    def size(self) -> int:
        """The bytes that are to be rebuilt."""
        raws = [*self.values.values(), *(value for _, _, value in self.writes)]
        return sum(len(data) + sum(len(part) for _, part in parts) for _, (_, data), parts in raws)


def put_row(connection: SqlConnection, known: KnownDigests, row: PutRow, codec: ValueCodec) -> frozenset[str]:
    """Write a checkpoint, in place of one with its id.

    Returns:
        Nothing; or the channels whose values have to be handed in as well, since no earlier checkpoint wrote this
        version of them. Nothing was written then.
    """
    thread = make_thread(connection, known, row.place.thread, row.owner)
    kept = _kept_entries(connection, known, thread, row, codec)
    wanting = frozenset(channel for channel in row.held if kept[channel] is None)
    if wanting:
        return wanting
    blobs = Blobs(connection, thread, known)
    entries = {
        channel: entry if entry is None or stays(entry) else kept_apart(blobs, entry) for channel, entry in kept.items()
    }
    for channel, value in row.new.items():
        entries[channel] = None if value is None else _new_entry(blobs, (row.place.ns, channel), value, codec)
    for channel, entry in entries.items():
        if entry is not None and stays(entry):
            known.entries.note((thread, row.place.ns, channel, row.versions[channel]), entry)
    metadata = _store_metadata(blobs, row.metadata, codec)
    _put_checkpoint(connection, known, thread, row, (metadata, ormsgpack.packb(entries)))
    return frozenset()


def _kept_entries(
    connection: SqlConnection, known: KnownDigests, thread: int, row: PutRow, codec: ValueCodec
) -> dict[str, Entry | None]:
    """Return the values of the channels whose versions are not new: those of the parent, if it has these versions."""
    ns = row.place.ns
    kept = {channel: version for channel, version in row.versions.items() if channel not in row.new}
    found = {channel: known.entries.get((thread, ns, channel, version)) for channel, version in kept.items()}
    if all(found[channel] is not None for channel in row.held):
        return found
    parent = connection.execute(
        "SELECT type, body, entries FROM langgraph_checkpoints "
        "WHERE thread = ? AND ns = ? AND checkpoint_id = ? AND hidden = 0",
        (thread, ns, row.place.checkpoint_id),
    ).fetchone()
    if parent is None:
        return found
    with damage_told():
        versions, entries = codec.load(parent[:2])["channel_versions"], load_entries(parent[2])
    same = {channel for channel, version in kept.items() if versions.get(channel) == version}
    return found | {channel: entry for channel, entry in entries.items() if entry is not None and channel in same}


def _new_entry(blobs: Blobs, slot: Slot, value: EncodedValue, codec: ValueCodec) -> Entry:
    entry = _store_value(blobs, f"channel {slot[1]!r}", value, codec, slot)
    return entry if entry[0] != ValueForm.WHOLE or len(entry[2]) <= _INLINE else kept_apart(blobs, entry)


# Bytes of a value that stands in the row of its checkpoint, at most. The rest of a row takes about 300, and what a row
# has beyond 1,002 takes a page of its own: https://sqlite.org/fileformat2.html#b_tree_pages.
_INLINE = 512


def _store_value(blobs: Blobs, what: str, value: EncodedValue, codec: ValueCodec, slot: Slot | None) -> Entry:
    """Write the messages of a value, or what was taken out of it; return what stands for it in its row."""
    if value.row is not None:
        return int(value.form), "", blobs.keep(what, value.row, codec, slot)
    if value.payloads:
        return int(ValueForm.PART), "", blobs.keep_sealed(value.whole, value.payloads)
    return int(value.form), *value.whole


def _store_metadata(blobs: Blobs, metadata: str, codec: ValueCodec) -> str:
    """Return metadata, or what stands for them where something is taken out of them."""
    if len(metadata) < LONG_BASE64:
        return metadata
    sealed, payloads = codec.seal_apart(("json", metadata.encode()))
    return metadata_of(blobs.keep_sealed(sealed, payloads)) if payloads else metadata


def _put_checkpoint(
    connection: SqlConnection, known: KnownDigests, thread: int, row: PutRow, kept: tuple[str, bytes]
) -> None:
    columns = (row.place.checkpoint_id, row.run, *row.body, *kept)
    where = (thread, row.place.ns, row.checkpoint_id)
    newest = known.newest.get(where[:2]) or ""
    # One that is newer than the newest replaces none, so that nobody has to wait for whether it does.
    replaces = not "" < newest < row.checkpoint_id and connection.execute(_THERE, where).fetchone() is not None
    key = "thread, ns, checkpoint_id" if connection.dialect.is_file else "thread, ns, checkpoint_id, memory_space"
    connection.execute(f"{_PUT} ON CONFLICT ({key}) DO UPDATE SET {_REPLACED}", (*where, *columns))
    known.newest.note(where[:2], max(newest, row.checkpoint_id))
    if replaces:
        sweep(connection, thread)  # what only the replaced one held


_THERE = "SELECT 1 FROM langgraph_checkpoints WHERE thread = ? AND ns = ? AND checkpoint_id = ?"
_PUT = """INSERT INTO langgraph_checkpoints (thread, ns, checkpoint_id, parent, run, type, body, metadata, entries)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_REPLACED = """parent = excluded.parent, run = excluded.run, hidden = 0, type = excluded.type, body = excluded.body,
    metadata = excluded.metadata, entries = excluded.entries"""


def put_writes(
    connection: SqlConnection,
    known: KnownDigests,
    place: CheckpointKey,
    task: tuple[str, str],
    rows: Sequence[WriteRow],
    codec: ValueCodec,
) -> None:
    """Keep the writes of a task (its id and path) beside a checkpoint."""
    thread = make_thread(connection, known, place.thread)
    blobs = Blobs(connection, thread, known)
    for row in rows:
        entry = _store_value(blobs, f"the write to channel {row.channel!r}", row.value, codec, None)
        key = (thread, place.ns, place.checkpoint_id, task[0], row.idx)
        if row.idx < 0:  # of ordinary ones the first one stays
            connection.execute(_REMOVE_WRITE, key)
        connection.execute(_INSERT_WRITE, (*key, task[1], row.channel, *entry))


_REMOVE_WRITE = """DELETE FROM langgraph_writes
    WHERE thread = ? AND ns = ? AND checkpoint_id = ? AND task_id = ? AND idx = ?"""
_INSERT_WRITE = """INSERT INTO langgraph_writes
    (thread, ns, checkpoint_id, task_id, idx, task_path, channel, form, type, data)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""


def find_row(connection: SqlConnection, place: CheckpointKey, blobs: KnownBlobs | None = None) -> StoredTuple | None:
    """Read one checkpoint; `blobs`: what is known of a server."""
    # Only what is asked for is in the text, so that the index serves it.
    which = "ORDER BY c.checkpoint_id DESC LIMIT 1" if place.checkpoint_id is None else "AND c.checkpoint_id = ?"
    asked = (place.thread, place.ns) if place.checkpoint_id is None else (place.thread, place.ns, place.checkpoint_id)
    row = connection.execute(f"{_ROW} AND t.name = ? AND c.ns = ? {which}", asked).fetchone()
    return None if row is None else _read(connection, row, BlobReader(connection, blobs))


_ROW = (
    "SELECT t.name, c.ns, c.checkpoint_id, c.parent, c.type, c.body, c.metadata, c.entries, c.thread, "
    "EXISTS (SELECT 1 FROM langgraph_writes w WHERE w.thread = c.thread AND w.ns = c.ns "
    "AND w.checkpoint_id = c.checkpoint_id) "
    "FROM langgraph_checkpoints c JOIN langgraph_threads t ON t.id = c.thread WHERE c.hidden = 0"
)


def list_rows(connection: SqlConnection, query: ListQuery) -> list[RowPlace]:
    """Return the places of checkpoints, newest first."""
    found: list[RowPlace] = []
    reader = BlobReader(connection)
    thread = None if query.thread is None else find_thread(connection, query.thread)
    if query.limit == 0 or (query.thread is not None and thread is None):
        return found
    # Only what is asked for is in the text, so that the index serves it.
    wanted = {
        "thread = ?": thread,
        "ns = ?": query.ns,
        "checkpoint_id = ?": query.checkpoint_id,
        "checkpoint_id < ?": query.before,
    }
    asked = {condition: value for condition, value in wanted.items() if value is not None}
    rows = connection.dialect.stream(
        connection,
        f"SELECT thread, ns, checkpoint_id, {'metadata' if query.metadata else 'NULL'} "  # noqa: S608  # constants
        f"FROM langgraph_checkpoints WHERE {' AND '.join(['hidden = 0', *asked])} "
        "ORDER BY checkpoint_id DESC, thread DESC, ns DESC",
        tuple(asked.values()),
    )
    for *place, metadata in rows:
        if query.metadata and not _holds(json.loads(reader.metadata(metadata)), query.metadata):
            continue
        found.append(tuple(place))
        if len(found) == query.limit:
            break
    return found


def _holds(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_field(metadata, name) == value for name, value in wanted.items())


def _field(metadata: Mapping[str, Any], name: str) -> object:
    """Return a field: that of this name or, where there is none, what a name with dots leads to."""
    found: object = metadata
    for part in (name,) if name in metadata else name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def read_rows(
    connection: SqlConnection, places: Sequence[RowPlace], blobs: KnownBlobs | None = None
) -> list[StoredTuple]:
    """Read checkpoints by their places; those that are gone by now are left out."""
    reader = BlobReader(connection, blobs)
    which = f"{_ROW} AND c.thread = ? AND c.ns = ? AND c.checkpoint_id = ?"
    found = [connection.execute(which, place).fetchone() for place in places]
    return [_read(connection, row, reader) for row in found if row is not None]


def _read(connection: SqlConnection, row: tuple[Any, ...], reader: BlobReader) -> StoredTuple:
    name, ns, checkpoint_id, parent, type_, body, metadata, entries, thread, has_writes = row
    writes = connection.execute(_WRITES, (thread, ns, checkpoint_id)).fetchall() if has_writes else []
    held = load_entries(entries)
    return StoredTuple(
        place=CheckpointKey(thread=name, ns=ns, checkpoint_id=checkpoint_id),
        parent=parent,
        body=(type_, body),
        metadata=reader.metadata(metadata),
        values={channel: raw(reader, *entry) for channel, entry in held.items() if entry is not None},
        writes=[(task, channel, raw(reader, *stored)) for task, channel, *stored in writes],
    )


_WRITES = """SELECT task_id, channel, form, type, data FROM langgraph_writes
    WHERE thread = ? AND ns = ? AND checkpoint_id = ? ORDER BY task_path, task_id, idx"""


def raw(reader: BlobReader, form: int, type_: str, data: bytes) -> Raw:
    """Read the messages of a stored value, if it is made of them."""
    parts = [] if ValueForm(form) == ValueForm.WHOLE else reader.parts(data)
    if form == ValueForm.PART and len(parts) != 1:
        msg = f"a value of one part has {len(parts)}"
        raise ValueError(msg)
    return form, (type_, data), parts


def rebuild(stored: StoredTuple, codec: ValueCodec) -> CheckpointTuple:
    """Make of what was read what langgraph expects."""
    with codec.reading():
        values = {channel: codec.decode(*value) for channel, value in stored.values.items()}
        body = codec.load(stored.body)
        writes = rebuild_writes(stored.writes, codec)
        metadata = json.loads(stored.metadata)
    return CheckpointTuple(
        config=config_of(stored.place),
        checkpoint=cast(Checkpoint, {**body, "id": stored.place.checkpoint_id, "channel_values": values}),
        metadata=cast(CheckpointMetadata, metadata),
        parent_config=None
        if stored.parent is None
        else config_of(CheckpointKey(thread=stored.place.thread, ns=stored.place.ns, checkpoint_id=stored.parent)),
        pending_writes=writes,
    )


def rebuild_writes(writes: Sequence[tuple[str, str, Raw]], codec: ValueCodec) -> list[PendingWrite]:
    """Make the (task id, channel, value) of writes."""
    return [(task, channel, codec.decode(*value)) for task, channel, value in writes]


def config_of(place: CheckpointKey) -> RunnableConfig:
    """Return the config that addresses a checkpoint."""
    return {
        "configurable": {
            "thread_id": place.thread,
            "checkpoint_ns": place.ns,
            "checkpoint_id": place.checkpoint_id,
        }
    }
