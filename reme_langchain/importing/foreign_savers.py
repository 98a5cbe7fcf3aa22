"""Savers of LangGraph itself, opened to be read alone: files of `SqliteSaver`, databases of `PostgresSaver`."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias

from langgraph.checkpoint.serde.base import SerializerProtocol

from reme_core.errors import ConfigurationError, StoreAccessError
from reme_core.transfer.importers.foreign_data import foreign_database, has_table

if TYPE_CHECKING:
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.checkpoint.sqlite import SqliteSaver

ForeignSaver: TypeAlias = "PostgresSaver | SqliteSaver"

Key: TypeAlias = tuple[str, str, str]
"""Thread, namespace and id of a checkpoint."""

_URL = re.compile(r"postgres\w*(\+\w+)?://", re.IGNORECASE)
_CANT_READ = "the source can't be read ({}): is it the right server, role and database?"


def is_url(source: str) -> bool:
    """Tell whether a source is a PostgreSQL database, and no path; a URL with a driver in it is shown by no message."""
    return _URL.match(source) is not None


def file_of(source: str) -> Path:
    """Return the path that a source is."""
    return Path(os.path.expanduser(source))  # noqa: PTH111  # Path's own has no answer for unknown users


@contextmanager
def place_to_write(place: str, *, dry_run: bool) -> Iterator[str]:
    """Yield a path or URL; in place of a path that is not there, a dry run gets an empty folder, to make nothing."""
    if not dry_run or is_url(place) or file_of(place).exists():
        yield place
        return
    with TemporaryDirectory() as nothing:
        yield nothing


def is_sqlite_saver(path: Path) -> bool:
    """Tell whether a file was written by `SqliteSaver`, and not by a saver of ours."""
    if not path.is_file():
        return False
    try:
        with foreign_database(path) as connection:
            return has_table(connection, "checkpoints") and not has_table(connection, "langgraph_checkpoints")
    except StoreAccessError:  # whoever opens it says what is wrong with it
        return False


@contextmanager
def foreign_saver(source: str, serde: SerializerProtocol) -> Iterator[ForeignSaver]:
    """Open a saver by its URL or path; nothing is written to it.

    Raises:
        ConfigurationError: It can't be read, or the library that wrote it is not installed.
        StoreAccessError: The file can't be read.
    """
    with _postgres(source) if is_url(source) else _sqlite(file_of(source)) as saver:
        saver.serde = serde  # its own builds any class that a file names, and so calls what the file wants called
        yield saver


@contextmanager
def _postgres(url: str) -> Iterator[PostgresSaver]:
    try:
        from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415  # nothing else needs it
        from psycopg import Error  # noqa: PLC0415  # as above
    except ImportError as exc:
        msg = "the source is read by the library that wrote it: pip install langgraph-checkpoint-postgres"
        raise ConfigurationError(msg) from exc
    try:
        with PostgresSaver.from_conn_string(url) as saver:
            yield saver
    except Error as exc:
        raise ConfigurationError(_CANT_READ.format(type(exc).__name__)) from None  # its words may hold the URL


@contextmanager
def _sqlite(path: Path) -> Iterator[SqliteSaver]:
    try:
        from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415  # nothing else needs it
    except ImportError as exc:
        msg = "the source is read by the library that wrote it: pip install langgraph-checkpoint-sqlite"
        raise ConfigurationError(msg) from exc
    with foreign_database(path) as connection:
        if not has_table(connection, "checkpoints") or not has_table(connection, "writes"):
            msg = f"{str(path)!r} has no checkpoints of SqliteSaver"
            raise ConfigurationError(msg)
        saver = SqliteSaver(connection)
        saver.is_setup = True  # setting up would write
        columns = {name for _, name, *_ in connection.execute("PRAGMA table_info(writes)")}
        saver._has_task_path = "task_path" in columns  # noqa: SLF001  # likewise found out by setting up
        yield saver


def checkpoint_keys(saver: ForeignSaver, threads: Sequence[str] | None) -> Iterator[Key]:
    """Yield what is there, thread by thread, parents before their children; None: of all threads."""
    order = "ORDER BY thread_id, checkpoint_id, checkpoint_ns"
    columns = "SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints"
    # None of them has a call that lists ids alone.
    if isinstance(saver.conn, sqlite3.Connection):
        found = saver.conn.execute(f"{columns} {order}").fetchall()
        yield from (key for key in found if threads is None or key[0] in threads)
        return
    query = f"{columns} WHERE %s::text[] IS NULL OR thread_id = ANY(%s) {order}"
    asked = None if threads is None else list(threads)
    with saver._cursor() as cursor:  # noqa: SLF001  # as said
        rows = cursor.execute(query, (asked, asked)).fetchall()
    for row in rows:
        yield row["thread_id"], row["checkpoint_ns"], row["checkpoint_id"]
