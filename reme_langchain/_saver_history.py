"""Hands messages that are new in a thread on to a history, through a journal in the same file."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Sequence
from inspect import isawaitable
from typing import Protocol

import ormsgpack
from langchain_core.messages import BaseMessage

from reme_langchain import _journal_rows
from reme_langchain._journal import Entry, Journal
from reme_langchain._saver_blobs import Known
from reme_langchain._saver_codec import Codec, digest_of
from reme_langchain._saver_file import SaverFile
from reme_langchain._saver_rows import PutRow, put_row
from reme_langchain._saver_tables import HISTORY, make_thread


class HistorySink(Protocol):
    """Takes over messages that were new in a thread, in their order.

    A coroutine function or a plain one, which holds up the hand-over of other threads' messages while it runs. It is
    called in a background thread, and again later where it raises. Each message comes once, unless the process
    was killed between the sink's return and the note of it. Ids and texts are those of the graph.
    """

    def __call__(self, thread_id: str, checkpoint_id: str, messages: Sequence[BaseMessage]) -> Awaitable[None] | None:
        """Keep the messages; `checkpoint_id` is the checkpoint of the root graph that held them first."""
        ...


class History:
    """Writes down with each checkpoint which of its messages the sink has not got, and delivers them afterwards."""

    def __init__(self, file: SaverFile, sink: HistorySink, codec: Codec) -> None:
        """Keep the sink; nothing is opened. `codec` may be replaced by one that knows more types."""
        self.codec = codec
        self._sink = sink
        self._file = file
        self._journal: Journal | None = None

    def put(self, connection: sqlite3.Connection, known: Known, row: PutRow, codec: Codec) -> frozenset[str]:
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
        if self._journal is None:
            self._journal = Journal(
                self._file.database, name=HISTORY, deliver=self._deliver, clock=self._file.memory.clock, remember=True
            )
        return self._journal

    def close(self) -> None:
        """Deliver what waits, for a bounded time; the rest is delivered when a saver is used next."""
        if self._journal is not None:
            self._journal.close()

    async def _deliver(self, entry: Entry) -> None:
        checkpoint_id, type_, data = ormsgpack.unpackb(entry.payload)
        answer = self._sink(entry.queue, checkpoint_id, [self.codec.load((type_, data))])
        if isawaitable(answer):
            await answer


def _new_messages(connection: sqlite3.Connection, known: Known, row: PutRow, codec: Codec) -> list[tuple[str, bytes]]:
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
