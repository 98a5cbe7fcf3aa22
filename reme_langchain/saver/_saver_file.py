"""The file of a saver and of its clones: opened once, prepared once, closed once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from sqlite3 import Connection
from typing import Literal, TypeVar

from reme_core import Database, ReMe
from reme_langchain._opening import MemoryOrPath, open_memory
from reme_langchain.saver._checkpoint_tables import prepare
from reme_langchain.saver._message_blobs import KnownDigests

T = TypeVar("T")


class SaverFile:
    """Runs work on the file, after its tables were made."""

    def __init__(self, store: MemoryOrPath) -> None:
        """Keep the memory, or make one of the path; nothing is opened."""
        self._store = store
        self.memory: ReMe
        self.be_synchronous("FULL")
        self._known: KnownDigests | None = None
        self.when_opened: Callable[[], None] | None = None  # called when the first call has opened it

    def be_synchronous(self, synchronous: Literal["FULL", "NORMAL"]) -> None:
        """Say how safe a file is to be that is opened by path; before it is used."""
        self.memory, self._is_own = open_memory(self._store, what="store", synchronous=synchronous, with_models=False)

    @property
    def database(self) -> Database:
        """The file."""
        return self.memory.database

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run work in one snapshot of the file."""
        self._prepare()
        return self.database.submit_read(work).result()

    async def aread(self, work: Callable[[Connection], T]) -> T:
        """Do what `read` does, without blocking the event loop."""
        await self._aprepare()
        return await self.database.read(work)

    def write(self, work: Callable[[Connection, KnownDigests], T]) -> T:
        """Run work, which also gets what is known of the file, in a transaction; it is on disk when this returns."""
        known = self._prepare()
        return self.database.submit_write(partial(_run, work, known)).result()

    async def awrite(self, work: Callable[[Connection, KnownDigests], T]) -> T:
        """Do what `write` does, without blocking the event loop."""
        known = await self._aprepare()
        return await self.database.write(partial(_run, work, known))

    def close(self) -> None:
        """Close the file, if it was opened by path. Closing twice does nothing."""
        if self._is_own:
            # The loop that may run in this thread can't be waited for.
            with ThreadPoolExecutor(1) as pool:
                pool.submit(asyncio.run, self.memory.close()).result()

    async def aclose(self) -> None:
        """Do what `close` does, without blocking the event loop."""
        if self._is_own:
            await self.memory.close()

    def _prepare(self) -> KnownDigests:
        return self._known or self._opened(self.database.submit_write(prepare).result())

    async def _aprepare(self) -> KnownDigests:
        return self._known or self._opened(await self.database.write(prepare))

    def _opened(self, key: bytes) -> KnownDigests:
        self._known = known = KnownDigests(key)
        if self.when_opened is not None:
            self.when_opened()
        return known


def _run(work: Callable[[Connection, KnownDigests], T], known: KnownDigests, connection: Connection) -> T:
    known.begin(connection)
    return work(connection, known)
