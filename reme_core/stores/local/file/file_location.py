"""Checks of a file's location, and the meaning of SQLite's errors there."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from reme_core.errors import (
    ConfigurationError,
    CorruptDataError,
    InvalidInputError,
    ReMeError,
    StorageFullError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from reme_core.schema import describe

_LOG = logging.getLogger("reme")

NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "9p", "ceph", "lustre", "glusterfs", "fuse.sshfs", "fuse.glusterfs"}
)


def check_place(path: Path, *, mounts: Path = Path("/proc/self/mounts")) -> None:
    """Make the folder of the file, and refuse places where SQLite's write-ahead log is not safe.

    `mounts` lists the mounted file systems, as Linux does; elsewhere nothing can be told, and nothing is refused.

    Raises:
        StoreAccessError: The folder can't be made, or the path is a folder.
        ConfigurationError: The file would lie on a network file system.
    """
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_folder = path.is_dir()
    except OSError as exc:
        msg = f"the folder of {str(path)!r} can't be made or read ({exc.strerror}): give a path that can be written"
        raise StoreAccessError(msg) from exc
    if is_folder:
        msg = f"{str(path)!r} is a folder: give the path of a file"
        raise StoreAccessError(msg)
    kind = _file_system(path.parent.resolve(), mounts)
    if kind in NETWORK_FILE_SYSTEMS:
        msg = (
            f"{str(path)!r} lies on a network file system ({kind}), where SQLite's locks and shared memory can't be "
            "relied on: use a local disk, or the qdrant store for several machines"
        )
        raise ConfigurationError(msg)


@contextmanager
def private_file(path: Path) -> Iterator[None]:
    """Make the file if it is not there, readable by its owner alone; narrow it, and what stands beside it, if not.

    SQLite gives its log the rights of the file. A folder is narrowed too when it holds nothing but the file.

    Raises:
        StoreAccessError: It can't be made, or it was there before and is gone.
    """
    if not path.exists():
        check_unused(path)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            pass  # another process has just made it
        except OSError as exc:
            msg = f"{str(path)!r} can't be made ({exc.strerror}): check permissions and the path"
            raise StoreAccessError(msg) from exc
    if os.name == "posix":
        _narrow(path)
    yield


def _narrow(path: Path) -> None:
    beside = [path.with_name(path.name + end) for end in ("", "-wal", "-shm", USED)]
    own = set(path.parent.iterdir()) <= set(beside)
    for item, wanted in [*((item, 0o600) for item in beside), *([(path.parent, 0o700)] if own else [])]:
        with suppress(FileNotFoundError):
            mode = stat.S_IMODE(item.stat().st_mode)
            if mode & 0o077:
                try:
                    item.chmod(mode & wanted)
                except PermissionError:
                    _LOG.warning("%r can be read by others (mode %o) and belongs to another user", str(item), mode)
                else:
                    _LOG.warning("%r could be read by others (mode %o): now by its owner alone", str(item), mode)


USED = "-used"
BESIDE = ("", "-wal", "-shm", "-journal")
"""What SQLite adds to the name of a file for those that it keeps beside it, and nothing for the file itself."""
_MARKER = "The store beside this file was in use. If it is gone and a new one is wanted, delete this file.\n"


def is_read_only(path: Path) -> bool:
    """Tell whether a file is there and it, or its folder, can't be written."""
    by_effective = os.access in os.supports_effective_ids
    return path.is_file() and not all(
        os.access(place, os.W_OK, effective_ids=by_effective) for place in (path, path.parent)
    )


def address_to_read(path: Path) -> str:
    """Return the address by which SQLite opens a file: one that can't be written is taken for one that nobody writes.

    Unless somebody has it open, or a log is beside it, which is read as well. SQLite can't do that where the index of
    the log is missing and can't be made.
    """
    if not is_read_only(path):
        return f"{path.absolute().as_uri()}?mode=rw"
    log, index = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    is_used = index.exists() or (log.exists() and log.stat().st_size)
    mode = "mode=ro" if is_used else "mode=ro&immutable=1"
    return f"{path.absolute().as_uri()}?{mode}"


def mark_used(path: Path) -> None:
    """Leave a marker beside the file, by which an empty file in its place is told from a new one."""
    marker = path.with_name(path.name + USED)
    with suppress(FileExistsError):
        descriptor = os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_MARKER)


def check_unused(path: Path) -> None:
    """Refuse to begin anew where a store has been (StoreAccessError)."""
    marker = path.with_name(path.name + USED)
    if marker.exists():
        msg = (
            f"a store was at {str(path)!r} and is gone or empty now: put it back, or delete {marker.name!r} beside it "
            "to begin a new one"
        )
        raise StoreAccessError(msg)


class OpenedFiles:
    """The file and its log as they were when they were opened."""

    def __init__(self, path: Path | None) -> None:
        """Remember the file; `None` checks nothing."""
        self._path = path
        self._paths = [] if path is None else [str(path.absolute()) + end for end in ("", "-wal", "-shm")]
        self._seen: list[tuple[int, int]] = []
        self._bytes = 0 if path is None else path.stat().st_size

    def check(self) -> None:
        """Compare what is there with what was there at the first call, which a writer makes (StoreAccessError)."""
        try:
            found = [os.stat(path) for path in self._paths]  # noqa: PTH116  # before each commit
        except FileNotFoundError as exc:
            raise StoreAccessError(_what_happened(f"{exc.filename!r} was removed", self._path)) from exc
        now = [(one.st_dev, one.st_ino) for one in found]
        if found and found[0].st_size < self._bytes:
            raise StoreAccessError(_what_happened(f"{str(self._path)!r} was cut short", self._path))
        if not self._seen:
            self._seen = now
        if now != self._seen:
            raise StoreAccessError(_what_happened(f"{str(self._path)!r}, or its log, was replaced", self._path))


def _what_happened(what: str, path: Path | None) -> str:
    return (
        f"{what} while it was open; nothing of this call was written: stop all processes that use {str(path)!r}, "
        "put the file back (a copy, say), and open it again"
    )


def _file_system(folder: Path, mounts: Path) -> str | None:
    """Return the type of the file system that holds the folder, where the system tells."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    best, kind = "", None
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        if len(point) >= len(best) and folder.is_relative_to(point):
            best, kind = point, fields[2]
    return kind


@contextmanager
def mapped_errors(path: str) -> Iterator[None]:
    """Turn SQLite's errors, and the system's, into ours, each with what to do; no message holds words of a stored text.

    Source: https://sqlite.org/rescode.html
    """
    try:
        yield
    except sqlite3.Error as exc:
        if str(exc).startswith("Could not decode to UTF-8"):  # what Python adds is the text
            raise _damaged(path, "a text is no UTF-8") from None
        raise _mapped(exc, path) from exc
    except OSError as exc:  # of what is done beside SQLite: the marker, and gaps that are cleared
        raise _mapped_by_system(exc, path) from exc
    except ValidationError as exc:
        raise _damaged(path, describe(exc, "it", with_values=False)) from exc
    except (OverflowError, UnicodeEncodeError) as exc:
        msg = f"a value can't be stored or looked for: {exc}"
        raise InvalidInputError(msg) from exc


def _damaged(path: str, how: str) -> CorruptDataError:
    return CorruptDataError(
        f"{path!r} holds a value that can't be what was written ({how}): see `reme check`, and restore a copy"
    )


@contextmanager
def reading_rows() -> Iterator[None]:
    """Tell a value of a row that is no value of its kind as CorruptDataError, without the value."""
    try:
        yield
    except (ReMeError, ValidationError):  # the latter is told by `mapped_errors`
        raise
    except (ValueError, TypeError) as exc:
        msg = f"the file holds a row that can't be what was written ({type(exc).__name__}): see `reme check`"
        raise CorruptDataError(msg) from exc


def _mapped_by_system(exc: OSError, path: str) -> StoreError:
    if exc.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StorageFullError(f"no space left for {path!r}; what was begun was not finished: free some space")
    if isinstance(exc, PermissionError | FileNotFoundError) or exc.errno == errno.EROFS:
        return StoreAccessError(f"{path!r} can't be opened for writing ({exc}): check permissions and the path")
    return StoreUnavailableError(f"reading or writing {path!r} failed ({exc}): check the disk, then try again")


def _mapped(exc: sqlite3.Error, path: str) -> StoreError:
    code = (getattr(exc, "sqlite_errorcode", None) or 0) & 0xFF
    match code:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreUnavailableError(f"{path!r} is locked by another process: try again, or raise busy_timeout_s")
        case sqlite3.SQLITE_FULL:
            return StorageFullError(f"no space left for {path!r}; nothing of this call was written: free some space")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return StoreAccessError(f"{path!r} can't be opened for writing ({exc}): check permissions and the path")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_FORMAT:
            return CorruptDataError(f"{path!r} is damaged or no SQLite file ({exc}): restore a copy, or move it away")
        case sqlite3.SQLITE_IOERR:
            return StoreUnavailableError(f"reading or writing {path!r} failed ({exc}): check the disk, then try again")
        case _:
            return StoreError(f"SQLite failed on {path!r}: {exc}")
