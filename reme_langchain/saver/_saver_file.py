"""The file or database of a saver and of its clones: opened once, its tables prepared once, closed once."""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from typing import Literal, TypeVar

from reme_core import Database, ReMe, SqlConnection, SqlDatabase
from reme_core.errors import CorruptDataError, ReMeError
from reme_langchain._opening import MemoryOrPath, open_memory
from reme_langchain.saver._known_blobs import KnownBlobs
from reme_langchain.saver._message_blobs import KnownDigests
from reme_langchain.saver._saver_tables import prepare
from reme_langchain.saver._shared_commits import SharedCommits
from reme_langchain.saver._thread_commits import ThreadCommits

T = TypeVar("T")


@contextmanager
def damage_told() -> Iterator[None]:
    """Tell of rows that can't be what was written (CorruptDataError): around what reads them, or as its decorator."""
    try:
        yield
    except ReMeError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, zlib.error) as exc:
        msg = f"a row of the checkpoints can't be what was written ({type(exc).__name__}): restore a backup"
        raise CorruptDataError(msg) from exc


class SaverFile:
    """Runs work on the file or database, after its tables were made."""

    def __init__(self, store: MemoryOrPath) -> None:
        """Keep the memory, or make one of the path or URL; nothing is opened."""
        self._store = store
        self.memory: ReMe
        self.be_synchronous("FULL")
        self._commits: SharedCommits | ThreadCommits | None = None
        self._gate = threading.Lock()
        self.blobs = KnownBlobs()
        self.when_opened: Callable[[], None] | None = None  # called when the first call has opened it

    def be_synchronous(self, synchronous: Literal["FULL", "NORMAL"]) -> None:
        """Say how safe what is opened by path or URL is to be; before it is used."""
        self._is_settled = synchronous == "FULL"
        self.memory, self._is_own = open_memory(self._store, what="store", synchronous=synchronous, with_models=False)

    @cached_property
    def database(self) -> SqlDatabase:
        """The file or database."""
        return self.memory.database

    def read(self, work: Callable[[SqlConnection], T]) -> T:
        """Run work in one snapshot."""
        if self._commits is None:
            self._prepare()
        return self.database.submit_read(damage_told()(work), within=self.memory.memory_space).result()

    async def aread(self, work: Callable[[SqlConnection], T]) -> T:
        """Do what `read` does, without blocking the event loop."""
        if self._commits is None:
            await self._aprepare()
        return await self.database.read(damage_told()(work), within=self.memory.memory_space)

    def write(self, work: Callable[[SqlConnection, KnownDigests], T], thread: str | None = None) -> T:
        """Run work, which also gets what is known, in a transaction; it is on disk when this returns.

        Args:
            work: What writes.
            thread: The one thread it writes to; None: it locks those to which it does.
        """
        return self.begin(work, thread).result()

    def begin(self, work: Callable[[SqlConnection, KnownDigests], T], thread: str | None = None) -> Future[T]:
        """Begin what `write` does; the future's result waits for it."""
        return (self._commits or self._prepare()).begin(work, thread)

    async def awrite(self, work: Callable[[SqlConnection, KnownDigests], T], thread: str | None = None) -> T:
        """Do what `write` does, without blocking the event loop."""
        commits = self._commits or await self._aprepare()
        if isinstance(commits, SharedCommits):
            return await commits.abegin(work)
        return await asyncio.wrap_future(commits.begin(work, thread))

    def close(self) -> None:
        """Close what was opened by path or URL. Closing twice does nothing."""
        if self._is_own:
            # The loop that may run in this thread can't be waited for.
            with ThreadPoolExecutor(1) as pool:
                pool.submit(asyncio.run, self.memory.close()).result()

    async def aclose(self) -> None:
        """Do what `close` does, without blocking the event loop."""
        if self._is_own:
            await self.memory.close()

    def _prepare(self) -> SharedCommits | ThreadCommits:
        return self._opened(self._find_key().result())

    async def _aprepare(self) -> SharedCommits | ThreadCommits:
        return self._opened(await asyncio.wrap_future(self._find_key()))

    def _find_key(self) -> Future[bytes]:
        return self.database.submit_write(prepare, within=self.memory.memory_space)

    def _opened(self, key: bytes) -> SharedCommits | ThreadCommits:
        with self._gate:
            made = self._commits
            if made is None:
                self._commits = made = self._make_commits(key)
        if self.when_opened is not None:
            self.when_opened()
        return made

    def _make_commits(self, key: bytes) -> SharedCommits | ThreadCommits:
        if isinstance(self.database, Database):
            return SharedCommits(self.database, key)
        return ThreadCommits(self.database, self.memory.memory_space, key, settled=self._is_settled)
