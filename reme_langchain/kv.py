"""Bytes by key beside a memory: a cache of embeddings or documents."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TypeVar

from langchain_core.stores import BaseStore

from reme_core import EventLoopThread, SpacePart, SqlConnection
from reme_core.schema import shown
from reme_langchain._opening import ClosedOnExit, MemoryOrPath, open_memory

T = TypeVar("T")

# Keys lie as UTF-8, so that any text can be one, and their order is that of their characters.
_TABLE = """CREATE TABLE IF NOT EXISTS langchain_bytes (
    memory_space TEXT NOT NULL, namespace BLOB NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (memory_space, namespace, key))"""
_GET = "SELECT value FROM langchain_bytes WHERE memory_space = ? AND namespace = ? AND key = ?"
_SET = """INSERT INTO langchain_bytes (memory_space, namespace, key, value) VALUES (?, ?, ?, ?)
    ON CONFLICT (memory_space, namespace, key) DO UPDATE SET value = excluded.value"""
_DELETE = "DELETE FROM langchain_bytes WHERE memory_space = ? AND namespace = ? AND key = ?"
_FIRST = (
    """SELECT key FROM langchain_bytes WHERE memory_space = ? AND namespace = ? AND key >= ? ORDER BY key LIMIT ?"""
)
_NEXT = """SELECT key FROM langchain_bytes WHERE memory_space = ? AND namespace = ? AND key > ? ORDER BY key LIMIT ?"""
_PAGE_KEYS = 500


class ReMeByteStore(ClosedOnExit, BaseStore[str, bytes]):
    """A key-value store for `CacheBackedEmbeddings`, `MultiVectorRetriever` and the like.

    Values belong to the memory space and the namespace, not to a user. What is written is on disk when the call
    returns, all of it or nothing. Usable from any event loop and thread, and from several processes at once.
    """

    def __init__(self, memory: MemoryOrPath = None, *, namespace: str = "default") -> None:
        """Keep the settings; nothing is opened yet.

        Args:
            memory: A `ReMe`, a path, or the URL of a database; what is opened for these is closed by `close`.
            namespace: Keys of one namespace are unknown in another one.

        Raises:
            TypeError: The namespace is no text.
            ConfigurationError: `memory` can't be one, or lies in no file or database of ours.
        """
        self._namespace = _encoded(namespace, "namespace")
        self._memory, self._opened_here = open_memory(memory, with_models=False)
        self._database = self._memory.database
        self._part = SpacePart(self._memory.memory_space, f"bytes {namespace}")
        self._gate = threading.Lock()
        self._prepared = False

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the values in the order of the keys, None where there is none."""
        return self._read(self._getting(keys))

    async def amget(self, keys: Sequence[str]) -> list[bytes | None]:
        """Do what `mget` does."""
        return await self._read_async(self._getting(keys))

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        """Write values, the last one of a key.

        Raises:
            TypeError: A key is no text, or a value no bytes; nothing was written.
        """
        self._write(self._setting(key_value_pairs))

    async def amset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        """Do what `mset` does."""
        await self._database.write(self._setting(key_value_pairs), within=self._part)

    def mdelete(self, keys: Sequence[str]) -> None:
        """Remove keys; one that is not there may be named."""
        self._write(self._deleting(keys))

    async def amdelete(self, keys: Sequence[str]) -> None:
        """Do what `mdelete` does."""
        await self._database.write(self._deleting(keys), within=self._part)

    def yield_keys(self, prefix: str | None = None) -> Iterator[str]:
        """Yield the keys that begin with a prefix, in the order of their characters.

        They are read in pages: between two keys any call works, and what changes meanwhile may or may not be seen.
        """
        begin = _encoded(prefix or "", "prefix")
        last: bytes | None = None
        while page := self._read(self._paging(begin, last)):
            yield from map(_decoded, page)
            last = page[-1]

    async def ayield_keys(self, prefix: str | None = None) -> AsyncIterator[str]:
        """Do what `yield_keys` does."""
        begin = _encoded(prefix or "", "prefix")
        last: bytes | None = None
        while page := await self._read_async(self._paging(begin, last)):
            for key in page:
                yield _decoded(key)
            last = page[-1]

    def close(self) -> None:
        """Close what was opened here for a path; a `ReMe` that was handed in stays open. Twice is harmless."""
        if self._opened_here:
            EventLoopThread(self).end(self._memory.close())

    async def aclose(self) -> None:
        """Do what `close` does."""
        if self._opened_here:
            await self._memory.close()

    def _place(self, key: str) -> tuple[str, bytes, bytes]:
        return self._memory.memory_space, self._namespace, _encoded(key, "key")

    def _getting(self, keys: Sequence[str]) -> Callable[[SqlConnection], list[bytes | None]]:
        places = [self._place(key) for key in keys]

        def work(connection: SqlConnection) -> list[bytes | None]:
            rows = (connection.execute(_GET, place).fetchone() for place in places)
            return [None if row is None else row[0] for row in rows]

        return work

    def _setting(self, pairs: Sequence[tuple[str, bytes]]) -> Callable[[SqlConnection], None]:
        rows = [(*self._place(key), _checked(value)) for key, value in pairs]

        def work(connection: SqlConnection) -> None:
            _make_table(connection)
            connection.executemany(_SET, rows)

        return work

    def _deleting(self, keys: Sequence[str]) -> Callable[[SqlConnection], None]:
        places = [self._place(key) for key in keys]

        def work(connection: SqlConnection) -> None:
            _make_table(connection)
            connection.executemany(_DELETE, places)

        return work

    def _paging(self, begin: bytes, last: bytes | None) -> Callable[[SqlConnection], list[bytes]]:
        query = _FIRST if last is None else _NEXT
        asked = (self._memory.memory_space, self._namespace, begin if last is None else last, _PAGE_KEYS)

        def work(connection: SqlConnection) -> list[bytes]:
            return [key for (key,) in connection.execute(query, asked) if key.startswith(begin)]

        return work

    def _read(self, work: Callable[[SqlConnection], T]) -> T:
        self._prepare()
        return self._database.submit_read(work, within=self._part).result()

    async def _read_async(self, work: Callable[[SqlConnection], T]) -> T:
        if not self._prepared:
            await asyncio.to_thread(self._prepare)
        return await self._database.read(work, within=self._part)

    def _write(self, work: Callable[[SqlConnection], None]) -> None:
        self._database.submit_write(work, within=self._part).result()

    def _prepare(self) -> None:
        """Make the table, which a reading connection can't."""
        with self._gate:
            if not self._prepared:
                self._database.submit_write(_make_table, within=self._part).result()
                self._prepared = True


def _make_table(connection: SqlConnection) -> None:
    if connection.dialect.is_file:
        connection.execute(_TABLE)


def _encoded(text: object, what: str) -> bytes:
    if not isinstance(text, str):
        msg = f"{what}: wanted a text, found {shown(text)}"
        raise TypeError(msg)
    return text.encode("utf-8", "surrogatepass")


def _decoded(key: bytes) -> str:
    return key.decode("utf-8", "surrogatepass")


def _checked(value: object) -> bytes:
    if not isinstance(value, bytes):
        msg = f"value: wanted bytes, found {shown(value)}: encode it, as by create_kv_docstore or a serialiser"
        raise TypeError(msg)
    return value
