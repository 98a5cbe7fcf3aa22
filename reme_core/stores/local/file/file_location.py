"""Checks of a file's location, and the meaning of SQLite's errors there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from reme_core.errors import (
    ConfigurationError,
    CorruptDataError,
    InvalidInputError,
    StorageFullError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from reme_core.schema import describe

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
        path.parent.mkdir(parents=True, exist_ok=True)
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
    """Turn SQLite's errors into ours, each with what to do.

    Source: https://sqlite.org/rescode.html
    """
    try:
        yield
    except sqlite3.Error as exc:
        raise _mapped(exc, path) from exc
    except ValidationError as exc:
        msg = f"{path!r} holds a value that can't be what was written ({describe(exc, 'it')}): restore a copy"
        raise CorruptDataError(msg) from exc
    except (OverflowError, UnicodeEncodeError) as exc:
        msg = f"a value can't be stored or looked for: {exc}"
        raise InvalidInputError(msg) from exc


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
