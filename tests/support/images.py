"""A large image, and a look through every column of every table for its base64."""

from __future__ import annotations

import random
import re
import sqlite3
from base64 import b64encode
from contextlib import closing
from pathlib import Path

IMAGE = b"\x89PNG\r\n\x1a\n" + random.Random(22).randbytes(5 << 20)
BASE64 = b64encode(IMAGE).decode()
DATA_URL = f"data:image/png;base64,{BASE64}"
_RUN = re.compile(rb"[A-Za-z0-9+/]{2000}")


def base64_in(path: Path) -> list[str]:
    """Return the columns of a memory file that hold long base64, as `table.column`."""
    found = []
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for table in sorted(name.decode() for (name,) in tables):
            rows = connection.execute(f'SELECT * FROM "{table}"')  # noqa: S608  # a name of the file itself
            columns = [column[0] for column in rows.description]
            for row in rows:
                found += [
                    f"{table}.{column}"
                    for column, value in zip(columns, row, strict=True)
                    if isinstance(value, bytes) and _RUN.search(value)
                ]
    return sorted(set(found))


def blobs_in(path: Path) -> list[bytes]:
    """Return all bytes that are kept apart."""
    with closing(sqlite3.connect(path)) as connection:
        return [data for (data,) in connection.execute("SELECT data FROM blobs ORDER BY blob")]
