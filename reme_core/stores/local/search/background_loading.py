"""Searches in scopes too large to be loaded while somebody waits.

A search loads the first chunk of a partition itself, which has the newest rows; a thread of its own loads the others
behind it. A search whose caller can say that its answer is not complete waits for a moment, without holding a thread,
and is then answered from what is loaded; any other waits for all.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, TypeVar

from reme_core.stores.local.file.database import Database
from reme_core.stores.local.file.scope_numbers import Layer
from reme_core.stores.local.search.partitions import Partition, Partitions

T = TypeVar("T")

# Between two chunks: without it, a search that waits for the partition's lock would often miss that it is free.
_PAUSE_S = 0.002
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

    def get(self, scope: int, layer: Layer) -> Partition:
        """See `Partitions.get`."""
        return self.held.get(scope, layer)

    def measured(self, scope: int, layer: Layer, size_bytes: int) -> None:
        """See `Partitions.measured`."""
        self.held.measured(scope, layer, size_bytes)

    def follow(self, connection: sqlite3.Connection, scope: int, partition: Partition) -> None:
        """Bring a partition, whose lock is held, to the state of the snapshot (StillLoading)."""
        partition.follow(connection, scope)
        while self.insists and not partition.is_complete:
            partition.load_more(connection, scope)
        if not partition.is_complete:
            if self.waits:
                raise StillLoading(scope, partition)
            self.unfinished.append((scope, partition, len(partition.index)))


Search: TypeAlias = Callable[[sqlite3.Connection, SearchedPartitions], T]
Told: TypeAlias = Callable[[str], None]


class Loader:
    """Runs searches, and loads behind them what they found unfinished."""

    def __init__(self, database: Database, partitions: Partitions, *, patience_s: float) -> None:
        """Keep what is worked on; `patience_s` is how long a search may wait that can be answered in part."""
        self._database = database
        self._partitions = partitions
        self._patience_s = patience_s

    async def search(self, work: Search[T], on_degraded: Told | None) -> T:
        """Run a search on a reading thread; without `on_degraded` its answer is never a partial one."""
        partitions = SearchedPartitions(self._partitions, waits=on_degraded is None or self._patience_s > 0)
        try:
            return await self._run(work, partitions, on_degraded)
        except StillLoading as unfinished:
            await self._wait(unfinished.scope, unfinished.partition, None if on_degraded is None else self._patience_s)
        # What was let go or stopped while it was being loaded is the rare case in which `insists` has anything to do.
        return await self._run(work, SearchedPartitions(self._partitions, insists=on_degraded is None), on_degraded)

    async def _run(self, work: Search[T], partitions: SearchedPartitions, on_degraded: Told | None) -> T:
        found = await self._database.read(lambda connection: work(connection, partitions))
        for scope, partition, loaded in partitions.unfinished:
            self._go_on(scope, partition)
            if on_degraded is not None:
                name = _NAMES[partition.layer]
                on_degraded(f"only the newest {loaded:,} {name} were searched: the older ones are still being loaded")
        return found

    def _go_on(self, scope: int, partition: Partition) -> Future[None]:
        """Load a partition behind the searches, unless somebody does."""
        if partition.loading is None or partition.loading.done():
            partition.loading = self._database.submit_repeated(partial(self._load, scope, partition))
        return partition.loading

    def _load(self, scope: int, partition: Partition, connection: sqlite3.Connection) -> bool:
        """Load a chunk and return whether there is more to do; what fails here, the next search meets and raises."""
        if not self._partitions.keeps(scope, partition):
            return False
        time.sleep(_PAUSE_S)
        with partition.lock:
            partition.follow(connection, scope)
            partition.load_more(connection, scope)
            size, more = partition.index.nbytes, not partition.is_complete
        self._partitions.measured(scope, partition.layer, size)
        return more

    async def _wait(self, scope: int, partition: Partition, patience_s: float | None) -> None:
        """Wait, holding no thread, until a partition is loaded or nobody loads it any more."""
        ended: Future[None] = Future()  # of this waiter alone, which may give up

        def tell(_: Future[None]) -> None:
            if ended.set_running_or_notify_cancel():
                ended.set_result(None)

        self._go_on(scope, partition).add_done_callback(tell)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await asyncio.wrap_future(ended)
