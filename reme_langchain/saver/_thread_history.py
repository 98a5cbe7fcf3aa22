"""Hands messages that are new in a thread on to a history, through a journal in the same file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Awaitable, Collection, Sequence
from functools import partial
from inspect import isawaitable
from itertools import takewhile
from typing import Protocol

import ormsgpack
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver

from reme_langchain import _journal_rows
from reme_langchain._journal import Entry, Journal
from reme_langchain.saver._checkpoint_rows import PutRow, put_row
from reme_langchain.saver._checkpoint_tables import HISTORY, make_thread
from reme_langchain.saver._message_blobs import KnownDigests
from reme_langchain.saver._saver_file import SaverFile
from reme_langchain.saver._value_codec import Typed, ValueCodec, digest_of


class HistorySink(Protocol):
    """Takes over messages that were new in a thread, in their order.

    A coroutine function or a plain one, which holds up the hand-over of other threads' messages while it runs. It is
    called in a background thread with what one checkpoint brought, and again later where it raises. Each message comes
    once, unless the process was killed between the sink's return and the note of it. Ids and texts are those of the
    graph. A `DeltaChannel` has its messages in a checkpoint, and so handed over, when it takes a snapshot.
    """

    def __call__(self, thread_id: str, checkpoint_id: str, messages: Sequence[BaseMessage]) -> Awaitable[None] | None:
        """Keep the messages; `checkpoint_id` is the checkpoint of the root graph that held them first."""
        ...


class History:
    """Writes down with each checkpoint which of its messages the sink has not got, and delivers them afterwards."""

    def __init__(self, file: SaverFile, sink: HistorySink, codec: ValueCodec) -> None:
        """Keep the sink; nothing is opened."""
        self._codec = codec
        self._sink = sink
        self._file = file
        self._journal: Journal | None = None
        self._gate = threading.Lock()

    def put(
        self, connection: sqlite3.Connection, known: KnownDigests, row: PutRow, codec: ValueCodec
    ) -> frozenset[str]:
        """Do what `put_row` does, and note the new messages in the same transaction."""
        wanted = put_row(connection, known, row, codec)
        if not wanted and not row.place.ns:
            entries = _new_messages(connection, known, row, codec)
            if entries:
                _journal_rows.insert(connection, name=HISTORY, queue=row.place.thread, entries=entries)
        return wanted

    @property
    def journal(self) -> Journal:
        """What waits for the sink; its `last_error` says why."""
        with self._gate:  # the first calls may come from several threads at once
            if self._journal is None:
                file, clock = self._file.database, self._file.memory.clock
                self._journal = Journal(file, name=HISTORY, deliver=self._deliver, clock=clock, remember=True)
        return self._journal

    def allow(self, types: Collection[tuple[str, ...]]) -> None:
        """Rebuild messages of these types as well, beside those that were allowed before."""
        self._codec = ValueCodec(BaseCheckpointSaver(serde=self._codec.serde).with_allowlist(types).serde)

    def begin(self) -> None:
        """Begin to deliver what an earlier process has left. Again is harmless."""
        self.journal.begin()

    def close(self) -> None:
        """Deliver what waits, for a bounded time; the rest is delivered when a saver is used next."""
        if self._journal is not None:
            self._journal.close()

    async def _deliver(self, entry: Entry) -> None:
        """Hand over all that the entry's checkpoint brought; the journal itself strikes off the entry."""
        checkpoint_id = ormsgpack.unpackb(entry.payload)[0]
        behind = await self._file.aread(partial(_read_behind, entry=entry, checkpoint_id=checkpoint_id))
        stored = [entry.payload, *(payload for _, payload in behind)]
        messages = [self._rebuilt((type_, data)) for _, type_, data in map(ormsgpack.unpackb, stored)]
        answer = self._sink(entry.queue, checkpoint_id, messages)
        if isawaitable(answer):
            await answer
        if behind:
            await self._file.awrite(partial(_finish_all, places=[place for place, _ in behind]))

    def _rebuilt(self, stored: Typed) -> BaseMessage:
        """Rebuild a message. One whose type is not allowed waits: the graph that allows it may not be compiled yet."""
        message = self._codec.load(stored)
        if not isinstance(message, BaseMessage):
            msg = "a message is of a type that this saver does not rebuild: add its class to `allow`"
            raise TypeError(msg)
        return message


def _read_behind(connection: sqlite3.Connection, entry: Entry, checkpoint_id: str) -> list[tuple[int, bytes]]:
    """Read what waits right behind an entry for the same checkpoint: the place and payload of each."""
    rows = connection.execute(
        "SELECT place, payload FROM langchain_journal "
        "WHERE name = ? AND queue = ? AND place > ? AND payload IS NOT NULL ORDER BY place",
        (HISTORY, entry.queue, entry.place),
    )
    return list(takewhile(lambda row: ormsgpack.unpackb(row[1])[0] == checkpoint_id, rows))


def _finish_all(connection: sqlite3.Connection, _: KnownDigests, places: Sequence[int]) -> None:
    for place in places:
        _journal_rows.finish(connection, place=place, remember=True)


def _new_messages(
    connection: sqlite3.Connection, known: KnownDigests, row: PutRow, codec: ValueCodec
) -> list[tuple[str, bytes]]:
    thread = make_thread(connection, row.place.thread)
    entries = []
    for _, value in row.new.values():
        for part in [] if value is None or value.row is None else value.row.parts(0):
            digest = digest_of(part, known.key)
            changed = connection.execute(
                "UPDATE langgraph_blobs SET offered = 1 WHERE thread = ? AND digest = ? AND NOT offered",
                (thread, digest),
            )
            if changed.rowcount:
                entries.append((digest.hex(), ormsgpack.packb([row.checkpoint_id, *codec.seal(part)])))
    return entries
