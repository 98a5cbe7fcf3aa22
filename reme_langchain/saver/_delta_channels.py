"""Histories from which langgraph rebuilds delta channels; beta upstream, and this file changes with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from langgraph.checkpoint.base import DeltaChannelHistory

from reme_core import SqlConnection
from reme_langchain.saver._checkpoint_rows import CheckpointKey, Raw, raw, rebuild_writes
from reme_langchain.saver._message_blobs import BlobReader, Entry, load_entries
from reme_langchain.saver._saver_tables import find_thread
from reme_langchain.saver._value_codec import ValueCodec

StoredHistory = tuple[list[tuple[str, str, Raw]], Raw | None]
"""The writes of a channel, oldest first, and the value that they start from."""

# UNION, not UNION ALL: a checkpoint that is its own ancestor ends the walk.
_PATH = """WITH RECURSIVE path(checkpoint_id, parent, entries) AS (
    SELECT checkpoint_id, parent, entries FROM langgraph_checkpoints
    WHERE thread = ? AND ns = ? AND checkpoint_id = ?
    UNION
    SELECT c.checkpoint_id, c.parent, c.entries FROM path JOIN langgraph_checkpoints c
    ON c.thread = ? AND c.ns = ? AND c.checkpoint_id = path.parent
) SELECT checkpoint_id, entries FROM path"""


def read_history(
    connection: SqlConnection, place: CheckpointKey, channels: Sequence[str]
) -> Mapping[str, StoredHistory]:
    """Read the writes of channels on the path to a checkpoint, from the nearest stored value on."""
    thread = find_thread(connection, place.thread)
    paths: dict[str, list[str]] = {channel: [] for channel in channels}
    seeds: dict[str, Raw] = {}
    reader = BlobReader(connection)
    if thread is not None:
        for checkpoint_id, entries in _ancestors(connection, thread, place):
            for channel in paths.keys() - seeds.keys():
                paths[channel].append(checkpoint_id)
                entry = entries.get(channel)
                if entry is not None:
                    seeds[channel] = raw(reader, *entry)
            if len(seeds) == len(paths):
                break
    # Newest first so far. The seed's own writes came after it, so they count.
    writes = {
        channel: _writes(connection, (thread, place.ns, channel), path[::-1], reader) for channel, path in paths.items()
    }
    return {channel: (writes[channel], seeds.get(channel)) for channel in channels}


def _ancestors(
    connection: SqlConnection, thread: int, place: CheckpointKey
) -> Iterator[tuple[str, dict[str, Entry | None]]]:
    head = place.checkpoint_id
    if head is None:
        (head,) = connection.execute(
            "SELECT MAX(checkpoint_id) FROM langgraph_checkpoints WHERE thread = ? AND ns = ? AND hidden = 0",
            (thread, place.ns),
        ).fetchone()
    # Read step by step: a long conversation is walked only as far as there is something to find.
    where = (thread, place.ns)
    path = connection.dialect.stream(connection, _PATH, (*where, head, *where))
    for checkpoint_id, entries in islice(path, 1, None):
        yield checkpoint_id, load_entries(entries)


def _writes(
    connection: SqlConnection, where: tuple[int | None, str, str], path: Sequence[str], reader: BlobReader
) -> list[tuple[str, str, Raw]]:
    rows = connection.execute(
        "SELECT checkpoint_id, task_id, channel, form, type, data FROM langgraph_writes "
        "WHERE thread = ? AND ns = ? AND channel = ? AND checkpoint_id IN (SELECT value FROM json_each(?)) "
        "ORDER BY task_path, task_id, idx",
        (*where, json.dumps(list(path))),
    ).fetchall()
    steps = {checkpoint_id: step for step, checkpoint_id in enumerate(path)}
    rows.sort(key=lambda row: steps[row[0]])
    return [(task, channel, raw(reader, *stored)) for _, task, channel, *stored in rows]


def rebuild_history(stored: Mapping[str, StoredHistory], codec: ValueCodec) -> dict[str, DeltaChannelHistory]:
    """Make of what was read what langgraph expects."""
    result: dict[str, DeltaChannelHistory] = {}
    with codec.reading():
        for channel, (writes, seed) in stored.items():
            entry: DeltaChannelHistory = {"writes": rebuild_writes(writes, codec)}
            if seed is not None:
                entry["seed"] = codec.decode(*seed)
            result[channel] = entry
    return result
