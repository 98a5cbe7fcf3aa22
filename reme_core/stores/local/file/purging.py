"""Clearing of what erased scopes leave in the file: rows, words, and copies of cells in the gaps of pages.

An erasure takes away a scope's name and marks its number in one short transaction; from then on nothing finds it. What
follows here is done in steps of some 50 ms, between which other writers have their turns, and can be broken off
anywhere: the mark stays until all of it is done, and whoever opens the file next goes on.

`secure_delete` clears what is deleted, but not the copies that stay in the gaps of a page when SQLite moves rows to
another one, and VACUUM holds the lock of writers while it writes all of the file. So the gaps are filled with zeros in
the file itself, while the write-ahead log is empty and this connection holds the writers' lock. That is safe: no byte
of a gap means anything, so a kill or a torn page between two of them changes nothing, and the commit that ends a step
makes all other connections forget the pages that they hold in memory.
Source: https://sqlite.org/fileformat2.html#b_tree_pages

Where a scope was erased, pages that are free then go back to the system, in steps as well: those at the end of the file
move to its gaps, and the file is cut. A file that an earlier release made can't do that, and uses them again.
Source: https://sqlite.org/pragma.html#pragma_incremental_vacuum

Files that are noted go with a scope: drafts of exports, which a killed process leaves behind, and folders of adapters.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import FileIO
from pathlib import Path

from reme_core.errors import StoreUnavailableError
from reme_core.schema import new_id
from reme_core.stores.local.file.words import has_word_tables
from reme_core.stores.noted_files import remove_files
from reme_core.stores.sql.bookkeeping import Layer, forget_changes
from reme_core.stores.sql.connection import Statements

_NOTE = "file:"


def note_file(connection: Statements, scope: int, path: Path) -> None:
    """Note that a file, or a folder with all in it, goes with the scope of this number."""
    connection.execute("INSERT OR IGNORE INTO meta VALUES (?, '')", (_key(scope, path),))


def forget_file(connection: sqlite3.Connection, scope: int, path: Path) -> None:
    """Take a note back: the file is no more, or belongs to the user."""
    connection.execute("DELETE FROM meta WHERE key = ?", (_key(scope, path),))


def noted_files(connection: sqlite3.Connection, scope: int) -> list[Path]:
    """Return what was noted of a scope."""
    prefix = f"{_NOTE}{scope}:"
    rows = connection.execute("SELECT key FROM meta WHERE key >= ? AND key < ?", (prefix, f"{_NOTE}{scope};"))
    return [Path(key.removeprefix(prefix)) for (key,) in rows]


def _key(scope: int, path: Path) -> str:
    return f"{_NOTE}{scope}:{path.absolute()}"


_STEP_S = 0.06
_STEP_PAGES = 2048
_ROWS = 16
_MERGED_PAGES = 256
_RETURNED_PAGES = 64
_REST_S = 0.01
_MOST_PAGES = 1 << 24  # beyond, the first byte of an overflow page may look like the kind of a b-tree page
_INCREMENTAL = 2
_LOCK_BYTE = 0x40000000  # the page that holds it is never used
_MARK = "erasing:"
_PAGES = "clearing:pages"
_CLEARED = "cleared_page"

# Tables whose rows go with a scope, their key, and the table of words under the same key.
_TABLES = (
    ("new_vectors", "rowid", None),
    ("messages", "seq", "message"),
    ("memories", "row", "memory"),
    ("offload_passages", "passage", "offload"),
    ("offloads", "offload", None),
    ("events", "sequence", None),
    ("blocks", "block", None),
    ("jobs", "job", None),
    ("tool_calls", "call", None),
    ("blobs", "blob", None),
    ("sessions", "session", None),
)
_WORDS = ("message_words", "memory_words", "offload_words")


def mark_erased(connection: sqlite3.Connection, number: int) -> None:
    """Take away the name of a scope and note that its rows are to be cleared, within a transaction."""
    connection.execute("DELETE FROM scopes WHERE scope = ?", (number,))
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, '')", (f"{_MARK}{number}",))


def mark_pages(connection: Statements) -> None:
    """Note, within a transaction that deletes rows for good, that copies of them are to be cleared."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_PAGES, new_id()))


def is_purge_due(connection: sqlite3.Connection) -> bool:
    """Tell whether anything is marked."""
    return bool(erased_scopes(connection)) or _marked_pages(connection) is not None


def _marked_pages(connection: sqlite3.Connection) -> str | None:
    """Return the mark of what was deleted last; it is another one after each such deletion."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (_PAGES,)).fetchone()
    return None if row is None else str(row[0])


def erased_scopes(connection: sqlite3.Connection) -> list[int]:
    """Return the numbers of the scopes that are erased and not yet cleared."""
    keys = connection.execute("SELECT key FROM meta WHERE key >= ? AND key < ?", (_MARK, f"{_MARK}~")).fetchall()
    return [int(key.removeprefix(_MARK)) for (key,) in keys]


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """One clearing of a file.

    Attributes:
        connection: A connection that nothing else uses, with a short busy timeout: what it waits for, others wait for.
        raw: The file itself, opened for reading and writing.
        path: The path of the file.
        patience_s: Seconds to wait for readers, or writers, that leave no moment between them.
        is_closing: Whether the process wants to end: then nothing is waited for any more.
        check: Raises if the file is no longer the one that was opened; called in each step.
    """

    connection: sqlite3.Connection
    raw: FileIO
    path: str
    patience_s: float
    is_closing: Callable[[], bool]
    check: Callable[[], None]

    def run(self) -> None:
        """Clear all that is marked.

        Raises:
            StoreUnavailableError: Others keep the log in use; the marks stay, and the next start goes on.
            StoreAccessError: A file of an erased scope can't be removed; likewise.
        """
        while is_purge_due(self.connection):
            scopes, pages = erased_scopes(self.connection), _marked_pages(self.connection)
            for scope in scopes:
                while self._transact(partial(_remove_rows, scope=scope)):
                    pass
            self._merge_words()
            while scopes and self._transact(_return_pages):
                pass
            self._clear_gaps()
            for scope in scopes:
                remove_files(noted_files(self.connection, scope))
            self._transact(partial(_forget_marks, scopes=scopes, pages=pages))
        self._empty_log()

    def _transact(self, work: Callable[[sqlite3.Connection], bool]) -> bool:
        with self._writing(self._begin):
            return work(self.connection)

    @contextmanager
    def _writing(self, begin: Callable[[], bool]) -> Iterator[None]:
        """Hold the writers' lock for a step; then leave it to the others for as long."""
        self._retry(begin)
        began = time.monotonic()
        try:
            self.check()
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise
        time.sleep(max(_REST_S, time.monotonic() - began))

    def _begin(self) -> bool:
        try:
            self.connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            return False
        return True

    def _begin_alone(self) -> bool:
        """Begin with an empty log: the file then holds the newest form of every page."""
        (busy, _, _) = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy or not self._begin():
            return False
        if _size(f"{self.path}-wal") == 0:
            return True
        self.connection.execute("ROLLBACK")
        return False

    def _empty_log(self) -> None:
        self._retry(lambda: self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0)

    def _retry(self, attempt: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self.patience_s
        while not attempt():
            if self.is_closing() or time.monotonic() > deadline:
                msg = (
                    f"it is deleted, but other processes keep {self.path!r} in use, and it still holds old pages: "
                    "call again to clear it, or open it again, which goes on by itself"
                )
                raise StoreUnavailableError(msg)
            time.sleep(_REST_S)

    def _merge_words(self) -> None:
        """Merge the segments of the word tables: deleted words stay in the older ones until then.

        Source: https://sqlite.org/fts5.html#the_merge_command
        """
        if not has_word_tables(self.connection):
            return
        for table in _WORDS:
            pages = -_MERGED_PAGES  # the first one begins a merge of all segments, the others go on with it
            while self._transact(partial(_merge, table=table, pages=pages)):
                pages = _MERGED_PAGES

    def _clear_gaps(self) -> None:
        if self._pages() >= _MOST_PAGES:
            self.connection.execute("VACUUM")
            return
        first = 1
        while first <= self._pages():
            with self._writing(self._begin_alone):
                self._clear_pages(first)
                # Also tells all other connections that what they hold in memory is not what the file holds.
                self.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_CLEARED, str(first)))
            self.connection.execute("PRAGMA shrink_memory")  # its own copies of pages have the gaps as they were
            first += _STEP_PAGES

    def _pages(self) -> int:
        (pages,) = self.connection.execute("PRAGMA page_count").fetchone()
        return int(pages)

    def _clear_pages(self, first: int) -> None:
        (size,) = self.connection.execute("PRAGMA page_size").fetchone()
        self.raw.seek(20)
        usable = size - self.raw.read(1)[0]
        (has_maps,) = self.connection.execute("PRAGMA auto_vacuum").fetchone()
        self.raw.seek((first - 1) * size)
        chunk = _read(self.raw, size * _STEP_PAGES)
        for start in range(0, len(chunk) - size + 1, size):
            at = (first - 1) * size + start
            if at <= _LOCK_BYTE < at + size or (has_maps and is_map(at // size + 1, size=size, usable=usable)):
                continue
            for begin, end in find_gaps(chunk[start : start + size], header=100 if at == 0 else 0, usable=usable):
                self.raw.seek(at + begin)
                self.raw.write(bytes(end - begin))
        os.fsync(self.raw.fileno())


def is_map(page: int, *, size: int, usable: int) -> bool:
    """Tell whether a page of this number, from 1, says where others are pointed at, in a file that can be cut.

    Such a page begins as one of a b-tree may. Each stands for the `usable // 5` pages behind it.
    Source: https://sqlite.org/fileformat2.html#pointer_map_or_ptrmap_pages
    """
    is_behind_lock_byte = (page - 2) * size == _LOCK_BYTE  # there it gives way by one page
    return page > 1 and (page - 2 - is_behind_lock_byte) % (usable // 5 + 1) == 0


def find_gaps(page: bytes, *, header: int, usable: int) -> list[tuple[int, int]]:
    """Return (begin, end) of the bytes of a b-tree page that belong to no cell and are not all zero.

    `header`: where the page's header begins, 100 on the first page, else 0. `usable`: bytes of a page that SQLite uses.
    A page of another kind, or a damaged one, has none.
    """
    if page[header] not in {2, 5, 10, 13}:
        return []
    free, cells, content = struct.unpack_from(">HHH", page, header + 1)
    content = content or 65536
    begin = header + (12 if page[header] in {2, 5} else 8) + 2 * cells
    if not begin <= content <= usable:
        return []
    gaps = [(begin, content)]
    while free:
        if not content <= free <= usable - 4:
            return []
        following, size = struct.unpack_from(">HH", page, free)
        if free + size > usable or (following and following < free + size):
            return []
        gaps.append((free + 4, free + size))
        free = following
    return [(begin, end) for begin, end in gaps if page[begin:end].strip(b"\0")]


def _remove_rows(connection: sqlite3.Connection, scope: int) -> bool:
    """Delete rows of a scope for a moment; False when none are left."""
    until = time.monotonic() + _STEP_S
    with_words = has_word_tables(connection)
    for table, key, words in _TABLES:
        while rows := connection.execute(
            f"SELECT {key} FROM {table} WHERE scope = ? ORDER BY {key} LIMIT ?",  # noqa: S608  # a closed set of names
            (scope, 1 if table == "blobs" else _ROWS),  # of which one may have megabytes
        ).fetchall():
            if words in {"message", "memory"}:
                connection.executemany(f"DELETE FROM {words}_vectors WHERE {key} = ?", rows)  # noqa: S608
            if words and with_words:
                connection.executemany(f"DELETE FROM {words}_words WHERE rowid = ?", rows)  # noqa: S608
            connection.executemany(f"DELETE FROM {table} WHERE {key} = ?", rows)  # noqa: S608
            if time.monotonic() > until:
                return True
    for table in ("offload_holds", "offload_holders"):
        connection.execute(f"DELETE FROM {table} WHERE scope = ?", (scope,))  # noqa: S608
    forget_changes(connection, scope, Layer)
    return False


def _return_pages(connection: sqlite3.Connection) -> bool:
    """Give free pages back for a moment; False when none are left, or the file can't be cut."""
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    until = time.monotonic() + _STEP_S
    while mode == _INCREMENTAL and (free := free_pages(connection)):
        connection.execute(f"PRAGMA incremental_vacuum({_RETURNED_PAGES})").fetchall()  # each row is a page
        if time.monotonic() > until:
            return free_pages(connection) < free
    return False


def free_pages(connection: sqlite3.Connection) -> int:
    """Return how many pages of a file hold nothing."""
    (pages,) = connection.execute("PRAGMA freelist_count").fetchone()
    return int(pages)


def _merge(connection: sqlite3.Connection, table: str, pages: int) -> bool:
    before = connection.total_changes
    connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))  # noqa: S608
    return connection.total_changes - before >= 2


def _forget_marks(connection: sqlite3.Connection, scopes: list[int], pages: str | None) -> bool:
    for scope in scopes:
        for path in noted_files(connection, scope):
            forget_file(connection, scope, path)
    connection.execute("DELETE FROM meta WHERE key = ? AND value = ?", (_PAGES, pages))
    connection.executemany("DELETE FROM meta WHERE key = ?", [(f"{_MARK}{scope}",) for scope in scopes])
    connection.execute("DELETE FROM meta WHERE key = ?", (_CLEARED,))
    return False


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0


def _read(raw: FileIO, size: int) -> bytes:
    parts = []
    while size and (part := raw.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
