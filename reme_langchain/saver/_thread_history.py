"""Messages that are new in a thread, handed on to a history; those that wait are a table in the same file."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from itertools import groupby
from operator import itemgetter
from typing import Protocol, TypeVar

import ormsgpack
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver

from reme_core import EventLoopThread, ReMe, SqlConnection, holder, is_gone
from reme_core.adapting import PATIENCE_S, Appends
from reme_core.errors import StoreError
from reme_core.schema import make_scope
from reme_core.schema.plain import usable_id
from reme_langchain.messages import from_langchain, untimed
from reme_langchain.saver._checkpoint_rows import PutRow, put_row
from reme_langchain.saver._message_blobs import KnownDigests
from reme_langchain.saver._payloads import APART, read_whole
from reme_langchain.saver._saver_file import SaverFile
from reme_langchain.saver._saver_tables import HISTORY, find_thread, make_thread
from reme_langchain.saver._value_codec import Typed, ValueCodec, digest_of

T = TypeVar("T")

_LOG = logging.getLogger("reme")


_WAITING = "name = ? AND queue = ? AND payload IS NOT NULL"


def insert_waiting(connection: SqlConnection, *, thread: str, entries: Sequence[tuple[str, bytes]]) -> None:
    """Add messages, each known by an id, that are not known yet."""
    connection.executemany(
        "INSERT INTO langchain_journal (name, queue, entry_id, payload) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(HISTORY, thread, entry_id, payload) for entry_id, payload in entries],
    )


def claim(
    connection: SqlConnection,
    _: KnownDigests,
    *,
    thread: str,
    holder: str,
    now: float,
    until: float,
    is_gone: Callable[[str], bool],
) -> list[tuple[int, str, Typed]] | None:
    """Return what waits of a thread, in order, held from now on; None while others hold some.

    Times are seconds since 1970. What is held by those who have certainly ended counts as free.

    Returns:
        Of each message the place, the checkpoint that brought it, and what is stored of it.
    """
    found = connection.execute(
        f"SELECT DISTINCT holder FROM langchain_journal WHERE {_WAITING} AND held > ?",  # noqa: S608  # ours
        (HISTORY, thread, now),
    )
    if any(other not in {None, holder} and not is_gone(other) for (other,) in found):
        return None
    connection.execute(
        f"UPDATE langchain_journal SET holder = ?, held = ? WHERE {_WAITING}",  # noqa: S608  # ours
        (holder, until, HISTORY, thread),
    )
    rows = connection.execute(
        f"SELECT place, payload FROM langchain_journal WHERE {_WAITING} ORDER BY place",  # noqa: S608  # ours
        (HISTORY, thread),
    ).fetchall()
    number = find_thread(connection, thread) or 0  # what waits goes with its thread
    unpacked = [(place, *ormsgpack.unpackb(payload)) for place, payload in rows]
    return [
        (place, checkpoint_id, (type_, data) if type_ != APART else read_whole(connection, number, data))
        for place, checkpoint_id, type_, data in unpacked
    ]


def release(connection: SqlConnection, _: KnownDigests, *, thread: str, holder: str) -> None:
    """Let go of what is held of a thread."""
    connection.execute(
        "UPDATE langchain_journal SET holder = NULL, held = 0 WHERE name = ? AND queue = ? AND holder = ?",
        (HISTORY, thread, holder),
    )


def finish(connection: SqlConnection, _: KnownDigests, *, places: Iterable[int]) -> None:
    """Forget what was handed over; its ids stay known."""
    connection.executemany(
        "UPDATE langchain_journal SET payload = NULL, holder = NULL WHERE place = ?", [(place,) for place in places]
    )


def waiting_threads(connection: SqlConnection) -> list[str]:
    """Return the threads of which something waits."""
    found = connection.execute(
        "SELECT queue FROM langchain_journal WHERE name = ? AND payload IS NOT NULL GROUP BY queue ORDER BY min(place)",
        (HISTORY,),
    )
    return [thread for (thread,) in found]


class MemoryHistory:
    """Appends what is new in a thread to a memory, as the session of that name: `ReMeSaver(..., history=...)`.

    A checkpoint waits for the append, for at most 80 ms; what takes longer goes on behind it.
    """

    def __init__(self, memory: ReMe, *, owner: str | Callable[[str], str]) -> None:
        """Keep the memory, which stays open, and whose it is: a user id, or a function of the thread's id.

        Raises:
            InvalidInputError: A user id that can't be one, such as an empty text.
        """
        if not callable(owner):
            make_scope(memory.memory_space, owner)
        self._memory = memory
        self._owner = owner

    async def __call__(self, thread_id: str, checkpoint_id: str, messages: Sequence[BaseMessage]) -> None:
        """Append the messages; those that are known are left alone.

        Raises:
            ReMeError: They are not on disk; the saver hands them over again.
        """
        said = {message.message_id: untimed(message) for message in from_langchain(messages)}
        await self._memory.summary(
            list(said.values()),
            user_id=self._owner if isinstance(self._owner, str) else self._owner(thread_id),
            session_id=usable_id(thread_id),
            background=True,
            on_conflict="rename",
        )


# A hand-over may take so long; no other process tries it in that time, unless it can see that this one has ended.
_LEASE_S = 60.0
_LOOK_AGAIN_S = 0.1  # whether another process is done


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
    """Writes down with each checkpoint which of its messages the sink has not got, and hands them over afterwards."""

    def __init__(self, file: SaverFile, sink: HistorySink, codec: ValueCodec) -> None:
        """Keep the sink; nothing is opened."""
        self._codec = codec
        self._sink = sink
        self._file = file
        self._appends = Appends("ReMeSaver")
        self._loop = EventLoopThread(self)
        self._holding = ExitStack()
        self._begun: Future[None] | None = None
        self._holder = ""
        self._fresh: set[str] = set()
        self._gate = threading.Lock()

    def put(self, connection: SqlConnection, known: KnownDigests, row: PutRow, codec: ValueCodec) -> frozenset[str]:
        """Do what `put_row` does, and note the new messages in the same transaction."""
        wanted = put_row(connection, known, row, codec)
        if not wanted and not row.place.ns:
            entries = _new_messages(connection, known, row, codec)
            if entries:
                insert_waiting(connection, thread=row.place.thread, entries=entries)
                self._fresh.add(row.place.thread)
        return wanted

    @property
    def last_error(self) -> Exception | None:
        """Why messages wait for the sink; None while all is well."""
        return self._appends.last_error

    def allow(self, types: Collection[tuple[str, ...]]) -> None:
        """Rebuild messages of these types as well, beside those that were allowed before."""
        self._codec = ValueCodec(BaseCheckpointSaver(serde=self._codec.serde).with_allowlist(types).serde)

    def begin(self) -> None:
        """Begin to hand over what an earlier process has left. Again is harmless."""
        with self._gate:  # the first calls may come from several threads at once
            if self._begun is None and not self._loop.ended:
                self._holder = self._holding.enter_context(holder())
                self._begun = self._submit(self._begin())

    def hand_over(self, thread: str) -> Future[bool] | None:
        """Begin to hand over what a checkpoint of a thread has brought, and what has failed before.

        Returns:
            What a checkpoint waits for, and never fails: only where the sink is a memory of ours, and a bounded time.
        """
        if thread in self._fresh:
            self._fresh.discard(thread)
            self._appends.put(thread, partial(self._deliver, thread))
        if not self._appends.pending or self._loop.ended:
            return None
        waiting = self._submit(self._appends.wait(thread))
        return waiting if isinstance(self._sink, MemoryHistory) else None

    def drain(self, timeout_s: float = 5.0) -> bool:
        """Hand over what waits, for a bounded time, and return whether nothing is left."""
        if self._begun is None or self._loop.ended:
            return True
        self._begun.result()
        return self._submit(self._appends.flush(timeout_s)).result()

    def close(self) -> None:
        """Hand over what waits, for a bounded time; the rest is handed over when a saver is used next."""
        if self._loop.ended:
            return
        self.drain()
        self._loop.end(_nothing())
        self._holding.close()

    def _submit(self, call: Coroutine[object, object, T]) -> Future[T]:
        # In a context of its own: that of the caller, a run of a graph, ends long before a sink does.
        return contextvars.Context().run(self._loop.submit, call)

    async def _begin(self) -> None:
        try:
            waiting = await self._file.aread(waiting_threads)
        except StoreError as exc:
            _LOG.warning("what waits for the history is handed over later: %s", exc)
            return
        for thread in waiting:
            self._appends.put(thread, partial(self._deliver, thread))
        await self._appends.flush(PATIENCE_S)

    async def _deliver(self, thread: str) -> None:
        """Hand over what waits of a thread, once nobody else does."""
        try:
            async with asyncio.timeout(_LEASE_S * 0.9):  # when another one may try it, this one has stopped
                for checkpoint_id, group in groupby(await self._claimed(thread), key=itemgetter(1)):
                    await self._hand_over_all(thread, checkpoint_id, list(group))
        except Exception as exc:
            _LOG.warning("messages of thread %r wait, the history has not taken them: %s", thread, exc)
            await self._file.awrite(partial(release, thread=thread, holder=self._holder), thread)
            raise

    async def _claimed(self, thread: str) -> list[tuple[int, str, Typed]]:
        """Return what `claim` does, once nobody else holds it."""
        rows = None
        while rows is None:
            now = self._file.memory.clock.now().timestamp()
            take = partial(claim, thread=thread, holder=self._holder, now=now, until=now + _LEASE_S, is_gone=is_gone)
            rows = await self._file.awrite(take, thread)
            if rows is None:
                await asyncio.sleep(_LOOK_AGAIN_S)
        return rows

    async def _hand_over_all(self, thread: str, checkpoint_id: str, brought: Sequence[tuple[int, str, Typed]]) -> None:
        """Hand over all that a checkpoint brought."""
        messages = [self._rebuilt(stored) for _, _, stored in brought]
        call = partial(self._sink, thread, checkpoint_id, messages)
        is_async = isinstance(self._sink, MemoryHistory) or iscoroutinefunction(self._sink)
        answer = call() if is_async else await asyncio.to_thread(call)  # a plain function may block
        if isawaitable(answer):
            await answer
        await self._file.awrite(partial(finish, places=[place for place, *_ in brought]), thread)

    def _rebuilt(self, stored: Typed) -> BaseMessage:
        """Rebuild a message. One whose type is not allowed waits: the graph that allows it may not be compiled yet."""
        message = self._codec.load(stored)
        if not isinstance(message, BaseMessage):
            msg = "a message is of a type that this saver does not rebuild: add its class to `allow`"
            raise TypeError(msg)
        return message


async def _nothing() -> None:
    return


def _new_messages(
    connection: SqlConnection, known: KnownDigests, row: PutRow, codec: ValueCodec
) -> list[tuple[str, bytes]]:
    thread = make_thread(connection, known, row.place.thread)
    entries = []
    for value in row.new.values():
        for part in [] if value is None or value.row is None else value.row.parts(0):
            digest = digest_of(part, known.key)
            changed = connection.execute(
                "UPDATE langgraph_blobs SET offered = 1 WHERE thread = ? AND digest = ? AND offered = 0",
                (thread, digest),
            )
            if changed.rowcount:
                entries.append((digest.hex(), ormsgpack.packb([row.checkpoint_id, *codec.seal_apart(part)[0]])))
    return entries
