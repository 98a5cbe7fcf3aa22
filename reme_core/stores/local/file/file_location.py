"""Checks of a file's location, and how it is opened."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reme_core.errors import (
    ConfigurationError,
    StoreAccessError,
)
from reme_core.stores.local.file.dialect import FileConnection

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
        check_unused(path, lambda: not path.exists())
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


def check_unused(path: Path, is_gone: Callable[[], bool] = lambda: True) -> None:
    """Refuse to begin anew where a store has been (StoreAccessError).

    `is_gone` is asked once the marker was seen: another process may have made the store, and then the marker, since it
    was found gone or empty.
    """
    marker = path.with_name(path.name + USED)
    if marker.exists() and is_gone():
        msg = (
            f"a store was at {str(path)!r} and is gone or empty now: put it back, or delete {marker.name!r} beside it "
            "to begin a new one"
        )
        raise StoreAccessError(msg)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """How a file is opened.

    Attributes:
        path: The file; its folder is made. Of a symbolic link what it leads to: SQLite keeps its log beside that.
        synchronous: FULL: an acknowledged write survives a power cut. NORMAL: it survives a killed process; a power cut
            may take the last writes, never the file's consistency.
        busy_timeout_s: How long to wait for another process that is writing.
        max_bytes: At most this size, if given; then StorageFullError.
    """

    path: Path
    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    busy_timeout_s: float = 10.0
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        """Follow a link."""
        if self.path.is_symlink():
            object.__setattr__(self, "path", Path(os.path.realpath(self.path)))


# After a log has grown behind a reader, it is cut to this; SQLite's own checkpoints begin at half of it.
_LOG_BYTES = 8 << 20


def bare_connection(settings: FileSettings) -> FileConnection:
    """Open a connection to a file that is there."""
    # Connections stay with their thread but for close(), which runs when those threads have ended. A file that is
    # gone is not made anew: `private_file` alone makes it.
    connection = sqlite3.connect(
        address_to_read(settings.path),
        uri=True,
        timeout=settings.busy_timeout_s,
        isolation_level=None,
        check_same_thread=False,
        factory=FileConnection,
    )
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
    return connection


def use_log(connection: sqlite3.Connection, settings: FileSettings) -> None:
    """Switch the file to its write-ahead log. SQLite doesn't wait for others that do the same, so this does."""
    deadline = time.monotonic() + settings.busy_timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            return


def bound_size(connection: sqlite3.Connection, settings: FileSettings) -> None:
    """Let a connection write no more than `max_bytes`."""
    if settings.max_bytes is not None:
        (page,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute(f"PRAGMA max_page_count = {max(1, settings.max_bytes // page)}")
