"""Digests of rows, by which a flipped byte is found.

Triggers of the writing connections keep them, in the same transaction. They are temporary ones, since the function that
they call lives in this process: the schema holds a plain table, which any SQLite can read and write.
"""

from __future__ import annotations

import sqlite3
import zlib

DIGESTED = (
    ("messages", "seq", ("body",)),
    ("blocks", "block", ("body",)),
    ("memories", "row", ("body",)),
    ("events", "sequence", ("before", "after", "reason")),
    ("jobs", "job", ("body",)),
    ("offloads", "offload", ("info", "text")),
    ("tool_calls", "call", ("body",)),
    ("items", "item", ("value",)),
    ("blobs", "blob", ("media_type", "data")),
)
"""Tables, their keys, and the columns whose text is digested. Their order is part of the file: `kind` counts them."""

DIGEST_TABLE = """CREATE TABLE row_digests (
    kind INTEGER NOT NULL, row INTEGER NOT NULL, digest INTEGER NOT NULL, PRIMARY KEY (kind, row)) WITHOUT ROWID"""


def digest_of(*texts: str | bytes | None) -> int:
    """Return the CRC-32 of texts, which tells any single changed byte."""
    digest = 0
    for text in texts:
        data = b"\0" if text is None else text if isinstance(text, bytes) else str(text).encode("utf-8", "replace")
        digest = zlib.crc32(data, digest)
    return digest


def _prepare_function(connection: sqlite3.Connection) -> None:
    connection.create_function("reme_digest", -1, digest_of, deterministic=True)


def keep_digests(connection: sqlite3.Connection) -> None:
    """Have a writing connection keep the digest of each row that it writes."""
    _prepare_function(connection)
    for kind, (table, key, texts) in enumerate(DIGESTED):
        values = ", ".join(f"new.{text}" for text in texts)
        write = f"INSERT OR REPLACE INTO row_digests VALUES ({kind}, new.{key}, reme_digest({values}))"  # noqa: S608
        for event, work in (
            ("INSERT", write),
            (f"UPDATE OF {', '.join(texts)}", write),
            ("DELETE", f"DELETE FROM row_digests WHERE kind = {kind} AND row = old.{key}"),  # noqa: S608
        ):
            name = f"digest_{event.partition(' ')[0]}_{table}"
            connection.execute(f"CREATE TEMP TRIGGER {name} AFTER {event} ON main.{table} BEGIN {work}; END")


def fill_digests(connection: sqlite3.Connection) -> None:
    """Write the digests of all rows anew, from what they hold now, within a transaction."""
    _prepare_function(connection)
    connection.execute("DELETE FROM row_digests")
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for kind, (table, key, texts) in enumerate(DIGESTED):
        if table not in there:  # a later version has it
            continue
        connection.execute(
            f"INSERT INTO row_digests SELECT {kind}, {key}, reme_digest({', '.join(texts)}) FROM {table}"  # noqa: S608
        )
