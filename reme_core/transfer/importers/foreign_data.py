"""Reading of databases and texts that others wrote: nothing is changed or run, and all of it is bounded."""

from __future__ import annotations

import json
import sqlite3
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

from pydantic import JsonValue

from reme_core.errors import InvalidInputError, StoreAccessError
from reme_core.schema import parse_time

MAX_VALUE_BYTES = 1 << 26
"""Of one value of a foreign database, or of a file that is one JSON text."""


@contextmanager
def foreign_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open an SQLite file to be read alone, by any thread; it may be in use, and what it brings as code is not trusted.

    Raises:
        StoreAccessError: It can't be read, or what is read of it meanwhile is damaged.
    """
    log = path.with_name(path.name + "-wal")
    mode = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
    try:
        address = f"{path.absolute().as_uri()}?{mode}"
        with closing(sqlite3.connect(address, uri=True, check_same_thread=False)) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            connection.execute("PRAGMA trusted_schema = OFF")
            yield connection
    except sqlite3.Error as exc:
        msg = f"{str(path)!r} can't be read ({exc}): is it a whole SQLite file, and is its -wal file beside it?"
        raise StoreAccessError(msg) from exc


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Tell whether there is a table of this name, and no view, whose query might never end."""
    query = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
    return connection.execute(query, (name,)).fetchone() is not None


def read_json(text: str | bytes) -> JsonValue:
    """Read JSON, whose parts are checked where they are used (ValueError: it is none, quoting nothing of it)."""
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError) as exc:
        msg = "is no JSON" if isinstance(exc, ValueError) else "is nested too deep"
        raise ValueError(msg) from None
    return value


def read_whole(path: Path) -> bytes:
    """Read a file whose one text holds all.

    Raises:
        StoreAccessError: It can't be read.
        InvalidInputError: It is larger than one text may be.
    """
    try:
        with path.open("rb") as file:
            return _bounded(file, str(path))
    except OSError as exc:
        msg = f"{str(path)!r} can't be read ({exc.strerror}): check the path"
        raise StoreAccessError(msg) from exc


def read_member(path: Path, name: str) -> bytes | None:
    """Read a file of a ZIP archive by its name in whatever folder, as far as it may be large; None: there is none.

    Raises:
        InvalidInputError: The archive is damaged or encrypted, or the file is too large when unpacked.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            found = next((info for info in archive.infolist() if info.filename.rpartition("/")[2] == name), None)
            if found is None:
                return None
            with archive.open(found) as file:
                return _bounded(file, f"{path.name}/{name}")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, zlib.error) as exc:
        msg = f"{str(path)!r} can't be unpacked ({exc}): is it whole?"
        raise InvalidInputError(msg) from exc


def _bounded(file: IO[bytes], name: str) -> bytes:
    data = file.read(MAX_VALUE_BYTES + 1)
    if len(data) > MAX_VALUE_BYTES:
        msg = f"{name!r} has more than {MAX_VALUE_BYTES} bytes: export it in parts"
        raise InvalidInputError(msg)
    return data


def time_of(value: object) -> datetime | None:
    """Return a time as others write it; None where there is none, or it can't be read."""
    try:
        return parse_time(value)
    except ValueError:
        return None


def text_of(value: object) -> str | None:
    """Return a text that says something, else None."""
    return value if isinstance(value, str) and value.strip() else None
