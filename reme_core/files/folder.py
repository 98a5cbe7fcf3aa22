"""A folder of pages: what of it is looked at, how a file is read whole, and who writes for it."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import sys
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reme_core.errors import ConfigurationError, ConflictError, StorageFullError, StoreAccessError, StoreError
from reme_core.private_drafts import private_draft, put_in_place
from reme_core.schema import Scope, new_id

OUR_FOLDER = ".reme"
AGENT_PAGES = ("AGENTS.md", "CLAUDE.md")
"""What agents are told. Not indexed: our part of it is made of memories."""

MAX_FILE_BYTES = 1 << 20
"""A larger file is not indexed. Source: the specification of files, section 5."""

_FRESH_NS = 2_000_000_000  # the coarsest times of file systems (FAT): what changed so lately may change unseen
_MARK = "folder.json"
_LOCK = "lock"
_PAGE = ".md"
# What editors and loaders write beside a file: Vim, Emacs, Office, browsers; and the copies of a conflict.
_PASSING = re.compile(r"\..*|.*~|~\$.*|#.*#|4913|.*\.(swp|swx|tmp|part|crdownload)", re.IGNORECASE)
CONFLICT_COPY = re.compile(r".* \(conflict [\d -]+\)\.md", re.IGNORECASE)
"""Names of the copies that we keep of a conflict."""

# Copies of a conflict as Syncthing, Dropbox, Nextcloud and ownCloud name them.
_FOREIGN_COPY = re.compile(
    r".*(\.sync-conflict-\d{8}-\d{6}-\w{7}| \([^()]*conflicted copy[^()]*\)|_conflict-\d{8}-\d{6})\.md", re.IGNORECASE
)

Stamp: TypeAlias = tuple[int, int]
"""Size in bytes, and time of the last change in nanoseconds."""


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A file that could not be taken over: its path in the folder, and in words what to do."""

    path: str
    message: str


@dataclass(slots=True)
class Scanned:
    """The pages of a folder by their paths in it, with `/`; what could not be looked at; where nothing is known.

    `others` are files that are no pages, those of agents among them.
    """

    stamps: dict[str, Stamp] = field(default_factory=dict)
    problems: list[FileProblem] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file as it was read: bytes, their SHA-256, and the stamp."""

    data: bytes
    sha256: str
    stamp: Stamp


class FolderMark(BaseModel):
    """Whose folder it is, as `.reme/folder.json` says."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    folder_id: str = Field(pattern=r"^[0-9a-f]{32}$")
    memory_space: str
    user_id: str


class UnreadableFileError(StoreError):
    """A file that can't be taken over as it is; others are."""


def open_folder(root: Path, scope: Scope, *, make: bool = True) -> FolderMark:
    """Return the mark of a folder, a new one in a folder that has none.

    Raises:
        ConfigurationError: It is the folder of another user or space, or its mark is damaged or a link.
        StoreAccessError: It can't be made; or there is no mark, and none may be made.
    """
    path = root / OUR_FOLDER / _MARK
    if path.is_symlink() or path.parent.is_symlink():
        msg = f"{str(path)!r} is or lies behind a link, which could lead anywhere: remove it, and sync again"
        raise ConfigurationError(msg)
    with mapped_errors(root):
        if not path.is_file():
            if not make:
                msg = f"{str(root)!r} has no {OUR_FOLDER}/{_MARK} any more: is the folder mounted? nothing was changed"
                raise StoreAccessError(msg)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            mark = FolderMark(folder_id=new_id(), memory_space=scope.memory_space, user_id=scope.user_id)
            write_file(path, mark.model_dump_json().encode())
        with open_regular(path) as file:
            text = file.read(MAX_FILE_BYTES)
    try:
        mark = FolderMark.model_validate_json(text)
    except ValidationError as exc:
        msg = f"{str(path)!r} is damaged: remove it, and the folder is indexed anew"
        raise ConfigurationError(msg) from exc
    if (mark.memory_space, mark.user_id) != (scope.memory_space, scope.user_id):
        msg = (
            f"{str(root)!r} is the folder of user {mark.user_id!r} in space {mark.memory_space!r}: "
            "a folder belongs to one user of one space; give another folder"
        )
        raise ConfigurationError(msg)
    return mark


def scan(root: Path, known: Container[str] = ()) -> Scanned:
    """Look at all pages of a folder without reading them; links are not followed.

    Of names that differ in case alone, one that is `known` is a page, or else the first one.
    """
    found = Scanned()
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(root / folder) as entries:
                for entry in sorted(entries, key=lambda item: item.name):
                    _look_at(root, folder, entry, found, folders)
        except OSError as exc:
            found.unread.append(folder)
            found.problems.append(FileProblem(folder or ".", f"can't be looked at ({exc.strerror}): allow it"))
    first: dict[str, str] = {}
    for path in sorted(found.stamps, key=lambda path: (path not in known, path)):
        other = first.setdefault(path.casefold(), path)
        if other != path:
            message = f"differs from {other!r} in case alone, and would be the same file elsewhere: rename one"
            found.problems.append(FileProblem(path, message))
            del found.stamps[path]
    return found


def _look_at(root: Path, folder: str, entry: os.DirEntry[str], found: Scanned, folders: list[str]) -> None:
    if _PASSING.fullmatch(entry.name) or CONFLICT_COPY.fullmatch(entry.name):
        return
    path = f"{folder}/{entry.name}" if folder else entry.name
    if entry.name in AGENT_PAGES:
        found.others.append(path)
    elif entry.is_symlink():
        if not _leads_inside(root, entry.path):
            message = "is a link that leads out of the folder, and is not read: put the file itself there"
            found.problems.append(FileProblem(_printable(path), message))
    elif _printable(path) != path:
        message = "its name is not UTF-8, so that no other machine reads it: rename it"
        found.problems.append(FileProblem(_printable(path), message))
    elif entry.is_dir(follow_symlinks=False):
        if is_marked(Path(entry.path)):
            message = "is a folder of files of its own, as another user's, and is not read: keep it elsewhere"
            found.problems.append(FileProblem(path, message))
        else:
            folders.append(path)
    elif _FOREIGN_COPY.fullmatch(entry.name):
        message = "is a copy that was kept of a conflict, and is not indexed: bring both together, and remove it"
        found.problems.append(FileProblem(path, message))
    elif not entry.name.lower().endswith(_PAGE):
        found.others.append(path)
    elif entry.is_file(follow_symlinks=False):
        status = entry.stat(follow_symlinks=False)
        found.stamps[path] = (status.st_size, status.st_mtime_ns)


def _leads_inside(root: Path, path: str) -> bool:
    try:
        return Path(path).resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # a link to itself
        return False


def is_marked(folder: Path) -> bool:
    """Tell whether a folder is one of files, of whomever."""
    return (folder / OUR_FOLDER / _MARK).exists()


def is_page_path(path: str) -> bool:
    """Tell whether a file of this path in the folder is one that is indexed."""
    parts = path.split("/")
    is_left_out = any(_PASSING.fullmatch(part) or part in AGENT_PAGES for part in parts)
    is_copy = CONFLICT_COPY.fullmatch(parts[-1]) or _FOREIGN_COPY.fullmatch(parts[-1])
    return path.lower().endswith(_PAGE) and not is_left_out and not is_copy


def read_page(root: Path, path: str) -> ReadFile:
    """Read a page whole, as it is at one time.

    Raises:
        UnreadableFileError: It is gone, too large, changes meanwhile, no text, or may not be read; saying what to do.
    """
    try:
        read = _read_still(root / path)
    except OSError as exc:
        msg = f"can't be read ({exc.strerror}): allow it, or move the file away"
        raise UnreadableFileError(msg) from exc
    try:
        read.data.decode()
    except UnicodeDecodeError as exc:
        msg = f"is not UTF-8 (byte {exc.start}): save it as UTF-8"
        raise UnreadableFileError(msg) from exc
    if b"\0" in read.data:
        msg = f"holds a NUL (byte {read.data.index(0)}) and so no text: save it as UTF-8, or give it another ending"
        raise UnreadableFileError(msg)
    return read


def _read_still(path: Path) -> ReadFile:
    for _ in range(3):
        with open_regular(path) as file:
            before = os.fstat(file.fileno())
            data = file.read(MAX_FILE_BYTES + 1)
            after = os.fstat(file.fileno())
        if len(data) > MAX_FILE_BYTES:
            msg = f"has more than {MAX_FILE_BYTES:,} bytes, which is too large for a page: split it into several files"
            raise UnreadableFileError(msg)
        stamp = (after.st_size, after.st_mtime_ns)
        if stamp == (before.st_size, before.st_mtime_ns) and len(data) == after.st_size:
            return ReadFile(data, hashlib.sha256(data).hexdigest(), stamp)
    msg = "changes while it is read: it is read again with the next sync; close what writes to it if this stays"
    raise UnreadableFileError(msg)


def open_regular(path: Path, flags: int = os.O_RDONLY) -> BinaryIO:
    """Open a regular file: never through a link at its name, and without waiting for a pipe to be written (OSError)."""
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):  # those that the system has
        flags |= getattr(os, name, 0)
    file = os.fdopen(os.open(path, flags, 0o600), "r+b" if flags & os.O_RDWR else "rb")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "no regular file")


def trusted(stamp: Stamp) -> Stamp:
    """Return a stamp, or one that no file has where it is so fresh that the next change could have the same."""
    return stamp if stamp[1] < time.time_ns() - _FRESH_NS else (stamp[0], 0)


def write_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Put a file in place, whole and durable: who reads it, after a crash too, finds the old one or the new one."""
    with private_draft(path) as draft:
        write_draft(draft, data, mode)
        put_in_place(draft, path)


def write_draft(draft: Path, data: bytes, mode: int) -> None:
    """Write a draft and have it on disk (OSError)."""
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        draft.chmod(mode)
        os.fsync(file.fileno())


@contextmanager
def held(root: Path) -> Iterator[None]:
    """Hold the lock of a folder: one process at a time syncs and watches it (ConflictError: another one does)."""
    path = root / OUR_FOLDER / _LOCK
    with mapped_errors(root), open_regular(path, os.O_RDWR | os.O_CREAT) as file:
        try:
            _lock(file.fileno())
        except OSError as exc:
            file.seek(0)
            msg = (
                f"{str(root)!r} is watched by another memory (process {file.read(32).decode(errors='replace')!r}): "
                "searching works all the same, and what changes is taken over there"
            )
            raise ConflictError(msg) from exc
        file.truncate(0)
        file.write(str(os.getpid()).encode())
        file.flush()
        yield


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415  # Windows alone has it

        os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # beside what others read
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl  # noqa: PLC0415  # there is none on Windows

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def mapped_errors(path: Path) -> Iterator[None]:
    """Raise what the system says about files as errors of ours (StorageFullError, StoreAccessError)."""
    try:
        yield
    except OSError as exc:
        if exc.errno in {errno.ENOSPC, errno.EDQUOT}:
            msg = f"no space left for {str(path)!r}: nothing of this file was written; free some, and sync again"
            raise StorageFullError(msg) from exc
        msg = f"{str(path)!r} can't be read or written ({exc.strerror or exc}): check the path and its permissions"
        raise StoreAccessError(msg) from exc


def inside(root: Path, path: str) -> Path:
    """Return where a path in the folder leads, links followed (StoreAccessError: out of the folder)."""
    with suppress(OSError, ValueError, RuntimeError):
        whole = (root / path).resolve()
        below = whole.relative_to(root)  # or it leads out
        ours = OUR_FOLDER in below.parts or any(is_marked(root / folder) for folder in (below, *below.parents[:-1]))
        if whole != root and not ours:
            return whole
    msg = f"{path!r} leads out of the folder, or to what is not its own: give a path below {str(root)!r}"
    raise StoreAccessError(msg)


def _printable(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode()
