"""Copies of the file: made while others write, checked afterwards, and put back."""

from __future__ import annotations

import asyncio
import glob
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from reme_core.errors import CorruptDataError, ReMeError, StoreAccessError, StoreUnavailableError
from reme_core.ports import IndexedBy
from reme_core.private_drafts import private_draft, put_in_place, sync_folder
from reme_core.schema import (
    Block,
    FileCheck,
    Job,
    Memory,
    OffloadInfo,
    ToolCallResult,
    new_id,
    read_stored_message,
    utc_now,
)
from reme_core.schema.blobs import blob_reference
from reme_core.stores.local.file.connection_threads import MappedErrors
from reme_core.stores.local.file.dialect import FileConnection
from reme_core.stores.local.file.digests import DIGESTED, digest_of
from reme_core.stores.local.file.file_location import BESIDE, USED, address_to_read
from reme_core.stores.local.file.purging import free_pages
from reme_core.stores.local.file.tables import SCHEMA_VERSION, check_version
from reme_core.stores.local.file.whole_scope import HeldScope, list_scopes
from reme_core.stores.sql.connection import Boundary
from reme_core.stores.sql.embedding_record import find_embedding, find_target

T = TypeVar("T")

_TOLD = 20
_WAIT_S = 10.0
_SAFETY_COPY = "-before-version-"


@contextmanager
def _reading(path: Path, told: str | None = None) -> Iterator[FileConnection]:
    """Hand out a connection that reads; errors name the path, or what the caller knows it by."""
    address = address_to_read(path)
    with (
        MappedErrors(told or str(path)),
        closing(
            sqlite3.connect(address, uri=True, timeout=_WAIT_S, isolation_level=None, factory=FileConnection)
        ) as connection,
    ):
        connection.execute("PRAGMA query_only = ON")
        yield connection


@dataclass(frozen=True, slots=True)
class FileAsItIs:
    """A file that is read and never written: no table of it is made, moved or brought up to date."""

    path: Path

    async def read(self, work: Callable[[FileConnection], T], *, within: Boundary = None) -> T:
        """Run work in one snapshot. A file has no boundaries."""
        del within
        return await asyncio.to_thread(self._read, work)

    def _read(self, work: Callable[[FileConnection], T]) -> T:
        with _reading(self.path) as connection:
            connection.execute("BEGIN")
            return work(connection)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """Facts about a file that is only looked at.

    Attributes:
        schema_version: The version of its tables, 0 if it is empty.
        embeddings: What made the vectors of each space that has some.
        targets: To what those of a space are being changed.
        scopes: All its scopes.
        free_bytes: How many bytes of it hold nothing, and are used again.
        waiting: How many texts have no vector yet and are to get one.
        dead_jobs: How many jobs were given up.
    """

    schema_version: int
    embeddings: Mapping[str, IndexedBy] = field(default_factory=dict)
    targets: Mapping[str, IndexedBy] = field(default_factory=dict)
    scopes: tuple[HeldScope, ...] = ()
    free_bytes: int = 0
    waiting: int = 0
    dead_jobs: int = 0


def file_facts(path: Path) -> FileFacts:
    """Look at a file; nothing is changed, even if it is of an older version. Raises as `check_file`."""
    with _reading(path) as connection:
        version = check_version(connection, str(path))
        if version < SCHEMA_VERSION:
            return FileFacts(schema_version=version)
        (waiting,) = connection.execute(
            "SELECT (SELECT count(*) FROM messages WHERE waits) + (SELECT count(*) FROM memories WHERE waits)"
        ).fetchone()
        (dead,) = connection.execute("SELECT count(*) FROM jobs WHERE state = 'dead'").fetchone()
        scopes = tuple(list_scopes(connection))
        (page,) = connection.execute("PRAGMA page_size").fetchone()
        spaces = dict.fromkeys(item.scope.memory_space for item in scopes)
        return FileFacts(
            schema_version=version,
            embeddings={space: made for space in spaces if (made := find_embedding(connection, space)) is not None},
            targets={space: target for space in spaces if (target := find_target(connection, space)) is not None},
            scopes=scopes,
            free_bytes=free_pages(connection) * page,
            waiting=waiting,
            dead_jobs=dead,
        )


def check_file(path: Path) -> FileCheck:
    """Read all of a file: SQLite's own check, then each row; see `check_rows`. Blocks.

    Raises:
        StoreAccessError: It isn't there or can't be read.
        SchemaVersionError: It is newer than this release, or not ours.
        CorruptDataError: It can't be read at all.
    """
    if not path.is_file():
        msg = f"{str(path)!r} is not there, or no file: check the path"
        raise StoreAccessError(msg)
    return _check(path, str(path))


def _check(path: Path, told: str) -> FileCheck:
    with _reading(path, told) as connection:
        version = check_version(connection, told)
        connection.execute("BEGIN")  # one snapshot, whoever writes meanwhile
        found = [f"SQLite: {what}" for (what,) in connection.execute("PRAGMA integrity_check(20)") if what != "ok"]
        rows = 0
        if version == SCHEMA_VERSION:  # in an older file nothing tells what was written
            for problem in check_rows(connection):
                rows += 1
                if problem is not None and len(found) <= _TOLD:
                    found.append(problem if len(found) < _TOLD else "and more")
    return FileCheck(
        path=told, file_bytes=path.stat().st_size, schema_version=version, rows=rows, problems=tuple(found)
    )


def copy_file(source: Path, target: Path, *, overwrite: bool = False) -> FileCheck:
    """Copy a file as it is at one moment, whoever writes to it meanwhile; the copy is checked, then put in place.

    The copy has no free pages, and erasures make it smaller, also where that of an earlier release was another kind.

    Raises:
        StoreAccessError: The target is there, and `overwrite` is not said; or it can't be written.
        CorruptDataError: The copy, and so the file, is damaged; nothing is put in place.
    """
    try:
        is_taken = target.exists() and (not overwrite or not target.is_file() or target.samefile(source))
        belongs = target.resolve().name in {source.resolve().name + end for end in (*BESIDE, USED)}
    except OSError as exc:
        msg = f"the copy can't be written ({exc.strerror}): give another path"
        raise StoreAccessError(msg) from exc
    if is_taken or (belongs and target.resolve().parent == source.resolve().parent):
        why = "exists, or is no file that may be replaced"
        msg = f"{str(target)!r} {why}: give another path, or say that it is to be overwritten"
        raise StoreAccessError(msg)
    with _draft(target) as draft:
        _copy(source, draft, target, without_free_pages=True)
        checked = _check(draft, str(source))
        if checked.problems or not checked.schema_version:
            what = checked.problems[0] if checked.problems else "it is empty"
            msg = f"{str(source)!r} is damaged, no copy was made: {what}; see `reme check`"
            raise CorruptDataError(msg)
        put_in_place(draft, target)
    return checked.model_copy(update={"path": str(target)})


def restore_file(copy: Path, target: Path) -> Path | None:
    """Put a copy in the place of a file, which is kept beside it. Returns where that is now, None if there was none.

    Raises:
        StoreUnavailableError: Somebody has the file open.
        SchemaVersionError: The copy is newer than this release, or not ours.
        CorruptDataError: The copy is damaged.
    """
    if target.exists() and copy.exists() and target.samefile(copy):
        msg = f"{str(copy)!r} is the file itself: give a copy of it"
        raise StoreAccessError(msg)
    kept = target.with_name(f"{target.name}-replaced-{utc_now():%Y%m%d-%H%M%S}-{new_id()[:4]}")
    with _draft(target) as draft:
        _copy(copy, draft, target)
        checked = _check(draft, str(copy))
        if checked.problems or not checked.schema_version:
            what = f"is damaged ({checked.problems[0]})" if checked.problems else "is empty"
            msg = f"{str(copy)!r} {what}, nothing was restored: give another copy"
            raise CorruptDataError(msg)
        with _alone(target):
            for end in BESIDE:  # a log without its file, too: it must not be taken for that of the copy
                with suppress(FileNotFoundError):
                    target.with_name(target.name + end).rename(kept.with_name(kept.name + end))
            sync_folder(target.parent)  # nor may it after a power cut
            put_in_place(draft, target)
    return kept if kept.exists() else None


def keep_before_migration(path: Path, version: int) -> None:
    """Copy a file that is about to be migrated, in place of earlier such copies; its name says the version."""
    kept = path.with_name(f"{path.name}{_SAFETY_COPY}{version + 1}")
    with _draft(kept) as draft:
        _copy(path, draft, kept)
        put_in_place(draft, kept)
        remove_safety_copies(path, but=kept)


def remove_safety_copies(path: Path, *, but: Path | None = None) -> None:
    """Remove the copies that migrations have left, but for one: they still hold what was erased since."""
    for kept in path.parent.glob(f"{glob.escape(path.name)}{_SAFETY_COPY}*"):
        if kept != but:
            kept.unlink(missing_ok=True)


# Columns that repeat what the text says.
_REPEATED = {
    "messages": ("message_id", "speaker"),
    "blocks": ("block_id",),
    "memories": ("memory_id", "memory_type", "memory_target", "revision", "superseded_by"),
    "jobs": ("job_id", "kind", "state"),
    "offloads": ("reference", "kind", "message_id"),
    "tool_calls": ("call_id", "tool_name", "success"),
    "blobs": ("digest", "bytes"),
}


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
    return None if digest == digest_of(*texts) else "its text is not what was written"


def _repeated_in(table: str, texts: list[bytes | None]) -> dict[str, object]:
    """Read the text of a row, and return what columns repeat of it (ValueError, TypeError)."""
    if table == "blobs":
        data = texts[1] or b""
        return {"digest": blob_reference(data).removeprefix("sha256:"), "bytes": len(data)}
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


@contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """Hand out an empty draft of a file (StoreAccessError)."""
    try:
        with private_draft(target) as draft:
            yield draft
    except OSError as exc:
        msg = f"{str(target)!r} can't be written ({exc.strerror}): give a path in a folder that exists and is writable"
        raise StoreAccessError(msg) from exc


def _copy(source: Path, draft: Path, target: Path, *, without_free_pages: bool = False) -> None:
    """Copy a file to the draft of a target; errors name the two files that the caller knows."""
    if not source.is_file():
        msg = f"{str(source)!r} is not there, or no file: check the path"
        raise StoreAccessError(msg)
    with _reading(source) as connection:
        connection.execute("PRAGMA schema_version")  # what is no SQLite file is told by its own name
        if without_free_pages:
            _copy_rows(connection, draft, target)
        else:
            with MappedErrors(str(target)), closing(sqlite3.connect(draft)) as copy:
                connection.backup(copy)  # all pages in one step: one snapshot, and no writer makes it begin anew
                copy.execute("PRAGMA journal_mode = DELETE")
    with draft.open("r+b") as file:
        os.fsync(file.fileno())


def _copy_rows(connection: sqlite3.Connection, draft: Path, target: Path) -> None:
    """Write a copy without free pages and gaps, of which erasures can cut off what they leave."""
    connection.execute("PRAGMA query_only = OFF")  # it forbids the copy, too
    if connection.execute("PRAGMA auto_vacuum").fetchone() == (0,):
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of the copy: that of the file is settled
    try:
        connection.execute("VACUUM INTO ?", (str(draft),))
    except sqlite3.DatabaseError as exc:
        if exc.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            raise  # the file itself
        with MappedErrors(str(target)):
            raise


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a file that nobody else has open (StoreUnavailableError)."""
    if not path.exists():
        yield
        return
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=0)) as connection:
        try:
            # SQLite leaves the log only where no other connection is there.
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as exc:
            if exc.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                msg = f"{str(path)!r} is in use: end the programs that have it open, then try again"
                raise StoreUnavailableError(msg) from exc
        yield  # what is too damaged to be opened is replaced
