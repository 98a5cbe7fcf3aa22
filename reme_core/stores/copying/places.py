"""Places that a copy leads from and to: folders and files of local stores, databases, and files of rows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from reme_core.errors import InvalidInputError, SchemaVersionError, StoreAccessError
from reme_core.stores.copying.copy_store import StoreCopy, compare_stores, copy_store, copy_to_file
from reme_core.stores.copying.rows_file import RowsFile, is_rows_file
from reme_core.stores.copying.stores_as_rows import Chosen, RowSource, StoreRows
from reme_core.stores.local.file.copies import FileAsItIs, file_facts
from reme_core.stores.local.file.tables import SCHEMA_VERSION
from reme_core.stores.local.store import LocalStore
from reme_core.stores.sql.connection import SqlDatabase

_SERVERS = ("postgresql://", "postgres://")
_LINES = frozenset({".jsonl", ".ndjson", ".json"})
_DATABASES = frozenset({".db", ".sqlite", ".sqlite3"})
_SQLITE = b"SQLite format 3\0"  # how a database begins. Source: https://www.sqlite.org/fileformat2.html


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRequest:
    """What is to be copied, or compared.

    Attributes:
        source: A folder or a file of a local store, `postgresql://...`, or a file of rows.
        target: The same. A path that is not there yet is a file of rows (`.jsonl`), a store (`.db`), or else a folder.
        chosen: Which memory spaces and users.
        merge: Add what a scope of the target lacks, in place of refusing it.
        compare: Write nothing.
        schema: Of databases.
        wait_s: Seconds to wait for another writer of the target.
    """

    source: str
    target: str
    chosen: Chosen
    merge: bool = False
    compare: bool = False
    schema: str = "reme"
    wait_s: float = 10.0


async def run_copy(request: CopyRequest, *, progress: Callable[[int, int], None] | None = None) -> StoreCopy:
    """Copy, or compare, what a request says; see `copy_store` and `compare_stores` for what is raised.

    Raises:
        InvalidInputError: Source and target are the same place.
        StoreAccessError: The source is not there, or one of the two can't be used.
        SchemaVersionError: The source is a file of another version.
    """
    if _place(request.source) == _place(request.target):
        msg = "--from and --to name the same place: a copy needs another one"
        raise InvalidInputError(msg)
    async with _source(request.source, request) as source:
        if request.compare:
            async with _source(request.target, request) as other:
                return await compare_stores(source, other, request.chosen)
        path = _rows_file(request.target)
        if path is not None:
            if path.exists() and not is_rows_file(path):
                msg = f"{str(path)!r} is there and holds something else: give another path"
                raise InvalidInputError(msg)
            return await copy_to_file(source, path, request.chosen, progress=progress)
        async with _target(request) as target:
            return await copy_store(source, target, request.chosen, merge=request.merge, progress=progress)


def _is_server(place: str) -> bool:
    return place.startswith(_SERVERS)


def _place(place: str) -> str:
    if _is_server(place):
        return place
    path = _rows_file(place)
    return str((_store_file(place) if path is None else path).resolve())


def _rows_file(place: str) -> Path | None:
    """Return the path of a file of rows; None: the place is something else."""
    path = Path(place).expanduser().resolve()
    if _is_server(place) or path.is_dir():
        return None
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(len(_SQLITE))
        return path if head != _SQLITE and (head or path.suffix.lower() in _LINES) else None
    return path if path.suffix.lower() in _LINES else None


def _store_file(place: str) -> Path:
    path = Path(place).expanduser()
    return path if path.is_file() or path.suffix.lower() in _DATABASES else path / "memory.db"


@asynccontextmanager
async def _source(place: str, request: CopyRequest) -> AsyncIterator[RowSource]:
    """Open what is read; nothing is made or changed there."""
    if _is_server(place):
        async with _server(place, request) as rows:
            yield rows
    elif (lines := _rows_file(place)) is not None:
        yield RowsFile(lines)
    else:
        path = _store_file(place)
        if not path.is_file():
            msg = f"there is no memory at {place!r}: wanted a folder, a file, or postgresql://..."
            raise StoreAccessError(msg)
        found = file_facts(path).schema_version
        if found != SCHEMA_VERSION:
            msg = f"{str(path)!r} has schema version {found}, this release {SCHEMA_VERSION}: open it once, then copy it"
            raise SchemaVersionError(msg)
        yield StoreRows(database=FileAsItIs(path), shown=str(path), shows_spaces=True)


@asynccontextmanager
async def _target(request: CopyRequest) -> AsyncIterator[StoreRows[SqlDatabase]]:
    if _is_server(request.target):
        async with _server(request.target, request) as rows:
            yield rows
        return
    store = LocalStore(_store_file(request.target), busy_timeout_s=request.wait_s)
    try:
        yield StoreRows(database=store.database, shown=store.database.path, shows_spaces=True)
    finally:
        await store.close()


@asynccontextmanager
async def _server(url: str, request: CopyRequest) -> AsyncIterator[StoreRows[SqlDatabase]]:
    from reme_core.stores import PostgresStore  # noqa: PLC0415  # an optional library

    store = PostgresStore(url, schema=request.schema, lock_timeout_s=request.wait_s)
    try:
        # A copy goes on with the plan of one from the same place: that of a database is a schema of it.
        where = store.database.path if request.schema == "reme" else f"{store.database.path} (schema {request.schema})"
        yield StoreRows(database=store.database, shown=where, shows_spaces=False)
    finally:
        await store.close()
