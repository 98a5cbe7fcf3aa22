"""Ranked search over the partitions, on a reading thread in one snapshot; large ones are loaded in the background.

A search loads the first chunk of a partition itself, which has the newest rows; a thread of its own loads the others
behind it. A search whose caller can say that its answer is not complete waits for a moment, without holding a thread,
and is then answered from what is loaded; any other waits for all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial, reduce
from operator import and_
from typing import TypeAlias, TypeVar

import numpy as np

from reme_core.errors import InvalidInputError, UnsupportedFilterError
from reme_core.ports import MemoryFilter, MemorySearch, MessageSearch, ScoredBlock, ScoredMemory, ScoredMessage, Vector
from reme_core.retrieval import (
    MEMORY_WEIGHTS,
    MESSAGE_WEIGHTS,
    SUMMARY_WEIGHTS,
    BoolArray,
    Query,
    ScoredRow,
    ToldWords,
    asked_time,
)
from reme_core.rules import check_vector
from reme_core.schema import STATEMENTS, Memory, Scope
from reme_core.stores._cursors import check_limit
from reme_core.stores.sql.bookkeeping import Layer, find_newest_change, find_rows, find_session, newest_change
from reme_core.stores.sql.connection import SqlConnection, SqlDatabase
from reme_core.stores.sql.embedding_record import check_embedding
from reme_core.stores.sql.message_rows import blocks_by_rows, messages_by_rows, passages_by_rows, rows_of_messages
from reme_core.stores.sql.partitions import Partition, Partitions, holds_any
from reme_core.stores.sql.related_rows import told_words
from reme_core.stores.sql.row_conditions import check_filter
from reme_core.stores.sql.trust_rows import messages_of_trust

T = TypeVar("T")


# Between two chunks: without it, a search that waits for the partition's lock would often miss that it is free.
_PAUSE_S = 0.002
_NOTHING = frozenset[str]()
_NAMES = {Layer.MESSAGES: "messages", Layer.BLOCKS: "block summaries", Layer.MEMORIES: "memories"}


class StillLoading(Exception):  # noqa: N818  # a signal from the reading thread to `Loader`; no caller meets it
    """A search met a partition that is not loaded yet, and may wait for it."""

    def __init__(self, scope: int, partition: Partition) -> None:
        """Name the partition."""
        super().__init__(scope, partition.layer)
        self.scope = scope
        self.partition = partition


@dataclass(slots=True)
class SearchedPartitions:
    """The partitions as one search meets them.

    Attributes:
        held: All that there are.
        waits: An unfinished partition ends the search, which then waits for it and comes again.
        insists: An unfinished partition is loaded by the search itself, however long that takes.
        unfinished: Those that were searched as far as they were loaded, and how many rows that was.
    """

    held: Partitions
    waits: bool = False
    insists: bool = False
    unfinished: list[tuple[int, Partition, int]] = field(default_factory=list)

    def follow(self, connection: SqlConnection, scope: int, partition: Partition, newest: int) -> None:
        """Bring a partition, whose lock is held, to the state of the snapshot (StillLoading)."""
        partition.follow(connection, scope, newest)
        while self.insists and not partition.is_complete:
            partition.load_more(connection, scope)
        if not partition.is_complete:
            if self.waits:
                raise StillLoading(scope, partition)
            self.unfinished.append((scope, partition, len(partition.index)))


Search: TypeAlias = Callable[[SqlConnection, SearchedPartitions], T]
Told: TypeAlias = Callable[[str], None]


class Loader:
    """Runs searches, and loads behind them what they found unfinished."""

    def __init__(self, database: SqlDatabase, partitions: Partitions, *, patience_s: float) -> None:
        """Keep what is worked on; `patience_s` is how long a search may wait that can be answered in part."""
        self._database = database
        self._partitions = partitions
        self._patience_s = patience_s

    async def search(self, work: Search[T], scope: Scope, on_degraded: Told | None) -> T:
        """Run a search of a scope in one snapshot; without `on_degraded` its answer is never a partial one."""
        partitions = SearchedPartitions(self._partitions, waits=on_degraded is None or self._patience_s > 0)
        try:
            return await self._run(work, scope, partitions, on_degraded)
        except StillLoading as unfinished:
            loading = self._go_on(unfinished.scope, unfinished.partition, scope)
            await _wait(loading, None if on_degraded is None else self._patience_s)
        # What was let go or stopped while it was being loaded is the rare case in which `insists` has anything to do.
        insisting = SearchedPartitions(self._partitions, insists=on_degraded is None)
        return await self._run(work, scope, insisting, on_degraded)

    async def _run(self, work: Search[T], scope: Scope, partitions: SearchedPartitions, on_degraded: Told | None) -> T:
        found = await self._database.read(lambda connection: work(connection, partitions), within=scope)
        for number, partition, loaded in partitions.unfinished:
            self._go_on(number, partition, scope)
            if on_degraded is not None:
                name = _NAMES[partition.layer]
                on_degraded(f"only the newest {loaded:,} {name} were searched: the older ones are still being loaded")
        return found

    def _go_on(self, number: int, partition: Partition, scope: Scope) -> Future[None]:
        """Load a partition behind the searches, unless somebody does."""
        if partition.loading is None or partition.loading.done():
            load = partial(self._load, number, partition)
            partition.loading = self._database.submit_repeated(load, within=scope)
        return partition.loading

    def _load(self, scope: int, partition: Partition, connection: SqlConnection) -> bool:
        """Load a chunk and return whether there is more to do; what fails here, the next search meets and raises."""
        if not self._partitions.keeps((scope, partition.layer), partition):
            return False
        time.sleep(_PAUSE_S)
        with partition.lock:
            if partition.is_beyond(newest_change(connection, scope, partition.layer)):
                connection.dialect.renew(connection)  # or the number of its last change would be too low
            partition.follow(connection, scope)
            partition.load_more(connection, scope)
            size, more = partition.nbytes, not partition.is_complete
        self._partitions.measured((scope, partition.layer), size)
        return more


async def _wait(loading: Future[None], patience_s: float | None) -> None:
    """Wait, holding no thread, until a partition is loaded or nobody loads it any more."""
    ended: Future[None] = Future()  # of this waiter alone, which may give up

    def tell(_: Future[None]) -> None:
        if ended.set_running_or_notify_cancel():
            ended.set_result(None)

    loading.add_done_callback(tell)
    with suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            await asyncio.wrap_future(ended)


def check_query(text: str, vector: Vector | None, limit: int) -> Vector | None:
    """Check what a search is given; return the vector as contiguous float32 (InvalidInputError)."""
    check_limit(limit)
    if not text.strip() and vector is None:
        msg = "the query is empty: give words, a vector, or both; to see everything, list instead"
        raise InvalidInputError(msg)
    return None if vector is None else check_vector(vector, "the query's vector")


def search_memories(
    connection: SqlConnection, scope: Scope, search: MemorySearch, partitions: SearchedPartitions
) -> list[ScoredMemory]:
    """Return the best memories; see `Store.search`."""
    vector = check_query(search.text, search.vector, search.limit)
    check_embedding(connection, scope.memory_space, vector, search.embedded_by, "the query's vector")
    check_filter(search.filter)
    with _followed(connection, scope, Layer.MEMORIES, partitions) as held:
        if held is None:
            return []
        number, partition = held
        allowed = partition.allowed(connection, number, search.filter)
        told = _told(connection, number, partition, search)
        query = Query(text=search.text, vector=vector, told=told)
        only = None if search.only is None else find_rows(connection, number, Layer.MEMORIES, search.only)
        rank = partial(partition.index.rank, query, allowed=allowed, explain=search.explain, only=only)
        found = rank(limit=search.limit + 1)
        if len(found) > search.limit and found[-1].score == found[-2].score:  # ids decide the tie
            everything = rank(limit=len(partition.index))
            found = [hit for hit in everything if hit.score >= found[-1].score]
        else:
            found = found[: search.limit]
    scale = (MEMORY_WEIGHTS.vector if vector is not None else 0.0) + (
        MEMORY_WEIGHTS.text if search.text.strip() else 0.0
    )
    found = [hit.scaled(scale) for hit in found]
    # The ranking falls, so a floor after the limit leaves out what one before it would.
    if search.min_score is not None:
        found = [hit for hit in found if hit.score >= search.min_score]
    bodies, said = _bodies(connection, found), _told_of(told, {hit.key for hit in found})
    scored = [
        ScoredMemory(
            memory=bodies[row],
            score=hit.score,
            similarity=hit.similarity,
            told=said.get(row, _NOTHING),
            parts=hit.parts,
            place=hit.place,
        )
        for row, hit in ((hit.key, hit) for hit in found)
    ]
    scored.sort(key=lambda item: (-item.score, -item.memory.created_at.timestamp(), item.memory.memory_id))
    return scored[: search.limit]


def _told(connection: SqlConnection, scope: int, partition: Partition, search: MemorySearch) -> tuple[ToldWords, ...]:
    """Return what relations tell of the words of a query: those of memories of the time and trust asked for."""
    if not len(partition.relations) or not search.text.strip():
        return ()
    asked = search.filter
    wanted = MemoryFilter(
        types=STATEMENTS, as_of=asked.as_of, include_superseded=asked.include_superseded, trust=asked.trust
    )
    admitted: list[frozenset[int]] = []

    def holds(row: int) -> bool:
        if not admitted:  # most questions name nobody who is known
            admitted.append(partition.admitted(connection, scope, wanted))
        return row in admitted[0]

    return told_words(partition.index, partition.relations, search.text, holds)


def _told_of(told: Sequence[ToldWords], rows: AbstractSet[int]) -> dict[int, frozenset[str]]:
    found: dict[int, frozenset[str]] = {}
    for item in told:
        for row in rows & frozenset(item.keys.tolist()):
            found[row] = found.get(row, _NOTHING) | item.words
    return found


def _bodies(connection: SqlConnection, found: list[ScoredRow]) -> dict[int, Memory]:
    rows = connection.execute(
        "SELECT row, body FROM memories WHERE row IN (SELECT value FROM json_each(?))",
        (str([hit.key for hit in found]),),
    )
    return {row: Memory.model_validate_json(body) for row, body in rows}


def search_messages(
    connection: SqlConnection, scope: Scope, search: MessageSearch, partitions: SearchedPartitions
) -> list[ScoredMessage]:
    """Return the best messages; see `Store.search_messages`."""
    found = _rank(connection, scope, search, partitions, Layer.MESSAGES)
    stored = messages_by_rows(connection, [hit.key for hit in found])
    spans = passages_by_rows(connection, [(hit.key, hit.passage) for hit in found if hit.passage is not None])
    return [
        ScoredMessage(
            stored=stored[hit.key],
            score=hit.score,
            passage=spans.get(hit.key),
            similarity=hit.similarity,
            parts=hit.parts,
            place=hit.place,
        )
        for hit in found
    ]


def search_blocks(
    connection: SqlConnection, scope: Scope, search: MessageSearch, partitions: SearchedPartitions
) -> list[ScoredBlock]:
    """Return the best blocks by their summaries; see `Store.search_blocks`."""
    if search.trust is not None:
        msg = "trust: a block is of several messages, whose classes differ: leave it out, or search the messages"
        raise UnsupportedFilterError(msg)
    found = _rank(connection, scope, search, partitions, Layer.BLOCKS)
    blocks = blocks_by_rows(connection, [hit.key for hit in found])
    return [ScoredBlock(block=blocks[hit.key], score=hit.score, parts=hit.parts, place=hit.place) for hit in found]


def _rank(
    connection: SqlConnection, scope: Scope, search: MessageSearch, partitions: SearchedPartitions, layer: Layer
) -> list[ScoredRow]:
    if search.by_time:
        return _list_by_time(connection, scope, search, partitions, layer)
    vector = check_query(search.text, search.vector, search.limit)
    check_embedding(connection, scope.memory_space, vector, search.embedded_by, "the query's vector")
    weights = MESSAGE_WEIGHTS if layer is Layer.MESSAGES else SUMMARY_WEIGHTS
    scale = weights.ceiling(with_vector=vector is not None and layer is Layer.MESSAGES)
    with _followed(connection, scope, layer, partitions) as held:
        if held is None:
            return []
        number, partition = held
        found = partition.index.rank(
            Query(text=search.text, vector=vector if layer is Layer.MESSAGES else None, now=search.now),
            limit=search.limit,
            allowed=_allowed(connection, number, partition, search),
            lifts=_lifts(connection, number, search.lifts, scale) if layer is Layer.MESSAGES else {},
            explain=search.explain,
            only=None if search.only is None else find_rows(connection, number, layer, search.only),
        )
    return [hit.scaled(scale, most=1.0) for hit in found]


def _list_by_time(
    connection: SqlConnection, scope: Scope, search: MessageSearch, partitions: SearchedPartitions, layer: Layer
) -> list[ScoredRow]:
    check_limit(search.limit)
    asked = asked_time(search.text, search.now)
    with _followed(connection, scope, layer, partitions) as held:
        if held is None:
            return []
        number, partition = held
        allowed = _allowed(connection, number, partition, search)
        limit = search.limit
        while True:
            found = partition.index.list_by_time(asked, limit=limit, allowed=allowed)
            tools = _said_by_tools(connection, found) if layer is Layer.MESSAGES else set()
            people = [hit for hit in found if hit.key not in tools]
            if len(people) >= search.limit or len(found) < limit:
                break
            limit *= 4  # tool results crowd out what people said: look further down
    floor = people[-1].score if people else 1.0
    behind = [ScoredRow(hit.key, floor * hit.score) for hit in found if hit.key in tools]
    return [*people, *behind][: search.limit]


def _said_by_tools(connection: SqlConnection, found: list[ScoredRow]) -> set[int]:
    rows = connection.execute(
        "SELECT seq FROM messages WHERE seq IN (SELECT value FROM json_each(?))"  # noqa: S608  # fixed texts
        f" AND {connection.dialect.json_text('body', 'role')} = 'tool'",
        (str([hit.key for hit in found]),),
    )
    return {row for (row,) in rows}


@contextmanager
def _followed(
    connection: SqlConnection, scope: Scope, layer: Layer, partitions: SearchedPartitions
) -> Iterator[tuple[int, Partition] | None]:
    """Hold the partition of a scope, brought to the state of the connection's snapshot; None where there is nothing.

    Another thread may have brought the partition beyond this snapshot. One begun under the lock is never older than
    the partition.
    """
    found = find_newest_change(connection, scope, layer)
    while found is not None and (found[1] or holds_any(connection, found[0], layer)):
        number, newest = found
        partition = partitions.held.get((number, layer))
        with partition.lock:
            if partition.is_beyond(newest):
                connection.dialect.renew(connection)
                found = find_newest_change(connection, scope, layer)
                if found is None or found[0] != number:  # erased, and perhaps made anew, in between
                    continue
            partitions.follow(connection, number, partition, found[1])
            yield number, partition
            partitions.held.measured((number, layer), partition.nbytes)
            return
    yield None


def _lifts(connection: SqlConnection, scope: int, lifts: Mapping[str, float], scale: float) -> dict[int, float]:
    rows = rows_of_messages(connection, scope, list(lifts))
    return {row: scale * lifts[message_id] for message_id, row in rows.items()}


def _allowed(connection: SqlConnection, scope: int, partition: Partition, search: MessageSearch) -> BoolArray | None:
    index = partition.index
    masks: list[BoolArray] = []
    if search.session_id is not None:
        masks.append(_in_session(connection, scope, partition, search.session_id))
    if search.said_from is not None:
        masks.append(index.times >= _seconds(search.said_from))
    if search.said_to is not None:
        masks.append(index.times < _seconds(search.said_to))
    if search.trust is not None:
        rows = messages_of_trust(connection, scope, search.trust)
        masks.append(np.isin(index.keys, np.fromiter(rows, np.int64, len(rows))))
    return reduce(and_, masks) if masks else None


def _in_session(connection: SqlConnection, scope: int, partition: Partition, session_id: str) -> BoolArray:
    session = find_session(connection, scope, session_id)
    if partition.layer is Layer.MESSAGES:
        mask: BoolArray = partition.index.sessions == (-1 if session is None else session)
        return mask
    rows = connection.execute("SELECT block FROM blocks WHERE scope = ? AND session = ?", (scope, session)).fetchall()
    among: BoolArray = np.isin(partition.index.keys, np.fromiter((row for (row,) in rows), np.int64, len(rows)))
    return among


def _seconds(moment: datetime) -> float:
    return moment.timestamp()
