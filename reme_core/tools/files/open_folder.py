"""Names in an open folder: looked at, read, written and removed by the folder's descriptor, and no link is followed.

What can't be done is a `FileRefusedError` where it has words of its own, else the system's `OSError`; see `told`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from reme_core.private_drafts import new_draft, remove_left_drafts
from reme_core.tools.files.paths import FileRefusedError, Reason

MAX_READ_BYTES = 1024 * 1024
"""Of one file. Source: the bound above which memory files are refused."""

FOLDER_MODE = 0o700
_READS = 3
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


def open_below(folder: int, name: str, path: str, *, create: bool) -> int:
    """Open a folder by its name in an open one.

    Raises:
        FileRefusedError: It is a link.
        OSError: It is no folder, or can't be opened.
    """
    if create:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, FOLDER_MODE, dir_fd=folder)
            sync_names(folder)
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as exc:
        if exc.errno not in {errno.ELOOP, errno.EMLINK, errno.ENOTDIR}:
            raise
        status(folder, name, path)  # says so if it is a link
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from exc


def status(folder: int, name: str, path: str) -> os.stat_result | None:
    """Return what a name of an open folder stands for, None for nothing (FileRefusedError: a link)."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        problem = "is, or leads through, a link, and links are not followed: use another path"
        raise FileRefusedError(Reason.LINK, path, problem)
    return found


def is_link(folder: int, name: str) -> bool:
    """Tell whether a name of an open folder stands for a link (OSError)."""
    return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def delete_name(folder: int, name: str, path: str) -> None:
    """Remove a file, or a folder with what is in it, from an open folder (FileRefusedError: a link; OSError)."""
    found = status(folder, name, path)
    if found is not None and stat.S_ISDIR(found.st_mode):
        shutil.rmtree(name, dir_fd=folder)  # follows no link, also none that comes up meanwhile
    else:
        os.unlink(name, dir_fd=folder)
    sync_names(folder)


def read_file(folder: int, name: str, path: str) -> tuple[bytes, os.stat_result]:
    """Read a file of an open folder: the same bytes from begin to end, though somebody writes it meanwhile."""
    for _ in range(_READS):
        found = status(folder, name, path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        _check_regular(found, path)
        # Not blocking: a pipe that took the file's place would wait for a writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, dir_fd=folder)
        except OSError as exc:
            if exc.errno in {errno.ELOOP, errno.EMLINK}:
                continue  # a link now: told by the next round
            raise
        with os.fdopen(descriptor, "rb") as file:
            before = os.fstat(descriptor)
            _check_regular(before, path)
            data = file.read(MAX_READ_BYTES + 1)
            if _mark(os.fstat(descriptor)) == _mark(before):
                _check_readable(len(data), path)  # some file systems tell no size
                return data, before
    problem = "is being written by somebody else: try again"
    raise FileRefusedError(Reason.CHANGED, path, problem)


def _check_regular(found: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        problem = "is a folder, and this is done with files: list it, then name one of its files"
        raise FileRefusedError(Reason.NOT_A_FILE, path, problem)
    if not stat.S_ISREG(found.st_mode):
        problem = "is no ordinary file (a pipe, a socket or a device): use another one"
        raise FileRefusedError(Reason.NOT_A_FILE, path, problem)
    _check_readable(found.st_size, path)


def _check_readable(size: int, path: str) -> None:
    if size > MAX_READ_BYTES:
        most = f"{MAX_READ_BYTES:,} bytes"
        problem = f"is larger than {most}, and such files are not read: ask the user to divide it"
        raise FileRefusedError(Reason.TOO_LARGE, path, problem)


def decoded(data: bytes, path: str) -> str:
    """Return the text of bytes (FileRefusedError: they are none in UTF-8)."""
    if b"\0" in data:
        problem = "is a binary file, not text: leave it as it is"
        raise FileRefusedError(Reason.NOT_TEXT, path, problem)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        problem = f"is not UTF-8 (byte 0x{data[exc.start]:02x} in line {line}): ask the user to convert it"
        raise FileRefusedError(Reason.NOT_TEXT, path, problem) from exc


def _mark(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@contextmanager
def draft_in(folder: int, data: bytes, like: os.stat_result | None) -> Iterator[str]:
    """Write a draft into an open folder, with the mode of the file that it replaces. It goes unless it is moved."""
    remove_left_drafts(folder)
    with contextlib.ExitStack() as lock:
        name, descriptor = new_draft(folder, lock)
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(data)
            if like is not None:
                with contextlib.suppress(OSError):  # only the superuser may give a file away
                    os.fchown(descriptor, like.st_uid, like.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(like.st_mode) & 0o777)
            os.fsync(descriptor)
            yield name
        finally:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)


def put_in_place(source: int, name: str, target: int, new_name: str, replaced: os.stat_result | None) -> bool:
    """Move a name over what was seen there, or where nothing is; False if something else stands there."""
    if replaced is not None:
        now = os.stat(new_name, dir_fd=target, follow_symlinks=False)
        if _mark(now) != _mark(replaced):
            return False
        os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
    else:
        try:
            _move_to_nothing(source, name, target, new_name)
        except FileExistsError:
            return False
    sync_names(target)
    return True


def _move_to_nothing(source: int, name: str, target: int, new_name: str) -> None:
    """Move a name where nothing is: by a link of its own for a file, which can't replace anything (FileExistsError)."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=source, follow_symlinks=False).st_mode):
        try:
            os.link(name, new_name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
        except OSError as exc:
            if exc.errno not in _NO_LINKS:
                raise
        else:
            os.unlink(name, dir_fd=source)
            return
    try:
        os.stat(new_name, dir_fd=target, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def sync_names(folder: int) -> None:
    """Have the names in an open folder survive a power cut, where the file system can do that."""
    with contextlib.suppress(OSError):
        os.fsync(folder)
