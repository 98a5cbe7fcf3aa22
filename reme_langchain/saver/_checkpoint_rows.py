"""Rows of checkpoints, values and writes: how they are written, found and read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, CheckpointTuple, PendingWrite

from reme_core.errors import CorruptDataError
from reme_core.schema import Scope
from reme_langchain.saver._message_blobs import BlobReader, Blobs, KnownDigests, Slot
from reme_langchain.saver._remove_and_copy import sweep
from reme_langchain.saver._saver_file import find_thread, make_thread
from reme_langchain.saver._value_codec import EncodedValue, Typed, ValueCodec, ValueForm

Version: TypeAlias = str | int | float
ValueKey: TypeAlias = tuple[int, str, str, Version]
"""Thread, namespace, channel and version."""
RowPlace: TypeAlias = tuple[int, str, str]
"""Thread, namespace and id of a checkpoint."""


# `json.dumps` with options makes an encoder at each call.
compact_json = json.JSONEncoder(separators=(",", ":")).encode


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
        new: Channels whose version is new, with their values; None: the channel is empty.
        kept: The versions of the others.
        held: Those of the others for which the checkpoint holds a value.
    """

    place: CheckpointKey
    owner: Scope | None
    checkpoint_id: str
    run: str | None
    body: Typed
    metadata: str
    new: Mapping[str, tuple[Version, EncodedValue | None]]
    kept: Mapping[str, Version]
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


def put_row(connection: sqlite3.Connection, known: KnownDigests, row: PutRow, codec: ValueCodec) -> frozenset[str]:
    """Write a checkpoint, in place of one with its id.

    Returns:
        Nothing; or the channels whose values have to be handed in as well, since no earlier checkpoint wrote this
        version of them. Nothing was written then.
    """
    thread = make_thread(connection, known, row.place.thread, row.owner)
    refs = _kept_refs(connection, known, thread, row, codec)
    wanting = frozenset(channel for channel in row.held if refs.get(channel) is None)
    if wanting:
        return wanting
    blobs = Blobs(connection, thread, known)
    for channel, (version, value) in row.new.items():
        where = (thread, row.place.ns, channel, version)
        refs[channel] = None if value is None else _put_value(blobs, where, value, codec)
    _put_checkpoint(connection, thread, row, refs)
    return frozenset()


def _kept_refs(
    connection: sqlite3.Connection, known: KnownDigests, thread: int, row: PutRow, codec: ValueCodec
) -> dict[str, int | None]:
    """Return the values of the channels whose versions are not new: those of the parent, if it has these versions."""
    keys = {channel: (thread, row.place.ns, channel, version) for channel, version in row.kept.items()}
    found = {channel: known.row(key) for channel, key in keys.items()}
    if all(found[channel] is not None for channel in row.held):
        return found
    parent = connection.execute(
        "SELECT type, body, refs FROM langgraph_checkpoints WHERE thread = ? AND ns = ? AND checkpoint_id = ?",
        (thread, row.place.ns, row.place.checkpoint_id),
    ).fetchone()
    if parent is None or not parent[1]:  # a hidden one has no body
        return found
    type_, body, refs = parent
    versions, values = codec.load((type_, body))["channel_versions"], json.loads(refs)
    for channel, key in keys.items():
        if values.get(channel) is not None and versions.get(channel) == row.kept[channel]:
            found[channel] = values[channel]
            known.note_row(key, values[channel])
    return found


def _put_value(blobs: Blobs, where: ValueKey, value: EncodedValue, codec: ValueCodec) -> int:
    type_, data = _store_value(blobs, f"channel {where[2]!r}", value, codec, where[1:3])
    made = blobs.connection.execute(
        "INSERT INTO langgraph_values (thread, ns, channel, form, type, data) VALUES (?, ?, ?, ?, ?, ?)",
        (*where[:3], value.form, type_, data),
    ).lastrowid
    blobs.known.note_row(where, cast(int, made))
    return cast(int, made)


def _store_value(blobs: Blobs, what: str, value: EncodedValue, codec: ValueCodec, slot: Slot | None) -> Typed:
    """Write the messages of a value; return what stands for it in its row."""
    return value.whole if value.row is None else ("", blobs.keep(what, value.row, codec, slot))


def _put_checkpoint(connection: sqlite3.Connection, thread: int, row: PutRow, refs: Mapping[str, int | None]) -> None:
    where = (thread, row.place.ns, row.checkpoint_id)
    columns = (*where, row.place.checkpoint_id, row.run, *row.body, row.metadata, compact_json(refs))
    if connection.execute(_INSERT_NEW, columns).rowcount == 0:
        (replaced,) = connection.execute(
            "SELECT refs FROM langgraph_checkpoints WHERE thread = ? AND ns = ? AND checkpoint_id = ?", where
        ).fetchone()
        connection.execute(_INSERT_IN_PLACE, columns)
        sweep(connection, thread, json.loads(replaced).values())  # what only the replaced one held


_INSERT_CHECKPOINT = (
    "INSERT {} INTO langgraph_checkpoints (thread, ns, checkpoint_id, parent, run, type, body, metadata, refs) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) {}"
)
_INSERT_NEW = _INSERT_CHECKPOINT.format("OR IGNORE", "")
_INSERT_IN_PLACE = _INSERT_CHECKPOINT.format(
    "",
    "ON CONFLICT DO UPDATE SET parent = excluded.parent, run = excluded.run, hidden = 0, type = excluded.type, "
    "body = excluded.body, metadata = excluded.metadata, refs = excluded.refs",
)


def put_writes(
    connection: sqlite3.Connection,
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
        type_, data = _store_value(blobs, f"the write to channel {row.channel!r}", row.value, codec, None)
        stays = "IGNORE" if row.idx >= 0 else "REPLACE"  # of ordinary ones the first one stays
        connection.execute(
            f"INSERT OR {stays} INTO langgraph_writes (thread, ns, checkpoint_id, task_id, idx, task_path, "  # noqa: S608  # ours
            "channel, form, type, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(thread, place.ns, place.checkpoint_id, task[0], row.idx, task[1], row.channel),
                *(row.value.form, type_, data),
            ),
        )


def find_row(connection: sqlite3.Connection, place: CheckpointKey) -> StoredTuple | None:
    """Read one checkpoint."""
    # Only what is asked for is in the text, so that the index serves it.
    which = "ORDER BY c.checkpoint_id DESC LIMIT 1" if place.checkpoint_id is None else "AND c.checkpoint_id = ?"
    asked = (place.thread, place.ns) if place.checkpoint_id is None else (place.thread, place.ns, place.checkpoint_id)
    row = connection.execute(f"{_ROW} AND t.name = ? AND c.ns = ? {which}", asked).fetchone()
    return None if row is None else _read(connection, row, BlobReader(connection))


_ROW = (
    "SELECT t.name, c.ns, c.checkpoint_id, c.parent, c.type, c.body, c.metadata, c.refs, c.thread "
    "FROM langgraph_checkpoints c JOIN langgraph_threads t ON t.id = c.thread WHERE NOT c.hidden"
)


def list_rows(connection: sqlite3.Connection, query: ListQuery) -> list[RowPlace]:
    """Return the places of checkpoints, newest first."""
    found: list[RowPlace] = []
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
    rows = connection.execute(
        f"SELECT thread, ns, checkpoint_id, {'metadata' if query.metadata else 'NULL'} "  # noqa: S608  # constants
        f"FROM langgraph_checkpoints WHERE {' AND '.join(['NOT hidden', *asked])} "
        "ORDER BY checkpoint_id DESC, thread DESC, ns DESC",
        tuple(asked.values()),
    )
    for *place, metadata in rows:
        if query.metadata and not _holds(json.loads(metadata), query.metadata):
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


def read_rows(connection: sqlite3.Connection, places: Sequence[RowPlace]) -> list[StoredTuple]:
    """Read checkpoints by their places; those that are gone by now are left out."""
    reader = BlobReader(connection)
    which = f"{_ROW} AND c.thread = ? AND c.ns = ? AND c.checkpoint_id = ?"
    found = [connection.execute(which, place).fetchone() for place in places]
    return [_read(connection, row, reader) for row in found if row is not None]


def _read(connection: sqlite3.Connection, row: tuple[Any, ...], reader: BlobReader) -> StoredTuple:
    name, ns, checkpoint_id, parent, type_, body, metadata, refs, thread = row
    writes = connection.execute(
        "SELECT task_id, channel, form, type, data FROM langgraph_writes "
        "WHERE thread = ? AND ns = ? AND checkpoint_id = ? ORDER BY task_path, task_id, idx",
        (thread, ns, checkpoint_id),
    ).fetchall()
    values = connection.execute(
        "SELECT each.key, each.value, v.form, v.type, v.data FROM json_each(?) each "
        "LEFT JOIN langgraph_values v ON v.id = each.value WHERE each.value IS NOT NULL",
        (refs,),
    ).fetchall()
    return StoredTuple(
        place=CheckpointKey(thread=name, ns=ns, checkpoint_id=checkpoint_id),
        parent=parent,
        body=(type_, body),
        metadata=metadata,
        values={channel: _raw_value(reader, id_, *stored) for channel, id_, *stored in values},
        writes=[(task, channel, raw(reader, *stored)) for task, channel, *stored in writes],
    )


def read_value(connection: sqlite3.Connection, id_: int, reader: BlobReader) -> Raw:
    """Read the value of a channel.

    Raises:
        CorruptDataError: It is missing.
    """
    stored = connection.execute("SELECT form, type, data FROM langgraph_values WHERE id = ?", (id_,)).fetchone()
    return _raw_value(reader, id_, *(stored or (None, None, None)))


def _raw_value(reader: BlobReader, id_: int, form: int | None, type_: str | None, data: bytes | None) -> Raw:
    if form is None or type_ is None or data is None:
        msg = f"a checkpoint refers to value {id_}, which is missing: restore a copy of the file"
        raise CorruptDataError(msg)
    return raw(reader, form, type_, data)


def raw(reader: BlobReader, form: int, type_: str, data: bytes) -> Raw:
    """Read the messages of a stored value, if it is made of them."""
    return form, (type_, data), [] if form == ValueForm.WHOLE else reader.parts(data)


def rebuild(stored: StoredTuple, codec: ValueCodec) -> CheckpointTuple:
    """Make of what was read what langgraph expects."""
    with codec.reading():
        values = {channel: codec.decode(*value) for channel, value in stored.values.items()}
        body = codec.load(stored.body)
        writes = rebuild_writes(stored.writes, codec)
    return CheckpointTuple(
        config=config_of(stored.place),
        checkpoint=cast(Checkpoint, {**body, "id": stored.place.checkpoint_id, "channel_values": values}),
        metadata=cast(CheckpointMetadata, json.loads(stored.metadata)),
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
