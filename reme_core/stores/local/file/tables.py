"""The tables of the file, their version, and the way from older versions, and older words, to these.

Rows of a scope carry its number, never its name: erasing a scope removes the only place where its name stands, and a
scope of the same name made later has another number.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from reme_core.errors import ConfigurationError, SchemaVersionError
from reme_core.stores.local.file.digests import DIGEST_TABLE, fill_digests
from reme_core.stores.local.file.words import add_words, has_word_tables
from reme_core.stores.sql.connection import reading_rows
from reme_core.stores.sql.segment_anew import WORD_TABLE_NAMES, segment_anew
from reme_core.text import TERMS_VERSION

APPLICATION_ID = 0x52654D65  # "ReMe": tells our files from other SQLite files

Migration: TypeAlias = Callable[[sqlite3.Connection], None]

# Terms come segmented, so the tokenizer only has to split at blanks: every other ASCII character belongs to a word.
_TOKENIZER = "tokenize=\"ascii tokenchars '!#$%&()*+,-./:;<=>?@[\\]^_`{|}~'\""

# The scope of the user in whose run a plain item was written, if one was; it ends with that scope.
_SINCE_VERSION_10 = (
    "ALTER TABLE items ADD COLUMN erased_with INTEGER",
    "CREATE INDEX items_of_scope ON items (erased_with) WHERE erased_with IS NOT NULL",
)


# New vectors beside the old ones while the embedding model changes; see stores/sql/reembedding.py. scope: whose they
# are, for its erasure; of items, if they end with one.
_SINCE_VERSION_12 = (
    """CREATE TABLE new_vectors (
        kind INTEGER NOT NULL, row INTEGER NOT NULL, memory_space TEXT NOT NULL, stamp INTEGER NOT NULL, scope INTEGER,
        vector BLOB NOT NULL, PRIMARY KEY (kind, row, memory_space))""",
    "CREATE INDEX new_vectors_by_scope ON new_vectors (scope)",
)


# Memories that tell relations, which most files have few of; see stores/sql/row_conditions.py for the words.
_SINCE_VERSION_13 = (
    """CREATE INDEX memories_related ON memories (scope, row) WHERE body LIKE '%"relations":[_"subject"%'""",
)


# Bytes of images and files, once a scope: digest is the SHA-256 in hexadecimal digits, bytes how many there are. They
# come last, so that reading the other columns needs none of their pages.
_SINCE_VERSION_14 = (
    """CREATE TABLE blobs (
        blob INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, digest TEXT NOT NULL, media_type TEXT NOT NULL,
        bytes INTEGER NOT NULL, data BLOB NOT NULL, UNIQUE (scope, digest))""",
    "CREATE INDEX blobs_by_scope ON blobs (scope, blob)",
)


def _run(statements: Sequence[str], connection: sqlite3.Connection) -> None:
    for statement in statements:
        connection.execute(statement)


def _to_version_11(connection: sqlite3.Connection) -> None:
    connection.execute(DIGEST_TABLE)
    fill_digests(connection)


OLDEST_VERSION = 9
"""The version of the oldest files that are brought up to date: older ones were written before the first release."""

MIGRATIONS: Sequence[Migration] = (
    partial(_run, _SINCE_VERSION_10),
    _to_version_11,
    partial(_run, _SINCE_VERSION_12),
    partial(_run, _SINCE_VERSION_13),
    partial(_run, _SINCE_VERSION_14),
)
"""The first step leads from `OLDEST_VERSION` to the next one, and so on."""

SCHEMA_VERSION = OLDEST_VERSION + len(MIGRATIONS)

TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE scopes (
        scope INTEGER PRIMARY KEY AUTOINCREMENT, memory_space TEXT NOT NULL, user_id TEXT NOT NULL,
        UNIQUE (memory_space, user_id))""",
    """CREATE TABLE sessions (
        session INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, session_id TEXT NOT NULL,
        UNIQUE (scope, session_id))""",
    # said_at: seconds since 1970; asks: it is a question; waits: it has no vector yet and is to get one; by_user: its
    # role is user; wishes: it is a standing wish of the user; passages: packed by `segment_passages`, empty for a short
    # text; the terms of a long one are those of its passages one behind the other, and its vector is one blob of those
    # of the first passages.
    """CREATE TABLE messages (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, session INTEGER NOT NULL,
        message_id TEXT NOT NULL, speaker TEXT NOT NULL, said_at REAL NOT NULL, asks INTEGER NOT NULL,
        waits INTEGER NOT NULL, block INTEGER, terms BLOB NOT NULL, body TEXT NOT NULL,
        by_user INTEGER NOT NULL DEFAULT 0, wishes INTEGER NOT NULL DEFAULT 0, passages BLOB NOT NULL DEFAULT x'',
        UNIQUE (scope, message_id))""",
    "CREATE INDEX messages_by_scope ON messages (scope, seq)",
    "CREATE INDEX messages_by_session ON messages (session, seq)",
    "CREATE INDEX messages_waiting ON messages (scope, seq) WHERE waits",
    "CREATE INDEX messages_unsliced ON messages (session, seq) WHERE block IS NULL",
    "CREATE TABLE message_vectors (seq INTEGER PRIMARY KEY, vector BLOB NOT NULL)",
    """CREATE TABLE blocks (
        block INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, session INTEGER NOT NULL,
        block_id TEXT NOT NULL, started_at REAL NOT NULL, ended_at REAL NOT NULL, terms BLOB NOT NULL,
        body TEXT NOT NULL, UNIQUE (scope, block_id))""",
    "CREATE INDEX blocks_by_scope ON blocks (scope, block)",
    # normal: digest of the normalised content; created: microseconds since 1970, the order of pages; ranked: 0 keeps it
    # out of rankings, not out of lists; waits: it has no vector yet and is to get one.
    """CREATE TABLE memories (
        row INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, memory_id TEXT NOT NULL,
        memory_type TEXT NOT NULL, memory_target TEXT NOT NULL, normal BLOB NOT NULL, created INTEGER NOT NULL,
        observed_at REAL NOT NULL, valid_from REAL NOT NULL, valid_to REAL, revision INTEGER NOT NULL,
        terms BLOB NOT NULL, body TEXT NOT NULL, ranked INTEGER NOT NULL DEFAULT 1, superseded_by TEXT,
        waits INTEGER NOT NULL DEFAULT 0, UNIQUE (scope, memory_id))""",
    "CREATE INDEX memories_by_age ON memories (scope, created, memory_id)",
    "CREATE TABLE memory_vectors (row INTEGER PRIMARY KEY, vector BLOB NOT NULL)",
    """CREATE TABLE events (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, memory_id TEXT NOT NULL,
        operation TEXT NOT NULL, before TEXT, after TEXT, reason TEXT NOT NULL, run_id TEXT, actor TEXT NOT NULL,
        at TEXT NOT NULL)""",
    "CREATE INDEX events_by_memory ON events (scope, memory_id, sequence)",
    "CREATE INDEX events_by_run ON events (scope, run_id, sequence) WHERE run_id IS NOT NULL",
    # origin: digest of the job as it was added; created, due: microseconds since 1970; job decides ties of created. The
    # entries of the routing table are few among many memories, and each run begins with reading them.
    """CREATE TABLE jobs (
        job INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, job_id TEXT NOT NULL, origin BLOB NOT NULL,
        kind TEXT NOT NULL, state TEXT NOT NULL, created INTEGER NOT NULL, due INTEGER NOT NULL, body TEXT NOT NULL,
        UNIQUE (scope, job_id))""",
    "CREATE INDEX jobs_by_state ON jobs (scope, state, created)",
    "CREATE INDEX memories_meta ON memories (scope, created, memory_id) WHERE memory_type = 'meta'",
    # digest: of what makes two offloads the same; created: microseconds since 1970, for its age; said: the same, for
    # when it was said; bytes: of the text, which comes last, so that reading the other columns needs none of its pages.
    # Indexed by age with all that a clean-up decides by. Of holders, said: when a session said last what it holds; of
    # holds, since: when it came to hold an offload, or said so again.
    """CREATE TABLE offloads (
        offload INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, session INTEGER NOT NULL,
        reference TEXT NOT NULL, kind TEXT NOT NULL, message_id TEXT, digest BLOB NOT NULL, created INTEGER NOT NULL,
        said INTEGER NOT NULL, bytes INTEGER NOT NULL, info TEXT NOT NULL, text TEXT NOT NULL,
        UNIQUE (scope, reference))""",
    "CREATE INDEX offloads_by_digest ON offloads (scope, digest)",
    "CREATE INDEX offloads_by_scope ON offloads (scope, offload)",
    "CREATE INDEX offloads_by_session ON offloads (session, offload)",
    "CREATE INDEX offloads_by_message ON offloads (scope, message_id) WHERE message_id IS NOT NULL",
    "CREATE INDEX offloads_by_age ON offloads (scope, created, offload, kind, bytes)",
    """CREATE TABLE offload_passages (
        passage INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, offload INTEGER NOT NULL,
        start INTEGER NOT NULL, chars INTEGER NOT NULL, line INTEGER NOT NULL)""",
    "CREATE INDEX passages_by_scope ON offload_passages (scope)",
    "CREATE INDEX passages_by_offload ON offload_passages (offload)",
    "CREATE TABLE offload_holders (session INTEGER PRIMARY KEY, scope INTEGER NOT NULL, said INTEGER NOT NULL)",
    """CREATE TABLE offload_holds (
        session INTEGER NOT NULL, offload INTEGER NOT NULL, scope INTEGER NOT NULL, since INTEGER NOT NULL,
        PRIMARY KEY (session, offload)) WITHOUT ROWID""",
    "CREATE INDEX holds_by_offload ON offload_holds (offload)",
    # created: microseconds since 1970, with call the order of pages; error: the kind of a failure, NULL for a success.
    # The first index has all that statistics count, so that none of the bodies, which come last, is read for them; the
    # second is for pages of all tools.
    """CREATE TABLE tool_calls (
        call INTEGER PRIMARY KEY, scope INTEGER NOT NULL, call_id TEXT NOT NULL, tool_name TEXT NOT NULL,
        created INTEGER NOT NULL, success INTEGER NOT NULL, time_cost REAL, token_cost INTEGER, error TEXT,
        body TEXT NOT NULL, UNIQUE (scope, call_id))""",
    """CREATE INDEX tool_calls_by_tool
        ON tool_calls (scope, tool_name, created, call, success, time_cost, token_cost, error)""",
    "CREATE INDEX tool_calls_by_age ON tool_calls (scope, created, call)",
    # path: each label followed by ".", which no label holds, so that what lies under a prefix is one range. Times:
    # microseconds since 1970; ttl: how many of them from one write, or read that refreshes, to the expiry. memory_row:
    # the memory that an item is as well. value: JSON; it comes last, so that reading the other columns needs none of
    # its pages.
    """CREATE TABLE item_namespaces (
        ns INTEGER PRIMARY KEY AUTOINCREMENT, memory_space TEXT NOT NULL, path TEXT NOT NULL,
        UNIQUE (memory_space, path))""",
    """CREATE TABLE items (
        item INTEGER PRIMARY KEY AUTOINCREMENT, ns INTEGER NOT NULL, key TEXT NOT NULL, created INTEGER NOT NULL,
        updated INTEGER NOT NULL, expires INTEGER, ttl INTEGER, memory_row INTEGER, value TEXT NOT NULL,
        UNIQUE (ns, key))""",
    "CREATE INDEX items_by_update ON items (ns, updated DESC, item)",
    "CREATE UNIQUE INDEX items_by_memory ON items (memory_row) WHERE memory_row IS NOT NULL",
    "CREATE INDEX items_by_expiry ON items (expires) WHERE expires IS NOT NULL",
    "CREATE TABLE item_vectors (vector INTEGER PRIMARY KEY, item INTEGER NOT NULL, data BLOB NOT NULL)",
    "CREATE INDEX item_vectors_by_item ON item_vectors (item)",
    # What changed in which partition, so that indexes in memory follow the file; see stores/sql/bookkeeping.py.
    """CREATE TABLE row_changes (
        owner INTEGER NOT NULL, layer INTEGER NOT NULL, change INTEGER NOT NULL, row INTEGER NOT NULL,
        PRIMARY KEY (owner, layer, change)) WITHOUT ROWID""",
    # In the order in which they are loaded; the other indexes have none, or hold what isn't ranked as well.
    "CREATE INDEX memories_ranked ON memories (scope, row) WHERE ranked",
    """CREATE UNIQUE INDEX memories_current ON memories (scope, memory_type, memory_target, normal)
        WHERE superseded_by IS NULL""",
    "CREATE INDEX memories_waiting ON memories (scope, row) WHERE waits",
    *_SINCE_VERSION_10,
    DIGEST_TABLE,
    *_SINCE_VERSION_12,
    *_SINCE_VERSION_13,
    *_SINCE_VERSION_14,
)

WORD_TABLES = (
    f"CREATE VIRTUAL TABLE message_words USING fts5(scope, words, {_TOKENIZER}, detail=column, columnsize=0)",
    f"CREATE VIRTUAL TABLE memory_words USING fts5(scope, words, {_TOKENIZER}, detail=column, columnsize=0)",
    # With the places of the words, so that those next to each other can be asked for; other tables don't need them.
    f"CREATE VIRTUAL TABLE offload_words USING fts5(scope, words, {_TOKENIZER}, columnsize=0)",
)


def has_fts5(connection: sqlite3.Connection) -> bool:
    """Tell whether this build of SQLite has the full-text extension FTS5."""
    return connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone() is not None


OLDEST_SQLITE = (3, 35, 0)
"""RETURNING, which the adapters' tables are written with. Source: https://sqlite.org/changes.html"""


def check_sqlite(connection: sqlite3.Connection, *, version: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    """Refuse a build of SQLite that lacks what the statements here need (ConfigurationError)."""
    has_json = connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'json_each'").fetchone()
    if version < OLDEST_SQLITE or has_json is None:
        found, wanted = (".".join(map(str, parts)) for parts in (version, OLDEST_SQLITE))
        msg = f"wanted SQLite {wanted} or later with its JSON functions, found {found}: use a newer Python"
        raise ConfigurationError(msg)


def prepare(
    connection: sqlite3.Connection,
    path: str,
    *,
    migrations: Sequence[Migration] = MIGRATIONS,
    fts5: bool,
    keep: Callable[[int], None] = lambda version: None,
    can_write: bool = True,
) -> None:
    """Create the tables in an empty file, or bring an older file up to this version, in one transaction.

    Words that an older segmentation cut are cut anew, or they would not be found any more. `keep` is called with the
    version of an older file before its tables are changed; no other process writes to it then.

    Raises:
        SchemaVersionError: The file is newer than this release or too old, is not ours, or has full-text tables that
            this build of SQLite can't keep up to date; or it is older, and can only be read.
    """
    newest = OLDEST_VERSION + len(migrations)
    found = check_version(connection, path, newest=newest)
    if found == newest and _terms_version(connection, path) == TERMS_VERSION:
        _check_word_tables(connection, path, fts5=fts5)
        return
    if not can_write:
        raise SchemaVersionError(_outdated(path, found, newest))
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Again, now that no other process can be doing the same.
        version = _version_of(connection, path, newest)
        if version:
            _check_word_tables(connection, path, fts5=fts5)
            if version < newest:
                keep(version)
            for step in migrations[version - OLDEST_VERSION :]:
                step(connection)
        else:
            _create(connection, fts5=fts5)  # as the steps would have made it
        if _terms_version(connection, path) != TERMS_VERSION:
            tables = WORD_TABLE_NAMES if has_word_tables(connection) else ()
            segment_anew(connection, partial(add_words, connection), tables)
            connection.execute("UPDATE meta SET value = ? WHERE key = 'terms'", (str(TERMS_VERSION),))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {newest}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _outdated(path: str, found: int, newest: int) -> str:
    if not found:
        return f"{path!r} is empty, and can only be read: give the path of a memory file"
    held = f"schema version {found}, this release reads {newest}" if found < newest else "words of an older release"
    return (
        f"{path!r} has {held}, and can't be brought up to date as it, or its folder, can only be read: "
        "copy it to a folder that can be written, and open it there"
    )


def _create(connection: sqlite3.Connection, *, fts5: bool) -> None:
    for statement in TABLES + (WORD_TABLES if fts5 else ()):
        connection.execute(statement)
    connection.execute("INSERT INTO meta VALUES ('terms', ?)", (str(TERMS_VERSION),))


def check_version(connection: sqlite3.Connection, path: str, *, newest: int = SCHEMA_VERSION) -> int:
    """Return the schema version, 0 for an empty file; nothing is written (SchemaVersionError)."""
    connection.execute("BEGIN")  # one snapshot: another process may be making the tables
    try:
        return _version_of(connection, path, newest)
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")


@reading_rows()
def _terms_version(connection: sqlite3.Connection, path: str) -> int:
    """Return the version of the segmentation that the file was written with (SchemaVersionError if newer)."""
    version = int(connection.execute("SELECT value FROM meta WHERE key = 'terms'").fetchone()[0])
    if version > TERMS_VERSION:
        msg = f"{path!r} has words of version {version}, this release knows {TERMS_VERSION}: install a newer release"
        raise SchemaVersionError(msg)
    return version


def _version_of(connection: sqlite3.Connection, path: str, newest: int) -> int:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == APPLICATION_ID:
        if version > newest:
            msg = f"{path!r} has schema version {version}, this release reads up to {newest}: install a newer release"
            raise SchemaVersionError(msg)
        if version < OLDEST_VERSION:
            msg = f"{path!r} has schema version {version}, of before the first release: begin with a new file"
            raise SchemaVersionError(msg)
        return int(version)
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables or version:
        msg = f"{path!r} is a SQLite file of something else: give another path"
        raise SchemaVersionError(msg)
    return 0


def _check_word_tables(connection: sqlite3.Connection, path: str, *, fts5: bool) -> None:
    if not fts5 and has_word_tables(connection):
        msg = f"{path!r} has full-text tables and this build of SQLite lacks FTS5: use a Python whose sqlite3 has it"
        raise SchemaVersionError(msg)
