"""Protocols of an engine: a connection, its dialect, and a database that runs work in transactions.

Statements are written once, with `?` as the mark of a value. What the engines say differently is a method of `Dialect`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from pydantic import ValidationError

from reme_core.errors import CorruptDataError, ReMeError
from reme_core.schema import Scope

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SpacePart:
    """A part of a memory space, such as one conversation: written by one at a time, beside writers of other parts."""

    memory_space: str
    name: str


class ItemsWithin(NamedTuple):
    """Items of a few namespaces of a memory space, by their paths, and the scopes whose memories they are.

    Work within it follows other work on one of them; on all else of the space, others may work at the same time.
    """

    memory_space: str
    paths: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()


Boundary: TypeAlias = Scope | SpacePart | ItemsWithin | str | None
"""Whose rows a transaction may touch: those of one scope, of a memory space, or the few that belong to nobody."""

AMONG = "IN (SELECT value FROM json_each(?))"
"""The one way to write a list in a condition: its value is a JSON array, as text."""

WordTable = Literal["message_words", "memory_words", "offload_words"]

WordPair: TypeAlias = tuple[str, str]


class Cursor(Protocol):
    """The rows of a statement, as plain tuples."""

    @property
    def rowcount(self) -> int:
        """How many rows the statement changed."""
        ...

    def fetchone(self) -> Any:  # noqa: ANN401  # as the drivers say it
        """Return the next row, None behind the last one."""
        ...

    def fetchmany(self, size: int, /) -> list[Any]:
        """Return the next rows, none behind the last one."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the other rows."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Return what reads the other rows one by one."""
        ...

    def close(self) -> None:
        """Let the rows go."""
        ...


class Statements(Protocol):
    """Runs statements within a transaction, as `sqlite3.Connection` does."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Cursor:
        """Run a statement."""
        ...

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Cursor:
        """Run a statement that returns nothing, once for each of the values."""
        ...


class SqlConnection(Statements, Protocol):
    """A connection that knows its dialect."""

    @property
    def dialect(self) -> Dialect:
        """What its engine says in its own way."""
        ...


Work: TypeAlias = Callable[[SqlConnection], T]


class SqlDatabase(Protocol):
    """Runs work in transactions, off the event loop. `within` is the boundary that nothing of it may cross.

    Adapters may have tables of their own beside ours, which they make themselves in a file. A row of such a table that
    has the number of a scope in a column `erased_with` is removed together with that scope.
    """

    @property
    def path(self) -> str:
        """The place, without password."""
        ...

    @staticmethod
    def note_file(connection: SqlConnection, scope: Scope, path: Path) -> None:
        """Note, within a `write`, a file or folder outside that is removed together with a scope."""
        ...

    async def read(self, work: Work[T], *, within: Boundary) -> T:
        """Run work in one snapshot."""
        ...

    async def write(self, work: Work[T], *, within: Boundary, settled: bool = True, frees: bool = False) -> T:
        """Run work in a transaction that is durable when this returns.

        With `settled=False` a power cut may undo it; with `frees=True` it removes rows, and may need room for that.
        """
        ...

    def submit_read(self, work: Work[T], *, within: Boundary) -> Future[T]:
        """Begin what `read` does, for callers without an event loop; the future's result waits for it."""
        ...

    def submit_write(self, work: Work[T], *, within: Boundary, settled: bool = True) -> Future[T]:
        """Begin what `write` does, for callers without an event loop."""
        ...

    def submit_repeated(self, work: Work[bool], *, within: Boundary) -> Future[None]:
        """Begin to run work behind all else, each time in another snapshot, until it returns False or fails."""
        ...

    async def purge(self) -> None:
        """Clear what deleted rows leave behind, where the engine leaves anything (StoreError)."""
        ...

    def begin_purge(self) -> None:
        """Begin what `purge` does, in the background."""
        ...

    async def close(self) -> None:
        """Finish what was begun, then let go of everything."""
        ...


class PassagePostings(NamedTuple):
    """The passages that hold each word; and, once for each pair, those that hold it near to each other, or in line."""

    holding: dict[str, list[int]]
    near: list[int]
    behind: list[int]


EVENT_COLUMNS = "scope, memory_id, operation, before, after, reason, run_id, actor, at"


class LogKept(NamedTuple):
    """How much of the log of a partition is kept: a share of all changes, within limits; looked at every so many."""

    share: int
    fewest: int
    most: int
    prune_every: int


class NewTexts(NamedTuple):
    """Rows of messages or memories to be inserted, by their columns; their terms; and where they are logged."""

    table: Literal["messages", "memories"]
    key: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    words: Sequence[Sequence[str]]
    owner: int
    layer: int


class Dialect(Protocol):
    """What an engine says in its own way. The connection comes first, and the names of tables are ours."""

    @property
    def is_file(self) -> bool:
        """Whether adapters make their tables themselves, in a file to which one transaction at a time writes.

        Otherwise the tables are there, and several write at once.
        """
        ...

    def known_scope(self, connection: SqlConnection, scope: Scope) -> int | None:
        """Return the number of a scope where the transaction has it at hand; None says nothing."""
        ...

    def number_of(self, connection: SqlConnection, scope: Scope) -> int:
        """Return the number of a scope, a new one for a new scope; nobody erases it before the transaction ends."""
        ...

    def log_changes(
        self, connection: SqlConnection, owner: int, layer: int, changed: Sequence[int], kept: LogKept
    ) -> None:
        """Write rows into the log of a partition, one or more, behind its newest change."""
        ...

    def add_event(self, connection: SqlConnection, columns: Sequence[object]) -> None:
        """Insert an event whose number nobody needs, by its columns (`EVENT_COLUMNS`)."""
        ...

    def lock_namespaces(self, connection: SqlConnection, namespaces: Collection[int]) -> None:
        """Have a writer of a scope wait for writers of items of some namespaces, which don't wait for it."""
        ...

    def insert_one(self, connection: SqlConnection, statement: str, key: str, values: Sequence[object]) -> int:
        """Run an INSERT of one row, and return its number, the column `key`."""
        ...

    def insert_many(
        self, connection: SqlConnection, table: str, key: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> Sequence[int]:
        """Insert rows, and return their numbers, the column `key`, in their order."""
        ...

    def insert_texts(self, connection: SqlConnection, new: NewTexts, kept: LogKept) -> Iterable[int]:
        """Insert rows, index their terms and log them, as the calls above and below do.

        Returns:
            Their numbers, to be looked at once at most: an engine may leave all of it until then, or until the end.
        """
        ...

    def within(self, connection: SqlConnection, boundary: Boundary) -> AbstractContextManager[None]:
        """Go on within another boundary for a moment: what a service notes of a user lies in a space of its own."""
        ...

    def renew(self, connection: SqlConnection) -> None:
        """End the snapshot of a reading connection, and begin a new one within the same boundary."""
        ...

    def stream(self, connection: SqlConnection, sql: str, parameters: Sequence[Any]) -> Cursor:
        """Run a query of which the caller may read a few rows only, and closes the cursor."""
        ...

    def along(self, index: str) -> str:
        """Return what stands behind a table's name to have this index used, for an engine that would choose badly."""
        ...

    def json_text(self, column: str, key: str) -> str:
        """Return the expression of a text in the JSON object of a column."""
        ...

    def holds(self, column: str) -> str:
        """Return the condition that a column's text holds a value."""
        ...

    def metadata_is(self, key: str, value: float | str | bool | None) -> tuple[str, list[object]]:  # noqa: FBT001
        """Return the condition that a key of a memory's metadata has a value, and the values bound.

        JSON's types are told apart: true is not 1, 1 equals 1.0, null is not a missing key.
        """
        ...

    def word_tables(self, connection: SqlConnection) -> Sequence[WordTable]:
        """Return the indexes of terms that `add_words` fills."""
        ...

    def table_names(self, connection: SqlConnection) -> list[str]:
        """Return all tables, those of adapters too."""
        ...

    def set_aside(self, connection: SqlConnection, table: str, key: str, highest: int) -> int:
        """Set numbers aside for rows of another store, of which `highest` is the last one.

        Returns:
            What is to be added to each of them, so that it is the number of no row here, nor ever will be.
        """
        ...

    def add_words(
        self, connection: SqlConnection, table: WordTable, scope: int, row: int, words: Sequence[str]
    ) -> None:
        """Index the terms of a row."""
        ...

    def remove_words(self, connection: SqlConnection, table: WordTable, rows: Iterable[int]) -> None:
        """Take rows out of an index of terms."""
        ...

    def with_words(
        self, connection: SqlConnection, table: WordTable, column: str, scope: int, words: Sequence[str]
    ) -> tuple[str, list[object]] | None:
        """Return the condition that the row of a number, `column`, holds all of some words, and the values bound.

        None: there is no index of terms, so that the caller has to read the rows.
        """
        ...

    def postings(
        self, connection: SqlConnection, scope: int, words: Sequence[str], pairs: Sequence[WordPair], *, reach: int
    ) -> PassagePostings | None:
        """Return the passages of offloads that hold words, and pairs of them with at most `reach` others between.

        None: as for `with_words`.
        """
        ...

    def note_erasure(self, connection: SqlConnection) -> None:
        """Note, within a transaction that deletes rows for good, that copies of them are to be cleared."""
        ...


@contextmanager
def reading_rows() -> Iterator[None]:
    """Tell a value of a row that is no value of its kind as CorruptDataError, without the value."""
    try:
        yield
    except (ReMeError, ValidationError):  # the latter is told by the database
        raise
    except (ValueError, TypeError) as exc:
        msg = f"the file holds a row that can't be what was written ({type(exc).__name__}): see `reme check`"
        raise CorruptDataError(msg) from exc
