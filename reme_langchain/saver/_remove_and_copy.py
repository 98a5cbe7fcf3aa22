"""Removing and copying: threads, runs, older checkpoints, and the values and messages that nothing refers to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import TypeAlias

import ormsgpack

from reme_core import SqlConnection
from reme_core.errors import InvalidInputError
from reme_langchain.saver._message_blobs import (
    BlobReader,
    Blobs,
    Entry,
    KnownDigests,
    load_entries,
    manifest_of,
    metadata_of,
)
from reme_langchain.saver._payloads import APART, PAYLOAD, cuts_of, find_payload, hand_on
from reme_langchain.saver._saver_tables import HISTORY, find_thread, hold_owner, lock_threads, make_thread, note_removal
from reme_langchain.saver._value_codec import ValueForm

_COUNTERS = "counters_since_delta_snapshot"  # the names of delta channels, in the metadata that langgraph hands over


_Place: TypeAlias = tuple[str, str]
"""Namespace and id of a checkpoint."""


@dataclass(frozen=True, slots=True)
class _Row:
    ns: str
    checkpoint_id: str
    parent: str | None
    entries: dict[str, Entry | None]
    metadata: str
    hidden: bool

    @property
    def place(self) -> _Place:
        return self.ns, self.checkpoint_id


def delete_thread(connection: SqlConnection, name: str) -> None:
    """Remove all of a thread, also what waits for a history sink."""
    thread = find_thread(connection, name, locked=True)
    if thread is not None:
        hand_on(connection, thread)
    connection.execute(
        "DELETE FROM langchain_journal WHERE name = ? AND queue = ? AND payload IS NOT NULL", (HISTORY, name)
    )
    connection.execute("DELETE FROM langgraph_threads WHERE name = ?", (name,))  # the rest goes with it


def delete_runs(connection: SqlConnection, runs: Sequence[str]) -> None:
    """Remove the checkpoints that these runs made, with their writes."""
    doomed: dict[int, set[_Place]] = {}
    for run in runs:
        found = connection.execute("SELECT thread, ns, checkpoint_id FROM langgraph_checkpoints WHERE run = ?", (run,))
        for thread, *place in found:
            doomed.setdefault(thread, set()).add((place[0], place[1]))
    lock_threads(connection, doomed)
    for thread, places in doomed.items():
        _remove(connection, thread, partial(_is_in, places))


def prune_thread(connection: SqlConnection, name: str) -> None:
    """Remove all but the newest checkpoint of each namespace."""
    thread = find_thread(connection, name, locked=True)
    if thread is None:
        return
    newest = dict(
        connection.execute(
            "SELECT ns, MAX(checkpoint_id) FROM langgraph_checkpoints WHERE thread = ? AND hidden = 0 GROUP BY ns",
            (thread,),
        )
    )
    _remove(connection, thread, lambda row: row.checkpoint_id != newest.get(row.ns))


def _remove(connection: SqlConnection, thread: int, is_doomed: Callable[[_Row], bool]) -> None:
    """Remove rows of a thread, but keep hidden what delta channels of the others are rebuilt from."""
    rows = _rows(connection, thread)
    survivors = [row for row in rows if not row.hidden and not is_doomed(row)]
    gone = [row for row in rows if row.hidden or is_doomed(row)]
    deltas = {ns: _delta_channels(connection, rows, ns) for ns in {row.ns for row in rows}}
    needed = _needed(survivors, {row.place: row for row in rows}, deltas)
    for row in gone:
        if row.place in needed:
            _hide(connection, thread, row, deltas[row.ns])
        else:
            for table in ("langgraph_checkpoints", "langgraph_writes"):
                connection.execute(
                    f"DELETE FROM {table} WHERE thread = ? AND ns = ? AND checkpoint_id = ?",  # noqa: S608  # ours
                    (thread, *row.place),
                )
    sweep(connection, thread)
    if not rows or len(gone) == len(rows):
        _forget_if_empty(connection, thread)


def _is_in(places: Set[_Place], row: _Row) -> bool:
    return row.place in places


def _rows(connection: SqlConnection, thread: int) -> list[_Row]:
    found = connection.execute(
        "SELECT ns, checkpoint_id, parent, entries, metadata, hidden FROM langgraph_checkpoints WHERE thread = ?",
        (thread,),
    )
    reader = BlobReader(connection)
    return [
        _Row(ns, checkpoint_id, parent, load_entries(entries), reader.metadata(metadata), bool(hidden))
        for ns, checkpoint_id, parent, entries, metadata, hidden in found.fetchall()
    ]


def _delta_channels(connection: SqlConnection, rows: Iterable[_Row], ns: str) -> frozenset[str]:
    """Return the channels of a namespace that are rebuilt from writes: langgraph counts them in the metadata."""
    named: set[str] = set()
    for row in rows:
        if row.ns == ns and _COUNTERS in row.metadata:
            named.update(json.loads(row.metadata).get(_COUNTERS) or ())
    return frozenset(named)


def _needed(survivors: Iterable[_Row], rows: dict[_Place, _Row], deltas: dict[str, frozenset[str]]) -> set[_Place]:
    """Return the ancestors that delta channels of the survivors are rebuilt from, as far as the nearest value."""
    needed: set[_Place] = set()
    for row in survivors:
        for channel in deltas[row.ns]:
            # A channel that is not in `entries` was never written on this branch.
            if channel not in row.entries or row.entries[channel] is not None:
                continue
            seen = {row.place}
            at = rows.get((row.ns, row.parent or ""))
            while at is not None and at.place not in seen:
                seen.add(at.place)
                if at.entries.get(channel) is not None:
                    break
                at = rows.get((row.ns, at.parent or ""))
            needed |= seen - {row.place}
    return needed


def _hide(connection: SqlConnection, thread: int, row: _Row, deltas: frozenset[str]) -> None:
    """Keep of a checkpoint what delta channels are rebuilt from, and nothing else."""
    entries = {channel: entry for channel, entry in row.entries.items() if channel in deltas}
    counted = json.dumps({_COUNTERS: dict.fromkeys(sorted(deltas), (0, 0))})
    connection.execute(
        "UPDATE langgraph_checkpoints SET hidden = 1, run = NULL, body = ?, metadata = ?, entries = ? "
        "WHERE thread = ? AND ns = ? AND checkpoint_id = ?",
        (b"", counted, ormsgpack.packb(entries), thread, *row.place),
    )
    connection.execute(
        "DELETE FROM langgraph_writes WHERE thread = ? AND ns = ? AND checkpoint_id = ? "
        "AND channel NOT IN (SELECT value FROM json_each(?))",
        (thread, *row.place, json.dumps(sorted(deltas))),
    )


def sweep(connection: SqlConnection, thread: int) -> None:
    """Remove the messages of a thread, and values kept as they are, that nothing holds."""
    reader = BlobReader(connection)
    held: set[int] = set()
    for entries, metadata in connection.execute(_HOLDING, (thread,)):
        for entry in load_entries(entries).values():
            if entry is not None and entry[0] != ValueForm.WHOLE:
                reader.mark(entry[2], held)
        if metadata is not None:
            reader.mark(manifest_of(metadata), held)
    for (manifest,) in connection.execute(_MANIFESTS, (thread,)):
        reader.mark(manifest, held)
    kept = connection.execute("SELECT id, type, digest FROM langgraph_blobs WHERE thread = ?", (thread,)).fetchall()
    if any(type_ == PAYLOAD for _, type_, _ in kept):
        wanted = set(_wanted(connection, thread, held))
        held.update(id_ for id_, type_, digest in kept if type_ == PAYLOAD and digest in wanted)
        hand_on(connection, thread, wanted)
    connection.executemany("DELETE FROM langgraph_blobs WHERE id = ?", [(id_,) for id_, *_ in kept if id_ not in held])
    note_removal(connection, thread)


def _wanted(connection: SqlConnection, thread: int, held: Set[int]) -> Iterator[bytes]:
    """Yield the payloads to which values that are held refer, or messages that wait for a history sink."""
    for id_, data in connection.execute(_LEFT, (thread, APART)).fetchall():
        if id_ in held:
            yield from cuts_of(data)
    for (payload,) in connection.execute(_WAITING, (HISTORY, thread)).fetchall():
        _, type_, data = ormsgpack.unpackb(payload)
        if type_ == APART:
            yield from cuts_of(data)


_HOLDING = """SELECT entries, CASE WHEN metadata LIKE '[%' THEN metadata END
    FROM langgraph_checkpoints WHERE thread = ?"""
_MANIFESTS = f"SELECT data FROM langgraph_writes WHERE thread = ? AND form <> {int(ValueForm.WHOLE)}"  # noqa: S608
_LEFT = "SELECT id, data FROM langgraph_blobs WHERE thread = ? AND type = ?"
_WAITING = """SELECT payload FROM langchain_journal
    WHERE name = ? AND queue = (SELECT name FROM langgraph_threads WHERE id = ?) AND payload IS NOT NULL"""


def _forget_if_empty(connection: SqlConnection, thread: int) -> None:
    left = (
        "SELECT 1 FROM langgraph_checkpoints WHERE thread = ? UNION ALL SELECT 1 FROM langgraph_writes WHERE thread = ?"
    )
    if connection.execute(left, (thread, thread)).fetchone() is None:
        hand_on(connection, thread)  # what waits for a history sink goes as well
        connection.execute("DELETE FROM langgraph_threads WHERE id = ?", (thread,))


def copy_thread(connection: SqlConnection, known: KnownDigests, source: str, target: str) -> None:
    """Copy all of a thread, messages included, to one that is empty; an unknown source copies nothing.

    Raises:
        InvalidInputError: The target holds checkpoints.
    """
    hold_owner(connection, source)
    taken = find_thread(connection, target, locked=True)
    if (
        taken is not None
        and connection.execute("SELECT 1 FROM langgraph_checkpoints WHERE thread = ? LIMIT 1", (taken,)).fetchone()
    ):
        msg = f"the thread {target!r} holds checkpoints: copy to another one, or delete it first"
        raise InvalidInputError(msg)
    old = find_thread(connection, source, locked=True)
    if old is None:
        return
    if taken is not None:
        delete_thread(connection, target)  # writes without a checkpoint, which nothing can read
        known.forget()
    new = make_thread(connection, known, target)
    connection.execute(
        "UPDATE langgraph_threads SET erased_with = (SELECT erased_with FROM langgraph_threads WHERE id = ?) "
        "WHERE id = ?",
        (old, new),
    )
    manifest = _copy_blobs(connection, old, Blobs(connection, new, known))
    _copy_writes(connection, old, new, manifest)
    _copy_checkpoints(connection, old, new, manifest)


def _copy_blobs(connection: SqlConnection, old: int, blobs: Blobs) -> Callable[[int, bytes], bytes]:
    """Copy messages and chunks; return what turns a manifest of the source into one of the copy."""
    ids: dict[int, int] = {}
    rows = connection.execute(
        "SELECT id, digest, type, data FROM langgraph_blobs WHERE thread = ? ORDER BY id", (old,)
    ).fetchall()
    for id_, digest, type_, data in rows:
        if type_ is None:  # a chunk; what is in it was written before it
            inner = ormsgpack.packb([ids[part] for part in ormsgpack.unpackb(data)])
            chunk_digest = blake2b(inner, digest_size=16, key=blobs.known.key, person=b"chunk").digest()
            ids[id_] = blobs.add(chunk_digest, None, inner)
        elif type_ == PAYLOAD:
            blobs.keep_payloads([(digest, data or find_payload(connection, old, digest))])
        else:
            ids[id_] = blobs.add(digest, type_, data)

    def translate(form: int, data: bytes) -> bytes:
        if form == ValueForm.WHOLE:
            return data
        return ormsgpack.packb([[ids[part] for part in tail] for tail in ormsgpack.unpackb(data)])

    return translate


def _copy_writes(connection: SqlConnection, old: int, new: int, manifest: Callable[[int, bytes], bytes]) -> None:
    rows = connection.execute(
        "SELECT ns, checkpoint_id, task_id, idx, task_path, channel, form, type, data FROM langgraph_writes "
        "WHERE thread = ?",
        (old,),
    ).fetchall()
    connection.executemany(
        "INSERT INTO langgraph_writes (thread, ns, checkpoint_id, task_id, idx, task_path, channel, form, type, data) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(new, *row[:-1], manifest(row[6], row[-1])) for row in rows],
    )


def _copy_checkpoints(connection: SqlConnection, old: int, new: int, manifest: Callable[[int, bytes], bytes]) -> None:
    rows = connection.execute(
        "SELECT ns, checkpoint_id, parent, run, hidden, type, body, metadata, entries FROM langgraph_checkpoints "
        "WHERE thread = ?",
        (old,),
    ).fetchall()
    for *row, metadata, entries in rows:
        moved = {
            channel: entry and (*entry[:2], manifest(entry[0], entry[2]))
            for channel, entry in load_entries(entries).items()
        }
        if metadata[:1] == "[":
            metadata = metadata_of(manifest(ValueForm.PART, manifest_of(metadata)))
        connection.execute(
            "INSERT INTO langgraph_checkpoints (thread, ns, checkpoint_id, parent, run, hidden, type, body, metadata, "
            "entries) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (new, *row, metadata, ormsgpack.packb(moved)),
        )
