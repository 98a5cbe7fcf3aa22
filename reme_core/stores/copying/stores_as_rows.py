"""A store as the rows that it holds: what is there to copy, and reading it; and rows handed from thread to thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, Full, Queue
from typing import Generic, Protocol, TypeVar

from reme_core.errors import InvalidInputError, ReMeError, StoreUnavailableError
from reme_core.ports.items import SERVICE_SPACE
from reme_core.schema import Scope
from reme_core.stores.copying.read_rows import Batch, Unit, adapter_tables, read_items, read_scope
from reme_core.stores.copying.tables import ITEMS, OF_SCOPES
from reme_core.stores.sql.connection import Boundary, SqlConnection, Work
from reme_core.stores.sql.embedding_record import find_embedding, write_record

T = TypeVar("T")

_NOT_ADAPTERS = frozenset(
    {
        *(table.name for table in (*OF_SCOPES, ITEMS)),
        *("meta", "scopes", "item_namespaces", "item_vectors", "new_vectors", "row_changes", "row_digests"),
        *("scope_files", "files_left", "migrations", "last_writes", "offload_words"),
        "langgraph_meta",  # a key and a version, which each store has of its own
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What is to be copied.

    Attributes:
        spaces: These memory spaces; None: all.
        user_id: This user alone, "" for the shared scope; None: all.
    """

    spaces: tuple[str, ...] | None = None
    user_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a store holds of what is chosen.

    Attributes:
        spaces: Its memory spaces.
        scopes: Its scopes, and the messages and memories of each, in order.
        highest: The highest number of a row, by table.
        settings: What made the vectors of each space that has some; it has to be the same in a copy.
        of_adapters: Tables of adapters that hold something.
    """

    spaces: tuple[str, ...]
    scopes: Mapping[Scope, int]
    highest: Mapping[str, int]
    settings: Mapping[str, str]
    of_adapters: tuple[str, ...] = ()


class RowSource(Protocol):
    """A store, or a file of rows, that is read."""

    @property
    def shown(self) -> str:
        """Its place, without password."""
        ...

    @property
    def shows_spaces(self) -> bool:
        """Whether it can tell what spaces there are; the walls of a server let each be seen by name only."""
        ...

    async def survey(self, chosen: Chosen) -> Survey:
        """Look what is there of what is chosen."""
        ...

    async def read(self, unit: Unit, consume: Callable[[Iterator[Batch]], T]) -> T:
        """Hand the rows of a unit, as they are at one moment, to a function on another thread; return its result."""
        ...


class Reads(Protocol):
    """Runs work in one snapshot, off the event loop."""

    async def read(self, work: Work[T], *, within: Boundary) -> T:
        """Run work that writes nothing."""
        ...


D = TypeVar("D", bound=Reads, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRows(Generic[D]):
    """A store as a `RowSource`; with a database that writes, what is copied to.

    Attributes:
        database: Its database.
        shown: Its place, without password.
        shows_spaces: Whether it can tell what spaces there are; the walls of a server let each be seen by name only.
    """

    database: D
    shown: str
    shows_spaces: bool

    async def survey(self, chosen: Chosen) -> Survey:
        """Look what is there of what is chosen (InvalidInputError: a server is not told the spaces)."""
        spaces = await self.spaces(chosen)
        scopes: dict[Scope, int] = {}
        highest: dict[str, int] = {}
        adapters: set[str] = set()
        settings: dict[str, str] = {}
        for space in spaces:
            found = await self.database.read(partial(_scopes, space=space), within=space)
            numbers = await self.database.read(_highest, within=space)
            scopes |= {scope: rows for scope, rows in found.items() if chosen.user_id in {None, scope.user_id}}
            highest = {table: max(number, highest.get(table, 0)) for table, number in numbers.items()}
            adapters |= set(await self.database.read(_of_adapters, within=space))
            made = await self.database.read(partial(find_embedding, memory_space=space), within=space)
            settings |= {} if made is None else {space: write_record(made)}
        of_service = await self.database.read(_highest, within=SERVICE_SPACE)  # what is noted of users goes with them
        highest[ITEMS.name] = max(highest.get(ITEMS.name, 0), of_service[ITEMS.name])
        of_adapters = tuple(sorted(adapters))
        return Survey(spaces=spaces, scopes=scopes, highest=highest, settings=settings, of_adapters=of_adapters)

    async def spaces(self, chosen: Chosen) -> tuple[str, ...]:
        """Return the memory spaces that are chosen, without the service's own."""
        if chosen.spaces is not None:
            return tuple(dict.fromkeys(chosen.spaces))
        if not self.shows_spaces:
            msg = f"{self.shown} shows one memory space at a time: name those that you mean (--space, repeatable)"
            raise InvalidInputError(msg)
        query = "SELECT memory_space FROM scopes UNION SELECT memory_space FROM item_namespaces ORDER BY 1"
        found = await self.database.read(lambda c: c.execute(query).fetchall(), within=None)
        return tuple(space for (space,) in found if space != SERVICE_SPACE)

    async def table_names(self) -> frozenset[str]:
        """Return the names of all its tables."""
        return frozenset(await self.database.read(lambda c: c.dialect.table_names(c), within=None))

    async def numbers(self, spaces: Sequence[str]) -> dict[Scope, int]:
        """Return the numbers of all scopes of some spaces."""
        found: dict[Scope, int] = {}
        for space in spaces:
            found |= await self.database.read(partial(_numbers, space=space), within=space)
        return found

    async def read(self, unit: Unit, consume: Callable[[Iterator[Batch]], T]) -> T:
        """Read a unit in one snapshot; see `RowSource`."""
        if isinstance(unit, Scope):
            return await self.database.read(lambda c: consume(read_scope(c, unit)), within=unit)
        numbers = await self.numbers(sorted({scope.memory_space for scope in unit.scopes}))
        return await self.database.read(lambda c: consume(read_items(c, unit, numbers)), within=unit.memory_space)


@dataclass(frozen=True, slots=True)
class WithoutTables:
    """A source without some of its tables, which the target has not."""

    source: RowSource
    tables: frozenset[str]

    @property
    def shown(self) -> str:
        """The place of the source."""
        return self.source.shown

    @property
    def shows_spaces(self) -> bool:
        """Whether the source can tell."""
        return self.source.shows_spaces

    async def survey(self, chosen: Chosen) -> Survey:
        """Look what is there."""
        return await self.source.survey(chosen)

    async def read(self, unit: Unit, consume: Callable[[Iterator[Batch]], T]) -> T:
        """Read what the other tables hold."""
        return await self.source.read(
            unit, lambda batches: consume(batch for batch in batches if batch[0].name not in self.tables)
        )


def boundary_of(unit: Unit) -> Boundary:
    """Return the boundary within which a unit lies."""
    return unit if isinstance(unit, Scope) else unit.memory_space


def _numbers(connection: SqlConnection, space: str) -> dict[Scope, int]:
    rows = connection.execute("SELECT user_id, scope FROM scopes WHERE memory_space = ? ORDER BY user_id", (space,))
    return {Scope(memory_space=space, user_id=user): number for user, number in rows}


def _scopes(connection: SqlConnection, space: str) -> dict[Scope, int]:
    def count(table: str, number: int) -> int:
        query = f"SELECT count(*) FROM {table} WHERE scope = ?"  # noqa: S608  # two names
        return int(connection.execute(query, (number,)).fetchone()[0])

    return {
        scope: count("messages", number) + count("memories", number)
        for scope, number in _numbers(connection, space).items()
    }


def _highest(connection: SqlConnection) -> dict[str, int]:
    highest = {}
    for table in (*OF_SCOPES, *adapter_tables(connection), ITEMS):
        if table.number is not None:
            query = f"SELECT max({table.number}) FROM {table.name}"  # noqa: S608  # names of ours
            highest[table.name] = int(connection.execute(query).fetchone()[0] or 0)
    return highest


def _of_adapters(connection: SqlConnection) -> tuple[str, ...]:
    others = sorted(set(connection.dialect.table_names(connection)) - _NOT_ADAPTERS)
    quoted = [(name, name.replace('"', '""')) for name in others]
    return tuple(
        name
        for name, safe in quoted
        if connection.execute(f'SELECT 1 FROM "{safe}" LIMIT 1').fetchone() is not None  # noqa: S608  # from the schema
    )


_HELD_BATCHES = 2
_LOOK_AGAIN_S = 0.2


@contextmanager
def handed_over(source: RowSource, unit: Unit, loop: asyncio.AbstractEventLoop) -> Iterator[Iterator[Batch]]:
    """Hand out the rows of a unit on a thread that is not the loop's, while another thread reads them.

    A few batches are held at once. Raises what reading raises, and StoreUnavailableError where the source was lost.
    """
    passing: Queue[Batch | None] = Queue(_HELD_BATCHES)
    ended, begun = threading.Event(), threading.Event()

    def hand(batch: Batch | None) -> None:
        while not ended.is_set():
            with suppress(Full):
                passing.put(batch, timeout=_LOOK_AGAIN_S)
                return

    def consume(batches: Iterator[Batch]) -> None:
        if begun.is_set():  # work that is tried again would bring the same rows once more
            msg = f"{source.shown} was lost while it was read, nothing of this user was copied: run the copy again"
            raise StoreUnavailableError(msg)
        begun.set()
        for batch in batches:
            hand(batch)
            if ended.is_set():
                return
        hand(None)

    reading = asyncio.run_coroutine_threadsafe(source.read(unit, consume), loop)
    try:
        yield _received(passing, reading)
    finally:
        ended.set()
        with suppress(ReMeError):
            reading.result()


def _received(passing: Queue[Batch | None], reading: Future[None]) -> Iterator[Batch]:
    while True:
        try:
            batch = passing.get(timeout=_LOOK_AGAIN_S)
        except Empty:
            if reading.done():
                reading.result()  # it failed
            continue
        if batch is None:
            return
        yield batch
