"""Reading of databases and texts that others wrote: nothing is changed or run, and all of it is bounded."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import JsonValue

from reme_core.errors import InvalidInputError, StoreAccessError
from reme_core.schema import parse_time

MAX_VALUE_BYTES = 1 << 26
"""Of one value of a foreign database, or of a file that is one JSON text."""

_IN_WAL_MODE = b"\2\2"
"""What bytes 18 and 19 of a database are. Source: https://www.sqlite.org/fileformat2.html#file_format_version_numbers"""


@contextmanager
def foreign_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open an SQLite file to be read alone, by any thread; it may be in use, and what it brings as code is not trusted.

    Nothing beside it is made or changed, also where a log was left to be recovered. Text that is no UTF-8 is read with
    U+FFFD in it.

    Raises:
        StoreAccessError: It can't be read, or what is read of it meanwhile is damaged.
    """
    try:
        with ExitStack() as opened:
            address = _address(path, opened)
            connection = opened.enter_context(closing(sqlite3.connect(address, uri=True, check_same_thread=False)))
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            connection.text_factory = partial(str, encoding="utf-8", errors="replace")
            connection.execute("PRAGMA trusted_schema = OFF")
            yield connection
    except (sqlite3.Error, OSError) as exc:
        msg = f"{str(path)!r} can't be read ({exc}): is it a whole SQLite file, closed, with its -wal beside it?"
        raise StoreAccessError(msg) from exc


def _address(path: Path, opened: ExitStack) -> str:
    """Return the URI by which SQLite writes nothing: a log whose index is gone is read in a copy, else it makes one.

    What is not in WAL mode is locked as it should be; what is, and has no log, would get one.
    """
    check_regular(path)
    log, index = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    if log.is_file() and log.stat().st_size:
        if index.exists():
            return f"{path.absolute().as_uri()}?mode=ro&readonly_shm=1"
        folder = Path(opened.enter_context(TemporaryDirectory()))
        for file in (path, log):
            shutil.copyfile(file, folder / file.name)
        return f"{(folder / path.name).as_uri()}?mode=ro"
    with path.open("rb") as head:
        is_in_wal_mode = head.read(20)[18:] == _IN_WAL_MODE
    return f"{path.absolute().as_uri()}?mode=ro" + ("&immutable=1" if is_in_wal_mode else "")


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
        StoreAccessError: It can't be read, or is no regular file.
        InvalidInputError: It is larger than one text may be.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_VALUE_BYTES + 1)
    except OSError as exc:
        msg = f"{str(path)!r} can't be read ({exc.strerror}): check the path"
        raise StoreAccessError(msg) from exc
    if len(data) > MAX_VALUE_BYTES:
        msg = f"{str(path)!r} has more than {MAX_VALUE_BYTES} bytes: export it in parts"
        raise InvalidInputError(msg)
    return data


def check_regular(path: Path) -> None:
    """Refuse what is no file (StoreAccessError): a pipe may never come to an end."""
    if not path.is_file():
        reason = "it is no regular file" if path.exists() else "there is no such file"
        msg = f"{str(path)!r} can't be read ({reason}): check the path"
        raise StoreAccessError(msg)


def is_own(root: Path, file: Path) -> bool:
    """Tell whether what was found below a folder is a regular file, which no link leads to."""
    below = len(file.parts) - len(root.parts)
    return file.is_file() and not any(place.is_symlink() for place in (file, *file.parents[: below - 1]))


def time_of(value: object) -> datetime | None:
    """Return a time as others write it; None where there is none, or it can't be read."""
    try:
        return parse_time(value)
    except ValueError:
        return None


def text_of(value: object) -> str | None:
    """Return a text that says something, else None."""
    return value if isinstance(value, str) and value.strip() else None
