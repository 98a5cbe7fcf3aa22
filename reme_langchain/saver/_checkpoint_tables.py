"""The tables of checkpoints, beside those of the memories in the same file."""

from __future__ import annotations

import secrets
import sqlite3

from reme_core.errors import SchemaVersionError
from reme_langchain import _journal_rows

VERSION = 1
HISTORY = "langgraph history"  # the journal's name of messages that wait for a history sink

_TABLES = (
    "CREATE TABLE IF NOT EXISTS langgraph_meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS langgraph_threads (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE)",
    # `refs` is {channel: id of its value, or null}, as JSON. A hidden row is no checkpoint any more: a later one of the
    # thread still rebuilds a delta channel from its writes or values.
    """CREATE TABLE IF NOT EXISTS langgraph_checkpoints (
        id INTEGER PRIMARY KEY,
        thread INTEGER NOT NULL,
        ns TEXT NOT NULL,
        checkpoint_id TEXT NOT NULL,
        parent TEXT,
        run TEXT,
        hidden INTEGER NOT NULL DEFAULT 0,
        type TEXT NOT NULL,
        body BLOB NOT NULL,
        metadata TEXT NOT NULL,
        refs TEXT NOT NULL,
        UNIQUE (thread, ns, checkpoint_id)
    )""",
    "CREATE INDEX IF NOT EXISTS langgraph_runs ON langgraph_checkpoints (run) WHERE run IS NOT NULL",
    # `version` has no affinity: a number stays one.
    """CREATE TABLE IF NOT EXISTS langgraph_values (
        id INTEGER PRIMARY KEY,
        thread INTEGER NOT NULL,
        ns TEXT NOT NULL,
        channel TEXT NOT NULL,
        version NOT NULL,
        form INTEGER NOT NULL,
        type TEXT NOT NULL,
        data BLOB NOT NULL,
        UNIQUE (thread, ns, channel, version)
    )""",
    """CREATE TABLE IF NOT EXISTS langgraph_writes (
        id INTEGER PRIMARY KEY,
        thread INTEGER NOT NULL,
        ns TEXT NOT NULL,
        checkpoint_id TEXT NOT NULL,
        task_id TEXT NOT NULL,
        idx INTEGER NOT NULL,
        task_path TEXT NOT NULL,
        channel TEXT NOT NULL,
        form INTEGER NOT NULL,
        type TEXT NOT NULL,
        data BLOB NOT NULL,
        UNIQUE (thread, ns, checkpoint_id, task_id, idx)
    )""",
    # Messages, and chunks of lists of messages (their type is NULL). `offered`: the history sink's journal holds it.
    """CREATE TABLE IF NOT EXISTS langgraph_blobs (
        id INTEGER PRIMARY KEY,
        thread INTEGER NOT NULL,
        digest BLOB NOT NULL,
        type TEXT,
        data BLOB NOT NULL,
        offered INTEGER NOT NULL DEFAULT 0,
        UNIQUE (thread, digest)
    )""",
)


def prepare(connection: sqlite3.Connection) -> bytes:
    """Make what tables are missing, and return the key of this file's digests.

    Raises:
        SchemaVersionError: A newer release wrote the tables.
    """
    for table in _TABLES:
        connection.execute(table)
    _journal_rows.create(connection)
    connection.execute("INSERT OR IGNORE INTO langgraph_meta VALUES ('version', ?)", (VERSION,))
    connection.execute("INSERT OR IGNORE INTO langgraph_meta VALUES ('removals', 0)")
    connection.execute("INSERT OR IGNORE INTO langgraph_meta VALUES ('digest_key', ?)", (secrets.token_bytes(32),))
    kept = dict(connection.execute("SELECT name, value FROM langgraph_meta"))
    if kept["version"] != VERSION:
        msg = (
            f"the checkpoints of this file have version {kept['version']!r}, this release knows {VERSION}: upgrade reme"
        )
        raise SchemaVersionError(msg)
    key: bytes = kept["digest_key"]
    return key


def find_thread(connection: sqlite3.Connection, name: str) -> int | None:
    """Return the number of a thread, None if nothing of it is kept."""
    row = connection.execute("SELECT id FROM langgraph_threads WHERE name = ?", (name,)).fetchone()
    return None if row is None else int(row[0])


def make_thread(connection: sqlite3.Connection, name: str) -> int:
    """Return the number of a thread, a new one if nothing of it is kept."""
    found = find_thread(connection, name)
    if found is not None:
        return found
    (made,) = connection.execute("INSERT INTO langgraph_threads (name) VALUES (?) RETURNING id", (name,)).fetchone()
    return int(made)
