"""Tables of earlier releases, moved to those of this one within the transaction that finds them."""

from __future__ import annotations

import json

import ormsgpack

from reme_core import SqlConnection
from reme_langchain.saver._message_blobs import Blobs, Entry, KnownDigests, kept_apart, stays
from reme_langchain.saver._value_codec import ValueForm

_WRITES = "thread, ns, checkpoint_id, task_id, idx, task_path, channel, form, type, data"
_CHECKPOINTS = "thread, ns, checkpoint_id, parent, run, hidden, type, body, metadata"


def begin_move(connection: SqlConnection, version: int) -> None:
    """Put aside, in a file of version 1, 2 or 3, what has the name of a table that is another one now."""
    if version == 1:
        connection.execute("ALTER TABLE langgraph_threads ADD COLUMN erased_with INTEGER")
    # What names the tables would follow them to their other names.
    connection.execute("DROP TRIGGER IF EXISTS langgraph_thread_ends")
    connection.execute("DROP VIEW IF EXISTS langgraph_thread_checkpoints")
    connection.execute("DROP INDEX IF EXISTS langgraph_runs")
    for table in _moved(version):
        connection.execute(f"ALTER TABLE {table} RENAME TO {table}_before")


def finish_move(connection: SqlConnection, version: int, known: KnownDigests) -> None:
    """Move the rows to the tables that were made meanwhile."""
    if version == 1:
        connection.execute(f"INSERT INTO langgraph_writes SELECT {_WRITES} FROM langgraph_writes_before")  # noqa: S608
    _move_checkpoints(connection, known)
    for table in _moved(version):
        connection.execute(f"DROP TABLE {table}_before")
    connection.execute("DROP TABLE langgraph_values")


def _moved(version: int) -> list[str]:
    return ["langgraph_checkpoints", *(["langgraph_writes"] if version == 1 else [])]


def _move_checkpoints(connection: SqlConnection, known: KnownDigests) -> None:
    """Move the checkpoints, and into their rows the values to which they referred by `refs`, JSON of {channel: id}."""
    entries: dict[int, Entry] = {}
    for *row, refs in connection.execute(f"SELECT {_CHECKPOINTS}, refs FROM langgraph_checkpoints_before"):  # noqa: S608
        held = {
            channel: None if id_ is None else _entry(Blobs(connection, row[0], known), id_, entries)
            for channel, id_ in json.loads(refs).items()
        }
        connection.execute(
            f"INSERT INTO langgraph_checkpoints ({_CHECKPOINTS}, entries) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            (*row, ormsgpack.packb(held)),
        )


def _entry(blobs: Blobs, id_: int, entries: dict[int, Entry]) -> Entry:
    """Return a value as its checkpoints hold it now."""
    if id_ not in entries:
        found = blobs.connection.execute(
            "SELECT form, type, data FROM langgraph_values WHERE id = ?", (id_,)
        ).fetchone()
        # One that is missing: as long as nobody reads it, the others are there.
        entry: Entry = (int(ValueForm.PART), "", ormsgpack.packb([[0]])) if found is None else tuple(found)
        entries[id_] = entry if stays(entry) else kept_apart(blobs, entry)
    return entries[id_]
