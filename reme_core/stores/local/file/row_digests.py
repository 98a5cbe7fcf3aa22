"""Digests of stored texts: written with each row, compared by `check_rows`, so that one flipped byte is found.

Triggers of the writing connections keep them, in the same transaction. They are temporary ones, since the function that
they call lives in this process: the schema holds a plain table, which any SQLite can read and write.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator

from reme_core.errors import ReMeError
from reme_core.schema import (
    Block,
    Job,
    Memory,
    OffloadInfo,
    ToolCallResult,
    read_stored_message,
)

DIGESTED = (
    ("messages", "seq", ("body",)),
    ("blocks", "block", ("body",)),
    ("memories", "row", ("body",)),
    ("events", "sequence", ("before", "after", "reason")),
    ("jobs", "job", ("body",)),
    ("offloads", "offload", ("info", "text")),
    ("tool_calls", "call", ("body",)),
    ("items", "item", ("value",)),
)
"""Tables, their keys, and the columns whose text is digested. Their order is part of the file: `kind` counts them."""

DIGEST_TABLE = """CREATE TABLE row_digests (
    kind INTEGER NOT NULL, row INTEGER NOT NULL, digest INTEGER NOT NULL, PRIMARY KEY (kind, row)) WITHOUT ROWID"""

# Columns that repeat what the text says.
_REPEATED = {
    "messages": ("message_id", "speaker"),
    "blocks": ("block_id",),
    "memories": ("memory_id", "memory_type", "memory_target", "revision", "superseded_by"),
    "jobs": ("job_id", "kind", "state"),
    "offloads": ("reference", "kind", "message_id"),
    "tool_calls": ("call_id", "tool_name", "success"),
}


def _digest(*texts: str | bytes | None) -> int:
    """Return the CRC-32 of texts, which tells any single changed byte."""
    digest = 0
    for text in texts:
        data = b"\0" if text is None else text if isinstance(text, bytes) else str(text).encode("utf-8", "replace")
        digest = zlib.crc32(data, digest)
    return digest


def _prepare_function(connection: sqlite3.Connection) -> None:
    connection.create_function("reme_digest", -1, _digest, deterministic=True)


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
    for kind, (table, key, texts) in enumerate(DIGESTED):
        connection.execute(
            f"INSERT INTO row_digests SELECT {kind}, {key}, reme_digest({', '.join(texts)}) FROM {table}"  # noqa: S608
        )


def check_rows(connection: sqlite3.Connection) -> Iterator[str | None]:
    """Yield for each row what is wrong with it, None if nothing is; by table and key, without words of it.

    At last comes each digest whose row is gone. Text is read as bytes: some of it may be no UTF-8 any more.
    """
    connection.text_factory = bytes
    for kind, (table, key, texts) in enumerate(DIGESTED):
        repeated = _REPEATED.get(table, ())
        columns = ", ".join(f"{table}.{name}" for name in (key, *texts, *repeated))
        rows = connection.execute(
            f"SELECT row_digests.digest, {columns} FROM {table}"  # noqa: S608  # a closed set of names
            f" LEFT JOIN row_digests ON row_digests.kind = {kind} AND row_digests.row = {table}.{key}"
        )
        for digest, number, *values in rows:
            reason = _wrong(table, digest, values[: len(texts)], dict(zip(repeated, values[len(texts) :], strict=True)))
            yield None if reason is None else f"{table}, row {number}: {reason}"
        for (number,) in connection.execute(
            f"SELECT row FROM row_digests WHERE kind = {kind} AND row NOT IN (SELECT {key} FROM {table})"  # noqa: S608
        ):
            yield f"{table}, row {number}: the row is gone, its digest is there"


def _wrong(
    table: str, digest: int | None, texts: list[bytes | None], columns: dict[str, bytes | int | None]
) -> str | None:
    try:
        said = _repeated_in(table, texts)
    except (ReMeError, ValueError, TypeError) as exc:
        return f"its text can't be read as what it is ({type(exc).__name__})"
    for name, value in columns.items():
        stored = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        if said[name] != stored:
            return f"the column {name} and its text differ"
    if digest is None:
        return "it has no digest: nothing tells whether its text is what was written"
    return None if digest == _digest(*texts) else "its text is not what was written"


def _repeated_in(table: str, texts: list[bytes | None]) -> dict[str, object]:
    """Read the text of a row, and return what columns repeat of it (ValueError, TypeError)."""
    decoded = [None if text is None else bytes(text).decode("utf-8") for text in texts]
    body = decoded[0] or ""
    match table:
        case "messages":
            message = read_stored_message(body)
            return {"message_id": message.message_id, "speaker": message.speaker}
        case "blocks":
            return {"block_id": Block.model_validate_json(body).block_id}
        case "memories":
            return Memory.model_validate_json(body).model_dump(include=set(_REPEATED[table]))
        case "events":
            for state in decoded[:2]:
                _ = None if state is None else Memory.model_validate_json(state)
        case "jobs":
            return Job.model_validate_json(body).model_dump(include=set(_REPEATED[table]))
        case "offloads":
            return OffloadInfo.model_validate_json(body).model_dump(include=set(_REPEATED[table]))
        case "tool_calls":
            return ToolCallResult.model_validate_json(body).model_dump(include=set(_REPEATED[table]))
    return {}
