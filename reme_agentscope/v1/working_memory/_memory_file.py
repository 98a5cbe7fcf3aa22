"""The messages of one session, in the file or database of the memories: a row each, written when new or changed."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import reme_core
from reme_agentscope._shared.opening import DEFAULT_USER
from reme_core.errors import InvalidInputError
from reme_core.facade.adapter_rows import drop_unused, keep_apart, put_together
from reme_core.schema import Scope, make_scope
from reme_core.schema.blobs import APART, LONG_BASE64

if TYPE_CHECKING:
    from reme_core import ReMe, SqlConnection, SqlDatabase

MEMORY_SPACE = "default"

_FILE = "memory.db"
_FILES = frozenset({".db", ".sqlite", ".sqlite3"})
_SERVERS = ("postgresql://", "postgres://")
# `erased_with`: the scope whose end is that of the row. `version`: another one after each write.
# `has_left`: no longer in the memory, and kept for being looked up.
_TABLES = (
    """CREATE TABLE IF NOT EXISTS agentscope_sessions (
        id INTEGER PRIMARY KEY AUTOINCREMENT, erased_with INTEGER NOT NULL, memory_space TEXT NOT NULL,
        "user" TEXT NOT NULL, name TEXT NOT NULL, summary BLOB NOT NULL, version INTEGER NOT NULL,
        UNIQUE (memory_space, user, name))""",
    """CREATE TABLE IF NOT EXISTS agentscope_messages (
        position INTEGER PRIMARY KEY AUTOINCREMENT, erased_with INTEGER NOT NULL, session INTEGER NOT NULL,
        message_id BLOB NOT NULL, body BLOB NOT NULL, has_left INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX IF NOT EXISTS agentscope_in_order ON agentscope_messages (session, has_left, position)",
)


@dataclass(frozen=True, slots=True)
class MessageRow:
    """What is known of a row: its place, whose message it is, and the digest of its bytes."""

    position: int
    message_id: str
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """What lies in the file as far as it was seen; `version` is None where there is nothing."""

    version: int | None = None
    rows: tuple[MessageRow, ...] = ()
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """What lies in the file after a write.

    `bodies` are those of all rows, in order, where somebody else had written in between; None otherwise.
    """

    known: FileState
    bodies: tuple[bytes, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContents:
    """What is to lie there.

    Attributes:
        entries: Pairs of message id and the digest of the bytes, in order, each id once.
        body: Returns the bytes of a message, by its id; asked for those that are to be written.
        summary: The summary.
    """

    entries: Sequence[tuple[str, bytes]]
    body: Callable[[str], bytes]
    summary: str


class MessageFile:
    """The rows of one session of one user. Opens with the first call, again after `close`."""

    def __init__(self, location: Path | str, *, scope: Scope, session_id: str) -> None:
        """Check the names; nothing is opened.

        Raises:
            InvalidInputError: A name that can't be one.
        """
        self._location = location
        self._key = _Key(scope=scope, session=check_session(session_id))
        self._make: type[ReMe] = reme_core.ReMe  # loaded here and not with this module
        self._memory: ReMe | None = None

    @property
    def memory(self) -> ReMe:
        """The memory that lies there, for what else is to be kept beside the messages. It has no models."""
        if self._memory is None:
            folder, store = place_of(self._location)
            self._memory = self._make(MEMORY_SPACE, folder, llm=None, embedding=None, vector_store=store)
        return self._memory

    @property
    def _database(self) -> SqlDatabase:
        return self.memory.database

    async def version(self) -> int | None:
        """Return the version of the session, None where nothing of it is kept."""
        return await self._database.read(partial(_version, key=self._key), within=self._key.scope)

    def save(self, known: FileState, contents: FileContents, *, keep_removed: bool = False) -> Future[SavedState]:
        """Begin to write what differs from what is known; it is on disk when the future has its result.

        What others have written in between stays, and comes back. Removed rows may stay, out of the memory.
        """
        changes = _changes(known.rows, contents)  # the write touches no message any more: it runs in a thread
        work = partial(
            _save,
            key=self._key,
            known=known,
            changes=changes,
            new_summary=contents.summary,
            keep_removed=keep_removed,
        )
        return self._database.submit_write(work, within=self._key.scope)

    async def close(self) -> None:
        """Close the file, or the connections."""
        memory, self._memory = self._memory, None
        if memory is not None:
            await memory.close(finish_jobs=False)


def file_of(location: Path) -> Path:
    """Return the file of a location: itself if it is a file by its ending or in fact, else the one in that folder."""
    path = Path(location).expanduser()
    return path if path.suffix in _FILES or path.is_file() else path / _FILE


def place_of(location: Path | str) -> tuple[Path, dict[str, object]]:
    """Return the folder of a location, and the settings of the store that lies there, or in the database it names."""
    if isinstance(location, str) and location.startswith(_SERVERS):
        return Path(".reme"), {"backend": "postgres", "url": location}
    path = Path(location)
    if path.parts[:1] in {("postgresql:",), ("postgres:",)}:
        msg = "location: a URL is a text; as a Path it is no URL any more"
        raise InvalidInputError(msg)
    path = file_of(path)
    return path.parent, {"backend": "local_file", "path": path}


def scope_of(user_id: str | None, *, shared: bool) -> Scope:
    """Return whose messages are meant: those of the user `default` where nobody is named (InvalidInputError)."""
    return make_scope(MEMORY_SPACE, DEFAULT_USER if user_id is None and not shared else user_id, shared=shared)


def check_session(session_id: object) -> str:
    """Return a session's name (InvalidInputError: none that a file can keep)."""
    if isinstance(session_id, str) and "\0" not in session_id:
        try:
            session_id.encode()
        except UnicodeEncodeError:
            pass
        else:
            return session_id
    msg = f"session_id: wanted a text without NUL and lone surrogates, found {session_id!r:.60}"
    raise InvalidInputError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    scope: Scope
    session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changes:
    """What to do to known rows, and what comes behind them."""

    removed: list[int]
    removed_ids: list[str]
    changed: list[tuple[int, bytes]]
    added: list[tuple[str, bytes]]

    def remove(self, rows: Sequence[MessageRow]) -> None:
        """Have rows removed."""
        self.removed.extend(row.position for row in rows)
        self.removed_ids.extend(row.message_id for row in rows)


def _version(connection: SqlConnection, *, key: _Key) -> int | None:
    if connection.dialect.is_file and not _has_tables(connection):
        return None
    found = _session(connection, key)
    return None if found is None else found[2]


def _has_tables(connection: SqlConnection) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'agentscope_messages'"
    return connection.execute(query).fetchone() is not None


def _session(connection: SqlConnection, key: _Key) -> tuple[int, str, int] | None:
    """Return number, summary and version of a session."""
    row = connection.execute(
        'SELECT id, summary, version FROM agentscope_sessions WHERE memory_space = ? AND "user" = ? AND name = ?',
        (key.scope.memory_space, key.scope.user_id, key.session),
    ).fetchone()
    return None if row is None else (int(row[0]), _text(row[1]), int(row[2]))


def _save(
    connection: SqlConnection,
    *,
    key: _Key,
    known: FileState,
    changes: _Changes | None,
    new_summary: str,
    keep_removed: bool,
) -> SavedState:
    if connection.dialect.is_file and not _has_tables(connection):
        for table in _TABLES:
            connection.execute(table)
    found = _session(connection, key)
    is_foreign = (None if found is None else found[2]) != known.version
    has_new_summary = new_summary != known.summary
    if changes is None and not has_new_summary:
        return _seen(connection, found) if is_foreign else SavedState(known=known)
    if found is None and not (new_summary or (changes and changes.added)):
        return _seen(connection, None)  # it was erased meanwhile, and nothing has come since
    scope_number = connection.dialect.number_of(connection, key.scope)
    if found is None:
        found = (_begin(connection, key, scope_number), "", 0)
    session = found[0]
    positions: list[int] = []
    if changes is not None:
        there = _ids_there(connection, session) if is_foreign else set[bytes]()
        positions = _apply(connection, changes, session, scope_number, there, keep_removed=keep_removed)
    summary = new_summary if has_new_summary else found[1]
    version = secrets.randbits(62)
    connection.execute(
        "UPDATE agentscope_sessions SET summary = ?, version = ? WHERE id = ?", (_bytes(summary), version, session)
    )
    if is_foreign:
        return _seen(connection, (session, summary, version))
    return SavedState(known=FileState(version=version, summary=summary, rows=_rows_after(known, changes, positions)))


def _begin(connection: SqlConnection, key: _Key, scope_number: int) -> int:
    (made,) = connection.execute(
        'INSERT INTO agentscope_sessions (erased_with, memory_space, "user", name, summary, version)'
        " VALUES (?, ?, ?, ?, ?, 0) RETURNING id",
        (scope_number, key.scope.memory_space, key.scope.user_id, key.session, b""),
    ).fetchone()
    return int(made)


def _apply(
    connection: SqlConnection,
    changes: _Changes,
    session: int,
    scope_number: int,
    there: set[bytes],
    *,
    keep_removed: bool,
) -> list[int]:
    """Write changes, and return the places of what was added: not what somebody else has added, the ids `there`."""
    removed = [(position, session) for position in changes.removed]
    if keep_removed:
        connection.executemany(
            "UPDATE agentscope_messages SET has_left = 1 WHERE position = ? AND session = ?", removed
        )
    else:
        connection.executemany("DELETE FROM agentscope_messages WHERE position = ? AND session = ?", removed)
    connection.executemany(
        "UPDATE agentscope_messages SET body = ? WHERE position = ? AND session = ?",
        [(_kept(connection, scope_number, body), position, session) for position, body in changes.changed],
    )
    there = there - {_bytes(name) for name in changes.removed_ids}
    added = [(_bytes(message_id), body) for message_id, body in changes.added]
    fresh = [(name, _kept(connection, scope_number, body)) for name, body in added if name not in there]
    rows = [(scope_number, session, name, body) for name, body in fresh]
    columns = ("erased_with", "session", "message_id", "body")
    positions = list(connection.dialect.insert_many(connection, "agentscope_messages", "position", columns, rows))
    if changes.removed or changes.changed:  # also of a session that was erased meanwhile
        drop_unused(connection, scope_number)
    return positions


def _kept(connection: SqlConnection, scope: int, body: bytes) -> bytes:
    """Return what is to lie in the row of a message: without long base64, which is kept once for the user."""
    return body if len(body) < LONG_BASE64 else _bytes(keep_apart(connection, scope, _text(body)))


def _whole(connection: SqlConnection, scope: int, body: bytes) -> bytes:
    """Return the bytes of a message that `_kept` was given."""
    return _bytes(put_together(connection, scope, _text(body))) if body.startswith(APART.encode()) else body


def _ids_there(connection: SqlConnection, session: int) -> set[bytes]:
    query = "SELECT message_id FROM agentscope_messages WHERE session = ? AND has_left = 0"
    return {row[0] for row in connection.execute(query, (session,))}


def _seen(connection: SqlConnection, found: tuple[int, str, int] | None) -> SavedState:
    """Return all that lies there."""
    if found is None:
        return SavedState(known=FileState(), bodies=())
    session, summary, version = found
    found_rows = connection.execute(
        "SELECT position, message_id, body, erased_with FROM agentscope_messages WHERE session = ? AND has_left = 0"
        " ORDER BY position",
        (session,),
    ).fetchall()
    rows = [(position, name, _whole(connection, scope, body)) for position, name, body, scope in found_rows]
    known = tuple(MessageRow(position, _text(message_id), digest_of(body)) for position, message_id, body in rows)
    return SavedState(
        known=FileState(version=version, rows=known, summary=summary), bodies=tuple(row[2] for row in rows)
    )


def _changes(rows: Sequence[MessageRow], contents: FileContents) -> _Changes | None:
    """Return what makes the rows those contents; None where nothing does.

    Rows can only be removed, changed, or follow at the end; where an entry stands before one that is known, all of
    them are written anew.
    """
    changes = _Changes(removed=[], removed_ids=[], changed=[], added=[])
    place = 0
    at = {row.message_id: index for index, row in enumerate(rows)}
    for message_id, digest in contents.entries:
        index = at.get(message_id)
        if index is None:
            changes.added.append((message_id, contents.body(message_id)))
            continue
        if index < place or changes.added:
            every = [(name, contents.body(name)) for name, _ in contents.entries]
            anew = _Changes(removed=[], removed_ids=[], changed=[], added=every)
            anew.remove(rows)
            return anew
        if index > place:
            changes.remove(rows[place:index])
        place = index + 1
        if digest != rows[index].digest:
            changes.changed.append((rows[index].position, contents.body(message_id)))
    changes.remove(rows[place:])
    return changes if changes.removed or changes.changed or changes.added else None


def _rows_after(known: FileState, changes: _Changes | None, positions: Sequence[int]) -> tuple[MessageRow, ...]:
    """Return the rows as they lie there after a write that nobody else came between."""
    if changes is None:
        return known.rows
    removed, changed = set(changes.removed), dict(changes.changed)
    kept = [
        MessageRow(row.position, row.message_id, digest_of(changed[row.position])) if row.position in changed else row
        for row in known.rows
        if row.position not in removed
    ]
    fresh = [
        MessageRow(position, name, digest_of(body))
        for position, (name, body) in zip(positions, changes.added, strict=True)
    ]
    return (*kept, *fresh)


def digest_of(body: bytes) -> bytes:
    """Return what tells bytes from others."""
    return blake2b(body, digest_size=16).digest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogatepass")
