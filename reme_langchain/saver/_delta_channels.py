"""Histories from which langgraph rebuilds delta channels; beta upstream, and this file changes with it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from langgraph.checkpoint.base import DeltaChannelHistory

from reme_langchain.saver._checkpoint_rows import CheckpointKey, Raw, raw, rebuild_writes
from reme_langchain.saver._message_blobs import BlobReader, Entry, load_entries
from reme_langchain.saver._saver_file import find_thread
from reme_langchain.saver._value_codec import ValueCodec

StoredHistory = tuple[list[tuple[str, str, Raw]], Raw | None]
"""The writes of a channel, oldest first, and the value that they start from."""

# UNION, not UNION ALL: a checkpoint that is its own ancestor ends the walk.
_PATH = """WITH RECURSIVE path(checkpoint_id, parent, entries) AS (
    SELECT checkpoint_id, parent, entries FROM langgraph_checkpoints
    WHERE thread = ?1 AND ns = ?2 AND checkpoint_id = ?3
    UNION
    SELECT c.checkpoint_id, c.parent, c.entries FROM path JOIN langgraph_checkpoints c
    ON c.thread = ?1 AND c.ns = ?2 AND c.checkpoint_id = path.parent
) SELECT checkpoint_id, entries FROM path"""


def read_history(
    connection: sqlite3.Connection, place: CheckpointKey, channels: Sequence[str]
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
    connection: sqlite3.Connection, thread: int, place: CheckpointKey
) -> Iterator[tuple[str, dict[str, Entry | None]]]:
    head = place.checkpoint_id
    if head is None:
        (head,) = connection.execute(
            "SELECT MAX(checkpoint_id) FROM langgraph_checkpoints WHERE thread = ? AND ns = ? AND NOT hidden",
            (thread, place.ns),
        ).fetchone()
    # Read step by step: a long conversation is walked only as far as there is something to find.
    for checkpoint_id, entries in islice(connection.execute(_PATH, (thread, place.ns, head)), 1, None):
        yield checkpoint_id, load_entries(entries)


def _writes(
    connection: sqlite3.Connection, where: tuple[int | None, str, str], path: Sequence[str], reader: BlobReader
) -> list[tuple[str, str, Raw]]:
    rows = connection.execute(
        "SELECT w.task_id, w.channel, w.form, w.type, w.data FROM json_each(?4) step JOIN langgraph_writes w "
        "ON w.thread = ?1 AND w.ns = ?2 AND w.checkpoint_id = step.value WHERE w.channel = ?3 "
        "ORDER BY step.key, w.task_path, w.task_id, w.idx",
        (*where, json.dumps(list(path))),
    ).fetchall()
    return [(task, channel, raw(reader, *stored)) for task, channel, *stored in rows]


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
