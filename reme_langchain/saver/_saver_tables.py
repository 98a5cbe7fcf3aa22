"""The tables of a saver: how they are made in a file, the rows of threads, and who may write to one."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import cast

from reme_core import SqlConnection
from reme_core.errors import SchemaVersionError
from reme_core.schema import Scope
from reme_langchain.saver._former_tables import begin_move, finish_move
from reme_langchain.saver._message_blobs import KnownDigests
from reme_langchain.saver._payloads import PAYLOAD

# Of the tables. 3 had a table of values, to which checkpoints referred; 2 a number for each checkpoint as well; 1 more
# indexes besides, and deflated nothing.
VERSION = 4
HISTORY = "langgraph history"  # the name of messages that wait for a history sink

_TABLES = (
    "CREATE TABLE IF NOT EXISTS langgraph_meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    # `erased_with`: the scope of the user whose thread it is, if a run named one; all of it ends with that scope.
    """CREATE TABLE IF NOT EXISTS langgraph_threads (
        id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, erased_with INTEGER
    )""",
    # `entries` is {channel: [form, type, data] or nil}, as msgpack. A hidden row is no checkpoint any more: a later one
    # of the thread still rebuilds a delta channel from its writes or values. One tree: one page less in each commit.
    """CREATE TABLE IF NOT EXISTS langgraph_checkpoints (
        thread INTEGER NOT NULL,
        ns TEXT NOT NULL,
        checkpoint_id TEXT NOT NULL,
        parent TEXT,
        run TEXT,
        hidden INTEGER NOT NULL DEFAULT 0,
        type TEXT NOT NULL,
        body BLOB NOT NULL,
        metadata TEXT NOT NULL,
        entries BLOB NOT NULL,
        PRIMARY KEY (thread, ns, checkpoint_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS langgraph_runs ON langgraph_checkpoints (run) WHERE run IS NOT NULL",
    """CREATE TABLE IF NOT EXISTS langgraph_writes (
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
        PRIMARY KEY (thread, ns, checkpoint_id, task_id, idx)
    ) WITHOUT ROWID""",
    # Messages, long values, payloads, and chunks of lists of messages (their type is NULL). `offered`: the history sink
    # gets it.
    """CREATE TABLE IF NOT EXISTS langgraph_blobs (
        id INTEGER PRIMARY KEY,
        thread INTEGER NOT NULL,
        digest BLOB NOT NULL,
        type TEXT,
        data BLOB NOT NULL,
        offered INTEGER NOT NULL DEFAULT 0,
        UNIQUE (thread, digest)
    )""",
    f"CREATE INDEX IF NOT EXISTS langgraph_payloads ON langgraph_blobs (digest) WHERE type = '{PAYLOAD}'",
    # Messages that wait for the history sink, of a thread (queue) in the order of their places; payload: NULL once the
    # sink has them; holder: who hands them over, held: until. An earlier release had other uses for this table.
    """CREATE TABLE IF NOT EXISTS langchain_journal (
        place INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, queue TEXT NOT NULL, entry_id TEXT NOT NULL,
        tries INTEGER NOT NULL DEFAULT 0, due REAL NOT NULL DEFAULT 0, holder TEXT, held REAL NOT NULL DEFAULT 0,
        erased_with INTEGER, payload BLOB, UNIQUE (name, queue, entry_id)
    )""",
    """CREATE INDEX IF NOT EXISTS langchain_journal_waiting ON langchain_journal (name, queue, place)
        WHERE payload IS NOT NULL""",
    # What an erasure counts beside the threads themselves.
    """CREATE VIEW IF NOT EXISTS langgraph_thread_checkpoints AS
        SELECT erased_with FROM langgraph_threads JOIN langgraph_checkpoints ON thread = langgraph_threads.id""",
    f"""CREATE VIEW IF NOT EXISTS langgraph_thread_bytes AS
        SELECT erased_with FROM langgraph_threads JOIN langgraph_blobs ON thread = langgraph_threads.id
        WHERE type = '{PAYLOAD}' AND length(data) > 0""",  # noqa: S608  # ours
    # Whoever removes a thread removes all of it; those that remember rows see the counter: `KnownDigests`.
    """CREATE TRIGGER IF NOT EXISTS langgraph_thread_ends AFTER DELETE ON langgraph_threads BEGIN
        DELETE FROM langgraph_checkpoints WHERE thread = OLD.id;
        DELETE FROM langgraph_writes WHERE thread = OLD.id;
        DELETE FROM langgraph_blobs WHERE thread = OLD.id;
        DELETE FROM langchain_journal WHERE name = 'langgraph history' AND queue = OLD.name
            AND (payload IS NOT NULL OR OLD.erased_with IS NOT NULL);
        UPDATE langgraph_meta SET value = value + 1 WHERE name = 'removals';
    END""",
)


def prepare(connection: SqlConnection) -> bytes:
    """Make what tables are missing in a file, and return the key of the digests of this file, or memory space.

    Raises:
        SchemaVersionError: A newer release wrote the tables.
    """
    if connection.dialect.is_file:
        connection.execute(_TABLES[0])
        return _prepare_file(connection)
    return _find_key(connection)


def _prepare_file(connection: SqlConnection) -> bytes:
    connection.execute("INSERT OR IGNORE INTO langgraph_meta VALUES ('version', ?)", (VERSION,))
    (version,) = connection.execute("SELECT value FROM langgraph_meta WHERE name = 'version'").fetchone()
    if version not in range(1, VERSION + 1):
        msg = f"the checkpoints of this file have version {version!r}, this release knows {VERSION}: upgrade reme"
        raise SchemaVersionError(msg)
    connection.execute("INSERT OR IGNORE INTO langgraph_meta VALUES ('removals', 0)")
    key = _find_key(connection)
    if version < VERSION:
        begin_move(connection, version)
    for table in _TABLES:
        connection.execute(table)
    if version < VERSION:
        finish_move(connection, version, KnownDigests(key))
        connection.execute("UPDATE langgraph_meta SET value = ? WHERE name = 'version'", (VERSION,))
    return key


def _find_key(connection: SqlConnection) -> bytes:
    connection.execute(
        "INSERT INTO langgraph_meta (name, value) VALUES ('digest_key', ?) ON CONFLICT DO NOTHING",
        (secrets.token_bytes(32),),
    )
    (key,) = connection.execute("SELECT value FROM langgraph_meta WHERE name = 'digest_key'").fetchone()
    return cast(bytes, key)


def find_thread(connection: SqlConnection, name: str, *, locked: bool = False) -> int | None:
    """Return the number of a thread, None if nothing of it is kept.

    Args:
        connection: Of the transaction.
        name: The thread's.
        locked: Nobody else writes to it, or removes it, until the transaction ends.
    """
    end = " FOR UPDATE" if locked and not connection.dialect.is_file else ""
    row = connection.execute(f"SELECT id FROM langgraph_threads WHERE name = ?{end}", (name,)).fetchone()  # noqa: S608
    return None if row is None else int(row[0])


def lock_threads(connection: SqlConnection, threads: Iterable[int]) -> None:
    """Let nobody else write to threads, or remove them, until the transaction ends."""
    if not connection.dialect.is_file:
        for thread in sorted(threads):
            connection.execute("SELECT 1 FROM langgraph_threads WHERE id = ? FOR UPDATE", (thread,))


def make_thread(connection: SqlConnection, known: KnownDigests, name: str, owner: Scope | None = None) -> int:
    """Return the number of a thread, a new one if nothing of it is kept; it stays that of the first user it had."""
    found = known.threads.get((name, owner))
    if found is not None:
        return found
    found = known.threads.get((name, None)) or find_thread(connection, name)
    if found is None:
        (found,) = connection.execute(
            "INSERT INTO langgraph_threads (name) VALUES (?) RETURNING id", (name,)
        ).fetchone()
    number = cast(int, found)
    known.threads.note((name, None), number)
    if owner is not None:
        known.threads.note((name, owner), number)
        _give(connection, number, owner)
    return number


def _give(connection: SqlConnection, thread: int, owner: Scope) -> None:
    query = "SELECT 1 FROM langgraph_threads WHERE id = ? AND erased_with IS NULL"
    if connection.execute(query, (thread,)).fetchone() is not None:
        connection.execute(
            "UPDATE langgraph_threads SET erased_with = ? WHERE id = ?",
            (connection.dialect.number_of(connection, owner), thread),
        )


def hold_owner(connection: SqlConnection, thread: str) -> None:
    """Let nobody erase the user of a thread until the transaction ends; to be called before any thread is locked."""
    if not connection.dialect.is_file:
        owner = "SELECT erased_with FROM langgraph_threads WHERE name = ?"
        connection.execute(f"SELECT 1 FROM scopes WHERE scope = ({owner}) FOR KEY SHARE", (thread,))  # noqa: S608  # ours


def note_removal(connection: SqlConnection, thread: int) -> None:
    """Have all those that remember what a thread holds forget it: see `KnownDigests`."""
    if connection.dialect.is_file:
        connection.execute("UPDATE langgraph_meta SET value = value + 1 WHERE name = 'removals'")
    else:
        connection.execute("UPDATE langgraph_threads SET removals = removals + 1 WHERE id = ?", (thread,))
